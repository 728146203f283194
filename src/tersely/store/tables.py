"""The tables, as the code sees them. `migrations/` brings a database to this state; a test compares the two.

Times are UTC. What came from a tool lies in `blobs` as bytes: no database refuses a byte, some refuse characters.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

SCHEMA = "0001"
"""The migration that these tables need."""


class UtcTime(TypeDecorator[datetime]):
    """A moment with its zone, also on SQLite, which knows none."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("A time without a zone was about to be stored; use datetime.now(UTC).")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), primary_key=True, comment="of the masked content"),
    Column("size", BigInteger, nullable=False, comment="bytes of the content"),
    Column("packed_size", BigInteger, nullable=False, comment="bytes of data"),
    Column("lines", BigInteger, nullable=False),
    Column("frames", LargeBinary, nullable=False, comment="where each begins"),
    # Last, because SQLite reads through a large value to get to what stands behind it.
    Column("data", LargeBinary, nullable=False, comment="frames, see store.packing"),
)

kept_results = Table(
    "kept_results",
    metadata,
    Column("handle", String(64), primary_key=True),
    Column("scope", Text, nullable=False, comment="whose it is: session, principal or user"),
    Column("identity", String(64), unique=True, comment="digest of scope, content and origin; NULL once expired"),
    Column("blob", String(64), ForeignKey("blobs.sha256"), comment="NULL once expired"),
    Column("part", Integer, nullable=False, comment="which part of the tool's result, from 0"),
    Column("kind", String(16), nullable=False),
    Column("mime_type", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False, comment="masked, as JSON in ASCII"),
    Column("called_at", UtcTime, nullable=False),
    Column("tokens", BigInteger, comment="NULL for what is not text"),
    Column("encoding", String(32), comment="what the tokens are counted in"),
    Column("created_at", UtcTime, nullable=False),
    Column("kept_at", UtcTime, nullable=False, comment="the last time somebody kept it"),
    Column("expires_at", UtcTime, nullable=False),
    Column("expired_at", UtcTime, comment="a tombstone's: when the content went"),
    CheckConstraint("kind IN ('text', 'structured', 'image', 'other')", name="kind_is_known"),
    CheckConstraint("(blob IS NULL) = (expired_at IS NOT NULL)", name="content_or_tombstone"),
    Index(None, "scope", "created_at"),
    Index(None, "blob"),
    Index(None, "expires_at"),
    Index(None, "expired_at"),
    Index(None, "kept_at"),
)
