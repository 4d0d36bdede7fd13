"""Run the revisions of the decision history, on a connection that Fleet passes in or on a URL.

The version table has its own name, by which Fleet tells its history apart from other databases.
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
