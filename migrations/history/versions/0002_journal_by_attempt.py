"""The journal by attempt: one row for all clusters that changed, a third of the bytes of a row for each of them.

Existing journals are dropped: in both directions, earlier attempts keep their decisions and lose their inputs.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _expire_inputs()
    op.drop_table("journal")
    op.create_table(
        "journal",
        sql.Column("session", sql.Text, primary_key=True),
        sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
        sql.Column("is_whole", sql.Boolean, nullable=False),
        sql.Column("body", sql.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    _expire_inputs()
    op.drop_table("journal")
    op.create_table(
        "journal",
        sql.Column("session", sql.Text, primary_key=True),
        sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
        sql.Column("cluster", sql.Text, nullable=False),
        sql.Column("document", sql.LargeBinary),
        sql.Index("journal_by_cluster", "session", "cluster", "seq"),
    )


def _expire_inputs() -> None:
    """Mark inputs as retention does."""
    op.execute(
        "UPDATE attempts SET inputs = 'expired', frame_seq = NULL, bytes = bytes - "
        "(SELECT length(body) FROM attempt_inputs WHERE attempt_inputs.seq = attempts.seq) "
        "WHERE seq IN (SELECT seq FROM attempt_inputs)"
    )
    for table in ("attempt_inputs", "sessions"):
        op.execute(f"DELETE FROM {table}")
