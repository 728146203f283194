"""`make demo-kill`: three replicas on PostgreSQL investigate an incident; the one at work is killed; the timeline goes
on.

Everything is real but the incident: the processes, the database, the signal. Nothing is left behind.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psycopg
import yaml
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from tersely.demo.incidents import Incident, draw_incident, server_commands, this_minute
from tersely.demo.judge import names_cause
from tersely.store.database import Database
from tersely.terminal import follow
from tests.survival.cluster import ROOT, Cluster, Replica
from tests.survival.history import lines_of
from tests.survival.stores import postgresql

LEASE = 2.0
CALLS = 3
"""Tool calls after which the worker is killed."""


def main() -> int:
    # What was started is stopped, also when we are told to end.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    console = Console(highlight=False)
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1_000_000)
    incident = draw_incident(seed, now := this_minute())
    with ExitStack() as stack:
        console.print("\n[dim]Starting a PostgreSQL and three replicas of tersely up; no key is needed …[/]")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tersely-demo-kill-")))
        url = stack.enter_context(postgresql()).empty()
        servers = {
            name: {"transport": {"command": command[0], "args": command[1:]}, "read_only": True}
            for name, command in server_commands(seed, now).items()
        }
        config = folder / "tersely.yaml"
        config.write_text(yaml.safe_dump({"mcp_servers": servers}))
        return anyio.run(_shown, console, folder, url, config, incident)


async def _shown(console: Console, folder: Path, url: str, config: Path, incident: Incident) -> int:
    await Database.migrate(url)
    from tests.survival.history import History

    settings = {
        "TERSELY_DATABASE_URL": url,
        "TERSELY_DATA_DIR": str(folder / "data"),
        "TERSELY_LEASE": str(LEASE),
        "TERSELY_GRACE": "5",
    }
    cluster = Cluster(folder, url, History(), config, limit=5, lease=LEASE, environment=settings)
    try:
        await cluster.start_all(3)
        for replica in cluster.replicas:
            console.print(
                f"  [green]●[/] replica {replica.slot + 1}  [dim]{replica.address}  process {replica.process.pid}[/]"
            )
        alert = incident.alert["alerts"][0]
        said = Text.assemble((alert["annotations"]["summary"], "bold"), "\n", alert["annotations"]["description"])
        console.print(
            Panel(said, title=f"an alert comes in · seed {incident.seed}", title_align="left", border_style="yellow")
        )
        async with httpx2.AsyncClient(timeout=300) as http:
            answer = await http.post(f"{cluster.replicas[0].address}/api/v1/alerts", json={"data": incident.alert})
        session = str(answer.json()["session_id"])
        worker = await _worker(cluster, session, {})
        watched = next(replica for replica in cluster.replicas if replica is not worker)
        console.print(f"Replica {worker.slot + 1} takes it. We watch through replica {watched.slot + 1}.")
        async with anyio.create_task_group() as group:
            group.start_soon(_kill_it, console, cluster, session, worker)
            status = await follow(watched.address, "", session, False, console)
            group.cancel_scope.cancel()
        detail = (await cluster.get(f"/api/v1/sessions/{session}")).json()
        found = names_cause(detail["analysis"], incident)
        console.print(
            f"\nThe cause that was drawn: [bold]{incident.cause.what}[/]; "
            + (
                "that is what the analysis says."
                if found
                else f"the analysis says something else; please report seed {incident.seed}."
            )
        )
        return status or (0 if found else 1)
    finally:
        for replica in cluster.replicas:
            with suppress(ProcessLookupError):
                replica.process.terminate()
        for replica in cluster.replicas:
            try:
                replica.process.wait(15)
            except subprocess.TimeoutExpired:
                replica.process.kill()
                replica.process.wait()
        console.print("[dim]Everything is stopped and removed.[/]")


async def _worker(cluster: Cluster, session: str, before: dict[str, Any]) -> Replica:
    """The replica that took the session last, once it is another than before."""
    with anyio.fail_after(300):
        while True:
            for replica in cluster.replicas:
                for line in lines_of(replica.log):
                    if (
                        line.get("event") == "session_claimed"
                        and line["session_id"] == session
                        and line["executor"] != before.get("executor")
                    ):
                        return replica
            await anyio.sleep(0.02)


async def _kill_it(console: Console, cluster: Cluster, session: str, worker: Replica) -> None:
    count = (
        f"SELECT count(*) FROM timeline_events WHERE session_id = '{session}' AND event_type = 'llm_tool_call' "
        "AND status = 'completed'"
    )
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        while (connection.execute(count).fetchone() or (0,))[0] < CALLS:
            await anyio.sleep(0.01)
    executor = worker.executor
    worker.process.kill()
    killed = time.monotonic()
    console.print(
        Rule(
            f"[bold red]kill -9 {worker.process.pid}[/]: replica {worker.slot + 1} is gone, in the middle of its work",
            style="red",
        )
    )
    worker.process.wait()
    other = await _worker(cluster, session, {"executor": executor})
    after = time.monotonic() - killed
    console.print(
        Rule(
            f"[bold green]replica {other.slot + 1} goes on[/] where it stood, {after:.1f} s later (lease {LEASE:g} s)",
            style="green",
        )
    )


if __name__ == "__main__":
    os.chdir(ROOT)
    raise SystemExit(main())
