"""The leadership in which an attempt was made, by which a placement's attempts are ordered.

Existing attempts keep their order: they are of no leadership, which is earlier than any.
"""

from __future__ import annotations

import sqlalchemy as sql
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sql.Column("epoch", sql.BigInteger, nullable=False, server_default="0"))
    op.drop_index("attempts_by_key", table_name="attempts")
    op.create_index("attempts_by_key", "attempts", ["key", "epoch", "seq"])


def downgrade() -> None:
    op.drop_index("attempts_by_key", table_name="attempts")
    op.create_index("attempts_by_key", "attempts", ["key", "seq"])
    op.drop_column("attempts", "epoch")
