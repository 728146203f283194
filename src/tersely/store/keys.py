"""Random keys that all processes on one database share; each is created at first use."""

import secrets

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events
from tersely.store.tables import service_keys

LOGIN_COOKIES = "login cookies"
"""The key that signs login cookies."""

KEY_BYTES = 32


async def shared_key(db: AsyncConnection, name: str) -> bytes:
    """The key of this name; of two processes that ask for a new one at once, both get the same."""
    row = {"name": name, "key": secrets.token_bytes(KEY_BYTES)}
    await db.execute(events.insert(db, service_keys).values(row).on_conflict_do_nothing())
    key = await db.scalar(sa.select(service_keys.c.key).where(service_keys.c.name == name))
    assert key is not None
    return bytes(key)
