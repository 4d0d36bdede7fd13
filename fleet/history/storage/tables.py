"""The tables, as queries use them. `migrations/history` creates them; a test compares the two.

There are no foreign keys: only retention removes rows, in one place and in the right order.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sql

VERSION_TABLE: Final = "history_version"

METADATA: Final = sql.MetaData()

ATTEMPTS: Final = sql.Table(
    "attempts",
    METADATA,
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
    sql.Column("epoch", sql.BigInteger, nullable=False),
    sql.Index("attempts_by_key", "key", "epoch", "seq"),
    sql.Index("attempts_by_frame", "session", "frame_seq"),
)
"""One row per attempt that changed something; `bytes` counts what belongs to it in the other tables as well."""

TARGETS: Final = sql.Table(
    "targets",
    METADATA,
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

COLUMNS: Final = sql.Table(
    "attempt_columns",
    METADATA,
    sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
)

INPUTS: Final = sql.Table(
    "attempt_inputs",
    METADATA,
    sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
)

SESSIONS: Final = sql.Table(
    "sessions",
    METADATA,
    sql.Column("id", sql.Text, primary_key=True),
    sql.Column("started", sql.BigInteger, nullable=False),
    sql.Column("last_at", sql.BigInteger, nullable=False),
    sql.Column("dictionary", sql.LargeBinary, nullable=False),
)
"""One per writer and journal. Each writer has its own journal, so two writers at once do no harm."""

JOURNAL: Final = sql.Table(
    "journal",
    METADATA,
    sql.Column("session", sql.Text, primary_key=True),
    sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("is_whole", sql.Boolean, nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
)
"""Changed clusters, one row for all that changed before an attempt; `is_whole`: a row of all clusters."""

PROFILES: Final = sql.Table(
    "profiles",
    METADATA,
    sql.Column("config_hash", sql.Text, primary_key=True),
    sql.Column("body", sql.LargeBinary, nullable=False),
)
"""The canonical document of a profile, once for all attempts that were decided with it."""

PLACEMENTS: Final = sql.Table(
    "placements",
    METADATA,
    sql.Column("key", sql.Text, primary_key=True),
    sql.Column("uid", sql.Text, nullable=False),
    sql.Column("attempts", sql.BigInteger, nullable=False),
    sql.Column("first_at", sql.BigInteger, nullable=False),
    sql.Column("last_at", sql.BigInteger, nullable=False),
    sql.Column("newest", sql.BigInteger, nullable=False),
    sql.Column("deleted_at", sql.BigInteger),
)

COUNTERS: Final = sql.Table(
    "counters",
    METADATA,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("value", sql.BigInteger, nullable=False),
)
"""`attempts`: the highest `seq` ever assigned. Updating it serializes concurrent writers."""
