"""Sessions are investigated: alerts, their stages, timeline, events and trace; who works on them; what tools were used
for.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "executors",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False, comment="by the database's clock"),
        sa.Column("leaving", sa.Boolean(), nullable=False, comment="it finishes what it has and takes nothing new"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_executors")),
    )
    op.create_table(
        "feed",
        sa.Column(
            "seq",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="from counters, so that it is gapless and in order of commit",
        ),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_feed")),
    )
    op.create_index(op.f("ix_feed_at"), "feed", ["at"], unique=False)
    op.create_index(op.f("ix_feed_session_id"), "feed", ["session_id"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column(
            "digest",
            sa.String(length=64),
            nullable=False,
            comment="of the body; the same key with another body is a mistake",
        ),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"], unique=False)
    op.create_index(op.f("ix_idempotency_keys_session_id"), "idempotency_keys", ["session_id"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False, comment="whose it is: the submitting principal"),
        sa.Column("kind", sa.String(length=32), nullable=False, comment="which workflow works on it"),
        sa.Column("alert_type", sa.Text(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False, comment="one masked line for lists"),
        sa.Column("alert", sa.Text(), nullable=False, comment="masked"),
        sa.Column("runbook", sa.Text(), nullable=False, comment="masked; empty where none was given"),
        sa.Column(
            "override", sa.Text(), nullable=True, comment="servers and native tools of this alert alone, as JSON"
        ),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False, comment="why it ended, in plain words"),
        sa.Column("analysis", sa.Text(), nullable=False),
        sa.Column(
            "attempt",
            sa.Integer(),
            nullable=False,
            comment="fencing token: who took the session over last writes, nobody else",
        ),
        sa.Column("executor", sa.Text(), nullable=True, comment="which process works on it"),
        sa.Column(
            "deaths", sa.Integer(), nullable=False, comment="processes in a row that died while it got no further"
        ),
        sa.Column("seq_at_death", sa.BigInteger(), nullable=False, comment="how far it was when the last of them died"),
        sa.Column("mark_key", sa.LargeBinary(), nullable=False, comment="of the marks that stand for its secrets"),
        sa.Column("last_seq", sa.BigInteger(), nullable=False, comment="of its event log"),
        sa.Column("last_sequence", sa.Integer(), nullable=False, comment="of its timeline"),
        sa.Column("model_calls", sa.Integer(), nullable=False),
        sa.Column("tool_calls", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False, comment="as the providers counted them"),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column(
            "price_micros",
            sa.BigInteger(),
            nullable=True,
            comment="millionths of a US dollar; NULL once a price is unknown",
        ),
        sa.Column("tokens_before", sa.BigInteger(), nullable=False, comment="of all tool results"),
        sa.Column("tokens_after", sa.BigInteger(), nullable=False, comment="of what the conversation got of them"),
        sa.Column(
            "encoding",
            sa.String(length=32),
            nullable=False,
            comment="what tokens_before and tokens_after are counted in",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "resolved_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="when whoever sent the alert said that it is over",
        ),
        sa.Column(
            "tell_tries",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="to tell the webhooks of its end; -1 once they know",
        ),
        sa.Column("tell_after", sa.DateTime(timezone=True), nullable=True, comment="when to try again"),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled', 'timed_out'))",
            name=op.f("ck_sessions_ended_when_it_has_an_end"),
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'in_progress', 'cancelling', 'completed', 'failed', 'cancelled', 'timed_out')",
            name=op.f("ck_sessions_status_is_known"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_created_at_id"), "sessions", ["created_at", "id"], unique=False)
    op.create_index(op.f("ix_sessions_status"), "sessions", ["status"], unique=False)
    op.create_table(
        "tool_latency",
        sa.Column("day", sa.Date(), nullable=False, comment="UTC"),
        sa.Column("door", sa.String(length=16), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("up_to_ms", sa.Integer(), nullable=False, comment="the bucket's upper edge"),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "door", "server", "tool", "up_to_ms", name=op.f("pk_tool_latency")),
    )
    op.create_table(
        "tool_use",
        sa.Column("day", sa.Date(), nullable=False, comment="UTC"),
        sa.Column("door", sa.String(length=16), nullable=False, comment="gateway or session"),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("condensed", sa.BigInteger(), nullable=False),
        sa.Column("cached", sa.BigInteger(), nullable=False, comment="summaries that were there already"),
        sa.Column("read_backs", sa.BigInteger(), nullable=False),
        sa.Column("tokens_before", sa.BigInteger(), nullable=False),
        sa.Column("tokens_after", sa.BigInteger(), nullable=False),
        sa.Column("milliseconds", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "door", "server", "tool", name=op.f("pk_tool_use")),
    )
    op.create_table(
        "event_log",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "step", sa.Text(), nullable=False, comment="which step told it, so that a repeated step tells it once"
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False, comment="the event exactly as viewers get it"),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_event_log_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "seq", name=op.f("pk_event_log")),
        sa.UniqueConstraint("session_id", "step", "kind", name=op.f("uq_event_log_session_id_step_kind")),
    )
    op.create_table(
        "interactions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("stage_id", sa.String(length=36), nullable=True),
        sa.Column("execution_id", sa.String(length=36), nullable=True),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("interaction_type", sa.String(length=32), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column(
            "request", sa.Text(), nullable=False, comment="JSON: digests of messages, or server, tool and arguments"
        ),
        sa.Column(
            "response",
            sa.Text(),
            nullable=False,
            comment="JSON: text, thinking and calls, or the display cut, handle and sizes",
        ),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("price_micros", sa.BigInteger(), nullable=True, comment="NULL where the price is unknown"),
        sa.Column("duration_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_interactions_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_interactions")),
        sa.UniqueConstraint(
            "session_id", "step", "interaction_type", name=op.f("uq_interactions_session_id_step_interaction_type")
        ),
    )
    op.create_index(
        op.f("ix_interactions_session_id_created_at"), "interactions", ["session_id", "created_at"], unique=False
    )
    op.create_table(
        "messages",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False, comment="JSON: role, text, tool_calls, answers"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_messages_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "digest", name=op.f("pk_messages")),
    )
    op.create_table(
        "stages",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="from 0"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("analysis", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_stages_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stages")),
        sa.UniqueConstraint("session_id", "position", name=op.f("uq_stages_session_id_position")),
    )
    op.create_index(op.f("ix_stages_session_id"), "stages", ["session_id"], unique=False)
    op.create_table(
        "timeline_events",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("stage_id", sa.String(length=36), nullable=True),
        sa.Column("execution_id", sa.String(length=36), nullable=True),
        sa.Column("sequence", sa.Integer(), nullable=False, comment="orders what is shown"),
        sa.Column("event_type", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False, comment="JSON"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_timeline_events_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_timeline_events")),
        sa.UniqueConstraint("session_id", "sequence", name=op.f("uq_timeline_events_session_id_sequence")),
    )
    op.create_table(
        "executions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("stage_id", sa.String(length=36), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("controller", sa.String(length=32), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_executions_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["stage_id"], ["stages.id"], name=op.f("fk_executions_stage_id_stages"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_executions")),
    )
    op.create_index(op.f("ix_executions_session_id"), "executions", ["session_id"], unique=False)
    op.create_index(op.f("ix_executions_stage_id"), "executions", ["stage_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_executions_stage_id"), table_name="executions")
    op.drop_index(op.f("ix_executions_session_id"), table_name="executions")
    op.drop_table("executions")
    op.drop_table("timeline_events")
    op.drop_index(op.f("ix_stages_session_id"), table_name="stages")
    op.drop_table("stages")
    op.drop_table("messages")
    op.drop_index(op.f("ix_interactions_session_id_created_at"), table_name="interactions")
    op.drop_table("interactions")
    op.drop_table("event_log")
    op.drop_table("tool_use")
    op.drop_table("tool_latency")
    op.drop_index(op.f("ix_sessions_status"), table_name="sessions")
    op.drop_index(op.f("ix_sessions_created_at_id"), table_name="sessions")
    op.drop_table("sessions")
    op.drop_index(op.f("ix_idempotency_keys_session_id"), table_name="idempotency_keys")
    op.drop_index(op.f("ix_idempotency_keys_created_at"), table_name="idempotency_keys")
    op.drop_table("idempotency_keys")
    op.drop_index(op.f("ix_feed_session_id"), table_name="feed")
    op.drop_index(op.f("ix_feed_at"), table_name="feed")
    op.drop_table("feed")
    op.drop_table("executors")
    op.drop_table("counters")
