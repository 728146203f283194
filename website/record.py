"""Terminal recordings for README and docs, as SVG, from real runs: `make pictures`."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

TARGET = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WIDTH = 112
_SECONDS = re.compile(r" · [\d.]+ s(?= ·|$)", re.MULTILINE)
"""How long a command took is left out: that is the machine of the recording, not the program."""

_SPINNER = re.compile("[\u2801-\u28ff]")

MAKE_LOG = (
    "python -c 'for n in range(20000): print(f\"2026-11-15T10:{n // 60 % 60:02d}:{n % 60:02d}Z INFO api "
    "request id={n * 7919 % 99991} path=/cart status=200 took={n % 97}ms\")' > shop.log; "
    'echo "2026-11-15T10:14:59Z ERROR api checkout failed: connection pool exhausted (max=20) '
    'password=Qm4xTr8zLw2k db=orders-primary" >> shop.log'
)
MAKE_PROJECT = (
    f"PYTHONPATH={Path(__file__).resolve().parents[1]} python -c "
    "'from pathlib import Path; from bench.command_project import make_project; make_project(Path.cwd())'"
)
RECORDINGS: dict[str, tuple[str, Sequence[str], str]] = {
    "run": (MAKE_PROJECT, ["tersely run -- pytest -v tests/failing"], ""),
    "condense": (
        MAKE_LOG,
        [
            "wc --lines shop.log",
            'tersely condense shop.log --budget 300 --focus "why do checkouts fail" --keep',
            "tersely mask --check shop.log",
        ],
        "",
    ),
    "demo": ("true", ["tersely demo --once --seed 7"], "─ verdict ─"),
}
"""By name: preparation, commands to show, and what the first line to show contains."""


def record(name: str) -> None:
    preparation, commands, first = RECORDINGS[name]
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), color_system="truecolor")  # noqa: SIM115, PTH123
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "HOME": folder,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": str(WIDTH),
            "FORCE_COLOR": "1",
        }
        subprocess.run(["bash", "-c", preparation], cwd=folder, env=environment, check=True)
        for command in commands:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                check=False,
                timeout=600,
            )
            console.print(Text("$ ", style="green") + Text(command, style="bold"))
            # Where this machine has its environment is nobody's business.
            lines = _SECONDS.sub("", done.stdout.replace(sys.prefix, "~/.venv")).rstrip().splitlines()
            start = next((number for number, line in enumerate(lines) if first in Text.from_ansi(line).plain), 0)
            if start:
                console.print(Text("…", style="dim"))
            for line in lines[start:]:
                if not _SPINNER.match(Text.from_ansi(line).plain):
                    console.print(Text.from_ansi(line))
            console.print()
    picture = console.export_svg(title=f"tersely {name}")
    # Nothing is fetched from elsewhere: the reader's own monospaced font serves.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (TARGET / f"{name}.svg").write_text(picture.rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for name in sys.argv[1:] or RECORDINGS:
        record(name)
