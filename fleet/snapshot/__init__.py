"""The fleet as columns: one immutable `Frame` per moment, kept up to date by one `Table`.

Rows are member clusters. This package holds objects and arrays; decisions are made elsewhere.
"""

from fleet.snapshot.frame import Frame
from fleet.snapshot.table import Table

__all__ = ["Frame", "Table"]
