"""Resident hints: of the placements that wait, those that another placement helps by coming to a cluster or leaving it.

A plugin that reads residents must have rejected a cluster for them, or may be about to, and that other placement has to
matter to them, by their terms or by its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import NamedTuple

from fleet.framework.policy.placement_terms import RESIDENTS
from fleet.framework.profiles.profile import CompiledProfile
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.ledgers.resident_ledger import ResidentLedger
from fleet.snapshot.sidedata import ResidentGroup


class _Withheld(NamedTuple):
    event: str
    together: Set[PlacementKey]


class ResidentHints:
    def __init__(
        self,
        residents: ResidentLedger,
        list_undecided: Callable[[], Iterable[PlacementKey]],
        list_together: Callable[[PlacementKey], Set[PlacementKey]],
        profile_of: Callable[[PlacementKey], CompiledProfile],
    ) -> None:
        """`list_undecided` are the placements whose attempts have read the fleet and are not decided, `list_together`
        a placement and those that are decided with it."""
        self._residents, self._profile_of = residents, profile_of
        self._list_undecided, self._list_together = list_undecided, list_together
        self._rejected: set[PlacementKey] = set()
        self._withheld: dict[PlacementKey, dict[tuple[ResidentGroup, str], _Withheld]] = {}
        """By placement, what its attempt has done so far: by its group and a cluster."""

    def note_decision(self, key: PlacementKey, profile: CompiledProfile, rejectors: frozenset[str]) -> None:
        if profile.reads_residents and may_end_rejection(profile, rejectors, RESIDENTS):
            self._rejected.add(key)
        else:
            self._rejected.discard(key)

    def forget(self, key: PlacementKey) -> None:
        self._rejected.discard(key)

    def may_concern(self, group: ResidentGroup) -> bool:
        """Whether placements of the group matter to anyone: what is known without looking at each."""
        return bool(group.affinity or self._residents.naming)

    def select(self, placement: PlacementKey, group: ResidentGroup, cluster: str, event: str) -> Iterator[PlacementKey]:
        """Those that it may help to know of this placement, which is one of the group. Those that are decided with it
        know what its attempt reserves, and learn at its end what has come of that: what was given back again would
        else be the reason of the next attempt, and of the one after that."""
        together = self._list_together(placement)
        if len(together) > 1:
            withheld = self._withheld.setdefault(placement, {})
            if withheld.pop((group, cluster), None) is None:
                withheld[group, cluster] = _Withheld(event, together)
        yield from self._select_concerned(self._list_waiting() - together, group)

    def settle(self, placement: PlacementKey) -> Iterator[tuple[str, list[PlacementKey]]]:
        """Its attempt has ended: events with those that were decided with it, and that they may help."""
        for (group, _), (event, together) in self._withheld.pop(placement, {}).items():
            yield event, self._select_concerned(self._list_waiting() & together - {placement}, group)

    def concerns(self, keys: Iterable[PlacementKey], group: ResidentGroup) -> bool:
        """Whether placements of the group matter to any of these, which are decided together."""
        return bool(self._select_concerned(set(keys), group))

    def _list_waiting(self) -> set[PlacementKey]:
        return self._rejected.union(self._list_undecided())

    def _select_concerned(self, keys: Set[PlacementKey], group: ResidentGroup) -> list[PlacementKey]:
        """In the order of their names."""
        concerned = self._residents.select_concerned(keys, group)
        return sorted((key for key in concerned if self._profile_of(key).reads_residents), key=str)


def may_end_rejection(profile: CompiledProfile, rejectors: frozenset[str] | None, column: str) -> bool:
    """Whether a change of what plugins read under that name may: one of them has rejected a cluster. What others have
    refused would be refused again."""
    if not rejectors:
        return rejectors is None
    return not rejectors.isdisjoint(profile.list_judges_of(column))


def is_rejected_by_filters(profile: CompiledProfile, rejectors: frozenset[str]) -> bool:
    """And by nothing else. Which of them it was says little later: a cluster changes without an attempt as long as any
    other one refuses it."""
    return rejectors.issubset(judge.name for judge in profile.judges)
