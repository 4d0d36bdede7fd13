"""Rejections of clusters: the rejecting plugin's status of one cluster, and rejected rows by plugin and reason.

Statuses are computed by `Verdicts` from the plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fleet.explain.facts.cluster_outcome import ClusterOutcomes
from fleet.framework.status import Code, message_of
from fleet.framework.types import Reason
from fleet.framework.verdicts import FilterRejection, Verdicts
from fleet.snapshot.columns.bitset import each_row, from_rows, to_rows

PICK_FIXED_PLUGIN: Final = "PickFixed"
NOT_LISTED: Final = "NotListed"


class RejectionDetails(dict[str, Any]):
    """Details of a rejection, with the reason as its plugin declares it."""

    def __init__(self, details: Mapping[str, Any], reason: Reason | None) -> None:
        super().__init__(details)
        self.reason = reason


class ClusterRejection(msgspec.Struct, frozen=True, rename="camel"):
    plugin: str
    reason: str
    """The reason's name, such as UntoleratedTaint; the code's name where a plugin declares no reasons."""
    message: str
    details: dict[str, Any]

    @property
    def declared(self) -> Reason | None:
        """The reason as its plugin declares it; None where the plugin declares none of that name."""
        return self.details.reason if isinstance(self.details, RejectionDetails) else None


NAMES_SHOWN: Final = 10
"""Clusters of a group, and of a domain, that are named."""
_UNLISTED_REASON: Final = Reason(
    NOT_LISTED,
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    "the policy does not name this cluster",
    short="not listed",
    about_cluster_only=True,
)
UNLISTED: Final = ClusterRejection(
    PICK_FIXED_PLUGIN, NOT_LISTED, _UNLISTED_REASON.form, RejectionDetails({}, _UNLISTED_REASON)
)


class RejectionGroup(NamedTuple):
    """Clusters that one plugin was the first to reject, for one reason."""

    plugin: str
    reason: str
    rows: int


def find_rejection(verdicts: Verdicts, row: int) -> ClusterRejection | None:
    """The first rejection of a row; None where no filter rejected it."""
    status = verdicts.status(row)
    if status is None:
        return None
    rejection = verdicts.rejection(row)
    reason = str(status.code) if rejection is None else _find_reason_name(verdicts, row)
    details = RejectionDetails(status.details, find_reason(verdicts, status.plugin, reason))
    return ClusterRejection(status.plugin, reason, message_of(status), details)


def find_reason(verdicts: Verdicts, plugin: str, name: str) -> Reason | None:
    if plugin == PICK_FIXED_PLUGIN:
        return _UNLISTED_REASON
    judge = verdicts.find_judge(plugin)
    return None if judge is None else judge.reasons.find(name)


def _find_reason_name(verdicts: Verdicts, row: int) -> str:
    rejection = verdicts.rejection(row)
    assert rejection is not None
    number, statuses = rejection.reason_of(row), rejection.verdict.statuses
    if statuses is not None:
        return str(statuses[number - 1].code)
    return verdicts.judges[rejection.plugin].reasons[number].name


def find_first_rejection(outcomes: ClusterOutcomes, row: int) -> ClusterRejection | None:
    """The first rejection of a rejected row, for every placement type."""
    verdicts = outcomes.decision.verdicts
    if verdicts is None or not outcomes.rejected >> row & 1:
        return None
    return find_rejection(verdicts, row) or UNLISTED


def group_rejections(outcomes: ClusterOutcomes) -> Iterator[RejectionGroup]:
    """The rejected rows by plugin and reason; every rejected row is in exactly one of them."""
    verdicts = outcomes.decision.verdicts
    if verdicts is None or not outcomes.rejected:
        return
    left = outcomes.rejected
    sorted_out: dict[tuple[str, str], int] = {}
    for rejection in verdicts.rejections:
        rows = rejection.rows & left
        left &= ~rows
        for reason, members in split_by_reason(verdicts, rejection, rows).items():
            key = (verdicts.judges[rejection.plugin].name, reason)
            sorted_out[key] = sorted_out.get(key, 0) | members
    if left:
        key = (PICK_FIXED_PLUGIN, NOT_LISTED)
        if verdicts.fill is not None:
            key = (verdicts.fill.plugin, str(verdicts.fill.code))
        sorted_out[key] = left
    for (plugin, reason), members in sorted_out.items():
        yield RejectionGroup(plugin, reason, members)


def split_by_reason(verdicts: Verdicts, rejection: FilterRejection, rows: int) -> dict[str, int]:
    """The name is looked up for one row of each number only."""
    reasons = rejection.verdict.reason
    if not rows or isinstance(reasons, int):
        return {_find_reason_name(verdicts, next(each_row(rows))): rows} if rows else {}
    members = to_rows(rows, verdicts.frame.size)
    by_number: dict[int, list[int]] = {}
    for row, number in zip(members.tolist(), reasons[members].tolist(), strict=True):
        by_number.setdefault(number, []).append(row)
    by_name: dict[str, int] = {}
    for same in by_number.values():
        name = _find_reason_name(verdicts, same[0])
        by_name[name] = by_name.get(name, 0) | from_rows(same)
    return by_name
