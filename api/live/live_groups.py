"""Placement groups as the hub has them, with the placements that name them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from api.group_models import GroupPhase
from api.live.live import LiveState
from fleet.clock import SECOND
from fleet.kube.scopes import find_scope
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp, parse_timestamp
from fleet.model.views import Condition, Observed, PlacementGroup, PlacementGroupSpec, PlacementGroupStatus
from fleet.scheduler.companions import GANG
from fleet.scheduler.groups.group_status import DEGRADED, SCHEDULED

_NO_SPEC: Final = PlacementGroupSpec()
_NO_STATUS: Final = PlacementGroupStatus()
_STATES: Final[Mapping[str, GroupPhase]] = {"Binding": "Binding", "TimedOut": "TimedOut"}


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group as the hub has it. Without the object, what its members name."""

    key: PlacementKey
    observed: Observed[PlacementGroup] | None
    members: tuple[str, ...]
    is_read: bool
    """Whether a profile of this process has the plugin: without one, groups are not watched."""

    @property
    def spec(self) -> PlacementGroupSpec:
        return _NO_SPEC if self.observed is None else self.observed.view.spec

    @property
    def status(self) -> PlacementGroupStatus:
        return _NO_STATUS if self.observed is None else self.observed.view.status

    @property
    def needed(self) -> int:
        return self.spec.min_count or len(self.members)

    def _find_condition(self, type: str) -> Condition:
        return next((each for each in self.status.conditions if each.type == type), Condition())

    @property
    def deadline(self) -> str | None:
        since, seconds = self.status.waiting_since, self.spec.schedule_timeout_seconds
        return format_timestamp(parse_timestamp(since) + seconds * SECOND) if since and seconds else None

    def describe_state(self) -> tuple[GroupPhase, Condition]:
        """With the condition that says so."""
        if not self.is_read:
            message = f"no profile of this process has the plugin {GANG}: groups are not read"
            return "Missing", Condition(reason="PluginMissing", message=message)
        if self.observed is None:
            kind = find_scope(self.key).group.kind
            return "Missing", Condition(reason="GroupMissing", message=f"there is no {kind} {self.key}")
        scheduled, degraded = self._find_condition(SCHEDULED), self._find_condition(DEGRADED)
        if degraded.status == "True":
            return ("Unwinding" if degraded.reason == "Unwinding" else "Degraded"), degraded
        if scheduled.status == "True":
            return "Scheduled", scheduled
        return _STATES.get(scheduled.reason, "Waiting"), scheduled


def find_group(live: LiveState, key: PlacementKey) -> LiveGroup:
    kinds = live.caches.find_kinds(key)
    observed = None if kinds is None else kinds.groups.store.get(str(key))
    members = [member for member, group in _iter_members(live) if group == key]
    return LiveGroup(key, observed, tuple(sorted(members)), live.frameworks.decide_groups)


def iter_groups(live: LiveState) -> Iterator[LiveGroup]:
    members: dict[PlacementKey, list[str]] = defaultdict(list)
    for member, group in _iter_members(live):
        members[group].append(member)
    observed = {
        PlacementKey.of(group.view.metadata): group
        for kinds in live.caches.kinds
        for group in kinds.groups.store.values()
    }
    for key in observed.keys() | members.keys():
        yield LiveGroup(key, observed.get(key), tuple(sorted(members[key])), live.frameworks.decide_groups)


def _iter_members(live: LiveState) -> Iterator[tuple[str, PlacementKey]]:
    """Placements that name a group, with the group."""
    for kinds in live.caches.kinds:
        for placement in kinds.placements.store.values():
            metadata = placement.view.metadata
            name = "" if metadata.deletion_timestamp else live.companions.group_of(metadata)
            if name:
                yield str(PlacementKey.of(metadata)), PlacementKey(metadata.namespace, name)
