"""Which rejected clusters came closest to being accepted, counted over all rows at once.

Whoever repairs a fleet starts with the cluster that has the least wrong with it: refused by the fewest plugins, then
with the fewest failed expressions of a required term. Sets of rows are integers, one bit per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet.framework.request import PlacementRequest
from fleet.framework.terms import Term
from fleet.snapshot.columns.bitset import to_rows
from fleet.snapshot.frame import Frame


def by_count(sets: Sequence[int], rows: int) -> list[int]:
    """`rows` divided by how many of the sets a row is in: position n holds the rows that are in exactly n."""
    at_least = [rows]
    for one in sets:
        at_least.append(0)
        for count in range(len(at_least) - 1, 0, -1):
            at_least[count] |= at_least[count - 1] & one
    return [more & ~least for more, least in zip(at_least, [*at_least[1:], 0], strict=True)]


def by_failures(request: PlacementRequest, frame: Frame, rows: int) -> list[int]:
    """`rows` divided by the failed expressions of their closest required term."""
    found: list[int] = []
    for term in request.required:
        for count, members in enumerate(by_count(list(failing_rows(term, frame).values()), rows)):
            found += [0] * (count + 1 - len(found))
            found[count] |= members
    seen, exact = 0, []
    for members in found:
        exact.append(members & ~seen)
        seen |= members
    return exact if found else [rows]


def failing_rows(term: Term, frame: Frame) -> dict[str, int]:
    """By expression, as explanations write it, the rows that fail it."""
    found = {str(test): ~test.rows(frame) for test in term.labels}
    return found | {str(check): ~check.rows(frame) for check in term.properties}


def closest_first(request: PlacementRequest, frame: Frame, rejected: int, refusals: Sequence[int]) -> Iterator[int]:
    """The rejected rows in this order, then by name. `refusals` are the rows each filter refuses on its own."""
    for members in by_count(refusals, rejected):
        if members:
            for nearest in by_failures(request, frame, members):
                yield from in_name_order(frame, nearest)


def in_name_order(frame: Frame, rows: int) -> list[int]:
    found = to_rows(rows, frame.size)
    ordered: list[int] = found[frame.names.rank[found].argsort()].tolist()
    return ordered
