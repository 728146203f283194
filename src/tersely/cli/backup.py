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
        _database("backs up", f'pg_dump --format=custom --file="{file}" "{{url}}"'),
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
        "restores", f'pg_restore --clean --if-exists --dbname="{{url}}" "{file}"', "with tersely stopped: "
    )
    info, earlier = sqlite_files.restore(file, database)
    click.echo(f"{database}: {info.sessions:,} sessions as of {info.made_at:%Y-%m-%d %H:%M:%S} UTC")
    if earlier:
        click.echo(f"The earlier files are {earlier} and those beside it.")


def _database(does: str, command: str, how: str = "") -> Path:
    """The SQLite file; for PostgreSQL, says which command does it instead."""
    from tersely.settings.model import find_file, load_with_sources
    from tersely.store.sqlite_files import file_of

    settings, tree = load_with_sources(None, find_file(), sections=("store",), here=True)
    file = file_of(settings.store.url)
    if file is None:
        url, password = _for_its_tools(settings.store.url, str(tree.source(("store", "database_url"))))
        command = command.replace("{url}", url)
        fail(f"The database is a PostgreSQL. Its own tool {does} everything of tersely, {how}{command}{password}")
    return file


def _for_its_tools(url: str, source: str) -> tuple[str, str]:
    """How a command line names a database without showing its password, and where the password is, if it is missing."""
    from tersely.settings.environment import process_environment
    from tersely.store.database import without_password

    if process_environment().get("TERSELY_DATABASE_URL") == url and "+" not in url.partition(":")[0]:
        return "$TERSELY_DATABASE_URL", ""
    shown, hidden = without_password(url)
    return shown, f" (it asks for the password, which is in {source})" if hidden else ""
