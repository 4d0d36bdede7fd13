"""Groups: which placements belong to which group, and what is being bound for it.

Members and what is bound follow from the objects on the hub. What is to be bound stands in the status of the group
before the first binding is written, so the next leader completes it: until then the room is kept, above all priorities.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Final, NamedTuple, Protocol

from fleet.clock import SECOND, Clock, epoch_nanoseconds
from fleet.framework.policy.resource_requests import parse_needs
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import Caches, FleetTable
from fleet.kube.scopes import owner_key
from fleet.model.keys import UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import parse_timestamp
from fleet.model.views import Binding, GroupTarget, Metadata, Observed, PlacementGroup, PlacementGroupSpec
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.companions import Companions
from fleet.scheduler.groups.group_attempt import ROOM_IS_MADE, GroupRules, Placed
from fleet.scheduler.groups.growing_overlay import keep_room
from fleet.scheduler.quotas.quota_ledger import QuotaLedger
from fleet.snapshot.sidedata import Nomination

UNWIND: Final = "unwind"
_LOST: Final = (
    AttemptResult.REJECTED,
    AttemptResult.SHORT,
    AttemptResult.BIND_FAILED,
    AttemptResult.BAD_INPUT,
    AttemptResult.GONE,
    AttemptResult.CLEANED_UP,
    AttemptResult.FOREIGN,
)
"""Ends of an attempt after which a member is not bound as it was decided with the others."""


@dataclass(slots=True)
class GroupProgress:
    """What this process knows of a group beside the objects on the hub."""

    number: int = 0
    """In the order in which this process has learned of groups."""
    plan: dict[PlacementKey, frozenset[str]] = field(default_factory=dict)
    """Members that are to be bound, until they are."""
    uids: dict[PlacementKey, str] = field(default_factory=dict)
    since: int | None = None
    """Since when it waits."""
    was_scheduled: bool = False
    message: str = ""
    """Why it waits."""
    degraded: str = ""
    """Why not all are bound that were decided together."""
    unwinds: bool = False
    """What was bound of the last plan is being given up."""
    changes: int = 0
    """How often something has changed that may help it."""
    seen: int = 0
    """How often until it was last decided, or refused."""
    is_split: bool = False
    """It was refused without members that had attempts of their own."""


class _Kept(NamedTuple):
    """What is kept for a group until it is bound."""

    all: tuple[Nomination, ...] = ()
    unreserved: tuple[Nomination, ...] = ()
    """What no attempt has reserved: its room would count twice."""


_NOTHING_KEPT: Final = _Kept()


class GroupReports(Protocol):
    """What becomes of groups, for the queue and the status."""

    def requeue(self, keys: Collection[PlacementKey], trigger: str, *, in_flight: bool = True) -> None:
        """Those that wait, and, with `in_flight`, those that are being decided."""

    def requeue_after_backoff(self, keys: Collection[PlacementKey]) -> None:
        """Those that were refused for their group, or are being decided and will be."""

    def is_in_flight(self, key: PlacementKey) -> bool: ...

    def list_in_flight(self) -> Iterable[PlacementKey]:
        """All placements with an attempt under way."""

    def report_freed(self, cluster: str, requests: Mapping[str, int], key: PlacementKey) -> None: ...

    def enqueue_status(self, group: PlacementKey) -> None: ...

    async def store(self, group: PlacementKey) -> None:
        """Returns when `Groups.find_progress` is in the status. Raises where it cannot be written."""


class KeptRoom(Protocol):
    """Room that is made for members at the expense of others."""

    def list_kept(self, keys: Iterable[PlacementKey]) -> Collection[PlacementKey]:
        """Those that room is kept for."""

    def end(self, keys: Iterable[PlacementKey]) -> None: ...


class Groups:
    def __init__(
        self,
        caches: Caches,
        table: FleetTable,
        companions: Companions,
        quotas: QuotaLedger,
        *,
        requests_of: Callable[[Metadata], str | None],
        is_reserved: Callable[[str, PlacementKey], bool],
        clock: Clock,
    ) -> None:
        """Construct it before the caches are filled. `requests_of` reads what a placement needs, `is_reserved` whether
        its attempt has reserved room on a cluster."""
        self._caches, self._table, self._companions, self._quotas = caches, table, companions, quotas
        self._requests_of, self._is_reserved, self._clock = requests_of, is_reserved, clock
        self.reports: GroupReports
        self.rooms: KeptRoom
        self._group_of: dict[PlacementKey, PlacementKey] = {}
        self._members: dict[PlacementKey, set[PlacementKey]] = {}
        self._progress: dict[PlacementKey, GroupProgress] = {}
        self._refused: set[PlacementKey] = set()
        """Those with a message."""
        self._numbers = count()
        self._planning: set[PlacementKey] = set()
        """Those with a plan."""
        self._kept: dict[PlacementKey, _Kept] = {}
        """By group."""
        self._helped: dict[PlacementKey, set[PlacementKey]] = {}
        """By placement whose attempt has given something back, the groups that it may help."""
        self._leads = False
        for kinds in caches.kinds:
            kinds.placements.store.subscribe(self._on_member)
            kinds.options.store.subscribe(self._on_member)
            kinds.groups.store.subscribe(self._on_group)
            kinds.bindings.store.subscribe(self._on_binding)

    # --- reading ------------------------------------------------------------------------------------------------------

    def find_group(self, key: PlacementKey) -> PlacementKey | None:
        """The group that the placement belongs to."""
        return self._group_of.get(key)

    def list_members(self, group: PlacementKey) -> list[PlacementKey]:
        return sorted(self._members.get(group, ()), key=str)

    def list_siblings(self, key: PlacementKey) -> list[PlacementKey]:
        group = self._group_of.get(key)
        return [] if group is None else [other for other in self.list_members(group) if other != key]

    def list_in_flight(self, group: PlacementKey) -> set[PlacementKey]:
        """The members with an attempt under way."""
        return set(filter(self.reports.is_in_flight, self._members.get(group, ())))

    def list_names(self) -> Iterator[PlacementKey]:
        """Of all groups on the hub."""
        for kinds in self._caches.kinds:
            for group in kinds.groups.store.values():
                yield PlacementKey.of(group.view.metadata)

    def find(self, group: PlacementKey) -> Observed[PlacementGroup] | None:
        kinds = self._caches.find_kinds(group)
        return None if kinds is None else kinds.groups.store.get(str(group))

    def find_progress(self, group: PlacementKey) -> GroupProgress:
        progress = self._progress.get(group)
        if progress is None:
            progress = self._progress[group] = GroupProgress(number=next(self._numbers))
        return progress

    def find_gate(self, key: PlacementKey) -> str:
        """Why its group is not decided now; empty otherwise."""
        group = self._group_of.get(key)
        if group is None:
            return ""
        present = self.find(group)
        if present is None:
            kind = self._caches.kinds_of(key).scope.group.kind
            return f"GroupMissing: there is no {kind} {group} yet"
        deadline = self.find_deadline(group)
        if deadline is not None and deadline <= epoch_nanoseconds(self._clock):
            seconds = present.view.spec.schedule_timeout_seconds
            return f"GroupTimedOut: group {group} found no place within {seconds} s; edit its spec to try again"
        return ""

    def find_deadline(self, group: PlacementKey) -> int | None:
        """When it is given up; None if never, and while room is made for it or it is being bound."""
        present, progress = self.find(group), self.find_progress(group)
        if present is None or progress.plan or progress.since is None or not present.view.spec.schedule_timeout_seconds:
            return None
        if self.rooms.list_kept(self._members.get(group, ())):
            return None
        return progress.since + present.view.spec.schedule_timeout_seconds * SECOND

    def count_needed(self, group: PlacementKey, spec: PlacementGroupSpec) -> int:
        return spec.min_count or len(self._members.get(group, ()))

    def list_bound(self, group: PlacementKey) -> dict[PlacementKey, frozenset[str]]:
        """The members that are bound, with their clusters."""
        clusters = {key: self._list_clusters(key) for key in self._members.get(group, ())}
        return {key: on for key, on in clusters.items() if on}

    def _is_bound(self, group: PlacementKey) -> bool:
        """As many of it as it needs."""
        present = self.find(group)
        if present is None or group not in self._members:
            return False
        return len(self.list_bound(group)) >= self.count_needed(group, present.view.spec)

    def read_rules(self, group: PlacementKey) -> GroupRules | None:
        present = self.find(group)
        if present is None:
            return None
        spec, plan = present.view.spec, self.find_progress(group).plan
        return GroupRules(
            name=group,
            needed=self.count_needed(group, spec),
            members=frozenset(self._members.get(group, ())),
            same_clusters=spec.same_clusters,
            topology_key=spec.topology_key,
            placed={**plan, **self.list_bound(group)},
            planned=dict(plan),
            unwinds=self.find_progress(group).unwinds,
        )

    def _list_clusters(self, key: PlacementKey) -> frozenset[str]:
        return frozenset(
            binding.view.spec.target_cluster for binding in self._caches.bindings(key) if is_live(binding.view)
        )

    # --- what attempts report -----------------------------------------------------------------------------------------

    def begin_decision(self, group: PlacementKey) -> None:
        progress = self.find_progress(group)
        progress.seen = progress.changes

    def note_rejection(self, group: PlacementKey, message: str, *, is_split: bool) -> None:
        progress = self.find_progress(group)
        progress.seen = progress.changes
        self._set_message(group, message)
        progress.is_split |= is_split
        if progress.since is None and not progress.was_scheduled:
            progress.since = epoch_nanoseconds(self._clock)
        if not is_split:
            self._end_hopeless(group)
        self.reports.enqueue_status(group)

    def _end_hopeless(self, group: PlacementKey) -> None:
        """Where those that room is kept for are too few, nothing leaves for them."""
        rules = self.read_rules(group)
        kept = self.rooms.list_kept(self.list_members(group))
        if kept and rules is not None and len({*kept, *rules.placed}) < rules.needed:
            self.rooms.end(kept)

    def note_room(self, key: PlacementKey) -> None:
        """Less room is kept for it than before."""
        group = self._group_of.get(key)
        if group is not None and not self.rooms.list_kept(self._members[group]):
            self._set_message(group, self.find_progress(group).message.partition(f": {ROOM_IS_MADE}")[0])
            self._note(group)

    async def commit(self, group: PlacementKey, plan: Placed) -> None:
        progress = self.find_progress(group)
        before = dict(progress.plan)
        if not before:
            progress.degraded = ""
        progress.plan.update(plan)
        progress.uids.update({key: self._read_uid(key) for key in plan})
        self._nominate(group)
        try:
            await self.reports.store(group)
        except BaseException:
            for key in plan:
                if key in before and key in progress.plan:  # else it has been bound or lost meanwhile
                    progress.plan[key] = before[key]
                else:
                    progress.plan.pop(key, None)
            self._nominate(group)
            self.reports.enqueue_status(group)
            raise

    def note_reservation(self, key: PlacementKey) -> None:
        """The attempt of a placement has reserved room, or given it back: until a member is bound or lost, its room is
        kept all the same."""
        group = self._group_of.get(key)
        if group in self._planning and key in self._progress[group].plan:
            self._nominate(group)

    def note_result(self, record: AttemptRecord) -> None:
        """After the attempt of a member."""
        group = self._group_of.get(record.key)
        for helped in self._helped.pop(record.key, ()):
            self.reports.requeue_after_backoff(self.list_members(helped))
        for other in self._list_plans(record.key):
            if record.result in _LOST:
                self._lose(other, record.key)
            elif record.result is AttemptResult.DECIDED:
                self._complete(other, record.key)
        if group is None:
            return
        progress = self.find_progress(group)
        if progress.is_split and not self.list_in_flight(group) - {record.key}:
            progress.is_split = False
            progress.changes += 1
            self.reports.requeue(self.list_siblings(record.key), "PlacementGroup/Together", in_flight=False)
        if record.result is AttemptResult.REJECTED and progress.changes != progress.seen:
            self.reports.requeue([record.key], "PlacementGroup/Missed")

    def note_gated(self, key: PlacementKey, message: str) -> None:
        """A member that is held again may be held for days: its room is given up."""
        held = self._group_of.get(key)
        if held is not None:
            self.rooms.end((key,))
            self._end_hopeless(held)
        for group in self._list_plans(key):
            self._lose(group, key, f"{key.name} is held: {message}")

    def _list_plans(self, key: PlacementKey) -> list[PlacementKey]:
        """Of the groups that are binding the member."""
        return sorted(name for name in self._planning if key in self._progress[name].plan)

    def _complete(self, group: PlacementKey, key: PlacementKey) -> None:
        progress = self.find_progress(group)
        progress.plan.pop(key, None)
        self._nominate(group)
        self._settle(group)

    def _lose(self, group: PlacementKey, key: PlacementKey, why: str = "") -> None:
        progress = self.find_progress(group)
        progress.plan.pop(key, None)
        progress.degraded = why or f"{key.name} could not be bound with the others"
        self._nominate(group)
        self.wake_waiting("PlacementGroup/Lost")
        self._settle(group)

    def _settle(self, group: PlacementKey) -> None:
        """When all of a plan are bound, or lost."""
        progress, present = self.find_progress(group), self.find(group)
        if not progress.plan and present is not None:
            if progress.degraded and present.view.spec.on_partial_bind == UNWIND and not progress.was_scheduled:
                progress.unwinds = True
            elif self._is_bound(group):
                progress.was_scheduled, progress.since, progress.degraded = True, None, ""
                self._set_message(group, "")
        self.reports.enqueue_status(group)

    def end_unwinding(self, group: PlacementKey) -> None:
        """Everything that was bound is given up: the group may be tried as a whole again."""
        self.find_progress(group).unwinds = False

    def wake_waiting(
        self,
        trigger: str,
        may_help: Callable[[list[PlacementKey]], bool] = lambda _: True,
        giving: PlacementKey | None = None,
    ) -> None:
        """Something has changed: groups that were refused are tried again, if it may help their members. What an
        attempt gives back helps others when it has ended, after their backoff: it may be reserved for the same refusal
        again."""
        if not self._progress:
            return
        is_given_back = giving is not None and self.reports.is_in_flight(giving)
        for group in self._list_undecided():
            progress, members = self._progress[group], self.list_members(group)
            if not may_help(members):
                continue
            if giving is not None and is_given_back:
                if giving not in members:
                    self._helped.setdefault(giving, set()).add(group)
                continue
            progress.changes += 1
            if progress.message and members:
                self.reports.requeue(members, trigger, in_flight=False)

    def _list_undecided(self) -> list[PlacementKey]:
        """Those that were refused, or may be: not those whose members are being bound, which are tried again whenever
        they are lost."""
        undecided = set(self._refused)
        for key in self.reports.list_in_flight():
            group = self._group_of.get(key)
            if group is not None and (progress := self._progress.get(group)) is not None and key not in progress.plan:
                undecided.add(group)
        return sorted(undecided, key=lambda group: self._progress[group].number)

    def _set_message(self, group: PlacementKey, message: str) -> None:
        self.find_progress(group).message = message
        (self._refused.add if message else self._refused.discard)(group)

    # --- leadership ---------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """This process leads from now on: what its predecessor had begun to bind is completed."""
        self._leads = True
        self._progress.clear()
        self._refused.clear()
        self._planning.clear()
        self._helped.clear()
        for name in list(self.list_names()):
            present = self.find(name)
            if present is not None:
                self._restore(name, present.view)
        self._nominate(*self._kept.keys() | self._progress.keys())

    def _restore(self, name: PlacementKey, group: PlacementGroup) -> None:
        progress, status = self.find_progress(name), group.status
        conditions = {condition.type: condition for condition in status.conditions}
        scheduled, degraded = conditions.get("InitiallyScheduled"), conditions.get("Degraded")
        progress.was_scheduled = scheduled is not None and scheduled.status == "True"
        progress.since = None if status.waiting_since is None else parse_timestamp(status.waiting_since)
        if degraded is not None and degraded.status == "True":
            progress.degraded, progress.unwinds = degraded.message, degraded.reason == "Unwinding"
        for target in status.targets:
            self._restore_target(name, progress, target)
        if not progress.plan and not progress.degraded and self._is_bound(name):
            self._settle(name)

    def _restore_target(self, name: PlacementKey, progress: GroupProgress, target: GroupTarget) -> None:
        key = PlacementKey(name.namespace, target.placement)
        if self._read_uid(key) == target.placement_uid:
            progress.plan[key] = frozenset(target.clusters)
            progress.uids[key] = target.placement_uid

    # --- room that is kept --------------------------------------------------------------------------------------------

    def _nominate(self, *groups: PlacementKey) -> None:
        """After a change of these groups. Room that is kept no longer may help others, also if a binding has taken it:
        until now it counted twice."""
        for group in groups:
            (self._planning.add if self._find_plan(group) else self._planning.discard)(group)
        before = {group: self._kept.pop(group, _NOTHING_KEPT) for group in groups}
        after = {group: self._build_kept(group) for group in groups}
        self._kept |= {group: kept for group, kept in after.items() if kept.all}
        in_order = [self._kept[group] for group in sorted(self._kept, key=lambda group: self._progress[group].number)]
        self._table.nominate(tuple(chain.from_iterable(kept.unreserved for kept in in_order)), keeper="groups")
        self._quotas.keep(chain.from_iterable(kept.all for kept in in_order), keeper="groups")
        for group in sorted(groups, key=str):
            for nomination in before[group].unreserved:
                if nomination not in after[group].all:
                    key = PlacementKey.parse(nomination.placement)
                    self.reports.report_freed(nomination.cluster, nomination.requests, key)

    def _build_kept(self, group: PlacementKey) -> _Kept:
        kept = tuple(self._list_nominations(group))
        unreserved = (each for each in kept if not self._is_reserved(each.cluster, PlacementKey.parse(each.placement)))
        return _Kept(kept, tuple(unreserved))

    def _find_plan(self, group: PlacementKey) -> Placed:
        progress = self._progress.get(group)
        return {} if progress is None else progress.plan

    def _list_nominations(self, group: PlacementKey) -> Iterator[Nomination]:
        for key, clusters in self._find_plan(group).items():
            placement = self._caches.placement(key)
            if placement is None:
                continue
            needs = parse_needs(self._requests_of(placement.view.metadata) or "")
            request = PlacementRequest(
                placement=key.name,
                namespace=key.namespace,
                requests=needs.fixed,
                node_requests=needs.per_node,
                overridden_requests=needs.overridden,
            )
            for cluster in clusters - self._list_clusters(key):
                yield keep_room(request, cluster, self._caches.clusters.get(cluster))

    def _on_binding(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        known = old if new is None else new
        owner = None if known is None else owner_key(known.view.metadata)
        group = None if owner is None else self._group_of.get(owner)
        is_changed = old is None or new is None or is_live(old.view) is not is_live(new.view)
        if owner is None or group is None or not is_changed:
            return
        self.note_reservation(owner)  # the binding has taken its place, or leaves it
        self._note(group)

    # --- members ------------------------------------------------------------------------------------------------------

    def _on_member(self, old: Observed[Any] | None, new: Observed[Any] | None) -> None:
        known = old if new is None else new
        assert known is not None
        key = PlacementKey.of(known.view.metadata)
        before, after = self._group_of.get(key), self._read_group(key)
        if before == after:
            return
        if before is not None:
            self._group_of.pop(key)
            self._members[before].discard(key)
            self.rooms.end((key,))
            if not self._members[before]:
                del self._members[before]
            progress = self._progress.get(before)
            if progress is not None:
                self._settle_without(before, key, progress)
        if after is not None:
            self._group_of[key] = after
            self._members.setdefault(after, set()).add(key)
        for group in (before, after):
            if group is not None:
                self._requeue(group, "PlacementGroup/Members")

    def _settle_without(self, group: PlacementKey, key: PlacementKey, progress: GroupProgress) -> None:
        """What there was to tell of a member that has left is of the past."""
        if key in progress.plan:
            self._lose(group, key)
        members = self._members.get(group)
        if members is None:
            self._set_message(group, "")
            progress.degraded = ""
            progress.since, progress.unwinds = None, False
        elif not progress.plan and not progress.unwinds and len(self.list_bound(group)) == len(members):
            progress.degraded = ""
            self._settle(group)

    def _read_group(self, key: PlacementKey) -> PlacementKey | None:
        placement = self._caches.placement(key)
        if placement is None or placement.view.metadata.deletion_timestamp:
            return None
        name = self._companions.group_of(placement.view.metadata)
        return PlacementKey(key.namespace, name) if name else None

    def _read_uid(self, key: PlacementKey) -> str:
        placement = self._caches.placement(key)
        return "" if placement is None else placement.view.metadata.uid

    def _on_group(self, old: Observed[PlacementGroup] | None, new: Observed[PlacementGroup] | None) -> None:
        known = old if new is None else new
        assert known is not None
        name = PlacementKey.of(known.view.metadata)
        if old is not None and new is not None and old.view.spec == new.view.spec:
            return
        if new is not None and old is not None:
            self.find_progress(name).since = None
        elif new is not None and self._leads and name not in self._progress:
            self._restore(name, new.view)  # a reload has brought groups, or it was there before
            self._nominate(name)
        self._requeue(name, f"PlacementGroup/{'Add' if old is None else 'Delete' if new is None else 'Update'}")
        if new is None:
            self.rooms.end(self.list_members(name))
            self._progress.pop(name, None)
            self._refused.discard(name)
            self._nominate(name)

    def _requeue(self, group: PlacementKey, trigger: str) -> None:
        if self.find(group) is not None:
            self.find_progress(group).changes += 1
        if self._leads:
            self.reports.requeue(self.list_members(group), trigger)
        self._note(group)

    def _note(self, group: PlacementKey) -> None:
        if self._leads:
            self.reports.enqueue_status(group)


def is_live(binding: Binding) -> bool:
    return not binding.metadata.deletion_timestamp and binding.spec.state != UNSCHEDULED


def list_states(groups: Groups) -> Mapping[str, int]:
    """How many groups are in each state, for the metric."""
    counts = dict.fromkeys(("waiting", "binding", "scheduled", "degraded"), 0)
    for name in groups.list_names():
        counts[find_state(groups.find_progress(name))] += 1
    return counts


def find_state(progress: GroupProgress) -> str:
    if progress.degraded:
        return "degraded"
    if progress.plan:
        return "binding"
    return "scheduled" if progress.was_scheduled else "waiting"
