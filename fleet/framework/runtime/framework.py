"""Frameworks: a compiled profile in a running process, with its plugins' handle and the runners of their hooks.

A framework serves one scheduler name for the life of the process. Its profile may be exchanged between attempts. It
decides only through `cycle.decide`; the queue, waiting placements, threads and the hub belong to its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from fleet.errors import ConfigurationError, PurityError, SnapshotUseError
from fleet.framework.approvals import ApprovalFacts
from fleet.framework.context import HookContext
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.rankings import Rankings
from fleet.framework.cycle.runner import NULL_PROBE, Probe
from fleet.framework.handle import (
    MAX_PERMIT_WAIT,
    NO_FRAMES,
    NO_HUB,
    NO_WATCHES,
    EmptyWaitingRoom,
    QuotaKeeper,
    RoomKeeper,
    UnlimitedQuota,
    UnlimitedRoom,
    WaitingPlacement,
    WaitingRoom,
    WatchHub,
)
from fleet.framework.profiles.profile import BoundHook, CompiledProfile, Profile, compile_profile
from fleet.framework.profiles.queue_sort import QueueSort, queue_sort_of, require_one_queue_sort
from fleet.framework.profiles.registry import Registry
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.effects import Effects, HookCaller, call_inline
from fleet.framework.runtime.purity_guard import Phase, current_scope, enter_phase
from fleet.framework.runtime.reserve_permit import PermitResult, decide_without, reserve_and_permit
from fleet.framework.state import CycleState, Lock, should_record_metrics
from fleet.model.views import Binding
from fleet.snapshot.frame import Frame

_SECOND: Final = 1_000_000_000

SnapshotLister = Callable[[], Frame]
FrameworkOption = Callable[["FrameworkOptions"], "FrameworkOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkOptions:
    """The inputs other than registry and profile. The functions `with_…` set one each.

    They are applied in the order given, so a later one wins over an earlier one, and over options given whole.
    """

    hub: Any = None
    watches: WatchHub | None = None
    frames: SnapshotLister | None = None
    waiting: WaitingRoom = field(default_factory=EmptyWaitingRoom)
    approval_facts: Callable[[str], ApprovalFacts] = lambda _: ApprovalFacts()
    """By the key of a placement."""
    activate: Callable[[str], None] = lambda _: None
    """By the key of a placement."""
    room: RoomKeeper = field(default_factory=UnlimitedRoom)
    quota: QuotaKeeper = field(default_factory=UnlimitedQuota)
    new_lock: Callable[[], Lock] | None = None
    """For cycle states that effect hooks share; without one, states are for a single thread."""
    call_hook: HookCaller = call_inline
    """Calls effect hooks."""
    probe: Probe = NULL_PROBE
    """Measures the plugins of sampled attempts."""
    metrics_percent: int = 10
    """Of attempts, to measure plugin by plugin."""
    max_permit_wait: int = MAX_PERMIT_WAIT
    """Nanoseconds."""
    debug: bool = False
    """Refuse uses that work only by chance, such as reading the decision's frame in a binding cycle."""

    def __post_init__(self) -> None:
        if not 0 <= self.metrics_percent <= 100:
            raise ConfigurationError(f"metrics sampling: {self.metrics_percent} is not in 0 … 100 percent")
        if not _SECOND <= self.max_permit_wait <= MAX_PERMIT_WAIT:
            seconds = self.max_permit_wait / _SECOND
            raise ConfigurationError(f"maxPermitWaitSeconds: {seconds:g} is not in 1 … {MAX_PERMIT_WAIT // _SECOND}")

    def samples(self, attempt: int) -> bool:
        """Whether to measure the process's n-th attempt: evenly spread, and exactly the configured share."""
        return attempt * self.metrics_percent % 100 < self.metrics_percent

    def new_state(self, attempt: int, *, is_shared: bool = True) -> CycleState:
        measured = self.samples(attempt)
        if self.new_lock is None or not is_shared:
            return CycleState(record_metrics=measured)
        return CycleState(new_lock=self.new_lock, record_metrics=measured)


