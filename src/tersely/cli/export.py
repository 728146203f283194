"""`tersely export`: writes everything stored about a session as one JSON document."""

from __future__ import annotations

from pathlib import Path

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra
from tersely.cli.watch import TOKEN, URL, error_message, headers


@click.command()
@click.argument("session_id")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write  [default: standard output]"
)
@click.option("--results", is_flag=True, help="Include the full text of every tool result.")
@URL
@TOKEN
def export(session_id: str, output: Path | None, results: bool, url: str, token: str) -> None:
    """Write a session as one JSON document.

    It contains the alert, the analysis, the timeline, events, the trace and the metadata of kept results.

    \b
    tersely export 7fab797d-2203-44a0-9700-802ad81a48a1 --results -o incident.json
    """
    check_extra("export")

    import httpx2

    address = f"{url.rstrip('/')}/api/v1/sessions/{session_id}/export"
    # Written to another name first: an interrupted export must not look complete.
    unfinished = output.with_name(output.name + ".part") if output else None
    try:
        with httpx2.stream("GET", address, params={"results": results}, headers=headers(token), timeout=60) as response:
            if response.status_code != 200:
                response.read()
                fail(error_message(response))
            with click.open_file(str(unfinished or "-"), "wb") as file:
                for chunk in response.iter_bytes():
                    file.write(chunk)
                if output is None:
                    file.write(b"\n")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        if unfinished:
            unfinished.unlink(missing_ok=True)
        fail(f"Could not read the session from {url}: {error}. Start the server with: tersely up")
    if output and unfinished:
        unfinished.replace(output)
        click.echo(f"{output}: {output.stat().st_size:,} bytes", err=True)
