"""What a framework is built with beside its profile, and several frameworks side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from fleet.errors import ConfigurationError
from fleet.framework.handle import MAX_PERMIT_WAIT
from fleet.framework.runtime.framework import (
    Framework,
    FrameworkOption,
    FrameworkOptions,
    build_frameworks,
    with_debug,
    with_hub_client,
    with_locks,
    with_max_permit_wait,
    with_metrics_sampling,
    with_probe,
    with_snapshot_lister,
    with_watch_hub,
)
from fleet.framework.runtime.locks import ReadWriteLock
from fleet.framework.state import StateKey
from fleet.snapshot.table import overlay
from tests.builders import NOW, a_cluster, a_policy, a_table, clusters
from tests.doubles import Rejecting, Scoring, chosen
from tests.unit.framework.plugin_fakes import NO_BINDINGS, Counter, DoneAtOnce, Scripted, a_profile, a_registry, done

SECOND = 1_000_000_000


class WatchHubWithThreeClusters:
    """Serves an initial list of names to every handler that was there at the start."""

    def __init__(self) -> None:
        self.handlers: dict[str, list[Callable[[str], None]]] = defaultdict(list)
        self.started = 0

    def add_handler(self, kind: str, handler: Callable[[str], None]) -> None:
        self.handlers[kind].append(handler)

    def start(self) -> None:
        self.started += 1
        for handler in self.handlers["MemberCluster"]:
            for name in ("a", "b", "c"):
                handler(name)


class CountingProbe:
    def __init__(self) -> None:
        self.measured: list[tuple[str, str]] = []

    def measure(self, hook: str, plugin: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        self.measured.append((hook, plugin))
        return call(*args, **named)


def build(*options: FrameworkOption, **given: Any) -> Framework:
    return Framework.build(a_registry(), a_profile(), *options, **given)


# --- options ----------------------------------------------------------------------------------------------------------


def test_F3_042_the_later_option_wins() -> None:
    first, second = object(), object()
    assert build(with_hub_client(first), with_hub_client(second)).hub() is second


def test_F3_042_an_option_wins_over_options_given_whole() -> None:
    first, second = object(), object()
    assert build(start=FrameworkOptions(hub=first)).hub() is first
    assert build(with_hub_client(second), start=FrameworkOptions(hub=first)).hub() is second


def test_F3_042_an_option_leaves_the_others_alone() -> None:
    hub = object()
    framework = build(with_hub_client(hub), with_metrics_sampling(100), with_debug())
    assert framework.hub() is hub
    assert framework.new_state(1).record_metrics


def test_F3_042_options_given_whole_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        FrameworkOptions(object())  # type: ignore[call-arg]


@pytest.mark.parametrize("percent", [-1, 101])
def test_F3_042_a_share_of_measured_attempts_is_a_percentage(percent: int) -> None:
    with pytest.raises(ConfigurationError, match=f"metrics sampling: {percent} is not in 0 … 100 percent"):
        build(with_metrics_sampling(percent))


@pytest.mark.parametrize("wait, shown", [(SECOND // 2, "0.5"), (MAX_PERMIT_WAIT + SECOND, "901"), (0, "0")])
def test_F3_042_the_longest_permit_wait_has_bounds(wait: int, shown: str) -> None:
    with pytest.raises(ConfigurationError, match=f"maxPermitWaitSeconds: {shown} is not in 1 … 900"):
        build(with_max_permit_wait(wait))


def test_F3_042_states_have_the_lock_that_was_asked_for() -> None:
    holder = Scripted("Holder", reserve=None, unreserve=None)
    framework = Framework.build(a_registry(holder), a_profile(reserve=["Holder"]), with_locks(ReadWriteLock))
    state = framework.new_state(1)
    with state.lock(), pytest.raises(RuntimeError, match="locked the state already"):
        state.write(StateKey("filter/X"), Counter())


def test_F3_043_the_handle_returns_the_very_client() -> None:
    client = object()
    given: list[Any] = []

    def factory(raw: Any, handle: Any) -> Any:
        given.append(handle.hub())
        return Scripted("Writer", bind=None)

    framework = Framework.build(a_registry(Writer=factory), a_profile(bind=["Writer"]), with_hub_client(client))
    assert given == [client]
    assert framework.hub() is client


# --- watches ----------------------------------------------------------------------------------------------------------


def test_F3_044_a_handler_added_in_a_factory_sees_the_initial_list() -> None:
    watches = WatchHubWithThreeClusters()
    seen: dict[str, list[str]] = defaultdict(list)

    def watching(name: str) -> Callable[[Any, Any], Any]:
        def factory(raw: Any, handle: Any) -> Any:
            handle.watches().add_handler("MemberCluster", seen[name].append)
            return Scripted(name, pre_filter=None)

        return factory

    registry = a_registry(Early=watching("Early"), Late=watching("Late"))
    profiles = [a_profile(called="one", preFilter=["Early"]), a_profile(called="two", preFilter=["Late"])]
    build_frameworks(registry, profiles, with_watch_hub(watches))
    assert seen == {"Early": ["a", "b", "c"], "Late": ["a", "b", "c"]}
    assert watches.started == 1


# --- frames -----------------------------------------------------------------------------------------------------------


def test_F3_045_a_what_if_frame_is_decided_on_without_touching_the_live_cache() -> None:
    live = a_table(*clusters("a", "b"))
    before = live.freeze()
    what_if = overlay(before, put=[a_cluster("c").build()], remove=["a"])
    simulation = build(with_snapshot_lister(live.freeze), with_snapshot_lister(lambda: what_if))
    decision = simulation.decide(simulation.inputs(a_policy().request(), NO_BINDINGS, now=NOW))
    assert chosen(decision) == ["b", "c"]
    assert live.freeze() is before
    assert sorted(before.names.ordered) == ["a", "b"]


def test_F3_045_without_a_lister_there_is_nothing_to_look_at() -> None:
    with pytest.raises(ConfigurationError, match="build the framework with a snapshot lister"):
        build().cache_view()


# --- several frameworks -----------------------------------------------------------------------------------------------


def test_F3_046_two_profiles_are_two_frameworks_on_one_cache() -> None:
    cache = a_table(*clusters("a", "b", "c"))
    registry = a_registry(Rejecting("NoA", ["a"]), Rejecting("NoB", ["b"]))
    profiles = [a_profile(called="one", filter=["NoA"]), a_profile(called="two", filter=["NoB"])]
    frameworks = build_frameworks(registry, profiles, with_snapshot_lister(cache.freeze))
    assert list(frameworks) == ["one", "two"]
    assert frameworks["one"].cache_view() is frameworks["two"].cache_view() is cache.freeze()
    picked = {
        name: chosen(framework.decide(framework.inputs(a_policy().request(), NO_BINDINGS, now=NOW)))
        for name, framework in frameworks.items()
    }
    assert picked == {"one": ["b", "c"], "two": ["a", "c"]}


def test_F3_046_a_change_of_the_cache_is_seen_by_both() -> None:
    cache = a_table(*clusters("a"))
    profiles = [a_profile(called="one"), a_profile(called="two")]
    frameworks = build_frameworks(a_registry(), profiles, with_snapshot_lister(cache.freeze))
    cache.put(a_cluster("b").build())
    assert ["b" in framework.cache_view().names for framework in frameworks.values()] == [True, True]


def test_F3_046_a_plugin_is_built_once_per_profile() -> None:
    made: list[Scripted] = []

    def factory(raw: Any, handle: Any) -> Any:
        made.append(Scripted("Mine", pre_filter=None))
        return made[-1]

    profiles = [a_profile(called=name, preFilter=["Mine"]) for name in ("one", "two")]
    frameworks = build_frameworks(a_registry(Mine=factory), profiles)
    assert [framework.profile.pre_filter[0].plugin for framework in frameworks.values()] == made
    assert made[0] is not made[1]


# --- measuring --------------------------------------------------------------------------------------------------------


def test_F3_031_only_sampled_attempts_are_measured_plugin_by_plugin() -> None:
    probe, cache = CountingProbe(), a_table(*clusters("a", "b"))
    registry = a_registry(Rejecting("Picky"), Scoring("Points"), Scripted("Holder", reserve=None, unreserve=None))
    profile = a_profile(filter=["Picky"], score=["Points"], reserve=["Holder"])
    options = (with_snapshot_lister(cache.freeze), with_probe(probe), with_metrics_sampling(50))
    framework = Framework.build(registry, profile, *options)
    per_attempt = [measured(framework, probe, attempt) for attempt in (1, 2, 3, 4)]
    full = [("batch", "DesiredBatch"), ("filter", "Picky"), ("score", "Points"), ("sort", "RankingSort")]
    assert per_attempt == [[], full, [], full]  # those that act are measured where they are called


def measured(framework: Framework, probe: CountingProbe, attempt: int) -> list[tuple[str, str]]:
    probe.measured.clear()
    state = framework.new_state(attempt)
    inp = framework.inputs(a_policy().pick_n(1).request(), NO_BINDINGS, now=NOW)
    decision = framework.decide(inp, state=state)
    effects = DoneAtOnce(framework.effects(inp, decision, state=state, now=NOW))
    assert done(framework.reserve_and_permit(inp, decision, effects.effects)).failure is None
    return list(probe.measured)


def test_F3_031_measuring_changes_no_decision() -> None:
    cache = a_table(*clusters("a", "b", "c"))
    options = (with_snapshot_lister(cache.freeze), with_probe(CountingProbe()))
    framework = Framework.build(a_registry(), a_profile(), *options)
    inp = framework.inputs(a_policy().pick_n(2).request(), NO_BINDINGS, now=NOW)
    digests = {framework.decide(inp, state=framework.new_state(attempt)).digest for attempt in (10, 11)}
    assert len(digests) == 1
