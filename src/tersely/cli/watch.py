"""`tersely watch` and `tersely investigate`: a session in a terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra


def _here() -> str:
    """Where `tersely up` listens on this machine, started in the same folder and environment."""
    from tersely.errors import ConfigError
    from tersely.settings.model import Settings, find_file

    try:
        up = Settings.load(None, find_file(), sections=("up",)).up
    except ConfigError:
        return "http://127.0.0.1:8010"  # Whoever starts it is told what is wrong; here nothing of it may be needed.
    host = "127.0.0.1" if up.host in ("0.0.0.0", "::", "") else up.host
    return f"http://{f'[{host}]' if ':' in host else host}:{up.port}"


URL = click.option(
    "--url",
    envvar="TERSELY_URL",
    default=_here,
    show_default="this machine, at the configured port",
    metavar="URL",
    help="Where tersely up listens  [env: TERSELY_URL]",
)
TOKEN = click.option(
    "--token", envvar="TERSELY_API_TOKEN", default="", metavar="TOKEN", help="Bearer token  [env: TERSELY_API_TOKEN]"
)


@click.command()
@click.argument("session_id")
@URL
@TOKEN
@click.option("--json", "as_json", is_flag=True, help="Print the events as they come, one JSON object per line.")
def watch(session_id: str, url: str, token: str, as_json: bool) -> None:
    """Show a session's timeline, from its beginning and as it happens, until it ends.

    Exit code 0 when it completed, 1 when it ended otherwise.
    """
    check_extra("watch")
    raise SystemExit(_follow(url, token, session_id, as_json))


@click.command()
@click.argument("alert", type=click.File("rb"), default="-")
@click.option(
    "--type", "alert_type", default=None, metavar="TYPE", help="The alert's type; it decides which chain investigates."
)
@click.option(
    "--runbook",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Text that the agents are to follow.",
)
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME[:TOOL,…]",
    help="Only these servers (and tools), instead of the chain's.",
)
@click.option("--watch", "watching", is_flag=True, help="Show what happens until it ends.")
@URL
@TOKEN
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def investigate(
    alert: Any,
    alert_type: str | None,
    runbook: Path | None,
    servers: tuple[str, ...],
    watching: bool,
    url: str,
    token: str,
    as_json: bool,
) -> None:
    """Have an ALERT (a file with JSON or text, or standard input) investigated.

    \b
    tersely investigate alert.json --watch
    echo "checkout answers with 503 since 10:40" | tersely investigate --watch --server cluster:get_logs,get_events
    """
    check_extra("investigate")

    import httpx2

    if alert.name == "<stdin>" and sys.stdin.isatty():
        fail("Nothing to investigate. Name a file, or pipe something in: tersely investigate alert.json --watch")
    text = alert.read().decode("utf-8", "replace").removeprefix("\ufeff")
    body: dict[str, Any] = {"data": _data(text)}
    if alert_type:
        body["alert_type"] = alert_type
    if runbook:
        body["runbook"] = runbook.read_text("utf-8", "replace")
    if servers:
        body["mcp"] = {"servers": [_choice(words) for words in servers]}
    try:
        answer = httpx2.post(f"{url.rstrip('/')}/api/v1/alerts", json=body, headers=headers(token), timeout=30)
    except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
        fail(f"Nobody answers at {url}: {problem}. Start it with: tersely up")
    if answer.status_code != 202:
        fail(said(answer))
    accepted = answer.json()
    if as_json and not watching:
        click.echo(json.dumps(accepted))
        return
    if not as_json:
        click.secho(f"{accepted['message']}  {url.rstrip('/')}/sessions/{accepted['session_id']}", dim=True, err=True)
    if not watching:
        click.echo(accepted["session_id"])
        return
    raise SystemExit(_follow(url, token, accepted["session_id"], as_json))


def _follow(url: str, token: str, session_id: str, as_json: bool) -> int:
    import anyio

    from tersely.terminal import follow

    try:
        return anyio.run(follow, url.rstrip("/"), token, session_id, as_json)
    except KeyboardInterrupt:
        return 130


def _data(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def _choice(words: str) -> dict[str, Any]:
    name, _, tools = words.partition(":")
    return {"name": name, **({"tools": [tool.strip() for tool in tools.split(",") if tool.strip()]} if tools else {})}


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def said(answer: Any) -> str:
    """What the server said is wrong."""
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"The server answered with {answer.status_code}. Is it tersely up?"
    details = "".join(f"\n  {one['field']}: {one['message']}" for one in error.get("details", []))
    return f"{error['message']}{details}"
