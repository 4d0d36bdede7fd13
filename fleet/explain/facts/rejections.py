"""Rejections of clusters: the rejecting plugin's status of one cluster, groups by plugin and reason, and their phrases.

Statuses are computed by `Verdicts` from the plugins, and phrases are declared by them. A reason without a phrase is
described by its name, and a rejection without a declared reason by its message.

Messages are built per cluster, and a fleet has thousands. A plugin may name the few columns that its messages depend
on, such as taints or one label; clusters equal in these are a class with the same message, explained once.

The closest of rejected clusters is rejected by the fewest plugins, then keeps most to the rules of those that measure a
distance. Sets of rows are integers, one bit per row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any, Final, NamedTuple

import msgspec

from fleet.explain.facts.outcomes import ClusterOutcomes
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.explaining import LOWEST
from fleet.framework.status import Code, message_of
from fleet.framework.types import Reason
from fleet.framework.verdicts import Judge, Verdicts
from fleet.snapshot.columns.bitset import each_row, from_rows, split_by_count, to_rows

PICK_FIXED_PLUGIN: Final = "PickFixed"
NOT_LISTED: Final = "NotListed"


_CODES: Final = frozenset(str(code) for code in Code)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


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
        for reason, members in verdicts.split_by_reason(rejection, rows).items():
            key = (verdicts.judges[rejection.plugin].name, reason)
            sorted_out[key] = sorted_out.get(key, 0) | members
    if left:
        key = (PICK_FIXED_PLUGIN, NOT_LISTED)
        if verdicts.fill is not None:
            key = (verdicts.fill.plugin, str(verdicts.fill.code))
        sorted_out[key] = left
    for (plugin, reason), members in sorted_out.items():
        yield RejectionGroup(plugin, reason, members)


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


# --- phrases ----------------------------------------------------------------------------------------------------------


def find_plain_phrase(name: str, reason: Reason | None) -> str | None:
    """The phrase for a reason that reads the same for every cluster; None where it depends on the cluster."""
    if name in _CODES or (reason is not None and callable(reason.short)):
        return None
    declared = "" if reason is None else str(reason.short)
    return declared or _HUMP.sub(" ", name).lower()


def describe_reason(rejection: ClusterRejection) -> str:
    """The phrase under which a rejection is counted."""
    reason = rejection.declared
    if reason is not None and callable(reason.short):
        return reason.short(rejection.details)
    return find_plain_phrase(rejection.reason, reason) or rejection.message


def list_values(rejection: ClusterRejection, now: int) -> Iterator[str]:
    """The values behind a rejection, line by line, as far as its message lacks them."""
    reason = rejection.declared
    if reason is not None and reason.lines is not None:
        yield from reason.lines(rejection.details, now)
        return
    in_message = set() if reason is None else {name for _, name, _, _ in Formatter().parse(reason.form)}
    for key, value in rejection.details.items():
        if key not in in_message:
            yield f"{key}: {', '.join(map(str, value)) if isinstance(value, list | tuple) else value}"


def describe_lack(rejection: ClusterRejection) -> str:
    """What keeps this cluster out, with its values; of several terms, those of the closest one."""
    reason = rejection.declared
    if reason is None or reason.lacks is None:
        return describe_reason(rejection)
    return reason.lacks(rejection.details)


# --- distance ---------------------------------------------------------------------------------------------------------


def order_by_distance(inp: DecisionInput, rejected: int, rejections: Sequence[int]) -> Iterator[int]:
    """The rejected rows in this order, then by name. `rejections` are the rows each filter rejects on its own."""
    for members in filter(None, split_by_count(rejections, rejected)):
        for nearest in _split(inp.profile.judges, inp, members):
            yield from inp.frame.sort_by_name(nearest)


def find_closest_row(outcomes: ClusterOutcomes, inp: DecisionInput, group: RejectionGroup) -> int:
    """The first by name for plugins that measure no distance."""
    judges = [judge for judge in inp.profile.judges if judge.name == group.plugin]
    closest, *_ = _split(judges, inp, group.rows)
    return outcomes.frame.sort_by_name(closest)[0]


def _split(judges: Iterable[Judge], inp: DecisionInput, rows: int) -> Sequence[int]:
    """By the distance that the first of these plugins measures, then by that of the next; without empty sets, of which
    a large policy has thousands."""
    sets = [rows]
    for judge in judges:
        split = getattr(judge.plugin, "split_by_distance", None)
        if split is not None:
            sets = [members for whole in sets for members in split(inp.request, inp.frame, whole) if members]
    return sets


# --- domains that block a spread constraint ---------------------------------------------------------------------------


class Unusable(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster of a full domain. `refusal` is None for one that the placement uses already."""

    cluster: str
    refusal: ClusterRejection | None
    short: str = ""
    """The reason in a few words."""


class FullDomain(msgspec.Struct, frozen=True, rename="camel"):
    """A domain that should take the next pick and has no cluster left for it.

    A hard constraint counts every domain of its label, also one whose clusters cannot be chosen. Such a domain stays
    behind and keeps all others from growing; naming it, and the reasons against its clusters, is the whole
    explanation."""

    key: str
    domain: str
    count: int
    """How many of the placement's clusters are there."""
    max_skew: int
    clusters: tuple[Unusable, ...]


def find_full_domains(decision: Decision, *, among: int = -1, most: int | None = None) -> tuple[FullDomain, ...]:
    """By key and domain; empty for a fulfilled policy.

    Of a domain the first clusters by name, at most so many, and only those among the given rows.
    """
    if decision.fulfilled or decision.request.wanted is None:
        return ()
    outcomes = ClusterOutcomes(decision)
    domains: dict[tuple[str, str], FullDomain] = {}
    for rejection in _find_blocked(outcomes):
        for domain in rejection.details[LOWEST]:
            key = rejection.details["key"]
            if (key, domain) not in domains:
                domains[key, domain] = _build_domain(outcomes, rejection, domain, among=among, most=most)
    return tuple(domains[name] for name in sorted(domains))


def _find_blocked(outcomes: ClusterOutcomes) -> Iterator[ClusterRejection]:
    """Rejections for the sake of emptier domains, one of each equivalence class."""
    for group in group_rejections(outcomes):
        first = find_first_rejection(outcomes, next(each_row(group.rows)))
        if first is not None and LOWEST in first.details:
            for _, representative in find_equivalence_classes(outcomes.decision, group):
                rejection = find_first_rejection(outcomes, representative)
                if rejection is not None and LOWEST in rejection.details:
                    yield rejection


def _build_domain(
    outcomes: ClusterOutcomes, rejection: ClusterRejection, domain: str, *, among: int, most: int | None
) -> FullDomain:
    key = rejection.details["key"]
    members = outcomes.frame.labels(key).eq(domain)
    rows = outcomes.frame.sort_by_name(members & among)[:most]
    return FullDomain(
        key=key,
        domain=domain,
        count=(members & outcomes.in_use).bit_count(),
        max_skew=rejection.details["maxSkew"],
        clusters=tuple(Unusable(outcomes.frame.name(row), find_first_rejection(outcomes, row)) for row in rows),
    )
