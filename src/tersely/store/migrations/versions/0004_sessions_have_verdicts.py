"""Sessions have verdicts: their result in fields, beside the text of the analysis."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "the result in fields, as JSON; NULL where there is none"
    op.add_column("sessions", sa.Column("verdict", sa.Text(), nullable=True, comment=comment))


def downgrade() -> None:
    op.drop_column("sessions", "verdict")
