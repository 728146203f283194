"""Entries of the audit log are deleted by age only: a trigger refuses to delete any that must still be kept."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_SQLITE = """
CREATE TRIGGER audit_log_is_deleted_by_age BEFORE DELETE ON audit_log
WHEN NOT EXISTS (SELECT 1 FROM audit_retention WHERE old.at < kept_from)
BEGIN SELECT RAISE(ABORT, 'entries of the audit log are deleted by age only'); END
"""

# As in a read-only database: a replica of the version before, which is still running, tries again later.
_POSTGRESQL = (
    """
    CREATE FUNCTION refuse_to_delete() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' AND EXISTS (SELECT 1 FROM audit_retention WHERE old.at < kept_from) THEN
            RETURN old;
        END IF;
        RAISE EXCEPTION 'entries of the audit log are deleted by age only'
            USING ERRCODE = 'read_only_sql_transaction';
    END $$
    """,
    "CREATE TRIGGER audit_log_is_deleted_by_age BEFORE DELETE ON audit_log "
    "FOR EACH ROW EXECUTE FUNCTION refuse_to_delete()",
    "CREATE TRIGGER audit_log_is_not_emptied BEFORE TRUNCATE ON audit_log "
    "FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_delete()",
)


def upgrade() -> None:
    op.create_table(
        "audit_retention",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "kept_from", sa.DateTime(timezone=True), nullable=False, comment="entries from before may be deleted"
        ),
        sa.CheckConstraint("id = 1", name=op.f("ck_audit_retention_is_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_retention")),
    )
    for statement in (_SQLITE,) if op.get_bind().dialect.name == "sqlite" else _POSTGRESQL:
        op.execute(statement)


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER audit_log_is_deleted_by_age")
    else:
        op.execute("DROP TRIGGER audit_log_is_not_emptied ON audit_log")
        op.execute("DROP TRIGGER audit_log_is_deleted_by_age ON audit_log")
        op.execute("DROP FUNCTION refuse_to_delete()")
    op.drop_table("audit_retention")
