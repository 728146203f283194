"""The tables. `migrations/` brings a database to this state; a test compares the two.

Times are UTC. Results of tools are stored in `blobs` as bytes, because databases refuse some characters.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
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
    UniqueConstraint,
    text,
)

SCHEMA = "0009"
"""The migration that these tables need."""


class UtcTime(TypeDecorator[datetime]):
    """A time with its zone, also on SQLite, which stores none."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("The time has no zone; use datetime.now(UTC).")
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
    # Last, because SQLite reads through a large value to get to the columns after it.
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


def _session_id(*, primary_key: bool = False, index: bool = False) -> Column[str]:
    gone_with_it = ForeignKey("sessions.id", ondelete="CASCADE")
    return Column("session_id", String(36), gone_with_it, nullable=False, primary_key=primary_key, index=index or None)


sessions = Table(
    "sessions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("scope", Text, nullable=False, comment="whose it is: the submitting principal"),
    Column("kind", String(32), nullable=False, comment="which workflow works on it"),
    Column("alert_type", Text, nullable=False),
    Column("chain", Text, nullable=False),
    Column("title", Text, nullable=False, comment="one masked line for lists"),
    Column("alert", Text, nullable=False, comment="masked"),
    Column("runbook", Text, nullable=False, comment="masked; empty where none was given"),
    Column("override", Text, comment="servers and native tools of this alert alone, as JSON"),
    Column("status", String(16), nullable=False),
    Column("reason", Text, nullable=False, comment="why it ended, in plain words"),
    Column("analysis", Text, nullable=False),
    Column("verdict", Text, comment="the result in fields, as JSON; NULL where there is none"),
    Column(
        "attempt", Integer, nullable=False, comment="fencing token: who took the session over last writes, nobody else"
    ),
    Column("executor", Text, comment="which process works on it"),
    Column(
        "deaths", Integer, key="crashes", nullable=False, comment="processes in a row that died while it got no further"
    ),
    Column("seq_at_death", BigInteger, nullable=False, comment="how far it was when the last of them died"),
    Column("mark_key", LargeBinary, nullable=False, comment="of the marks that stand for its secrets"),
    Column("last_seq", BigInteger, nullable=False, comment="of its event log"),
    Column("last_sequence", Integer, nullable=False, comment="of its timeline"),
    Column("model_calls", Integer, nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False, comment="as the providers counted them"),
    Column("output_tokens", BigInteger, nullable=False),
    Column("price_micros", BigInteger, comment="millionths of a US dollar; NULL once a price is unknown"),
    Column("tokens_before", BigInteger, nullable=False, comment="of all tool results"),
    Column("tokens_after", BigInteger, nullable=False, comment="of what the conversation got of them"),
    Column("encoding", String(32), nullable=False, comment="what tokens_before and tokens_after are counted in"),
    Column("created_at", UtcTime, nullable=False),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("cancel_requested_at", UtcTime),
    Column("resolved_at", UtcTime, comment="when whoever sent the alert said that it is over"),
    Column(
        "tell_tries",
        Integer,
        nullable=False,
        server_default="0",
        comment="to tell the webhooks of its end; -1 once they know",
    ),
    Column("tell_after", UtcTime, comment="when to try again"),
    Column("parent_id", String(36), comment="of a follow-up question: the session it is about"),
    Column("number", Integer, comment="of a follow-up question, from 1"),
    Column("origin_id", String(36), comment="of a session that was run again: the earlier one, which may be gone"),
    Column("changes", Text, comment="what was changed when it was run again, as JSON"),
    Column(
        "fingerprint", String(64), index=True, comment="the same for alike alerts; NULL for those of older releases"
    ),
    CheckConstraint(
        "status IN ('pending', 'in_progress', 'cancelling', 'completed', 'failed', 'cancelled', 'timed_out')",
        name="status_is_known",
    ),
    CheckConstraint(
        "(ended_at IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled', 'timed_out'))",
        name="ended_when_it_has_an_end",
    ),
    Index(None, "created_at", "id"),
    Index(None, "status"),
    Index(None, "parent_id", "number", unique=True),
    Index(None, "origin_id"),
)

