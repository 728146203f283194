"""Alembic's entry: it runs on the connection and in the transaction that `store.database` hands in."""

from alembic import context

from tersely.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
