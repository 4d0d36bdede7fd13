"""Cluster hints: of the placements that read what changed of a cluster, those whose decision the change can alter.

A placement that lacks clusters already has all that qualify, and PickAll has them in any case. So where every filter
judges a cluster by itself, a change matters only if the cluster qualifies now, did not before, and is not in use: the
filters themselves answer that, on the cluster as it is and on the cluster as it was. Each change is compared with the
one before it, attempts read the newest state, and time alone makes no cluster qualify, so no chance is lost between
them. For a placement that PostFilter found no room for, a cluster where it could make room counts, too: it is asked in
the same way, about this cluster alone.

In doubt a placement is requeued: if a plugin looks at several clusters together, as spread constraints do, reads more
than the cluster, may judge the former cluster differently by now, rejects what was decided already, or fails.
Placements with equal policies are judged once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from fleet.cached import cached_property
from fleet.clock import Clock, epoch_nanoseconds
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import HookContext
from fleet.framework.cycle.runner import Runner
from fleet.framework.policy.size import has_more_parts
from fleet.framework.profiles.profile import BoundHook, CompiledProfile, is_in_tree
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.purity_guard import Phase, enter_phase
from fleet.framework.state import CycleState
from fleet.framework.status import Code, code_of
from fleet.informers.cache import Caches, book_room, is_latest
from fleet.kube.scopes import owner_key
from fleet.model.keys import BOUND, PICK_FIXED, PICK_N, SCHEDULED, UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, MemberCluster, Metadata, PolicySnapshot
from fleet.scheduler.events.cluster_diff import ClusterDiff
from fleet.scheduler.requests import PARTS_ON_LOOP, RequestCache
from fleet.snapshot.columns.bitset import Mask, as_bits
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import NO_RESIDENTS, Nomination, PlacedBinding, Residents
from fleet.snapshot.table import Table

log = structlog.get_logger(__name__)

_LETS_PASS: Final = frozenset((Code.SUCCESS, Code.SKIP))

IsWaiting = Callable[[PlacementKey], bool]
Booked = Mapping[str, int]
"""Room on a cluster that is taken beyond what it reports, by resource."""
Concern = Callable[[Iterable[PlacementKey]], bool]
"""Whether a change may help placements that are decided together."""
GroupName = tuple[str, bytes, tuple[str | None, ...]]


class SideData(NamedTuple):
    """What decisions read of a cluster beside its object, at one moment."""

    booked: Booked = MappingProxyType({})
    placed: tuple[PlacedBinding, ...] = ()
    """The bindings there that may be evicted, or leave."""
    nominations: tuple[Nomination, ...] = ()
    """Of all clusters: a placement that room is made for elsewhere evicts nothing here."""


_NOTHING: Final = SideData()


class Hint(enum.Enum):
    """What a change of a cluster means for a placement."""

    NO_USE = "NoUse"
    QUALIFIES = "Qualifies"
    """The cluster qualifies now, and did not before."""
    MAKES_ROOM = "MakesRoom"
    """Room can be made there now, and could not be before, or more of it is needed elsewhere at the same time."""
    IN_DOUBT = "InDoubt"
    """Clusters are compared, also the one that the placement is on, or the policy cannot be judged here."""
    FAILED = "Failed"
    """A plugin could not judge: the placement is requeued in any case."""


class _Plan(NamedTuple):
    """The plugins that judge clusters for a request."""

    pre_filters: tuple[BoundHook, ...]
    filters: tuple[BoundHook, ...]


@dataclass(slots=True)
class _PolicyGroup:
    """Placements of one namespace with equal policies, and equal in what they say beside them."""

    name: GroupName
    members: int = 0
    request: PlacementRequest | None = None
    """That of any member: they differ in what no filter reads."""
    is_large: bool = False
    """Then only an attempt looks at it, in a thread."""
    plan: _Plan | None = None
    planned_for: tuple[CompiledProfile | None, Residents] = (None, NO_RESIDENTS)
    """What the plan was made with."""


class ClusterHints:
    def __init__(
        self,
        caches: Caches,
        *,
        profile_of: Callable[[PlacementKey], CompiledProfile],
        requests: RequestCache,
        clock: Clock,
        residents_of: Callable[[], Residents] = lambda: NO_RESIDENTS,
        hint_of_quota: Callable[[PlacementKey], Hint | None] = lambda _: None,
        seeks_room: Callable[[PlacementKey], bool] = lambda _: False,
    ) -> None:
        """`hint_of_quota` says what a change of a cluster means to a placement that lacks quota, None for one that
        lacks none; `seeks_room` whether PostFilter has searched for one in vain, or may be about to."""
        self._caches = caches
        self._profile_of = profile_of
        self._requests = requests
        self._clock = clock
        self._residents_of = residents_of
        self._hint_of_quota, self._seeks_room = hint_of_quota, seeks_room
        self._groups: dict[GroupName, _PolicyGroup] = {}
        self._group_of: dict[PlacementKey, _PolicyGroup] = {}

    # --- placements ---------------------------------------------------------------------------------------------------

    def put(self, key: PlacementKey, snapshot: PolicySnapshot) -> None:
        """The latest snapshot of a placement, if there is exactly one."""
        own = self._requests.read_own(snapshot, self._read_metadata(key) or Metadata())
        name = (snapshot.metadata.namespace, msgspec.json.encode(snapshot.spec.policy), own)
        group = self._group_of.get(key)
        if group is not None and group.name == name:
            return
        self.forget(key)
        group = self._groups.get(name)
        if group is None:
            is_large = has_more_parts(snapshot.spec.policy, PARTS_ON_LOOP)
            group = self._groups[name] = _PolicyGroup(name, is_large=is_large)
        group.members += 1
        self._group_of[key] = group

    def forget(self, key: PlacementKey) -> None:
        group = self._group_of.pop(key, None)
        if group is not None:
            group.members -= 1
            if not group.members:
                del self._groups[group.name]

    def prepare(self, key: PlacementKey) -> None:
        """After an attempt, which has compiled the request."""
        group = self._group_of.get(key)
        if group is not None and group.request is None and not group.is_large:
            residents = self._residents_of()
            event = _Event(self._profile_of, None, None, residents, now=epoch_nanoseconds(self._clock))
            with enter_phase(Phase.DECIDING, event.present):
                event.judge_for(key).prepare(group, partial(self.compile_request, key))

    # --- events -------------------------------------------------------------------------------------------------------

    def select(
        self,
        keys: Collection[PlacementKey],
        diff: ClusterDiff,
        old: MemberCluster | None,
        new: MemberCluster | None,
        *,
        in_flight: Container[PlacementKey],
        is_waiting: IsWaiting,
        before: SideData = _NOTHING,
        after: SideData = _NOTHING,
        trusts_doubt: Callable[[PlacementKey], bool] = lambda _: True,
    ) -> Collection[PlacementKey]:
        """The keys to requeue. What is in flight will have changed its bindings, so they do not count for it. In doubt,
        only those are requeued that `trusts_doubt` accepts."""
        if not keys:
            return keys
        now = epoch_nanoseconds(self._clock)
        residents = self._residents_of()
        event = _Event(self._profile_of, old, new, residents, now=now, before=before, after=after)
        with enter_phase(Phase.DECIDING, event.present):
            if diff.deleted:
                return list(self._select_of_deleted(keys, event, diff.cluster, in_flight, is_waiting))
            helped = dict(self._select_helped(keys, event))
        if helped:
            placed = self._find_placed(diff.cluster)
            return [
                key
                for key, hint in helped.items()
                if (hint is not Hint.IN_DOUBT or trusts_doubt(key))
                and (hint is not Hint.QUALIFIES or _may_take(key, placed, in_flight))
            ]
        return ()

    def _select_helped(self, keys: Iterable[PlacementKey], event: _Event) -> Iterator[tuple[PlacementKey, Hint]]:
        for key in keys:
            try:
                hint = self._find_hint(key, event)
            except Exception:  # must not keep the event from the others
                log.warning("there is no hint for a placement: it is requeued", placement=str(key), exc_info=True)
                hint = Hint.FAILED
            if hint is not Hint.NO_USE:
                yield key, hint

    def _find_hint(self, key: PlacementKey, event: _Event) -> Hint:
        group, hint = self._group_of.get(key), self._hint_of_quota(key)
        if group is None or group.is_large:
            return Hint.IN_DOUBT
        if hint is None:
            judge, compile_own = event.judge_for(key), partial(self.compile_request, key)
            hint = judge.judge(group, key, compile_own)
            if hint is Hint.NO_USE and judge.searches_room and self._seeks_room(key):
                hint = judge.judge_room(group, key, compile_own)
        return hint

    def _select_of_deleted(
        self,
        keys: Iterable[PlacementKey],
        event: _Event,
        cluster: str,
        in_flight: Container[PlacementKey],
        is_waiting: IsWaiting,
    ) -> Iterator[PlacementKey]:
        """Those that have bindings there, name the cluster, or may count it among others."""
        bindings = (binding for binding in self._bindings_on(cluster) if binding.spec.state != UNSCHEDULED)
        bound = {owner_key(binding.metadata) for binding in bindings}
        for key in keys:
            group = self._group_of.get(key)
            if group is None or group.is_large or key in bound or key in in_flight:
                yield key
                continue
            request = group.request or self.compile_request(key)
            if request is None or cluster in request.cluster_names:
                affected = True
            else:
                needs_several = (request.min_targets or 1) > 1 and self._seeks_room(key)
                affected = is_waiting(key) and (needs_several or event.judge_for(key).may_compare(request))
            if affected:
                yield key

    def build_concern(
        self, old: MemberCluster | None, new: MemberCluster | None, *, before: SideData, after: SideData
    ) -> Concern:
        """For what is decided together: a change of a cluster that none of them could or can take is of no use, while
        one that a single placement could take before may be what the next one lacks."""
        now, residents = epoch_nanoseconds(self._clock), self._residents_of()
        event = _Event(self._profile_of, old, new, residents, now=now, before=before, after=after)

        def concerns(keys: Iterable[PlacementKey]) -> bool:
            with enter_phase(Phase.DECIDING, event.present):
                return any(self._concerns(event, key) for key in keys)

        return concerns

    def _concerns(self, event: _Event, key: PlacementKey) -> bool:
        group = self._group_of.get(key)
        if group is None or group.is_large:
            return True
        return event.judge_for(key).concerns(group, key, self.compile_request(key))

    # --- details ------------------------------------------------------------------------------------------------------

    def compile_request(self, key: PlacementKey) -> PlacementRequest | None:
        latest = self._caches.latest_snapshots(key)
        return (
            self._requests.get(latest[0], placement=self._read_metadata(key) or Metadata())
            if len(latest) == 1
            else None
        )

    def _read_metadata(self, key: PlacementKey) -> Metadata | None:
        placement = self._caches.placement(key)
        return None if placement is None else placement.view.metadata

    def _find_placed(self, cluster: str) -> set[PlacementKey]:
        """Placements that use the cluster, by their current policy. PickFixed counts again who is eligible."""
        placed = set()
        for binding in self._bindings_on(cluster):
            key = owner_key(binding.metadata)
            if key is None or binding.metadata.deletion_timestamp or binding.spec.state not in (SCHEDULED, BOUND):
                continue
            snapshot = self._caches.policy_snapshot(key, binding.spec.scheduling_policy_snapshot_name)
            if snapshot is None or not is_latest(snapshot.view):
                continue
            policy = snapshot.view.spec.policy
            if policy is None or policy.placement_type != PICK_FIXED:
                placed.add(key)
        return placed

    def _bindings_on(self, cluster: str) -> Iterator[Binding]:
        return (observed.view for observed in self._caches.bindings_on(cluster))


class _Event:
    """A change of a cluster, for the profiles of all placements. Frames are built when they are first read: most events
    concern none."""

    def __init__(
        self,
        profile_of: Callable[[PlacementKey], CompiledProfile],
        old: MemberCluster | None,
        new: MemberCluster | None,
        residents: Residents,
        *,
        now: int,
        before: SideData = _NOTHING,
        after: SideData = _NOTHING,
    ) -> None:
        self._profile_of = profile_of
        self._old, self._new, self._residents = (old, before), (new, after), residents
        self._now = now
        self._judges: dict[int, _Judge] = {}

    @property
    def present(self) -> Frame:
        return self._before if self._new[0] is None else self._after

    @cached_property
    def _before(self) -> Frame:
        return _freeze(*self._old, self._residents)

    @cached_property
    def _after(self) -> Frame:
        return _freeze(*self._new, self._residents)

    def judge_for(self, key: PlacementKey) -> _Judge:
        profile = self._profile_of(key)
        judge = self._judges.get(id(profile))
        if judge is None:
            judge = self._judges[id(profile)] = _Judge(profile, self._before, self._after, now=self._now)
        return judge


def _freeze(cluster: MemberCluster | None, beside: SideData, residents: Residents) -> Frame:
    """A fleet of this cluster alone, with the placements on all clusters."""
    table = Table(() if cluster is None else (cluster,))
    table.settle(residents)
    if beside.nominations:
        table.nominate(beside.nominations)
    if cluster is not None:
        book_room(table, cluster.metadata.name, beside.booked)
        table.set_placed(cluster.metadata.name, beside.placed)
    return table.freeze()


class _Judge:
    """Whether the change of the cluster can alter what a profile decides."""

    def __init__(self, profile: CompiledProfile, before: Frame, after: Frame, *, now: int) -> None:
        self._profile = profile
        self._comparing, self._by_policy = profile.cluster_comparers, profile.reads_policy_only
        self._nominated = frozenset(each.placement for each in (*before.nominations, *after.nominations))
        """Placements that room is kept for: to them, it is free."""
        self._placed = frozenset(each.placement for frame in (before, after) for each in chain(*frame.placed))
        """Placements with bindings there: these make no room for themselves."""
        self.searches_room = bool(profile.post_filter)
        self._before = _ClusterAlone(profile, before, now=now)
        self._after = _ClusterAlone(profile, after, now=now)
        self._present = self._after if after.valid else self._before
        self._residents = after.residents
        self._hints: dict[int, Hint] = {}
        """By group, where the policy alone decides."""
        self._concerned: dict[int, bool] = {}
        """The same: whether the cluster counts."""
        self._room_hints: dict[int, Hint] = {}
        """By group, for its members that room is not kept for, and that are not there."""

    def judge(self, group: _PolicyGroup, key: PlacementKey, compile_own: Callable[[], PlacementRequest | None]) -> Hint:
        if not self._by_policy or (self._nominated and self._is_nominated(group, key)):
            return self._judge(compile_own(), self._find_plan)
        hint = self._hints.get(id(group))
        if hint is None:
            self.prepare(group, compile_own)
            if group.request is None:
                return Hint.IN_DOUBT
            hint = self._hints[id(group)] = self._judge(group.request, lambda _: group.plan)
        return hint

    def judge_room(
        self, group: _PolicyGroup, key: PlacementKey, compile_own: Callable[[], PlacementRequest | None]
    ) -> Hint:
        """Of a placement that the change is of no use to as it is."""
        is_alone = not self._by_policy or str(key) in self._nominated or str(key) in self._placed
        hint = None if is_alone else self._room_hints.get(id(group))
        if hint is None:
            request = compile_own()
            hint = self._judge_room(request)
            if not is_alone and request is not None and not request.problems:
                self._room_hints[id(group)] = hint
        return hint

    def _judge_room(self, request: PlacementRequest | None) -> Hint:
        if request is None:
            return Hint.IN_DOUBT
        try:
            if not self._after.makes_room(request):
                return Hint.NO_USE
            if (request.min_targets or 1) > 1 or not self._before.makes_room(request):
                return Hint.MAKES_ROOM
        except Exception:
            log.warning("a plugin could not judge a changed cluster: the placement is requeued", exc_info=True)
            return Hint.FAILED
        return Hint.IN_DOUBT if self._before.has_read_clock else Hint.NO_USE

    def concerns(self, group: _PolicyGroup, key: PlacementKey, request: PlacementRequest | None) -> bool:
        """Whether the cluster counts for the placement, as it was or as it is."""
        if request is None or request.problems:
            return True
        if not self._by_policy or (self._nominated and self._is_nominated(group, key)):
            return self._counts(request, self._find_plan(request))
        counts = self._concerned.get(id(group))
        if counts is None:
            self.prepare(group, lambda: request)
            counts = self._concerned[id(group)] = self._counts(request, group.plan)
        return counts

    def _counts(self, request: PlacementRequest, plan: _Plan | None) -> bool:
        if plan is None:
            return True
        try:
            sides = (self._after, self._before)
            return any(side.accepts(request, plan) or side.has_read_clock for side in sides)
        except Exception:
            log.warning("a plugin could not judge a changed cluster: the placement is requeued", exc_info=True)
            return True

    def _is_nominated(self, group: _PolicyGroup, key: PlacementKey) -> bool:
        """The placement, or the one that stands for its group."""
        request = group.request
        return not self._nominated.isdisjoint((str(key), "" if request is None else request.key))

    def prepare(self, group: _PolicyGroup, compile_own: Callable[[], PlacementRequest | None]) -> None:
        """If the policy alone decides who takes part, finds that out once."""
        if group.request is None:
            own = compile_own()
            group.request = None if own is None or own.problems else own  # problems may be those of one member alone
        profile, residents = group.planned_for
        is_current = profile is self._profile and (residents is self._residents or not profile.reads_residents)
        if self._by_policy and group.request is not None and not is_current:
            group.plan = self._find_plan(group.request)
            group.planned_for = (self._profile, self._residents)

    def may_compare(self, request: PlacementRequest) -> bool:
        """Whether plugins take part for this request that look beyond the cluster."""
        return self._find_plan(request) is None

    def _judge(self, request: PlacementRequest | None, find_plan: Callable[[PlacementRequest], _Plan | None]) -> Hint:
        if request is None or request.problems:
            return Hint.IN_DOUBT
        plan = find_plan(request)
        if plan is None:
            return Hint.IN_DOUBT
        try:
            if not self._after.accepts(request, plan):
                return Hint.NO_USE
            if not self._before.accepts(request, plan):
                return Hint.QUALIFIES
        except Exception:
            log.warning("a plugin could not judge a changed cluster: the placement is requeued", exc_info=True)
            return Hint.FAILED
        return Hint.IN_DOUBT if self._before.has_read_clock else Hint.NO_USE

    def _is_foreseen(self, entry: BoundHook) -> bool:
        """Of a PostFilter plugin: of others than those in-tree it is not known for whom they search."""
        return entry.name not in self._comparing and is_in_tree(entry.plugin)

    def _find_plan(self, request: PlacementRequest) -> _Plan | None:
        """The plugins that take part; None if one of them looks beyond the cluster or at the clock, or fails."""
        if self._profile.late_judges or not all(map(self._is_foreseen, self._profile.post_filter)):
            return None
        try:
            plan = self._present.find_plan(request, self._comparing)
        except Exception:
            log.warning("a plugin could not judge a changed cluster: the placement is requeued", exc_info=True)
            return None
        if self._present.has_read_clock:
            return None
        taking_part = {entry.name for entry in (*plan.pre_filters, *plan.filters)} if plan is not None else set()
        return None if self._comparing & taking_part else plan


class _ClusterAlone:
    """A cluster at one moment, as filters see it that judge every cluster by itself."""

    def __init__(self, profile: CompiledProfile, frame: Frame, *, now: int) -> None:
        self._profile, self._frame = profile, frame
        order: dict[str, Any] = {"ranking": profile.ranking, "tie_break": profile.tie_break}
        self._begin_context = partial(_ClockContext, now=now, bindings=PlacementBindings(), **order)
        self._ctx = HookContext(now=now, bindings=PlacementBindings(), **order)
        self._clock_ctx = self._begin_context()

    @property
    def has_read_clock(self) -> bool:
        """Whether a plugin, when last asked, may have judged by the time what it judged differently before."""
        return self._clock_ctx.is_read

    def find_plan(self, request: PlacementRequest, comparing: Container[str]) -> _Plan | None:
        """Without the plugins that skip the request. None if one that compares clusters limits rounds."""
        state = self._begin()
        if request.placement_type == PICK_FIXED:
            fixed = {entry.name: entry for _, entry in self._profile.fixed_filters}
            asked = (entry for entry in self._profile.pre_filter if entry.name in fixed and entry.name in comparing)
            skipped = {entry.name for entry in asked if self._ask(entry, state, request)[1] is Code.SKIP}
            return _Plan((), tuple(entry for name, entry in fixed.items() if name not in skipped))
        for entry in self._profile.post_batch:
            if entry.name in comparing and self._ask(entry, state, request, 1)[1] is not Code.SKIP:
                return None
        skipped = {entry.name for entry in self._profile.pre_filter if self._ask(entry, state, request)[1] is Code.SKIP}
        pre_filters = (entry for entry in self._profile.pre_filter if entry.name not in skipped)
        filters = (entry for entry in self._profile.filters if entry.name not in skipped)
        return _Plan(tuple(pre_filters), tuple(filters))

    def accepts(self, request: PlacementRequest, plan: _Plan) -> bool:
        state, alive = self._begin(), self._frame.valid
        if not alive or (request.placement_type == PICK_FIXED and self._frame.name(0) not in request.cluster_names):
            return False
        for entry in plan.pre_filters:
            mask, code = self._ask(entry, state, request)
            if code not in _LETS_PASS or (mask is not None and not as_bits(mask, alive)):
                return False
        for entry in plan.filters:
            if not as_bits(entry.call(self._context_of(entry), state, request, self._frame, alive).ok, alive):
                return False
        return True

    def makes_room(self, request: PlacementRequest) -> bool:
        """Whether PostFilter has a plan for a placement that lacks one cluster."""
        if not self._profile.post_filter or not self._frame.valid or request.placement_type != PICK_N:
            return False
        ctx = self._clock_ctx = self._begin_context()
        ctx.expiring = self._profile.expiring
        ctx.shortfall = 1
        runner = Runner(self._profile, ctx, CycleState(), request)
        verdicts = runner.run_filter(self._frame, runner.run_pre_filter(self._frame))
        return not verdicts.alive and runner.run_post_filter(self._frame, verdicts) is not None

    def _begin(self) -> CycleState:
        self._clock_ctx.is_read = False
        return CycleState()

    def _ask(
        self, entry: BoundHook, state: CycleState, request: PlacementRequest, *more: int
    ) -> tuple[Mask | None, Code]:
        answer, status = entry.call(self._context_of(entry), state, request, self._frame, *more)
        return answer, code_of(status)

    def _context_of(self, entry: BoundHook) -> HookContext:
        return self._ctx if entry.name in self._profile.expiring else self._clock_ctx


class _ClockContext(HookContext):
    """Notes whether the time is read, but for plugins to which it only makes clusters expire."""

    __slots__ = ("_now", "expiring", "is_read")

    @property
    def now(self) -> int:
        self.is_read |= self.plugin not in self.expiring
        return self._now

    @now.setter
    def now(self, value: int) -> None:
        self._now, self.is_read, self.expiring = value, False, frozenset[str]()


def _may_take(key: PlacementKey, placed: Container[PlacementKey], in_flight: Container[PlacementKey]) -> bool:
    return key not in placed or key in in_flight
