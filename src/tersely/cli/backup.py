"""`tersely backup` and `tersely restore`: copies of the database. PostgreSQL has its own tools, which are named."""

from __future__ import annotations

from pathlib import Path

import click

from tersely.cli.errors import fail


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def backup(file: Path) -> None:
    """Write a backup of the SQLite database to FILE.

    Works while tersely up runs. The backup contains sessions, kept results and the steps of running sessions, all as
    they were at one moment. For PostgreSQL, prints the command to use instead.

    \b
    tersely backup /backups/tersely-$(date +%F).zip
    """
    from importlib.metadata import version

    from tersely.store.sqlite_files import back_up

    info = back_up(
        _database(f'pg_dump --format=custom --file="{file}" "$TERSELY_DATABASE_URL"', "backs up"),
        file,
        version=version("tersely"),
    )
    click.echo(f"{file}: {file.stat().st_size:,} bytes, {info.sessions:,} sessions, schema {info.schema}")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def restore(file: Path) -> None:
    """Restore the SQLite database from a backup.

    Stop tersely up and gateways that use the database first. The present files are kept under another name. Sessions
    that were running when the backup was made are resumed from there by the next tersely up.
    """
    from tersely.store import sqlite_files

    database = _database(
        f'pg_restore --clean --if-exists --dbname="$TERSELY_DATABASE_URL" "{file}"',
        "restores",
        "with tersely stopped: ",
    )
    info, earlier = sqlite_files.restore(file, database)
    click.echo(f"{database}: {info.sessions:,} sessions as of {info.made_at:%Y-%m-%d %H:%M:%S} UTC")
    if earlier:
        click.echo(f"The earlier files are {earlier} and those beside it.")


def _database(command: str, does: str, how: str = "") -> Path:
    from tersely.settings.model import Settings, find_file
    from tersely.store.sqlite_files import file_of

    url = Settings.load(None, find_file(), sections=("store",), here=True).store.url
    file = file_of(url)
    if file is None:
        fail(f"The database is a PostgreSQL. Its own tool {does} everything of tersely, {how}{command}")
    return file
