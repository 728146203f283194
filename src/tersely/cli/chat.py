"""`tersely chat` asks a follow-up question about an ended session, or lists the questions so far."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from tersely.cli.extras import check_extra
from tersely.cli.watch import TOKEN, URL, call_api


@click.command()
@click.argument("session_id")
@click.argument("question", required=False)
@URL
@TOKEN
@click.option("--json", "as_json", is_flag=True, help="Print question and answer as one JSON object.")
def chat(session_id: str, question: str | None, url: str, token: str, as_json: bool) -> None:
    """Ask a follow-up QUESTION about an ended session.

    Without a question, list the questions and answers so far.

    The session's agent answers, with the same servers and kept results. In a terminal the answer is shown while it is
    written; otherwise progress goes to standard error and the answer to standard output. Interrupting the command
    cancels the answer.

    \b
    tersely chat 7fab797d-2203-44a0-9700-802ad81a48a1 "Which release brought this?"

    Exit code 0 when the question was answered, 1 when it was not.
    """
    check_extra("chat")

    path = f"/sessions/{session_id}/chat"
    if question is None:
        items = call_api("GET", url, token, path)["items"]
        click.echo(json.dumps(items, ensure_ascii=False) if as_json else _listed(items))
        return
    accepted = call_api("POST", url, token, path, json={"question": question})
    try:
        _follow(url.rstrip("/"), token, accepted["chat_id"], quiet=as_json)
    except KeyboardInterrupt:
        call_api("POST", url, token, f"{path}/{accepted['number']}/cancel")
        raise SystemExit(130) from None
    asked = call_api("GET", url, token, path)["items"][accepted["number"] - 1]
    if as_json:
        click.echo(json.dumps(asked, ensure_ascii=False))
    elif asked["answer"] and not sys.stdout.isatty():
        click.echo(asked["answer"])
    raise SystemExit(0 if asked["status"] == "completed" else 1)


def _follow(url: str, token: str, chat_id: str, *, quiet: bool) -> None:
    import anyio
    from rich.console import Console

    from tersely.terminal import follow

    is_terminal = sys.stdout.isatty() and not quiet
    console = Console(highlight=False, stderr=not is_terminal, quiet=quiet)
    anyio.run(follow, url, token, chat_id, False, console)


def _listed(items: list[dict[str, Any]]) -> str:
    if not items:
        return "No question was asked about this session."
    return "\n\n".join(
        f"{one['number']}. {one['question']}\n\n{one['answer'] or one['status'] + ': ' + (one['reason'] or '…')}"
        for one in items
    )
