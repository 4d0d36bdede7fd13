"""One cluster, one binding: the framework holds to it even when no plugin of the profile does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import CompiledProfile, PluginRef
from fleet.framework.request import PlacementRequest
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.status import Code, Status
from fleet.framework.types import PluginTraits
from fleet.model.views import Binding, MemberCluster
from fleet.snapshot import Table
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile


class OneAtATime(PluginTraits):
    def name(self) -> str:
        return "OneAtATime"

    def post_batch(self, *args: object) -> tuple[int, None]:
        return 1, None


def a_profile_that_forgets_what_it_picked() -> CompiledProfile:
    registry = in_tree_registry()
    registry.register("OneAtATime", lambda raw, handle: OneAtATime())
    plugins = {
        hook: tuple(one for one in refs if one.name != "SamePlacementAntiAffinity")
        for hook, refs in DEFAULT_PLUGINS.items()
        if hook != "postBatch"
    }
    plugins = {**plugins, "postBatch": (PluginRef("OneAtATime"),), "filter": (PluginRef("TaintToleration"),)}
    return compile_default(default_profile(plugins=plugins), registry=registry)


def decided(*, wanted: int, bindings: Sequence[Binding] = (), clusters: Sequence[str] = ("a", "b", "c")) -> Decision:
    request = PlacementRequest(placement="web", snapshot="web-0", generation=1, placement_type="PickN", wanted=wanted)
    members = [msgspec.convert({"metadata": {"name": name}}, MemberCluster) for name in clusters]
    inputs = DecisionInput(
        frame=Table(members).freeze(),
        request=request,
        bindings=bindings,
        profile=a_profile_that_forgets_what_it_picked(),
        now=0,
    )
    return decide(inputs)


def a_binding(cluster: str) -> Binding:
    metadata = {"name": f"web-{cluster}", "labels": {"kubernetes-fleet.io/parent-CRP": "web"}}
    spec = {"state": "Bound", "targetCluster": cluster, "schedulingPolicySnapshotName": "web-0"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Binding)


def test_a_cluster_is_not_picked_twice_in_one_attempt() -> None:
    assert [target.cluster for target in decided(wanted=3).targets] == ["c", "b", "a"]


def test_a_cluster_in_use_is_not_picked_again() -> None:
    decision = decided(wanted=2, bindings=[a_binding("c")])

    assert [target.cluster for target in decision.targets] == ["b"]
    assert decision.active == 2


def test_too_few_clusters_leave_the_placement_short() -> None:
    decision = decided(wanted=5)

    assert (len(decision.targets), decision.fulfilled) == (3, False)


class Mute(PluginTraits):
    def name(self) -> str:
        return "Mute"

    def pre_filter(self, *args: object) -> tuple[None, Status]:
        return None, Status.new(Code.UNSCHEDULABLE)


class MuteAboutClusters(ScalarPlugin):
    def filter_one(self, *args: object) -> Status:
        return Status.new(Code.UNSCHEDULABLE)


@pytest.mark.parametrize(
    "plugin, hook", [(Mute(), "preFilter"), (MuteAboutClusters(), "filter")], ids=["preFilter", "filter"]
)
def test_F3_013_a_refusal_without_a_reason_is_told_to_the_author_of_the_plugin(plugin: Any, hook: str) -> None:
    registry = in_tree_registry()
    registry.register(plugin.name(), lambda raw, handle: plugin)
    plugins = {**DEFAULT_PLUGINS, hook: (PluginRef(plugin.name()),)}
    profile = compile_default(default_profile(plugins=plugins), registry=registry)
    frame = Table([msgspec.convert({"metadata": {"name": "a"}}, MemberCluster)]).freeze()
    request = PlacementRequest(placement="web", generation=1, placement_type="PickN", wanted=1)

    decision = decide(DecisionInput(frame=frame, request=request, bindings=(), profile=profile, now=0))

    assert [(one.kind, one.subject) for one in decision.warnings] == [("RefusalWithoutReason", plugin.name())]


def test_batch_and_sort_answers_of_the_wrong_kind_name_plugin_and_hook() -> None:
    profile = a_profile_that_forgets_what_it_picked()
    request = PlacementRequest(placement="web", generation=1, placement_type="PickN", wanted=1)
    frame = Table([msgspec.convert({"metadata": {"name": "a"}}, MemberCluster)]).freeze()
    for hook, broken in (("batch", "batch"), ("sort", "sort")):
        hooked = getattr(profile, hook)
        changed = dataclasses.replace(profile, **{hook: hooked._replace(call=lambda *args: None)})
        decision = decide(DecisionInput(frame=frame, request=request, bindings=(), profile=changed, now=0))

        assert decision.error is not None
        assert decision.error.reasons[0].startswith(f"{hooked.name} at {broken}: answered NoneType")
