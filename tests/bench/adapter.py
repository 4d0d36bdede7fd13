"""What it costs to write a plugin for one cluster at a time: the adapter's share per row, the author's code excluded.

Measured in whole decisions by the probe, as a controller would see it; from it goes a bare loop that calls the same
method on views made before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from fleet.framework.cycle.cycle import decide
from fleet.framework.profiles.profile import CompiledProfile, PluginRef
from fleet.framework.scalar import ClusterView, ScalarPlugin
from fleet.framework.status import Code, Status
from fleet.framework.types import Reason, ReasonTable
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import frame_of
from tests.bench.hooks import HookTimes
from tests.bench.measuring import Run
from tests.bench.policies import plain_policy, policy_snapshot, question
from tests.bench.stopwatch import clock, measure

_FLEET: Final = 10_000
_PICKS: Final = 10
_TARGET: Final = 1.0
_REFUSAL: Final = Status(Code.UNSCHEDULABLE, ("not here",))


class Passing(ScalarPlugin):
    """Lets every cluster pass."""

    def filter_one(self, ctx: Any, state: Any, req: Any, cluster: ClusterView) -> None:
        return None


class Refusing(ScalarPlugin):
    """Refuses every cluster, for one reason."""

    REASONS = ReasonTable(Reason("NotHere", Code.UNSCHEDULABLE, "not here"))

    def filter_one(self, ctx: Any, state: Any, req: Any, cluster: ClusterView) -> Status:
        return _REFUSAL


class Scoring(ScalarPlugin):
    """Likes every cluster alike."""

    def score_one(self, ctx: Any, state: Any, req: Any, cluster: ClusterView) -> int:
        return 7


_PLUGINS: Final[tuple[tuple[type[ScalarPlugin], str, str, str], ...]] = (
    (Passing, "filter", "filter_one", "a filter that passes"),
    (Refusing, "filter", "filter_one", "a filter that refuses"),
    (Scoring, "score", "score_one", "a score"),
)


def adapter(run: Run) -> Iterator[Figure]:
    frame = frame_of(_FLEET)
    snapshot = policy_snapshot("adapted", plain_policy(_PICKS, 0))
    for plugin, hook, method, name in _PLUGINS:
        inp = question(frame, snapshot, profile_with(plugin, hook))
        rows = decide(question(frame, snapshot, compile_default())).round
        assert rows is not None
        views = [ClusterView(frame, row) for row in rows.scores.rows.tolist()]
        call = getattr(plugin(), method)

        def step(
            number: int,
            inp: Any = inp,
            key: tuple[str, str] = (hook, plugin.__name__),
            views: list[ClusterView] = views,
            call: Callable[..., Any] = call,
        ) -> tuple[float, float]:
            del number
            probe = HookTimes()
            decide(inp, probe)
            adapted, bare = probe.spent[key], _bare_loop(call, views, inp.request)
            return (adapted - bare) / len(views), adapted / len(views)

        overhead, whole = measure(step, run.effort)
        yield run.figure(f"{name}, per row", "adapter", Kind.MICROSECONDS, overhead, target=_TARGET)
        yield run.figure(f"{name}, per row", "with the author's code", Kind.MICROSECONDS, whole)


def _bare_loop(call: Callable[..., Any], views: list[ClusterView], request: Any) -> int:
    start = clock()
    for view in views:
        call(None, None, request, view)
    return clock() - start


def profile_with(plugin: type[ScalarPlugin], hook: str) -> CompiledProfile:
    """The default profile with one more plugin at the end of one hook."""
    name = plugin.__name__
    registry = in_tree_registry()
    registry.register(name, lambda raw, handle: plugin())
    plugins = {**DEFAULT_PLUGINS, hook: (*DEFAULT_PLUGINS[hook], PluginRef(name))}
    return compile_default(default_profile(plugins=plugins), registry=registry)