stages = Table(
    "stages",
    metadata,
    Column("id", String(36), primary_key=True),
    _session_id(index=True),
    Column("position", Integer, nullable=False, comment="from 0"),
    Column("name", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("analysis", Text, nullable=False),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    UniqueConstraint("session_id", "position"),
)

executions = Table(
    "executions",
    metadata,
    Column("id", String(36), primary_key=True),
    _session_id(index=True),
    Column("stage_id", String(36), ForeignKey("stages.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("agent", Text, nullable=False),
    Column("controller", String(32), nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("kind", String(16), nullable=False, server_default="agent", comment="agent, synthesis or sub_agent"),
    Column("position", Integer, nullable=False, server_default="0", comment="from 0, within the stage"),
    Column("parent_id", String(36), comment="the execution that handed out the task; NULL except for sub-agents"),
    Column("task", Text, nullable=False, server_default=text("''"), comment="of a sub-agent"),
    Column("analysis", Text, nullable=False, server_default=text("''")),
    Column("verdict", Text, comment="the result in fields, as JSON; NULL where there is none"),
)

timeline_events = Table(
    "timeline_events",
    metadata,
    Column("id", String(36), primary_key=True),
    _session_id(),
    Column("stage_id", String(36)),
    Column("execution_id", String(36)),
    Column("sequence", Integer, nullable=False, comment="orders what is shown"),
    Column("event_type", String(32), nullable=False),
    Column("status", String(16), nullable=False),
    Column("content", Text, nullable=False),
    Column("metadata", Text, nullable=False, comment="JSON"),
    Column("created_at", UtcTime, nullable=False),
    Column("completed_at", UtcTime),
    UniqueConstraint("session_id", "sequence"),
)

event_log = Table(
    "event_log",
    metadata,
    _session_id(primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("step", Text, nullable=False, comment="which step told it, so that a repeated step tells it once"),
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False, comment="the event exactly as viewers get it"),
    Column("at", UtcTime, nullable=False),
    UniqueConstraint("session_id", "step", "kind"),
)

feed = Table(
    "feed",
    metadata,
    Column(
        "seq",
        BigInteger,
        primary_key=True,
        autoincrement=False,
        comment="from counters, so that it is gapless and in order of commit",
    ),
    Column("session_id", String(36), nullable=False, index=True),
    Column("payload", Text, nullable=False),
    Column("at", UtcTime, nullable=False, index=True),
)
"""Events for viewers of all sessions: each session's status."""

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

messages = Table(
    "messages",
    metadata,
    _session_id(primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("message", Text, nullable=False, comment="JSON: role, text, tool_calls, answers"),
)
"""Each message of a trace once; interactions refer to them."""

interactions = Table(
    "interactions",
    metadata,
    Column("id", String(36), primary_key=True),
    _session_id(),
    Column("stage_id", String(36)),
    Column("execution_id", String(36)),
    Column("step", Text, nullable=False),
    Column("interaction_type", String(32), nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("request", Text, nullable=False, comment="JSON: digests of messages, or server, tool and arguments"),
    Column(
        "response", Text, nullable=False, comment="JSON: text, thinking and calls, or the display cut, handle and sizes"
    ),
    Column("error", Text, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("price_micros", BigInteger, comment="NULL where the price is unknown"),
    Column("duration_ms", BigInteger, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("session_id", "step", "interaction_type"),
    Index(None, "session_id", "created_at"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("digest", String(64), nullable=False, comment="of the body; the same key with another body is a mistake"),
    Column("session_id", String(36), nullable=False, index=True),
    Column("created_at", UtcTime, nullable=False, index=True),
)

executors = Table(
    "executors",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("host", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("started_at", UtcTime, nullable=False),
    Column("seen_at", UtcTime, nullable=False, comment="by the database's clock"),
    Column("leaving", Boolean, nullable=False, comment="it finishes what it has and takes nothing new"),
)
"""Worker processes. One without a heartbeat for a lease is dead; other workers resume its sessions."""

triage = Table(
    "triage",
    metadata,
    _session_id(primary_key=True),
    Column("assignee", Text, comment="who looks after it"),
    Column("acknowledged_by", Text),
    Column("acknowledged_at", UtcTime),
    Column("closed_by", Text),
    Column("closed_at", UtcTime),
    Column("close_note", Text, nullable=False, comment="masked"),
    Column("rating", String(16), comment="of the verdict, by a person"),
    Column("rating_note", Text, nullable=False, comment="masked"),
    Column("rated_by", Text),
    Column("rated_at", UtcTime),
    CheckConstraint("rating IN ('right', 'partly', 'wrong')", name="rating_is_known"),
)
"""What people do with a session: who looks after it, and whether its verdict was right."""

past_sessions = Table(
    "past_sessions",
    metadata,
    # SQLite counts by itself in INTEGER primary keys only.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("session_id", String(36), ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False, unique=True),
    Column("service", Text, nullable=False, index=True, comment="what was affected; empty if unknown"),
    Column("text", Text, nullable=False, comment="title, verdict and summary, as they are searched"),
)
"""Ended sessions with a verdict. The migration adds the full-text index `past_sessions_fts`: FTS5 or GIN."""

notifications = Table(
    "notifications",
    metadata,
    Column("id", String(36), primary_key=True),
    _session_id(),
    Column("target", Text, nullable=False, comment="slack:CHANNEL or email"),
    Column("kind", String(16), nullable=False, comment="start or end"),
    Column("fingerprint", String(64), nullable=False, index=True, comment="of the session; one thread for each"),
    Column("status", String(16), nullable=False),
    Column("reason", Text, nullable=False, comment="why it failed, or is unknown"),
    Column("tries", Integer, nullable=False),
    Column("due_at", UtcTime, nullable=False, comment="of a try; its end while one is made"),
    Column("sent_at", UtcTime),
    Column("message_id", Text, nullable=False, comment="as the receiver names it"),
    Column("thread_id", Text, nullable=False, comment="message that begins the thread"),
    Column("created_at", UtcTime, nullable=False),
    CheckConstraint("status IN ('pending', 'sending', 'sent', 'failed', 'unknown')", name="status_is_known"),
    UniqueConstraint("session_id", "target", "kind"),
    Index(None, "status", "due_at"),
)
"""Messages about sessions to people."""

tool_use = Table(
    "tool_use",
    metadata,
    Column("day", Date, primary_key=True, comment="UTC"),
    Column("door", String(16), primary_key=True, comment="gateway or session"),
    Column("server", Text, primary_key=True),
    Column("tool", Text, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("errors", BigInteger, nullable=False),
    Column("condensed", BigInteger, nullable=False),
    Column("cached", BigInteger, nullable=False, comment="summaries that were there already"),
    Column("read_backs", BigInteger, nullable=False),
    Column("tokens_before", BigInteger, nullable=False),
    Column("tokens_after", BigInteger, nullable=False),
    Column("milliseconds", BigInteger, nullable=False),
)

tool_latency = Table(
    "tool_latency",
    metadata,
    Column("day", Date, primary_key=True, comment="UTC"),
    Column("door", String(16), primary_key=True),
    Column("server", Text, primary_key=True),
    Column("tool", Text, primary_key=True),
    Column("up_to_ms", Integer, primary_key=True, comment="the bucket's upper edge"),
    Column("calls", BigInteger, nullable=False),
)

service_keys = Table(
    "service_keys",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("key", LargeBinary, nullable=False),
)
"""Random keys that all replicas share, e.g. the one that signs login cookies."""

audit_log = Table(
    "audit_log",
    metadata,
    # SQLite counts by itself in INTEGER primary keys only.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at", UtcTime, nullable=False, index=True),
    Column("action", String(32), nullable=False),
    Column("principal", Text, nullable=False, comment="local, token:NAME or user:NAME; empty where nobody was known"),
    Column("method", String(16), nullable=False, comment="how they proved it: loopback, token, cookie, proxy"),
    Column("address", Text, nullable=False, comment="of the client"),
    Column("target", Text, nullable=False, comment="session or result; empty for a login"),
    Column("status", Integer, nullable=False, comment="of the answer"),
)
"""Who did what. Rows are added and, once they are old enough, deleted; triggers refuse everything else."""

audit_retention = Table(
    "audit_retention",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("kept_from", UtcTime, nullable=False, comment="entries from before may be deleted"),
    CheckConstraint("id = 1", name="is_one_row"),
)
"""How far the audit log goes back: the trigger that guards it asks for the one row here."""
