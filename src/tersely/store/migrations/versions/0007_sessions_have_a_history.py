"""Sessions have a history: alike alerts share a fingerprint, verdicts can be searched, people rate and close them."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_OLD = "SELECT id, title, verdict FROM sessions WHERE verdict IS NOT NULL AND ended_at IS NOT NULL"


def upgrade() -> None:
    comment = "the same for alike alerts; NULL for those of older releases"
    op.add_column("sessions", sa.Column("fingerprint", sa.String(length=64), nullable=True, comment=comment))
    op.create_index(op.f("ix_sessions_fingerprint"), "sessions", ["fingerprint"])
    op.create_table(
        "triage",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("assignee", sa.Text(), nullable=True, comment="who looks after it"),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("acknowledged_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("closed_by", sa.Text(), nullable=True),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("close_note", sa.Text(), nullable=False, comment="masked"),
        sa.Column("rating", sa.String(length=16), nullable=True, comment="of the verdict, by a person"),
        sa.Column("rating_note", sa.Text(), nullable=False, comment="masked"),
        sa.Column("rated_by", sa.Text(), nullable=True),
        sa.Column("rated_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("rating IN ('right', 'partly', 'wrong')", name=op.f("ck_triage_rating_is_known")),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_triage_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_triage")),
    )
    past = op.create_table(
        "past_sessions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("service", sa.Text(), nullable=False, comment="what was affected; empty if unknown"),
        sa.Column("text", sa.Text(), nullable=False, comment="title, verdict and summary, as they are searched"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_past_sessions_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_past_sessions")),
        sa.UniqueConstraint("session_id", name=op.f("uq_past_sessions_session_id")),
    )
    op.create_index(op.f("ix_past_sessions_service"), "past_sessions", ["service"])
    for statement in _full_text(op.get_bind().dialect.name):
        op.execute(statement)
    for row in op.get_bind().execute(sa.text(_OLD)).all():
        verdict = json.loads(row.verdict)
        lines = [row.title, verdict.get("cause", ""), verdict.get("summary", "")]
        op.bulk_insert(
            past,
            [
                {
                    "session_id": row.id,
                    "service": verdict.get("service", ""),
                    "text": "\n".join(line for line in lines if line),
                }
            ],
        )


def _full_text(dialect: str) -> tuple[str, ...]:
    """The full-text index, which each database has in its own form."""
    if dialect != "sqlite":
        return ("CREATE INDEX past_sessions_fts ON past_sessions USING gin (to_tsvector('english', text))",)
    forget = "INSERT INTO past_sessions_fts (past_sessions_fts, rowid, text) VALUES ('delete', old.id, old.text);"
    add = "INSERT INTO past_sessions_fts (rowid, text) VALUES (new.id, new.text);"
    return (
        "CREATE VIRTUAL TABLE past_sessions_fts USING fts5("
        "text, content='past_sessions', content_rowid='id', tokenize='porter unicode61')",
        f"CREATE TRIGGER past_sessions_added AFTER INSERT ON past_sessions BEGIN {add} END",
        f"CREATE TRIGGER past_sessions_deleted AFTER DELETE ON past_sessions BEGIN {forget} END",
        f"CREATE TRIGGER past_sessions_changed AFTER UPDATE ON past_sessions BEGIN {forget} {add} END",
    )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE past_sessions_fts")
    op.drop_table("past_sessions")
    op.drop_table("triage")
    op.drop_index(op.f("ix_sessions_fingerprint"), table_name="sessions")
    op.drop_column("sessions", "fingerprint")
