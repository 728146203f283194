"""`tersely investigate` sends an alert to `tersely up`; `tersely watch` shows a session in the terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra


def _local_url() -> str:
    """The address of a `tersely up` that was started with the same folder and environment."""
    from tersely.errors import ConfigError
    from tersely.settings.model import Settings, find_file

    try:
        up = Settings.load(None, find_file(), sections=("up",), here=True).up
    except ConfigError:
        return "http://127.0.0.1:8010"  # `tersely up` reports the mistake; this command may not need the file.
    host = "127.0.0.1" if up.host in ("0.0.0.0", "::", "") else up.host
    return f"http://{f'[{host}]' if ':' in host else host}:{up.port}"


URL = click.option(
    "--url",
    envvar="TERSELY_URL",
    default=_local_url,
    show_default="this machine, configured port",
    metavar="URL",
    help="Address of tersely up  [env: TERSELY_URL]",
)
TOKEN = click.option(
    "--token", envvar="TERSELY_API_TOKEN", default="", metavar="TOKEN", help="Bearer token  [env: TERSELY_API_TOKEN]"
)


@click.command()
@click.argument("session_id")
@URL
@TOKEN
@click.option("--json", "as_json", is_flag=True, help="Print each event as a JSON object on its own line.")
def watch(session_id: str, url: str, token: str, as_json: bool) -> None:
    """Show a session's timeline live, from the start to the end.

    Exit code 0 when the session completed, 1 when it ended otherwise.
    """
    check_extra("watch")
    raise SystemExit(follow_session(url, token, session_id, as_json))


@click.command()
@click.argument("alert", type=click.File("rb"), default="-")
@click.option(
    "--type",
    "alert_type",
    default=None,
    metavar="TYPE",
    help="Type of the alert; it selects the chain that investigates.",
)
@click.option(
    "--runbook",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with instructions for the agents.",
)
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME[:TOOL,…]",
    help="Use only this server (and these tools), instead of the chain's. Repeatable.",
)
@click.option("--watch", "watching", is_flag=True, help="Show the timeline until the session ends.")
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
    """Send an ALERT to tersely up and print the session's id.

    ALERT is a file with JSON or text; by default standard input.

    \b
    tersely investigate alert.json --watch
    echo "checkout returns 503 since 10:40" | tersely investigate --watch --server cluster:get_logs
    """
    check_extra("investigate")

    from tersely.text.decoding import decoded

    if alert.name == "<stdin>" and sys.stdin.isatty():
        fail("No alert given. Name a file or use a pipe: tersely investigate alert.json --watch")
    text = decoded(alert.read())
    body: dict[str, Any] = {"data": _data(text)}
    if alert_type:
        body["alert_type"] = alert_type
    if runbook:
        body["runbook"] = runbook.read_text("utf-8", "replace")
    if servers:
        body["mcp"] = {"servers": [selection(value) for value in servers]}
    accepted = call_api("POST", url, token, "/alerts", json=body)
    if as_json and not watching:
        click.echo(json.dumps(accepted))
        return
    if not as_json:
        click.secho(f"{accepted['message']}  {url.rstrip('/')}/sessions/{accepted['session_id']}", dim=True, err=True)
    if not watching:
        click.echo(accepted["session_id"])
        return
    raise SystemExit(follow_session(url, token, accepted["session_id"], as_json))


def follow_session(url: str, token: str, session_id: str, as_json: bool) -> int:
    """Show a session in the terminal until it ends; returns the exit code."""
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


def selection(value: str) -> dict[str, Any]:
    """The server of an override, from `NAME` or `NAME:TOOL,…`."""
    name, _, tools = value.partition(":")
    return {"name": name, **({"tools": [tool.strip() for tool in tools.split(",") if tool.strip()]} if tools else {})}


def call_api(method: str, url: str, token: str, path: str, **how: Any) -> Any:
    """The answer of `tersely up` as JSON; ends the command with a sentence if there is none."""
    import httpx2

    address = f"{url.rstrip('/')}/api/v1{path}"
    try:
        response = httpx2.request(method, address, headers=headers(token), timeout=30, **how)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        fail(f"Could not connect to {url}: {error}. Start the server with: tersely up")
    if response.status_code >= 300:
        fail(error_message(response))
    return response.json()


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def error_message(response: Any) -> str:
    """The message of an error response of the API."""
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"The server answered with status {response.status_code}; it may not be tersely up."
    details = "".join(
        f"\n  {detail['field']}: {detail['message']}"
        for detail in error.get("details", [])
        if detail["message"].rstrip(".") not in error["message"]
    )
    return f"{error['message']}{details}"
