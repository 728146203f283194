"""`tersely demo`: runs `tersely up` with two simulated systems behind real MCP servers, and sends one alert."""

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
import yaml
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from tersely.demo.incidents import Incident, draw_incident, server_commands, this_minute
from tersely.demo.judge import names_cause
from tersely.errors import TerselyError
from tersely.llm.providers import model_variables
from tersely.settings.environment import process_environment
from tersely.terminal import follow

START_SECONDS = 60.0
SERVICE_SETTINGS = ("TERSELY_", "MCP_SUMMARIZER_", "DEFAULT_")
"""Prefixes of settings for the user's own services, which must not affect the demonstration."""


def show(*, seed: int | None, once: bool, port: int) -> int:
    """Run the demonstration: an investigation by two agents, its verdict, and one follow-up question.

    With `once`, or if the output is not a terminal, it ends by itself; the exit code is 0 if the analysis names the
    drawn cause and the question was answered.
    """
    # SIGTERM stops the child processes too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False)
    seed = random.randrange(1_000_000) if seed is None else seed
    incident = draw_incident(seed, now := this_minute())
    with (
        tempfile.TemporaryDirectory(prefix="tersely-demo-") as name,
        _service(Path(name), seed, now, port, console) as address,
    ):
        alert = incident.alert["alerts"][0]
        summary = Text.assemble((alert["annotations"]["summary"], "bold"), "\n", alert["annotations"]["description"])
        console.print(
            Panel(summary, title=f"an alert comes in · seed {seed}", title_align="left", border_style="yellow")
        )
        session_id = _submit(address, incident)
        console.print(f"[dim]In the browser:[/] {address}/sessions/{session_id}\n")
        status = anyio.run(follow, address, "", session_id, False, console)
        found = _report(console, address, session_id, incident) and status == 0
        answered = _follow_up(console, address, session_id, incident)
        if once or not sys.stdout.isatty():
            return 0 if found and answered else 1
        console.print(f"\nStill serving at [bold]{address}[/]. Ctrl-C stops it and deletes its data.")
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            console.print("[dim]stopping …[/]")
    return 0


def _report(console: Console, address: str, session_id: str, incident: Incident) -> bool:
    session = _asked("GET", f"{address}/api/v1/sessions/{session_id}").json()
    tokens = session["tokens"]
    console.print(
        f"\n[bold]{tokens['before']:,} → {tokens['after']:,} tokens[/] of tool results reached the agent; "
        f"{tokens['spared']:,} were saved; all of them can be read back."
    )
    found = names_cause(session["analysis"], incident)
    verdict = (
        "that is what the analysis says."
        if found
        else f"the analysis says something else; please report seed {incident.seed}."
    )
    console.print(f"The cause that was drawn: [bold]{incident.cause.what}[/]; {verdict}")
    return found


def _follow_up(console: Console, address: str, session_id: str, incident: Incident) -> bool:
    """Ask one question about the session; returns whether it was answered."""
    service = incident.alert["alerts"][0]["labels"].get("service", "the service")
    question = f"Which errors did {service} report, and since when?"
    console.print(Panel(Text(question), title="a follow-up question", title_align="left", border_style="yellow"))
    path = f"{address}/api/v1/sessions/{session_id}/chat"
    accepted = _asked("POST", path, json={"question": question})
    if accepted.status_code != 202:
        console.print(f"The question was not accepted: {accepted.text[:500]}")
        return False
    status = anyio.run(follow, address, "", accepted.json()["chat_id"], False, console)
    return status == 0 and bool(_asked("GET", path).json()["items"][0]["answer"])


def _submit(address: str, incident: Incident) -> str:
    answer = _asked("POST", f"{address}/api/v1/alerts", json={"data": incident.alert})
    if answer.status_code != 202:
        raise TerselyError(f"The alert was not accepted: {answer.text[:500]}")
    return str(answer.json()["session_id"])


def _asked(method: str, url: str, **body: Any) -> httpx2.Response:
    try:
        return httpx2.request(method, url, timeout=30, **body)
    except httpx2.HTTPError as problem:
        raise TerselyError(
            f"The service of the demonstration does not answer ({problem}). Start it again: tersely demo"
        ) from None


def _agents(servers: list[str]) -> dict[str, Any]:
    """Two agents that work in parallel: one sees everything, one only the system that the alert is about."""
    stage = {"name": "investigation", "agents": ["all-systems", "cluster-only"]}
    return {
        "agents": {"all-systems": {"mcp_servers": servers}, "cluster-only": {"mcp_servers": servers[:1]}},
        "chains": {"default": {"alert_types": ["default"], "stages": [stage]}},
    }


@contextmanager
def _service(folder: Path, seed: int, now: datetime, port: int, console: Console) -> Iterator[str]:
    """Run `tersely up` in a temporary folder."""
    servers = {
        name: {"transport": {"command": command[0], "args": command[1:]}, "read_only": True}
        for name, command in server_commands(seed, now).items()
    }
    file = folder / "tersely.yaml"
    file.write_text(yaml.safe_dump({"mcp_servers": servers, **_agents(list(servers))}))
    inherited = process_environment()
    environment = {name: value for name, value in inherited.items() if not name.startswith(SERVICE_SETTINGS)}
    environment["TERSELY_DATA_DIR"] = str(folder / "data")
    log = folder / "log"
    has_model = any(inherited.get(variable) for variable in model_variables())
    who = "the configured model investigates" if has_model else "no key is set, so no language model is used"
    console.print(
        f"\n[dim]Starting tersely up with a simulated cluster and a knowledge base behind MCP servers; {who} …[/]"
    )
    with log.open("wb") as stderr:
        command = [
            sys.executable,
            "-m",
            "tersely",
            "up",
            "--config",
            str(file),
            "--port",
            str(port),
            "--host",
            "127.0.0.1",
        ]
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, start_new_session=True
        )
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        for line in _lines(log):
            if line.get("event") == "listening":
                return str(line["address"])
        if process.poll() is not None:
            break
        time.sleep(0.05)
    last = log.read_text("utf-8", "replace").strip().splitlines()[-3:]
    raise TerselyError("tersely up did not start: " + (" ".join(last) or "it logged nothing."))


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text("utf-8", "replace").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
