"""F3-130: a profile with per-cluster twins of vector plugins decides every random scenario alike, digest for digest.

A per-cluster plugin also rules out picking in one pass, so rounds and picker are compared once more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.handle import OfflineHandle
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.profiles.registry import Registry
from fleet.framework.request import PlacementRequest
from fleet.framework.scalar import ClusterView, ScalarPlugin
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.framework.types import Component
from fleet.model.keys import NAMESPACE_COLLECTION_SUCCEEDED
from fleet.model.views import find_untolerated
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.strategies import random_scenario
from tests.vectors.engine import decision_input

BLOCKS = 5
SEEDS = {"normal": 150, "long": 10_000}

UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE


class TaintToleration(ScalarPlugin):
    ROW_LOCAL = True

    def __init__(self, raw: RawArgs | None, handle: Any) -> None:
        del raw, handle

    def filter_one(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, cluster: ClusterView
    ) -> Status | None:
        taint = find_untolerated(cluster.cluster.spec.taints, placement.tolerations)
        return None if taint is None else Status.new(UNRESOLVABLE, f"{taint.key} is not tolerated")


class NamespaceAffinity(ScalarPlugin):
    ROW_LOCAL = True

    def __init__(self, raw: RawArgs | None, handle: Any) -> None:
        del raw, handle

    def filter_one(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, cluster: ClusterView
    ) -> Status | None:
        status = cluster.cluster.status
        collected = next((one for one in status.conditions if one.type == NAMESPACE_COLLECTION_SUCCEEDED), None)
        if not placement.namespace or collected is None or collected.status != "True":
            return None
        if status.namespaces is not None and placement.namespace in status.namespaces:
            return None
        return Status.new(UNRESOLVABLE, "not there")


class SamePlacementAntiAffinity(ScalarPlugin):
    ROW_LOCAL = True
    SCORE_COMPONENT = Component.OBSOLETE

    def __init__(self, raw: RawArgs | None, handle: Any) -> None:
        del raw, handle

    def filter_one(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, cluster: ClusterView
    ) -> Status | None:
        return Status.new(Code.UNSCHEDULABLE, "there") if ctx.placed >> cluster.row & 1 else None

    def score_one(self, ctx: HookContext, state: CycleState, placement: PlacementRequest, cluster: ClusterView) -> int:
        return ctx.obsolete >> cluster.row & 1


TWINS = (TaintToleration, NamespaceAffinity, SamePlacementAntiAffinity)


def with_twins() -> CompiledProfile:
    registry: Registry = in_tree_registry()
    for twin in TWINS:
        registry.unregister(twin.__name__)
        registry.register(twin.__name__, twin)
    narrowing = tuple(one for one in DEFAULT_PLUGINS["preFilter"] if one.name != "NamespaceAffinity")
    plugins = {**DEFAULT_PLUGINS, "preFilter": narrowing}
    return compile_default(default_profile(plugins=plugins), registry=registry, handle=OfflineHandle())


DEFAULT, SCALAR = compile_default(), with_twins()


def both(inp: DecisionInput) -> tuple[str, str]:
    return decide(replace(inp, profile=DEFAULT)).digest, decide(replace(inp, profile=SCALAR)).digest


@pytest.mark.parametrize("block", range(BLOCKS))
def test_F3_130_per_cluster_twins_give_equal_digests(block: int, *, long: bool) -> None:
    size = SEEDS["long" if long else "normal"] // BLOCKS

    for seed in range(block * size, (block + 1) * size):
        vector, scalar = both(decision_input(random_scenario(seed)))
        assert vector == scalar, seed


def test_the_twins_are_per_cluster_and_are_warned_about() -> None:
    assert [one.name for one in SCALAR.filters if one.scalar] == [
        "NamespaceAffinity",
        "TaintToleration",
        "SamePlacementAntiAffinity",
    ]
    assert (DEFAULT.warnings, len(SCALAR.warnings)) == ((), 1)
    assert SCALAR.step_picker is None
    assert DEFAULT.step_picker is not None
