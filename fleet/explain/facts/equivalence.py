"""Equivalence classes of rejected clusters: one representative explains all members.

Messages are built per cluster, and a fleet has thousands. A plugin may name the few columns that its messages depend
on, such as taints or one label; clusters equal in these get the same message.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.explain.facts.rejections import RejectionGroup
from fleet.framework.cycle.decision import Decision
from fleet.snapshot.columns.bitset import from_rows, to_rows


def find_equivalence_classes(decision: Decision, group: RejectionGroup) -> Iterator[tuple[int, int]]:
    """Sets of rows with the same message, each with one of its rows; together they are all rows of the group."""
    rows = to_rows(group.rows, decision.frame.size)
    judge = None if decision.verdicts is None else decision.verdicts.find_judge(group.plugin)
    list_columns = getattr(judge and judge.plugin, "explanation_columns", None)
    columns = [] if list_columns is None else list_columns(decision.request, decision.frame)
    if not columns:
        yield from ((1 << row, row) for row in rows.tolist())
        return
    values = zip(*(column.ids[rows].tolist() for column in columns), strict=True)
    classes: dict[tuple[int, ...], list[int]] = {}
    for row, value in zip(rows.tolist(), values, strict=True):
        classes.setdefault(value, []).append(row)
    for members in classes.values():
        yield from_rows(members), members[0]
