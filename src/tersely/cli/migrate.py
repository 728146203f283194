"""`tersely migrate`: migrates the database."""

import click


@click.command()
def migrate() -> None:
    """Migrate the database to the schema of this version.

    Run it for PostgreSQL before the first start, and after an update whose notes ask for it. SQLite is migrated
    automatically.
    """
    import anyio

    from tersely.settings.model import Settings, find_file
    from tersely.store.audit import record, shell_entry
    from tersely.store.database import Database

    async def recorded(url: str) -> tuple[str | None, str]:
        before, now = await Database.migrate(url)
        if before != now:
            async with Database.open(url) as database:
                await record(database, shell_entry("migrate", f"{before or 'no schema'} to {now}"))
        return before, now

    settings = Settings.load(None, find_file(), sections=("store",), here=True)
    before, now = anyio.run(recorded, settings.store.url)
    if before == now:
        click.echo(f"The database already has schema {now}.")
    else:
        click.echo(f"Migrated the database from {f'schema {before}' if before else 'no schema'} to schema {now}.")
