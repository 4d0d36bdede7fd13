"""Objects as encoded bodies, and the counter of revisions."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "objects",
        sql.Column("resource", sql.Text, primary_key=True),
        sql.Column("namespace", sql.Text, primary_key=True),
        sql.Column("name", sql.Text, primary_key=True),
        sql.Column("revision", sql.BigInteger, nullable=False),
        sql.Column("body", sql.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    counters = op.create_table(
        "counters",
        sql.Column("name", sql.Text, primary_key=True),
        sql.Column("value", sql.BigInteger, nullable=False),
    )
    op.bulk_insert(counters, [{"name": "revision", "value": 1}])


def downgrade() -> None:
    op.drop_table("counters")
    op.drop_table("objects")
