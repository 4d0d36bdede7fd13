"""Distance of rejected clusters from being accepted, counted over all rows at once.

The closest cluster is rejected by the fewest plugins, then has the fewest failed expressions in a required term. Sets
of rows are integers, one bit per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fleet.explain.facts.cluster_outcome import ClusterOutcomes
from fleet.explain.facts.rejections import RejectionGroup
from fleet.framework.request import PlacementRequest
from fleet.snapshot.columns.bitset import split_by_count
from fleet.snapshot.frame import Frame

_AFFINITY: Final = "ClusterAffinity"


def split_by_failures(request: PlacementRequest, frame: Frame, rows: int) -> list[int]:
    """`rows` divided by the failed expressions of their closest required term."""
    by_number: list[int] = []
    for term in request.required:
        for count, members in enumerate(split_by_count(term.find_failing_rows(frame).values(), rows)):
            by_number += [0] * (count + 1 - len(by_number))
            by_number[count] |= members
    seen, exact = 0, []
    for members in by_number:
        exact.append(members & ~seen)
        seen |= members
    return exact if by_number else [rows]


def order_by_distance(
    request: PlacementRequest, frame: Frame, rejected: int, rejections: Sequence[int]
) -> Iterator[int]:
    """The rejected rows in this order, then by name. `rejections` are the rows each filter rejects on its own."""
    for members in split_by_count(rejections, rejected):
        if members:
            for nearest in split_by_failures(request, frame, members):
                yield from frame.sort_by_name(nearest)


def find_closest_row(outcomes: ClusterOutcomes, group: RejectionGroup) -> int:
    """The cluster with the fewest failed expressions; the first by name for plugins without expressions."""
    frame, rows = outcomes.frame, group.rows
    if group.plugin == _AFFINITY:
        divided = split_by_failures(outcomes.decision.request, frame, rows)
        rows = next(members for members in divided if members)
    return frame.sort_by_name(rows)[0]