class PluginEntry(NamedTuple):
    """A plugin at a hook, as it is listed for people."""

    name: str
    form: Literal["vector", "scalar"]
    weight: int | None = None
    """Of scores."""


class Framework:
    profile: CompiledProfile
    """The profile of attempts that start now."""

    def __init__(self, registry: Registry, profile: Profile, options: FrameworkOptions) -> None:
        """Use `build`, which also starts the watches, or `build_frameworks` for several that share a queue."""
        self._options, self._configured = options, profile
        self.profile = compile_profile(registry, profile, self)
        self._rankings = Rankings()
        self._queue_sort = queue_sort_of(self.profile.hooks["queueSort"])

    @classmethod
    def build(
        cls, registry: Registry, profile: Profile, *options: FrameworkOption, start: FrameworkOptions | None = None
    ) -> Framework:
        """Check the profile, make its plugins, bind their hooks. Every mistake is a ConfigurationError."""
        (framework,) = build_frameworks(registry, [profile], *options, start=start).values()
        return framework

    @property
    def configured(self) -> Profile:
        """What the profile was compiled from."""
        return self._configured

    @property
    def scheduler_name(self) -> str:
        return self._configured.scheduler_name

    # --- deciding -----------------------------------------------------------------------------------------------

    def new_state(self, attempt: int) -> CycleState:
        """For the process's n-th attempt."""
        return self._options.new_state(attempt, is_shared=self.profile.has_effects)

    def inputs(self, request: PlacementRequest, bindings: Sequence[Binding], *, now: int, **more: Any) -> DecisionInput:
        """Inputs from the current fleet and the current profile."""
        frame = self.cache_view()
        return DecisionInput(
            frame=frame,
            request=request,
            bindings=bindings,
            profile=self.profile,
            now=now,
            rankings=self._rankings,
            **more,
        )

    def decide(self, inp: DecisionInput, *, state: CycleState | None = None) -> Decision:
        """`cycle.decide` under the purity guard, measured if the state requests it."""
        with enter_phase(Phase.DECIDING, inp.frame):
            return decide(inp, self._probe(state), state=state)

    def effects(self, inp: DecisionInput, decision: Decision, *, state: CycleState, now: int) -> Effects:
        """The effect hooks for what was decided, of the profile it was decided with."""
        ctx = HookContext(
            now=now,
            bindings=decision.bindings,
            uid=inp.request.uid,
            ranking=inp.profile.ranking,
            tie_break=inp.profile.tie_break,
        )
        return Effects(
            inp.profile,
            ctx=ctx,
            state=state,
            placement=inp.request,
            frame=decision.frame,
            call_hook=self._options.call_hook,
            max_permit_wait=self._options.max_permit_wait,
        )

    async def reserve_and_permit(self, inp: DecisionInput, decision: Decision, effects: Effects) -> PermitResult:
        """Run Reserve and Permit; decide again without a refused cluster if the profile falls back."""
        return await reserve_and_permit(inp, decision, effects, decide=partial(self.decide, state=effects.state))

    def decide_without(self, permitted: PermitResult, refused: Container[str], effects: Effects) -> PermitResult:
        """After a wait in which some of the clusters were refused."""
        return decide_without(permitted, refused, decide=partial(self.decide, state=effects.state))

    def _probe(self, state: CycleState | None) -> Probe:
        return self._options.probe if should_record_metrics(state) else NULL_PROBE

    def plugin_args(self) -> Mapping[str, str]:
        """The configured arguments by plugin, as text to compare."""
        return {name: repr(raw.content) for name, raw in self._configured.plugin_config}

    # --- what is configured -------------------------------------------------------------------------------------

    def queue_sort_func(self) -> QueueSort:
        """The same object for all profiles that were built together."""
        return self._queue_sort

    def has_filter_plugins(self) -> bool:
        return bool(self.profile.filters)

    def has_score_plugins(self) -> bool:
        return bool(self.profile.scores)

    def list_plugins(self) -> Mapping[str, tuple[PluginEntry, ...]]:
        """Per hook, in the order they run."""
        return {
            hook: tuple(_entry(entry, scores=hook == "score") for entry in bound)
            for hook, bound in self.profile.hooks.items()
        }

    # --- exchanging the profile, and the end --------------------------------------------------------------------

    def build_beside(self, registry: Registry, profile: Profile) -> Framework:
        """For one more profile of the same process and queue. Raises ConfigurationError."""
        require_one_queue_sort([self._configured, profile])
        framework = Framework(registry, profile, self._options)
        framework._queue_sort = self._queue_sort
        return framework

    def prepare(self, registry: Registry, profile: Profile) -> CompiledProfile:
        """Build another version of this framework's profile; the running one is not changed yet."""
        if profile.scheduler_name != self.scheduler_name:
            raise ConfigurationError(f"{self.scheduler_name} cannot become {profile.scheduler_name}: restart to rename")
        require_one_queue_sort([self._configured, profile])
        return compile_profile(registry, profile, self)

    def install(self, prepared: CompiledProfile, configured: Profile | None = None) -> CompiledProfile:
        """Attempts that start from now on use it; those under way keep what they began with. `configured` is what it
        was compiled from. Returns the former profile, to be closed when the last of them has ended."""
        former, self.profile, self._rankings = self.profile, prepared, Rankings()
        self._configured = configured or self._configured
        return former

    def close(self) -> None:
        close_plugins(self.profile)

    # --- the handle of the plugins ------------------------------------------------------------------------------

    def snapshot(self) -> Frame:
        moment = current_scope()
        if moment is None:
            return self.cache_view()
        if moment.phase is Phase.ACTING and self._options.debug:
            raise SnapshotUseError("the frame of the decision is out of date in effect hooks: use handle.cache_view()")
        return moment.frame

    def cache_view(self) -> Frame:
        _must_not_be_deciding("the live cache")
        if self._options.frames is None:
            raise ConfigurationError(NO_FRAMES)
        return self._options.frames()

    def hub(self) -> Any:
        _must_not_be_deciding("the hub")
        if self._options.hub is None:
            raise PurityError(NO_HUB)
        return self._options.hub

    def watches(self) -> WatchHub:
        _must_not_be_deciding("watches")
        if self._options.watches is None:
            raise PurityError(NO_WATCHES)
        return self._options.watches

    def for_each_waiting(self, visit: Callable[[WaitingPlacement], None]) -> None:
        _must_not_be_deciding("waiting placements")
        self._options.waiting.for_each(visit)

    def get_waiting(self, uid: str) -> WaitingPlacement | None:
        _must_not_be_deciding("waiting placements")
        return self._options.waiting.get(uid)

    def allow_waiting(self, uid: str, plugin: str, target: str = "*") -> bool:
        _must_not_be_deciding("waiting placements")
        return self._options.waiting.allow(uid, plugin, target)

    def reject_waiting(self, uid: str, plugin: str, message: str, target: str = "*") -> bool:
        _must_not_be_deciding("waiting placements")
        return self._options.waiting.reject(uid, plugin, message, target)

    def activate(self, placement: str) -> None:
        _must_not_be_deciding("another attempt")
        self._options.activate(placement)

    def find_approval_facts(self, placement: str) -> ApprovalFacts:
        _must_not_be_deciding("approvals")
        return self._options.approval_facts(placement)

    def reserve_room(self, cluster: str, placement: str, requests: Mapping[str, int]) -> None:
        _must_not_be_deciding("room")
        self._options.room.reserve_room(cluster, placement, requests)

    def release_room(self, cluster: str, placement: str) -> None:
        _must_not_be_deciding("room")
        self._options.room.release_room(cluster, placement)

    def reserve_quota(self, cluster: str, placement: str) -> None:
        _must_not_be_deciding("quotas")
        self._options.quota.reserve_quota(cluster, placement)

    def release_quota(self, cluster: str, placement: str) -> None:
        _must_not_be_deciding("quotas")
        self._options.quota.release_quota(cluster, placement)


