"""Sessions have follow-up questions, and know the session that they repeat."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    parent = "of a follow-up question: the session it is about"
    op.add_column("sessions", sa.Column("parent_id", sa.String(36), nullable=True, comment=parent))
    number = "of a follow-up question, from 1"
    op.add_column("sessions", sa.Column("number", sa.Integer(), nullable=True, comment=number))
    origin = "of a session that was run again: the earlier one, which may be gone"
    op.add_column("sessions", sa.Column("origin_id", sa.String(36), nullable=True, comment=origin))
    changes = "what was changed when it was run again, as JSON"
    op.add_column("sessions", sa.Column("changes", sa.Text(), nullable=True, comment=changes))
    op.create_index("ix_sessions_parent_id_number", "sessions", ["parent_id", "number"], unique=True)
    op.create_index("ix_sessions_origin_id", "sessions", ["origin_id"])


def downgrade() -> None:
    op.drop_index("ix_sessions_origin_id", "sessions")
    op.drop_index("ix_sessions_parent_id_number", "sessions")
    for name in ("changes", "origin_id", "number", "parent_id"):
        op.drop_column("sessions", name)
