"""Results are kept: what a tool returned, masked, once per content, and who may read it by which handle."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "blobs",
        sa.Column("sha256", sa.String(64), nullable=False, comment="of the masked content"),
        sa.Column("size", sa.BigInteger, nullable=False, comment="bytes of the content"),
        sa.Column("packed_size", sa.BigInteger, nullable=False, comment="bytes of data"),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("frames", sa.LargeBinary, nullable=False, comment="where each begins"),
        sa.Column("data", sa.LargeBinary, nullable=False, comment="frames, see store.packing"),
        sa.PrimaryKeyConstraint("sha256", name="pk_blobs"),
    )
    if op.get_bind().dialect.name == "postgresql":
        # Compressed already; stored so, a few frames can be read without the rest.
        op.execute("ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL")
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "kept_results",
        sa.Column("handle", sa.String(64), nullable=False),
        sa.Column("scope", sa.Text, nullable=False, comment="whose it is: session, principal or user"),
        sa.Column("identity", sa.String(64), comment="digest of scope, content and origin; NULL once expired"),
        sa.Column("blob", sa.String(64), comment="NULL once expired"),
        sa.Column("part", sa.Integer, nullable=False, comment="which part of the tool's result, from 0"),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("mime_type", sa.Text, nullable=False),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("arguments", sa.Text, nullable=False, comment="masked, as JSON in ASCII"),
        sa.Column("called_at", moment, nullable=False),
        sa.Column("tokens", sa.BigInteger, comment="NULL for what is not text"),
        sa.Column("encoding", sa.String(32), comment="what the tokens are counted in"),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("kept_at", moment, nullable=False, comment="the last time somebody kept it"),
        sa.Column("expires_at", moment, nullable=False),
        sa.Column("expired_at", moment, comment="a tombstone's: when the content went"),
        sa.CheckConstraint(
            "kind IN ('text', 'structured', 'image', 'other')", name=op.f("ck_kept_results_kind_is_known")
        ),
        sa.CheckConstraint(
            "(blob IS NULL) = (expired_at IS NOT NULL)", name=op.f("ck_kept_results_content_or_tombstone")
        ),
        sa.ForeignKeyConstraint(["blob"], ["blobs.sha256"], name="fk_kept_results_blob_blobs"),
        sa.PrimaryKeyConstraint("handle", name="pk_kept_results"),
        sa.UniqueConstraint("identity", name="uq_kept_results_identity"),
    )
    for columns in (["scope", "created_at"], ["blob"], ["expires_at"], ["expired_at"], ["kept_at"]):
        op.create_index(f"ix_kept_results_{'_'.join(columns)}", "kept_results", columns)


def downgrade() -> None:
    op.drop_table("kept_results")
    op.drop_table("blobs")
