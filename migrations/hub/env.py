"""Runs the revisions of the embedded hub's database, on the connection that the hub hands over or on a given URL."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import context


def upgrade(connection: sql.Connection) -> None:
    context.configure(connection=connection, target_metadata=None)
    with context.begin_transaction():
        context.run_migrations()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    upgrade(handed_over)
else:
    with sql.create_engine(context.config.get_main_option("sqlalchemy.url") or "sqlite://").begin() as own:
        upgrade(own)
