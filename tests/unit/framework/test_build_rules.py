"""What makes a profile one that can be built: one test per rule, and each refusal names what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import ConfigurationError, UnknownPlugin
from fleet.framework.profiles.profile import METHODS, PluginRef, Profile
from fleet.framework.runtime.framework import Framework, build_frameworks, with_watch_hub
from fleet.framework.status import MAX_TOTAL_SCORE
from tests.doubles import Rejecting, Scoring
from tests.unit.framework.plugin_fakes import Scripted, a_profile, a_profile_with, a_registry


def build(profile: Profile, *plugins: Any) -> Framework:
    return Framework.build(a_registry(*plugins), profile)


def refusal_of(profile: Profile, *plugins: Any) -> str:
    with pytest.raises(ConfigurationError) as refused:
        build(profile, *plugins)
    return str(refused.value)


def test_F3_041_the_basics_are_enough() -> None:
    framework = build(a_profile())
    assert framework.scheduler_name == framework.profile.scheduler_name == "test"


def test_F3_041_a_plugin_must_exist() -> None:
    with pytest.raises(UnknownPlugin, match=r"^no plugin named Ghost exists$"):
        build(a_profile(filter=["Ghost"]))


@pytest.mark.parametrize("hook", [hook for hook in METHODS if hook not in ("queueSort", "batch", "sort", "bind")])
def test_F3_041_a_plugin_must_implement_the_hook(hook: str) -> None:
    other = "permit" if hook == "reserve" else "reserve"
    plugin = Scripted("Other", **{METHODS[other]: None, "unreserve": None})
    assert refusal_of(a_profile_with({hook: ["Other"]}), plugin) == f"plugin Other does not extend {hook} plugin"


@pytest.mark.parametrize("hook", ["queueSort", "batch", "sort", "bind"])
def test_F3_041_a_plugin_must_implement_the_hooks_that_every_profile_has(hook: str) -> None:
    assert (
        refusal_of(a_profile_with({hook: ["TaintToleration"]}))
        == f"plugin TaintToleration does not extend {hook} plugin"
    )


def test_F3_041_a_plugin_stands_at_a_hook_once() -> None:
    profile = a_profile(filter=["Picky", "TaintToleration", "Picky"])
    assert refusal_of(profile, Rejecting("Picky")) == "plugin Picky is listed twice at filter"


def test_F3_041_several_may_bind() -> None:
    framework = build(a_profile(bind=["Mine", "HubBindingBinder"]), Scripted("Mine", bind=None))
    assert [one.name for one in framework.profile.hooks["bind"]] == ["Mine", "HubBindingBinder"]


def test_F3_041_a_plugin_is_configured_once() -> None:
    profile = a_profile(filter=["ClusterEligibility"], args=[("ClusterEligibility", {}), ("ClusterEligibility", {})])
    assert refusal_of(profile) == "repeated config for plugin ClusterEligibility"


def test_F3_041_weights_must_not_be_negative() -> None:
    profile = a_profile(score=[PluginRef("Points", -2)])
    assert refusal_of(profile, Scoring("Points")) == "plugin Points at score: weight -2 is negative"


def test_F3_041_the_total_score_must_fit() -> None:
    profile = a_profile(score=[PluginRef("Points", MAX_TOTAL_SCORE // 100 + 1)])
    assert refusal_of(profile, Scoring("Points")) == "total score of Score plugins could overflow"


def test_F3_041_a_hook_must_be_known() -> None:
    profile = Profile(scheduler_name="test", plugins={"postScore": [PluginRef("PrioritySort")]})
    assert refusal_of(profile).startswith("no hook named postScore; hooks are queueSort, preEnqueue, ")


def test_F3_041_profiles_built_together_have_different_names() -> None:
    with pytest.raises(ConfigurationError, match="schedulerName twin is used 2 times"):
        build_frameworks(a_registry(), [a_profile(called="twin"), a_profile(called="twin")])


def test_F3_041_a_refused_profile_starts_no_watches() -> None:
    class Watches:
        started = 0

        def add_handler(self, kind: str, handler: Any) -> None:
            raise AssertionError("nobody asked")

        def start(self) -> None:
            self.started += 1

    watches = Watches()
    with pytest.raises(ConfigurationError):
        Framework.build(a_registry(), a_profile(bind=[]), with_watch_hub(watches))
    assert watches.started == 0


# --- rules of single hooks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["reserve", "unreserve"])
def test_F3_063_who_reserves_must_be_able_to_give_back_and_the_other_way_round(missing: str) -> None:
    methods = {"reserve": None, "unreserve": None}
    del methods[missing]
    found = refusal_of(a_profile(reserve=["Half"]), Scripted("Half", **methods))
    assert found.startswith("plugin Half does not extend reserve plugin")


def test_F3_063_who_does_both_is_accepted() -> None:
    framework = build(a_profile(reserve=["Whole"]), Scripted("Whole", reserve=None, unreserve=None))
    assert [one.name for one in framework.profile.hooks["reserve"]] == ["Whole"]


def test_F3_069_a_plugin_without_pre_bind_cannot_be_enabled_there() -> None:
    preflight_only = Scripted("Checks", pre_bind_preflight=None)
    assert refusal_of(a_profile(preBind=["Checks"]), preflight_only) == "plugin Checks does not extend preBind plugin"


def test_F3_071_a_profile_without_a_bind_plugin_is_refused() -> None:
    hooks = {"queueSort": "PrioritySort", "batch": "DesiredBatch", "sort": "RankingSort"}
    plugins = {hook: [PluginRef(name)] for hook, name in hooks.items()}
    assert refusal_of(Profile(scheduler_name="test", plugins=plugins)) == "at least one bind plugin is needed"


def test_F3_073_a_plugin_without_post_bind_cannot_be_enabled_there() -> None:
    binder = Scripted("Binder", bind=None)
    assert refusal_of(a_profile(postBind=["Binder"]), binder) == "plugin Binder does not extend postBind plugin"