def build_frameworks(
    registry: Registry, profiles: Sequence[Profile], *options: FrameworkOption, start: FrameworkOptions | None = None
) -> dict[str, Framework]:
    """One framework per profile, by scheduler name, with one queue order and one set of watches between them."""
    settled = FrameworkOptions() if start is None else start
    for option in options:
        settled = option(settled)
    _require_different_names(profiles)
    require_one_queue_sort(profiles)
    frameworks = [Framework(registry, profile, settled) for profile in profiles]
    for framework in frameworks[1:]:
        framework._queue_sort = frameworks[0]._queue_sort
    if settled.watches is not None:
        settled.watches.start()
    return {framework.scheduler_name: framework for framework in frameworks}


def close_plugins(profile: CompiledProfile) -> None:
    """Close the plugins that have `close`, the last one first; errors are raised together, at the end."""
    errors = []
    for plugin in reversed(list(_plugins(profile))):
        try:
            getattr(plugin, "close", _nothing)()
        except Exception as error:
            error.add_note(f"while closing plugin {plugin.name()}")
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"closing the plugins of {profile.scheduler_name}", errors)


def _plugins(profile: CompiledProfile) -> Iterable[Any]:
    return {id(entry.plugin): entry.plugin for bound in profile.hooks.values() for entry in bound}.values()


