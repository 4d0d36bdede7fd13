"""Plugins for tests: each does one thing, and says how often and with what it was called; and profiles made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from fleet.framework.arguments import PluginFactory
from fleet.framework.bindings import classify
from fleet.framework.context import HookContext
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.runner import Runner
from fleet.framework.handle import OfflineHandle
from fleet.framework.operations import Action
from fleet.framework.profiles.adapter import adapt
from fleet.framework.profiles.profile import METHODS, CompiledProfile, PluginRef, Profile, compile_profile
from fleet.framework.profiles.registry import Registry
from fleet.framework.request import PlacementRequest
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.framework.types import PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.views import Binding
from fleet.snapshot import Frame
from fleet.snapshot.columns.bitset import Int64Array, Rows, from_rows
from plugins.acting.hub_binding_binder import HubBindingBinder
from plugins.desired_batch import DesiredBatch
from plugins.priority_sort import PrioritySort
from plugins.ranking_sort import RankingSort
from tests.builders import NOW, BindingBuilder, PolicyBuilder, a_policy
from tests.fake_hub import merged

BASICS: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("queueSort", PrioritySort),
    ("batch", DesiredBatch),
    ("sort", RankingSort),
    ("bind", HubBindingBinder),
)


def profile_of(*plugins: Any, weights: Mapping[str, int] | None = None, **changes: Any) -> CompiledProfile:
    """Every plugin at each hook it implements, in the order given; queue order, batch, sort and bind unless given."""
    hooks = {hook: [one for one in plugins if _implements(one, hook)] for hook in METHODS}
    for hook, basic in BASICS:
        hooks[hook] = hooks[hook] or [basic()]
    registry = Registry()
    for one in {plugin.name(): plugin for several in hooks.values() for plugin in several}.values():
        registry.register(one.name(), _giving(one))
    refs = {hook: [PluginRef(one.name(), (weights or {}).get(one.name(), 1)) for one in hooks[hook]] for hook in hooks}
    return compile_profile(registry, Profile(scheduler_name="test", plugins=refs, **changes), OfflineHandle())


def _giving(plugin: Any) -> PluginFactory:
    return lambda raw, handle: plugin


def _implements(plugin: Any, hook: str) -> bool:
    return callable(getattr(adapt(plugin), METHODS[hook], None))


def decided(
    frame: Frame,
    policy: PolicyBuilder | PlacementRequest | None = None,
    *bindings: BindingBuilder | Binding,
    profile: CompiledProfile,
    now: int = NOW,
    **given: Any,
) -> Decision:
    """What `decide` says to a policy; PickAll unless given."""
    return decide(inputs(frame, policy, *bindings, profile=profile, now=now, **given))


def inputs(
    frame: Frame,
    policy: PolicyBuilder | PlacementRequest | None = None,
    *bindings: BindingBuilder | Binding,
    profile: CompiledProfile,
    now: int = NOW,
    **given: Any,
) -> DecisionInput:
    request = policy if isinstance(policy, PlacementRequest) else (policy or a_policy()).request()
    existing = [one.build() if isinstance(one, BindingBuilder) else one for one in bindings]
    return DecisionInput(frame=frame, request=request, bindings=existing, profile=profile, now=now, **given)


def a_runner(profile: CompiledProfile, frame: Frame, policy: PolicyBuilder | None = None) -> Runner:
    """The hooks of a profile for one attempt without bindings, when one hook is all that a test is about."""
    request = (policy or a_policy()).request()
    ctx = HookContext(now=NOW, bindings=classify((), frame, request), uid=request.uid, ranking=profile.ranking)
    ctx.need = ctx.desired = frame.size
    return Runner(profile, ctx, CycleState(), request)


def chosen(decision: Decision) -> list[str]:
    return [one.cluster for one in decision.targets]


def carried_out(bindings: Iterable[Binding], decision: Decision) -> list[Binding]:
    """The bindings once every operation is written, in the way the API server writes it."""
    documents: dict[str, Any] = {one.metadata.name: msgspec.to_builtins(one) for one in bindings}
    for operation in decision.operations:
        document = operation.document(decision.request)
        if operation.action is not Action.CREATE:
            document["metadata"].pop("resourceVersion")
            document = merged(documents[operation.name], document)
        documents[operation.name] = document
    there = [one for one in documents.values() if not _gone(one["metadata"])]
    return msgspec.convert(there, list[Binding])


def _gone(metadata: Mapping[str, Any]) -> bool:
    return bool(metadata.get("deletionTimestamp")) and not metadata.get("finalizers")


class Named:
    """Base of all doubles: a name, and the list of calls that all doubles of a test share if given one."""

    def __init__(self, name: str, calls: list[str] | None = None) -> None:
        self._name = name
        self.calls: list[str] = [] if calls is None else calls

    def name(self) -> str:
        return self._name


class Rejecting(Named, PluginTraits):
    """A vector Filter that rejects the clusters named, each for the reason with the given number."""

    READS = ()
    ROW_LOCAL = True
    REASONS = ReasonTable(
        Reason("Refused", Code.UNSCHEDULABLE, "refused by {plugin}"),
        Reason("Forbidden", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "forbidden by {plugin}"),
        Reason("Waiting", Code.PENDING, "{plugin} is waiting"),
    )

    def __init__(self, name: str, clusters: Iterable[str] | Mapping[str, int] = (), calls: list[str] | None = None):
        super().__init__(name, calls)
        self.rejected = dict(clusters) if isinstance(clusters, Mapping) else dict.fromkeys(clusters, 1)
        self.seen: list[set[str]] = []

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        self.calls.append(f"{self._name}.filter")
        self.seen.append({frame.name(row) for row in range(frame.size) if alive >> row & 1})
        reasons = np.zeros(frame.size, dtype=np.uint16)
        rows = {frame.row_of(name): number for name, number in self.rejected.items() if name in frame.names}
        for row, number in rows.items():
            reasons[row] = number
        return Verdict(ok=~from_rows(row for row in rows if row is not None), reason=reasons)


class RejectingOneByOne(Named, ScalarPlugin):
    """The same, per cluster."""

    READS = ()
    ROW_LOCAL = True

    def __init__(self, name: str, clusters: Iterable[str] = (), calls: list[str] | None = None) -> None:
        super().__init__(name, calls)
        self.rejected = set(clusters)
        self.judged: list[str] = []

    def name(self) -> str:
        return self._name

    def filter_one(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, cluster: Any
    ) -> Status | None:
        self.judged.append(cluster.name)
        if cluster.name in self.rejected:
            return Status.new(Code.UNSCHEDULABLE, f"refused by {self._name}")
        return None


class Scoring(Named, PluginTraits):
    """A vector Score with a fixed number per cluster, 0 for the others."""

    ROW_LOCAL = True

    def __init__(self, name: str, points: Mapping[str, int] | None = None, calls: list[str] | None = None) -> None:
        super().__init__(name, calls)
        self.points = points or {}

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        self.calls.append(f"{self._name}.score")
        return np.array([self.points.get(frame.name(row), 0) for row in rows.tolist()], dtype=np.int64)


class Answering(Named, PluginTraits):
    """Any hook by a function: `Answering("X", pre_filter=lambda *args: (None, None))`."""

    def __init__(self, name: str, *, traits: Mapping[str, Any] | None = None, **hooks: Callable[..., Any]) -> None:
        super().__init__(name)
        for method, answer in hooks.items():
            setattr(self, method, self._counted(method, answer))
        for trait, value in (traits or {}).items():
            setattr(self, trait, value)

    def _counted(self, method: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            self.calls.append(method)
            return answer(*args, **named)

        return call


def narrowing_to(*names: str) -> Callable[..., Any]:
    """A `pre_filter` that leaves only these clusters."""

    def pre_filter(ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame) -> Any:
        rows: Sequence[int | None] = [frame.row_of(name) for name in names]
        return from_rows(row for row in rows if row is not None), None

    return pre_filter


def limited_to(limit: int) -> Callable[..., Any]:
    """A `post_batch` that always offers the same limit."""
    return lambda ctx, state, req, frame, desired: (limit, None)
