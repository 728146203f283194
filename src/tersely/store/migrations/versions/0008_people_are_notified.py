"""People are notified: each message about a session is stored before it is sent."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("target", sa.Text(), nullable=False, comment="slack:CHANNEL or email"),
        sa.Column("kind", sa.String(length=16), nullable=False, comment="start or end"),
        sa.Column("fingerprint", sa.String(length=64), nullable=False, comment="of the session; one thread for each"),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False, comment="why it failed, or is unknown"),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False, comment="of a try; its end while one is made"),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=False, comment="as the receiver names it"),
        sa.Column("thread_id", sa.Text(), nullable=False, comment="message that begins the thread"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'sending', 'sent', 'failed', 'unknown')",
            name=op.f("ck_notifications_status_is_known"),
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_notifications_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
        sa.UniqueConstraint("session_id", "target", "kind", name=op.f("uq_notifications_session_id_target_kind")),
    )
    op.create_index(op.f("ix_notifications_status_due_at"), "notifications", ["status", "due_at"])
    op.create_index(op.f("ix_notifications_fingerprint"), "notifications", ["fingerprint"])


def downgrade() -> None:
    op.drop_table("notifications")