def _nothing() -> None:
    pass


def _entry(entry: BoundHook, *, scores: bool) -> PluginEntry:
    return PluginEntry(entry.name, "scalar" if entry.scalar else "vector", entry.weight if scores else None)


def _require_different_names(profiles: Sequence[Profile]) -> None:
    names = [profile.scheduler_name for profile in profiles]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"profiles: schedulerName {name} is used {names.count(name)} times")


def _must_not_be_deciding(what: str) -> None:
    moment = current_scope()
    if moment is not None and moment.phase is Phase.DECIDING:
        raise PurityError(f"a decision hook asked for {what}: decisions depend on their inputs alone")


# --- options ----------------------------------------------------------------------------------------------------------


def with_hub_client(client: Any) -> FrameworkOption:
    return lambda options: replace(options, hub=client)


def with_watch_hub(watches: WatchHub) -> FrameworkOption:
    """Started once all plugins of all profiles that are built together have added their handlers."""
    return lambda options: replace(options, watches=watches)


def with_snapshot_lister(lister: SnapshotLister) -> FrameworkOption:
    """The source of frames: the live cache, or a what-if."""
    return lambda options: replace(options, frames=lister)


def with_waiting_room(room: WaitingRoom) -> FrameworkOption:
    return lambda options: replace(options, waiting=room)


def with_approval_facts(find: Callable[[str], ApprovalFacts]) -> FrameworkOption:
    return lambda options: replace(options, approval_facts=find)


def with_activation(activate: Callable[[str], None]) -> FrameworkOption:
    return lambda options: replace(options, activate=activate)


def with_room(room: RoomKeeper) -> FrameworkOption:
    return lambda options: replace(options, room=room)


def with_quotas(quota: QuotaKeeper) -> FrameworkOption:
    return lambda options: replace(options, quota=quota)


def with_locks(new_lock: Callable[[], Lock]) -> FrameworkOption:
    return lambda options: replace(options, new_lock=new_lock)


def with_hook_caller(caller: HookCaller) -> FrameworkOption:
    return lambda options: replace(options, call_hook=caller)


def with_probe(probe: Probe) -> FrameworkOption:
    return lambda options: replace(options, probe=probe)


def with_metrics_sampling(percent: int) -> FrameworkOption:
    return lambda options: replace(options, metrics_percent=percent)


def with_max_permit_wait(nanoseconds: int) -> FrameworkOption:
    return lambda options: replace(options, max_permit_wait=nanoseconds)


def with_debug() -> FrameworkOption:
    return lambda options: replace(options, debug=True)
