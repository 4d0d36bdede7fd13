"""Runs the revisions of the decision history, on the connection that Fleet hands over or on a given URL.

The version is kept in a table of its own name, which is how Fleet knows its history from other databases.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import context

VERSION_TABLE = "history_version"


def run(connection: sql.Connection) -> None:
    context.configure(connection=connection, target_metadata=None, version_table=VERSION_TABLE)
    with context.begin_transaction():
        context.run_migrations()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    with sql.create_engine(context.config.get_main_option("sqlalchemy.url") or "sqlite://").begin() as own:
        run(own)
