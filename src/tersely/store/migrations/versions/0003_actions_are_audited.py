"""Actions are audited, and replicas share random keys."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "service_keys",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_service_keys")),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column(
            "principal",
            sa.Text(),
            nullable=False,
            comment="local, token:NAME or user:NAME; empty where nobody was known",
        ),
        sa.Column(
            "method", sa.String(length=16), nullable=False, comment="how they proved it: loopback, token, cookie, proxy"
        ),
        sa.Column("address", sa.Text(), nullable=False, comment="of the client"),
        sa.Column("target", sa.Text(), nullable=False, comment="session or result; empty for a login"),
        sa.Column("status", sa.Integer(), nullable=False, comment="of the answer"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
    )
    op.create_index(op.f("ix_audit_log_at"), "audit_log", ["at"], unique=False)
    for statement in _refuse_changes(op.get_bind().dialect.name):
        op.execute(statement)


def _refuse_changes(dialect: str) -> tuple[str, ...]:
    if dialect == "sqlite":
        return (
            "CREATE TRIGGER audit_log_is_never_changed BEFORE UPDATE ON audit_log "
            "BEGIN SELECT RAISE(ABORT, 'the audit log is never changed'); END",
        )
    return (
        "CREATE FUNCTION refuse_to_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit log is never changed'; END $$",
        "CREATE TRIGGER audit_log_is_never_changed BEFORE UPDATE ON audit_log "
        "FOR EACH ROW EXECUTE FUNCTION refuse_to_change()",
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_audit_log_at"), table_name="audit_log")
    op.drop_table("audit_log")
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION refuse_to_change()")
    op.drop_table("service_keys")
