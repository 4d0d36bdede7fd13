"""Evidence of a group attempt: for each member, where it was tried, and what rejected the clusters there.

It is recorded with the refusal of the member, so that answers about the group need no second decision.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fleet.framework.cycle.decision import Decision
from fleet.framework.status import message_of
from fleet.framework.verdicts import SET_ASIDE, Verdicts
from fleet.model.placement_key import PlacementKey

_MOST_TRIALS: Final = 10
_MOST_CLUSTERS: Final = 5


class Rejections(msgspec.Struct, frozen=True, kw_only=True):
    """Of the clusters of a domain by one plugin for one reason."""

    plugin: str
    reason: str
    count: int
    """How many clusters; 0 for a refusal of the placement itself."""
    clusters: tuple[str, ...] = ()
    """The first of them by name."""
    message: str = ""
    """Of the first of these, as the plugin puts it."""


class TrialEvidence(msgspec.Struct, frozen=True, kw_only=True):
    domain: str
    """The value of the topology key; empty without one."""
    clusters: int
    """How many there were to choose from."""
    fitting: int
    """How many members of the group fit there."""
    fits: bool | None
    """Whether this member did; None if it was not looked at: the others could not reach the minimum any more."""
    rejections: tuple[Rejections, ...] = ()


class MemberEvidence(msgspec.Struct, frozen=True, kw_only=True):
    needed: int
    trials: tuple[TrialEvidence, ...] = ()
    """Those in which the most members fit, at most ten, in the order of the search."""
    more: int = 0
    """How many others there were."""

    def to_details(self) -> dict[str, Any]:
        """As the details of a status have it."""
        details: dict[str, Any] = msgspec.to_builtins(self)
        return details


class GroupEvidence:
    def __init__(self) -> None:
        self._trials: list[tuple[TrialEvidence, Mapping[PlacementKey, TrialEvidence]]] = []

    def add(self, domain: str, fitting: int, choices: Mapping[PlacementKey, tuple[Decision, bool]], size: int) -> None:
        """A trial of the group in a domain of that many clusters: each decision, and whether the member fits."""
        unseen = TrialEvidence(domain=domain, clusters=size, fitting=fitting, fits=None)
        noted = {
            key: msgspec.structs.replace(
                unseen, fits=fits, rejections=() if fits else tuple(list_rejections(decision.verdicts))
            )
            for key, (decision, fits) in choices.items()
        }
        self._trials.append((unseen, noted))

    def describe(self, key: PlacementKey, needed: int) -> MemberEvidence:
        order = sorted(range(len(self._trials)), key=lambda number: (-self._trials[number][0].fitting, number))
        shown = sorted(order[:_MOST_TRIALS])
        trials = (self._trials[number] for number in shown)
        return MemberEvidence(
            needed=needed,
            trials=tuple(noted.get(key, unseen) for unseen, noted in trials),
            more=len(self._trials) - len(shown),
        )


def list_rejections(verdicts: Verdicts | None) -> Iterator[Rejections]:
    """Without the clusters of other domains, and those where the member is already."""
    if verdicts is None:
        return
    for status in verdicts.refusals:
        yield Rejections(plugin=status.plugin, reason=str(status.code), count=0, message=message_of(status))
    rows: dict[tuple[str, str], int] = defaultdict(int)
    aside, taken = (len(verdicts.judges) - 1, SET_ASIDE), verdicts.already_selected()
    for rejection in verdicts.rejections:
        if (rejection.plugin, rejection.verdict.reason) != aside:
            for reason, members in verdicts.split_by_reason(rejection, rejection.rows & ~taken).items():
                rows[verdicts.judges[rejection.plugin].name, reason] |= members
    for (plugin, reason), members in rows.items():
        first = verdicts.frame.sort_by_name(members)[:_MOST_CLUSTERS]
        yield Rejections(
            plugin=plugin,
            reason=reason,
            count=members.bit_count(),
            clusters=tuple(map(verdicts.frame.name, first)),
            message=message_of(verdicts.status(first[0], is_brief=True)),
        )
