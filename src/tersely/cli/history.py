"""`tersely rate` and `tersely triage`: what people do with a session; `tersely search`: what was found before."""

from __future__ import annotations

import json
from typing import Any

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra
from tersely.cli.watch import TOKEN, URL, error_message, headers


@click.command()
@click.argument("session_id")
@click.argument("rating", type=click.Choice(["right", "partly", "wrong", "none"]))
@click.option("--note", default="", help="Why; masked before it is stored.")
@URL
@TOKEN
def rate(session_id: str, rating: str, note: str, url: str, token: str) -> None:
    """Rate the verdict of an ended session.

    `none` withdraws the rating.

    \b
    tersely rate 7fab797d-2203-44a0-9700-802ad81a48a1 partly --note "the certificate was renewed, but not loaded"
    """
    check_extra("rate")
    if rating == "none":
        _ask(url, token, "DELETE", f"sessions/{session_id}/rating")
        click.echo("The rating is withdrawn.")
        return
    _ask(url, token, "PUT", f"sessions/{session_id}/rating", {"rating": rating, "note": note})
    click.echo(f"Rated as {rating}.")


@click.command()
@click.argument("session_id")
@click.option(
    "--assign", "assignee", metavar="NAME", help="Say who looks after it; `me` is the caller, `nobody` nobody."
)
@click.option("--acknowledge", is_flag=True, help="Record that you have seen it.")
@click.option("--close", is_flag=True, help="Close it: nothing is left to do.")
@click.option("--note", default="", help="With --close: what was done; masked before it is stored.")
@click.option("--reopen", is_flag=True, help="Undo --acknowledge and --close.")
@URL
@TOKEN
def triage(
    session_id: str,
    assignee: str | None,
    acknowledge: bool,
    close: bool,
    note: str,
    reopen: bool,
    url: str,
    token: str,
) -> None:
    """Assign, acknowledge, close or reopen a session.

    Without an option, show its state.
    """
    check_extra("triage")
    if reopen and (close or acknowledge):
        fail("--reopen excludes --acknowledge and --close.")
    if note and not close:
        fail("--note needs --close.")
    path = f"sessions/{session_id}"
    if reopen:
        _ask(url, token, "POST", f"{path}/reopen")
    if assignee:
        body: dict[str, Any] = {} if assignee == "me" else {"assignee": None if assignee == "nobody" else assignee}
        _ask(url, token, "PUT", f"{path}/assignee", body)
    if acknowledge:
        _ask(url, token, "POST", f"{path}/acknowledge")
    if close:
        _ask(url, token, "POST", f"{path}/close", {"note": note})
    state = _ask(url, token, "GET", path)["triage"]
    rated = f", rated as {state['rating']['rating']}" if state["rating"] else ""
    click.echo(f"{state['state']}, assigned to {_printable(state['assignee'] or 'nobody')}{rated}")


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--any", "any_word", is_flag=True, help="One of the words is enough.")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True)
@URL
@TOKEN
@click.option("--json", "as_json", is_flag=True, help="Print each session as a JSON object on its own line.")
def search(words: tuple[str, ...], any_word: bool, limit: int, url: str, token: str, as_json: bool) -> None:
    """Search titles and verdicts of ended sessions.

    The best match comes first.

    \b
    tersely search certificate expired
    """
    check_extra("search")
    asked = {"q": " ".join(words), "words": "any" if any_word else "all", "limit": limit}
    found = _ask(url, token, "GET", "search", params=asked)["items"]
    if not found and not as_json:
        click.echo("No ended session matches. With --any, one of the words is enough.", err=True)
    for one in found:
        if as_json:
            click.echo(json.dumps(one, ensure_ascii=False))
            continue
        rated = f" · rated {one['rating']}" if one["rating"] else ""
        click.secho(f"{one['created_at'][:16]}Z  {_printable(one['title'])}", bold=True)
        click.echo(f"  {_printable(one['cause'] or 'no cause found')}{rated}")
        click.echo(f"  {_marked(one['snippet'], one['ranges'])}")
        click.secho(f"  {url.rstrip('/')}/sessions/{one['id']}", dim=True)


def _ask(url: str, token: str, method: str, path: str, body: Any = None, params: dict[str, Any] | None = None) -> Any:
    import httpx2

    address = f"{url.rstrip('/')}/api/v1/{path}"
    try:
        response = httpx2.request(method, address, json=body, params=params, headers=headers(token), timeout=30)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        fail(f"Could not connect to {url}: {error}. Start the server with: tersely up")
    if response.status_code != 200:
        fail(error_message(response))
    return response.json()


def _marked(snippet: str, ranges: list[list[int]]) -> str:
    shown, last = "", 0
    for start, end in ranges:
        shown += _printable(snippet[last:start]) + click.style(_printable(snippet[start:end]), bold=True)
        last = end
    return shown + _printable(snippet[last:])


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
