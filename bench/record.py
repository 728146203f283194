"""Runs a benchmark on the present commit and adds its figures to docs/figures, with commit, date, machine and command.

    make figures                          condense and commands, then the plots
    python -m bench.record condense

The files are numbered; `bench.plots` draws the newest, and all of them as the history by version. Changes of the
package that are not committed are refused: nobody could repeat such a run.
"""

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.arguments import parser
from bench.plots import FIGURES, ROOT, machine, runs_of

BENCHMARKS = {
    "condense": (".venv-bench", ("bench.condense", "--task", "t1,t5,t6", "--engine", "tersely,bm25+mmr,head+tail")),
    "commands": (".venv", ("bench.commands",)),
}
"""By name: the environment, which has the peers, and the module with its arguments."""


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _version() -> str:
    """The last commit that changed the package."""
    return _git("log", "-1", "--format=%h", "--abbrev=7", "--", "src")


def run(name: str) -> dict[str, Any]:
    """The figures of a run that begins now; it ends if the package changes meanwhile."""
    environment, words = BENCHMARKS[name]
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "figures.json"
        python = ROOT / environment / "bin" / "python"
        began, commit = datetime.now(UTC), _version()
        subprocess.run([str(python), "-m", *words, "--json", str(file)], cwd=ROOT, check=True)
        figures = json.loads(file.read_text("utf-8"))
    if _version() != commit or _git("status", "--porcelain", "src"):
        sys.exit("The package changed during the run, so nobody knows what was measured.")
    command = f"python -m {' '.join(words)}"
    about = {"version": commit, "date": f"{began:%Y-%m-%d}", "machine": machine(), "command": command}
    return {**about, **{key: value for key, value in figures.items() if key not in about}}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help=f"{' or '.join(BENCHMARKS)}; both by default")
    asked = options.parse_args()
    if unknown := set(asked.names) - set(BENCHMARKS):
        options.error(f"there is no {', '.join(unknown)}; known are {', '.join(BENCHMARKS)}")
    if asked.smoke:
        print({name: len(runs_of(name)) for name in BENCHMARKS})
        return
    if changed := _git("status", "--porcelain", "src", "bench"):
        sys.exit(f"Commit these first; the figures of a run belong to a commit:\n{changed}")
    for name in asked.names or BENCHMARKS:
        file = FIGURES / f"{name}-{len(runs_of(name)) + 1}.json"
        file.write_text(json.dumps(run(name), indent=1) + "\n", "utf-8")
        print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
