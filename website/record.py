"""Pictures for README and docs from real runs: `make pictures`.

    python -m website.record [run] [condense] [demo] [dashboard]

Terminals are recorded as SVG. The dashboard is that of `tersely demo` while it serves, in the Chromium of this machine;
where there is none, its pictures cannot be made.
"""

import base64
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
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


SHOWN = (960, 720)
"""The size of the dashboard on a picture: about as wide as a page of documentation, so that its text stays readable."""


def _environment(folder: str) -> dict[str, str]:
    return {
        "HOME": folder,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": str(WIDTH),
        "FORCE_COLOR": "1",
    }


def record(name: str) -> None:
    preparation, commands, first = RECORDINGS[name]
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), color_system="truecolor")  # noqa: SIM115, PTH123
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(folder)
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


@contextmanager
def _demo() -> Iterator[tuple[str, str]]:
    """Address and session of a demo that has found the cause and still serves: on a terminal it does not end."""
    with tempfile.TemporaryDirectory() as folder:
        ours, its = pty.openpty()
        command = ["tersely", "demo", "--seed", "7"]
        process = subprocess.Popen(
            command, stdin=its, stdout=its, stderr=its, cwd=folder, env=_environment(folder), start_new_session=True
        )
        os.close(its)
        said = ""
        try:
            while "Still serving" not in said:
                try:
                    said += os.read(ours, 65_536).decode("utf-8", "replace")
                except OSError:  # Its end of the terminal is closed.
                    raise SystemExit(f"tersely demo ended too early:\n{said[-2_000:]}") from None
            plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", said)
            found = re.search(r"(http://[\d.:]+)/sessions/([\w-]+)", plain)
            assert found is not None, plain
            yield found[1], found[2]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
            os.close(ours)


async def dashboard() -> None:
    """The verdict, and the largest log beside what was made of it."""
    from tests.browser.chromium import chromium, find_chromium
    from tests.browser.screenshots import settled

    if (path := find_chromium()) is None:
        sys.exit("dashboard: there is no Chromium on this machine (`make browser` looks for one to install)")
    with _demo() as (address, session):
        timeline = httpx2.get(f"{address}/api/v1/sessions/{session}/timeline", params={"limit": 500}).json()["items"]
        logs = [one for one in timeline if one["metadata"].get("tool_name") == "get_logs"]
        largest = max(logs, key=lambda one: one["metadata"].get("original_tokens") or 0)
        places = {"dashboard": "", "dashboard-call": f"/calls/{largest['event_id']}"}
        async with chromium(path) as browser:
            size = {"width": SHOWN[0], "height": SHOWN[1]}
            page = await browser.new_page(viewport=size, device_scale_factor=1.5, reduced_motion="reduce")
            for name, place in places.items():
                await page.goto(f"{address}/sessions/{session}{place}")
                await settled(page)
                wire = await page.context.new_cdp_session(page)
                taken = await wire.send("Page.captureScreenshot", {"format": "webp", "quality": 60})
                (TARGET / f"{name}.webp").write_bytes(base64.b64decode(taken["data"]))


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for name in sys.argv[1:] or (*RECORDINGS, "dashboard"):
        if name == "dashboard":
            anyio.run(dashboard)
        else:
            record(name)
