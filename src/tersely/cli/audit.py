"""`tersely audit`: writes the audit log as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra
from tersely.cli.watch import TOKEN, URL, error_message, headers


@click.command()
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write  [default: standard output]"
)
@click.option("--since", metavar="TIME", help="Only entries from this time on, e.g. 2026-11-15 or 2026-11-15T08:00:00Z")
@URL
@TOKEN
def audit(output: Path | None, since: str | None, url: str, token: str) -> None:
    """Write the audit log, one JSON object per line.

    It contains who submitted, cancelled, deleted, exported, read results or logged in, when, from which address, and
    how it was answered. Needs a token with the scope admin.

    \b
    tersely audit --since 2026-11-01 -o audit.jsonl
    """
    check_extra("audit")

    import httpx2

    address = f"{url.rstrip('/')}/api/v1/audit-log"
    # Written to another name first: an interrupted run must not look complete, nor replace an earlier file.
    unfinished = output.with_name(output.name + ".part") if output else None
    written, after, refused = 0, "0", ""
    try:
        with (
            httpx2.Client(headers=headers(token), timeout=60) as http,
            click.open_file(str(unfinished or "-"), "w", encoding="utf-8") as file,
        ):
            while after:
                query = {"after": after, "limit": "500", **({"since": since} if since else {})}
                response = http.get(address, params=query)
                if response.status_code != 200:
                    refused = error_message(response)
                    break
                page = response.json()
                for entry in page["items"]:
                    file.write(json.dumps(entry, ensure_ascii=False) + "\n")
                written += len(page["items"])
                after = page["next_cursor"]
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        refused = f"Could not read the audit log from {url}: {error}. Start the server with: tersely up"
    if refused:
        if unfinished:  # Closed by now: Windows does not delete an open file.
            unfinished.unlink(missing_ok=True)
        fail(refused)
    if output and unfinished:
        unfinished.replace(output)
        click.echo(f"{output}: {written:,} entries", err=True)
