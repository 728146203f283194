"""`tersely migrate`."""

import click


@click.command()
def migrate() -> None:
    """Bring the database to the schema this version needs.

    PostgreSQL needs it before the first start and after an update that says so; SQLite is migrated by itself.
    """
    import anyio

    from tersely.settings.model import Settings, find_file
    from tersely.store.database import Database

    settings = Settings.load(None, find_file(), sections=("store",))
    before, now = anyio.run(Database.migrate, settings.store.url)
    if before == now:
        click.echo(f"The database has schema {now} already.")
    else:
        click.echo(f"Migrated the database from {f'schema {before}' if before else 'nothing'} to schema {now}.")
