"""`tersely rerun` runs a session again, with changes; `tersely compare` shows two sessions side by side."""

from __future__ import annotations

import json
from typing import Any

import click

from tersely.cli.extras import check_extra
from tersely.cli.watch import TOKEN, URL, call_api, follow_session, selection


@click.command()
@click.argument("session_id")
@click.option("--model", "llm_provider", metavar="PROVIDER", help="Use this provider of the configuration.")
@click.option("--chain", metavar="CHAIN", help="Use this chain of the configuration.")
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME[:TOOL,…]",
    help="Use only this server (and these tools), instead of those of the first run. Repeatable.",
)
@click.option("--from-stage", metavar="STAGE", help="Begin with this stage, and take over the analyses before it.")
@click.option("--watch", "watching", is_flag=True, help="Show the timeline until the session ends.")
@URL
@TOKEN
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rerun(
    session_id: str,
    llm_provider: str | None,
    chain: str | None,
    servers: tuple[str, ...],
    from_stage: str | None,
    watching: bool,
    url: str,
    token: str,
    as_json: bool,
) -> None:
    """Investigate the alert of an ended session again.

    Prints the id of the new session.

    \b
    tersely rerun 7fab797d-2203-44a0-9700-802ad81a48a1 --model strong --watch
    tersely rerun 7fab797d-2203-44a0-9700-802ad81a48a1 --from-stage conclude
    """
    check_extra("rerun")

    body: dict[str, Any] = {"llm_provider": llm_provider, "chain": chain, "from_stage": from_stage}
    if servers:
        body["mcp"] = {"servers": [selection(value) for value in servers]}
    body = {name: value for name, value in body.items() if value is not None}
    accepted = call_api("POST", url, token, f"/sessions/{session_id}/rerun", json=body)
    if watching:
        raise SystemExit(follow_session(url, token, accepted["session_id"], as_json))
    click.echo(json.dumps(accepted) if as_json else accepted["session_id"])


@click.command()
@click.argument("first")
@click.argument("second")
@URL
@TOKEN
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(first: str, second: str, url: str, token: str, as_json: bool) -> None:
    """Show two sessions side by side.

    Verdicts, evidence, stages, tools, tokens, money and time.
    """
    check_extra("compare")

    found = call_api("GET", url, token, f"/sessions/{first}/compare/{second}")
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return

    from rich.console import Console

    from tersely.terminal import comparison_table

    console = Console(highlight=False)
    console.print(comparison_table(found))
