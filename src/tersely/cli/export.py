"""`tersely export`: all that is stored of a session, as one document."""

from __future__ import annotations

from pathlib import Path

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra
from tersely.cli.watch import TOKEN, URL, headers, said


@click.command()
@click.argument("session_id")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where it goes  [default: standard output]"
)
@click.option("--results", is_flag=True, help="With the whole texts of what tools returned.")
@URL
@TOKEN
def export(session_id: str, output: Path | None, results: bool, url: str, token: str) -> None:
    """Write a session (alert, analysis, timeline, events, trace, kept results) as one JSON document.

    \b
    tersely export 7fab797d-2203-44a0-9700-802ad81a48a1 --results -o incident.json
    """
    check_extra("export")

    import httpx2

    address = f"{url.rstrip('/')}/api/v1/sessions/{session_id}/export"
    # Written beside its place first: half an export must not look like a whole one.
    unfinished = output.with_name(output.name + ".part") if output else None
    try:
        with httpx2.stream("GET", address, params={"results": results}, headers=headers(token), timeout=60) as answer:
            if answer.status_code != 200:
                answer.read()
                fail(said(answer))
            with click.open_file(str(unfinished or "-"), "wb") as file:
                for piece in answer.iter_bytes():
                    file.write(piece)
                if output is None:
                    file.write(b"\n")
    except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
        if unfinished:
            unfinished.unlink(missing_ok=True)
        fail(f"Nobody answers at {url}, or not to the end: {problem}. Start it with: tersely up")
    if output and unfinished:
        unfinished.replace(output)
        click.echo(f"{output}: {output.stat().st_size:,} bytes", err=True)
