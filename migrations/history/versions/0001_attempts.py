"""Attempts with their targets, columns and inputs, the journal of clusters, and placements."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attempts",
        sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
        sql.Column("id", sql.Text, nullable=False, unique=True),
        sql.Column("key", sql.Text, nullable=False),
        sql.Column("placement_uid", sql.Text, nullable=False),
        sql.Column("number", sql.BigInteger, nullable=False),
        sql.Column("started", sql.BigInteger, nullable=False),
        sql.Column("last_at", sql.BigInteger, nullable=False),
        sql.Column("repeats", sql.BigInteger, nullable=False),
        sql.Column("ending", sql.Text, nullable=False),
        sql.Column("outcome", sql.Text, nullable=False),
        sql.Column("fulfilled", sql.Boolean, nullable=False),
        sql.Column("digest", sql.Text, nullable=False),
        sql.Column("config_hash", sql.Text, nullable=False),
        sql.Column("session", sql.Text, nullable=False),
        sql.Column("frame_seq", sql.BigInteger),
        sql.Column("columns", sql.Text, nullable=False),
        sql.Column("inputs", sql.Text, nullable=False),
        sql.Column("facts", sql.LargeBinary, nullable=False),
        sql.Column("bytes", sql.BigInteger, nullable=False),
        sql.Index("attempts_by_key", "key", "seq"),
        sql.Index("attempts_by_frame", "session", "frame_seq"),
    )
    op.create_table(
        "targets",
        sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
        sql.Column("rank", sql.Integer, primary_key=True, autoincrement=False),
        sql.Column("cluster", sql.Text, nullable=False),
        sql.Column("action", sql.Text, nullable=False),
        sql.Column("binding", sql.Text, nullable=False),
        sql.Column("affinity", sql.BigInteger),
        sql.Column("topology", sql.BigInteger),
        sql.Column("obsolete", sql.BigInteger, nullable=False),
        sql.Column("step", sql.Integer, nullable=False),
        sql.Index("targets_by_cluster", "cluster", "seq"),
        sqlite_with_rowid=False,
    )
    for name in ("attempt_columns", "attempt_inputs"):
        op.create_table(
            name,
            sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
            sql.Column("body", sql.LargeBinary, nullable=False),
        )
    op.create_table(
        "sessions",
        sql.Column("id", sql.Text, primary_key=True),
        sql.Column("started", sql.BigInteger, nullable=False),
        sql.Column("last_at", sql.BigInteger, nullable=False),
        sql.Column("dictionary", sql.LargeBinary, nullable=False),
    )
    op.create_table(
        "journal",
        sql.Column("session", sql.Text, primary_key=True),
        sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
        sql.Column("cluster", sql.Text, nullable=False),
        sql.Column("document", sql.LargeBinary),
        sql.Index("journal_by_cluster", "session", "cluster", "seq"),
    )
    op.create_table(
        "placements",
        sql.Column("key", sql.Text, primary_key=True),
        sql.Column("uid", sql.Text, nullable=False),
        sql.Column("attempts", sql.BigInteger, nullable=False),
        sql.Column("first_at", sql.BigInteger, nullable=False),
        sql.Column("last_at", sql.BigInteger, nullable=False),
        sql.Column("newest", sql.BigInteger, nullable=False),
        sql.Column("deleted_at", sql.BigInteger),
    )
    counters = op.create_table(
        "counters",
        sql.Column("name", sql.Text, primary_key=True),
        sql.Column("value", sql.BigInteger, nullable=False),
    )
    op.bulk_insert(counters, [{"name": "attempts", "value": 0}])


def downgrade() -> None:
    for name in (
        "counters", "placements", "journal", "sessions", "attempt_inputs", "attempt_columns", "targets", "attempts",
    ):  # fmt: skip
        op.drop_table(name)
