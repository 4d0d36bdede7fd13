"""Why a cluster was refused: the plugin's own status of one cluster, and clusters gathered by reason.

Statuses come from `Verdicts`, which asks the plugins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from fleet.explain.facts.cluster_outcome import Standings
from fleet.framework.status import message_of
from fleet.framework.verdicts import FilterRejection, Verdicts
from fleet.snapshot.columns.bitset import each_row, from_rows, to_rows

PICK_FIXED_PLUGIN: Final = "PickFixed"
NOT_LISTED: Final = "NotListed"


class Refusal(msgspec.Struct, frozen=True, rename="camel"):
    plugin: str
    reason: str
    """The reason's name, such as UntoleratedTaint; the code's name where a plugin declares no reasons."""
    message: str
    details: dict[str, Any]


UNLISTED: Final = Refusal(PICK_FIXED_PLUGIN, NOT_LISTED, "the policy does not name this cluster", {})


class Gathered(NamedTuple):
    """Clusters that one plugin was the first to refuse, for one reason."""

    plugin: str
    reason: str
    rows: int


def refusal(verdicts: Verdicts, row: int) -> Refusal | None:
    """The first refusal of a row; None where nobody refused it."""
    status = verdicts.status(row)
    if status is None:
        return None
    found = verdicts.rejection(row)
    reason = str(status.code) if found is None else _reason_name(verdicts, row)
    return Refusal(status.plugin, reason, message_of(status), dict(status.details))


def _reason_name(verdicts: Verdicts, row: int) -> str:
    found = verdicts.rejection(row)
    assert found is not None
    number, statuses = found.reason_of(row), found.verdict.statuses
    if statuses is not None:
        return str(statuses[number - 1].code)
    return verdicts.judges[found.plugin].reasons[number].name


def first_refusal(standings: Standings, row: int) -> Refusal | None:
    """Why a rejected row was refused, for every placement type."""
    verdicts = standings.decision.verdicts
    if verdicts is None or not standings.rejected >> row & 1:
        return None
    return refusal(verdicts, row) or UNLISTED


def gathered(standings: Standings) -> Iterator[Gathered]:
    """The rejected rows by plugin and reason; every rejected row is in exactly one of them."""
    verdicts = standings.decision.verdicts
    if verdicts is None or not standings.rejected:
        return
    left = standings.rejected
    sorted_out: dict[tuple[str, str], int] = {}
    for one in verdicts.rejections:
        rows = one.rows & left
        left &= ~rows
        for reason, members in by_reason(verdicts, one, rows).items():
            key = (verdicts.judges[one.plugin].name, reason)
            sorted_out[key] = sorted_out.get(key, 0) | members
    if left:
        key = (PICK_FIXED_PLUGIN, NOT_LISTED)
        if verdicts.fill is not None:
            key = (verdicts.fill.plugin, str(verdicts.fill.code))
        sorted_out[key] = left
    for (plugin, reason), members in sorted_out.items():
        yield Gathered(plugin, reason, members)


def by_reason(verdicts: Verdicts, one: FilterRejection, rows: int) -> dict[str, int]:
    """One row of each number tells the name for all of them."""
    reasons = one.verdict.reason
    if not rows or isinstance(reasons, int):
        return {_reason_name(verdicts, next(each_row(rows))): rows} if rows else {}
    members = to_rows(rows, verdicts.frame.size)
    by_number: dict[int, list[int]] = {}
    for row, number in zip(members.tolist(), reasons[members].tolist(), strict=True):
        by_number.setdefault(number, []).append(row)
    found: dict[str, int] = {}
    for same in by_number.values():
        name = _reason_name(verdicts, same[0])
        found[name] = found.get(name, 0) | from_rows(same)
    return found
