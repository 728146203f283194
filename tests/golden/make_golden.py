"""Write the golden database and workflow file of release 0.1.0, as a killed process leaves them.

    python -m tests.golden.make_golden

This ran once, at commit 72db380. The files in `v0_1_0` must never be made again with newer code: they show that
newer code can read what 0.1.0 stored. A later release adds a folder of its own beside it, e.g. `v0_2_0`.

A child process runs the whole service with a scripted model and real MCP servers. It finishes some sessions,
waits until every open session is inside a call that does not return, and kills itself with SIGKILL. The parent
process then folds the write-ahead logs into the files and compresses them.
"""

import gzip
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import anyio

from tests.flows.service import flow_service
from tests.golden.scenario import ENDED, OPEN, PENDING, ScriptedModel, ToolServers, configuration, submission

FOLDER = Path(__file__).parent / "v0_1_0"
FILES = ("tersely.db", "tersely-workflows.db")


async def work(folder: Path) -> None:
    """Run the service until every open session is held, and end without any cleanup."""
    tools, model = ToolServers(hold=True), ScriptedModel(hold=True)
    ids: dict[str, str] = {}
    async with (
        tools.listening() as addresses,
        model.listening() as url,
        flow_service(
            f"sqlite:///{folder / FILES[0]}",
            folder,
            configuration(addresses, url),
            providers=(),
            TERSELY_SUMMARY_CACHE="no",
        ) as home,
    ):
        for name, status in ENDED.items():
            ids[name] = await home.web.submit(**submission(name))
            await home.web.until(ids[name], status)
        for name in OPEN:
            ids[name] = await home.web.submit(**submission(name))
        with anyio.fail_after(60):
            while tools.held | model.held != set(OPEN):
                await anyio.sleep(0.1)
        ids[PENDING] = await home.web.submit(**submission(PENDING))
        await anyio.sleep(3)  # Calls that run beside a held one are stored by then.
        (folder / "sessions.json").write_text(json.dumps(ids, indent=1) + "\n")
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    if len(sys.argv) > 1:
        # The name of a worker begins with the name of its host.
        socket.gethostname = lambda: "golden"
        anyio.run(work, Path(sys.argv[1]))
        return
    if FOLDER.exists() and any(FOLDER.iterdir()):
        sys.exit(f"{FOLDER} exists. Golden files are written once; give a later release a folder of its own.")
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        folder = Path(scratch)
        child = subprocess.run([sys.executable, "-m", "tests.golden.make_golden", scratch], check=False)
        assert child.returncode == -signal.SIGKILL, child.returncode
        FOLDER.mkdir(exist_ok=True)
        for name in FILES:
            with closing(sqlite3.connect(folder / name, isolation_level=None)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (FOLDER / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes(), 9, mtime=0))
        (FOLDER / "sessions.json").write_text((folder / "sessions.json").read_text())


if __name__ == "__main__":
    main()
