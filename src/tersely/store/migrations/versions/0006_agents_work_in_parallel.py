"""A stage has several executions, each with its own result: parallel agents, their synthesis, and sub-agents."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in (
        sa.Column(
            "kind", sa.String(16), nullable=False, server_default="agent", comment="agent, synthesis or sub_agent"
        ),
        sa.Column("position", sa.Integer(), nullable=False, server_default="0", comment="from 0, within the stage"),
        sa.Column(
            "parent_id", sa.String(36), comment="the execution that handed out the task; NULL except for sub-agents"
        ),
        sa.Column("task", sa.Text(), nullable=False, server_default=sa.text("''"), comment="of a sub-agent"),
        sa.Column("analysis", sa.Text(), nullable=False, server_default=sa.text("''")),
        sa.Column("verdict", sa.Text(), comment="the result in fields, as JSON; NULL where there is none"),
    ):
        op.add_column("executions", column)


def downgrade() -> None:
    for name in ("verdict", "analysis", "task", "parent_id", "position", "kind"):
        op.drop_column("executions", name)
