"""The profiles that attempts were decided with, by the hash that attempts have."""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "profiles",
        sql.Column("config_hash", sql.Text, primary_key=True),
        sql.Column("body", sql.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("profiles")
