"""The quickstart as a stranger plays it: a clean clone, an empty home, `make demo`, then the commands of the README.

    python -m tests.quickstart     what is committed here; about a minute

Nothing of this environment is used but git, make, the interpreter and uv's cache of packages.
"""

import tempfile
import time
from pathlib import Path

from tests.smoke import ROOT, run

PLAY = """
import sys
from pathlib import Path
from tests.docs.stage import Stage
from tests.docs.test_commands import play

steps = play(Stage("README.md", Path(sys.argv[1]), Path(sys.executable).parent))
print(sum(not step.reason for step, _ in steps))
"""


def main() -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quickstart-") as scratch:
        folder = Path(scratch)
        clone = folder / "tersely"
        run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], folder)
        said = run(["make", "--no-print-directory", "-C", clone, "demo"], folder)
        assert "The cause that was drawn" in said or "verdict" in said, said[-3_000:]
        print(f"git clone, make demo: an alert was investigated after {time.monotonic() - began:.0f} s")
        place = folder / "readme"
        place.mkdir()
        python = clone / ".venv" / "bin" / "python"
        played = run([python, "-c", PLAY, place], clone).strip().rpartition("\n")[2]
        print(f"README.md: {played} commands worked, after {time.monotonic() - began:.0f} s in all")
        left = run(["git", "-C", clone, "status", "--short"], folder)
        assert not left.replace("?? home/\n", ""), f"The clone is not clean any more:\n{left}"


if __name__ == "__main__":
    main()
