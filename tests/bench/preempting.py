"""What the search for bindings to evict costs: a tenth of the fleet is searched, each cluster with twenty bindings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.handle import OfflineHandle
from fleet.framework.profiles.profile import PluginRef, compile_profile
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import book_room
from fleet.model.keys import PICK_N
from fleet.snapshot import Frame, Table
from fleet.snapshot.sidedata import PlacedBinding
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, default_profile
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import NOW, clusters, name_of
from tests.bench.measuring import Run
from tests.bench.stopwatch import clock, measure

_FLEET: Final = 5_000
_BINDINGS: Final = 20
_EACH: Final = 10_000
"""Thousandths of a core."""
_VICTIMS: Final = 5
_EVICTING: Final = {
    "preFilter": ("ResourceFit",),
    "filter": ("ResourceFit", "DefaultPreemption"),
    "postFilter": ("DefaultPreemption",),
}


def preempting(run: Run) -> Iterator[Figure]:
    hooks = {*DEFAULT_PLUGINS, *_EVICTING}
    plugins = {hook: (*map(PluginRef, _EVICTING.get(hook, ())), *DEFAULT_PLUGINS.get(hook, ())) for hook in hooks}
    profile = compile_profile(in_tree_registry(), default_profile(plugins=plugins), OfflineHandle())
    request = PlacementRequest(
        placement="vip",
        placement_type=PICK_N,
        wanted=1,
        priority=100,
        requests={"cpu": _VICTIMS * _EACH},
        snapshot="vip-0",
    )
    frame = _build_full_fleet()

    def step(number: int) -> tuple[float]:
        given = DecisionInput(
            frame=frame, request=replace(request, uid=str(number)), bindings=(), profile=profile, now=NOW
        )
        began = clock()
        decision = decide(given)
        took = clock() - began
        assert decision.evictions is not None
        assert len(decision.evictions.victims) == _VICTIMS
        return (took,)

    (sample,) = measure(step, run.slow_effort)
    case = f"{_FLEET // 10:,} clusters, {_BINDINGS} bindings on each"
    yield run.figure(case, "decide", Kind.MILLISECONDS, sample, target=20)


def _build_full_fleet() -> Frame:
    """Nothing is free anywhere."""
    table = Table(clusters(_FLEET))
    empty = table.freeze()
    free = empty.capacity("cpu").free(priority=0)
    for number in range(_FLEET):
        name = name_of(number)
        row = empty.row_of(name)
        assert row is not None
        table.set_placed(
            name,
            [
                PlacedBinding(f"p{number % 7}-{each}", each % 5, each, "", (("cpu", _EACH),), 1)
                for each in range(_BINDINGS)
            ],
        )
        book_room(table, name, {"cpu": int(free[row])})
    return table.freeze()
