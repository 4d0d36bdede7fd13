"""What plugins may use of the process, and when they may not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fleet.errors import ConfigurationError, PurityError, SnapshotUseError
from fleet.framework.cycle.decision import Outcome
from fleet.framework.handle import Handle, OfflineHandle
from fleet.framework.runtime.framework import (
    Framework,
    FrameworkOption,
    build_frameworks,
    with_debug,
    with_hub_client,
    with_snapshot_lister,
    with_waiting_room,
    with_watch_hub,
)
from fleet.framework.status import message_of
from fleet.framework.types import Verdict
from fleet.snapshot import Frame, Table
from tests.builders import NOW, a_cluster, a_frame, a_policy, a_table, clusters
from tests.doubles import chosen
from tests.unit.framework.plugin_fakes import NO_BINDINGS, DoneAtOnce, Scripted, a_profile, a_registry, done

HUB = object()
Use = Callable[[Handle], Any]

OUTSIDE: dict[str, Use] = {
    "hub": lambda handle: handle.hub(),
    "cache_view": lambda handle: handle.cache_view(),
    "watches": lambda handle: handle.watches(),
    "for_each_waiting": lambda handle: handle.for_each_waiting(print),
    "get_waiting": lambda handle: handle.get_waiting("uid"),
    "allow_waiting": lambda handle: handle.allow_waiting("uid", "P"),
    "reject_waiting": lambda handle: handle.reject_waiting("uid", "P", "no"),
    "activate": lambda handle: handle.activate("web"),
}


def frame_of_the_attempt(handle: Handle) -> Frame:
    return handle.snapshot()


class Watches:
    def add_handler(self, kind: str, handler: Any) -> None:
        raise AssertionError("no plugin here watches")

    def start(self) -> None:
        pass


class Room:
    """A waiting room that only notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def for_each(self, visit: Any) -> None:
        self.asked.append(("each",))

    def get(self, uid: str) -> None:
        self.asked.append(("get", uid))

    def allow(self, uid: str, plugin: str, target: str = "*") -> bool:
        self.asked.append(("allow", uid, plugin, target))
        return True

    def reject(self, uid: str, plugin: str, message: str, target: str = "*") -> bool:
        self.asked.append(("reject", uid, plugin, message))
        return True


@pytest.fixture
def table() -> Table:
    return a_table(*clusters("c1", "c2"))


class Using:
    """Uses its handle from the hook it is told to, and keeps what it got."""

    def __init__(self, name: str, hook: str, use: Use) -> None:
        self._name, self._use = name, use
        self.handle: Handle | None = None
        self.got: list[Any] = []
        setattr(self, hook, self._call)
        if hook == "reserve":
            self.unreserve = lambda *args: None

    def name(self) -> str:
        return self._name

    def made(self, raw: Any, handle: Handle) -> Using:
        self.handle = handle
        return self

    def _call(self, *args: Any) -> None:
        assert self.handle is not None
        self.got.append(self._use(self.handle))


def framework_with(plugin: Using, table: Table, *options: FrameworkOption, **hooks: Any) -> Framework:
    registry = a_registry(**{plugin.name(): plugin.made})
    return Framework.build(registry, a_profile(**hooks), with_snapshot_lister(table.freeze), *options)


def decided(framework: Framework, frame: Frame | None = None) -> Any:
    inp = framework.inputs(a_policy().pick_n(1).request(), NO_BINDINGS, now=NOW)
    if frame is not None:
        inp = replace(inp, frame=frame)
    return inp, framework.decide(inp)


# --- the handle itself ------------------------------------------------------------------------------------------------


def test_F3_100_every_plugin_of_a_profile_gets_the_same_handle(table: Table) -> None:
    one, two = (Using(name, "pre_filter", OUTSIDE["hub"]) for name in ("One", "Two"))
    registry = a_registry(One=one.made, Two=two.made)
    framework = Framework.build(registry, a_profile(preFilter=["One", "Two"]))
    assert one.handle is two.handle is framework


def test_F3_100_the_handle_survives_another_version_of_its_profile(table: Table) -> None:
    handles: list[Handle] = []

    def factory(raw: Any, handle: Handle) -> Any:
        handles.append(handle)
        return Scripted("Mine", pre_filter=None)

    registry = a_registry(Mine=factory)
    framework = Framework.build(registry, a_profile(preFilter=["Mine"]), with_snapshot_lister(table.freeze))
    former = framework.profile
    prepared = framework.prepare(registry, a_profile(preFilter=["Mine"], ranking="weighted"))
    assert framework.profile is former
    assert framework.install(prepared) is former
    assert framework.profile is prepared
    assert handles == [framework, framework]


def test_F3_100_the_handle_survives_the_reload_of_another_profile(table: Table) -> None:
    mine = Using("Mine", "reserve", OUTSIDE["hub"])
    registry = a_registry(Mine=mine.made)
    profiles = [a_profile(called="one", reserve=["Mine"]), a_profile(called="two")]
    frameworks = build_frameworks(registry, profiles, with_hub_client(HUB))
    one, two = frameworks["one"], frameworks["two"]
    before = one.profile
    two.install(two.prepare(registry, a_profile(called="two", tie_break="nameAscending")))
    assert mine.handle is one
    assert one.profile is before
    assert one.hub() is HUB


def test_F3_100_an_attempt_under_way_keeps_the_profile_it_began_with(table: Table) -> None:
    registry, filters = a_registry(), ["SamePlacementAntiAffinity"]
    framework = Framework.build(registry, a_profile(filter=filters), with_snapshot_lister(table.freeze))
    inp, decision = decided(framework)
    framework.install(framework.prepare(registry, a_profile(filter=filters, tie_break="nameAscending")))
    later, other = decided(framework)
    assert (chosen(decision), chosen(other)) == (["c2"], ["c1"])
    assert framework.decide(inp).digest == decision.digest
    assert later.profile is not inp.profile


def test_F3_100_a_version_that_cannot_be_built_changes_nothing(table: Table) -> None:
    registry = a_registry()
    framework = Framework.build(registry, a_profile())
    before = framework.profile
    with pytest.raises(ConfigurationError, match="at least one bind plugin is needed"):
        framework.prepare(registry, a_profile(bind=[]))
    with pytest.raises(ConfigurationError, match="test cannot become other"):
        framework.prepare(registry, a_profile(called="other"))
    assert framework.profile is before


# --- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), (with_debug(),)], ids=["", "in debug"])
def test_F3_101_a_decision_hook_sees_the_frame_of_the_attempt(
    table: Table, options: tuple[FrameworkOption, ...]
) -> None:
    plugin = Using("Looking", "pre_filter", frame_of_the_attempt)
    what_if = a_frame(*clusters("x"))
    framework = framework_with(plugin, table, *options, preFilter=["Looking"])
    _, decision = decided(framework, what_if)
    assert decision.error is None
    assert plugin.got == [what_if]


@pytest.mark.parametrize("hook, method", [("reserve", "reserve"), ("permit", "permit"), ("preBind", "pre_bind")])
def test_F3_101_in_debug_an_effect_hook_that_asks_for_it_fails(table: Table, hook: str, method: str) -> None:
    plugin = Using("Looking", method, frame_of_the_attempt)
    hooks: dict[str, Any] = {hook: ["Looking"]}
    failure = effect_failure(framework_with(plugin, table, with_debug(), **hooks), hook)
    assert failure.internal
    assert isinstance(failure.status.error, SnapshotUseError)
    assert "use handle.cache_view()" in message_of(failure.status)


def test_F3_101_without_debug_it_gets_the_frame_of_its_own_attempt(table: Table) -> None:
    plugin = Using("Looking", "pre_bind", frame_of_the_attempt)
    framework = framework_with(plugin, table, preBind=["Looking"])
    inp, decision = decided(framework)
    table.put(a_cluster("later").build())
    effects = DoneAtOnce(framework.effects(inp, decision, state=framework.new_state(1), now=NOW))
    assert effects.run_pre_bind(decision.targets) is None
    assert plugin.got == [inp.frame]


def test_F3_101_the_cache_view_of_an_effect_hook_is_of_today(table: Table) -> None:
    plugin = Using("Looking", "pre_bind", OUTSIDE["cache_view"])
    framework = framework_with(plugin, table, with_debug(), preBind=["Looking"])
    inp, decision = decided(framework)
    table.put(a_cluster("later").build())
    effects = DoneAtOnce(framework.effects(inp, decision, state=framework.new_state(1), now=NOW))
    assert effects.run_pre_bind(decision.targets) is None
    (seen,) = plugin.got
    assert seen is table.freeze()
    assert "later" in seen.names


def test_F3_101_outside_of_attempts_both_are_the_frame_of_today(table: Table) -> None:
    framework = Framework.build(a_registry(), a_profile(), with_snapshot_lister(table.freeze), with_debug())
    assert framework.snapshot() is framework.cache_view() is table.freeze()


def effect_failure(framework: Framework, hook: str) -> Any:
    inp, decision = decided(framework)
    effects = DoneAtOnce(framework.effects(inp, decision, state=framework.new_state(1), now=NOW))
    if hook == "preBind":
        return effects.run_pre_bind(decision.targets)
    return done(framework.reserve_and_permit(inp, decision, effects.effects)).failure


# --- purity -----------------------------------------------------------------------------------------------------------

DECISION_HOOKS = {"preFilter": "pre_filter", "filter": "filter", "preScore": "pre_score", "postBatch": "post_batch"}


@pytest.mark.parametrize("hook", DECISION_HOOKS)
def test_F3_105_the_hub_is_forbidden_in_decision_hooks(table: Table, hook: str) -> None:
    plugin = Using("Reaching", DECISION_HOOKS[hook], OUTSIDE["hub"])
    hooks: dict[str, Any] = {hook: ["Reaching"]}
    _, decision = decided(framework_with(plugin, table, with_hub_client(HUB), **hooks))
    assert decision.outcome is Outcome.ERROR
    assert isinstance(decision.error.error.__cause__, PurityError)
    assert "Reaching at" in message_of(decision.error)
    assert plugin.got == []


@pytest.mark.parametrize("what", OUTSIDE)
def test_F3_105_so_is_all_else_outside_of_the_attempt(table: Table, what: str) -> None:
    room = Room()
    plugin = Using("Reaching", "pre_filter", OUTSIDE[what])
    options = (with_hub_client(HUB), with_watch_hub(Watches()), with_waiting_room(room))
    _, decision = decided(framework_with(plugin, table, *options, preFilter=["Reaching"]))
    assert decision.outcome is Outcome.ERROR
    assert isinstance(decision.error.error.__cause__, PurityError)
    assert room.asked == []


@pytest.mark.parametrize("hook, method", [("reserve", "reserve"), ("permit", "permit"), ("preBind", "pre_bind")])
def test_F3_105_effect_hooks_may_use_the_hub(table: Table, hook: str, method: str) -> None:
    plugin = Using("Writing", method, OUTSIDE["hub"])
    hooks: dict[str, Any] = {hook: ["Writing"]}
    assert effect_failure(framework_with(plugin, table, with_hub_client(HUB), **hooks), hook) is None
    assert plugin.got == [HUB]


def test_F3_105_the_hub_is_free_again_after_a_decision_that_failed(table: Table) -> None:
    plugin = Using("Reaching", "pre_filter", OUTSIDE["hub"])
    framework = framework_with(plugin, table, with_hub_client(HUB), preFilter=["Reaching"])
    decided(framework)
    assert framework.hub() is HUB


def test_F3_105_a_binding_cycle_on_another_thread_is_not_kept_from_the_hub(table: Table) -> None:
    got: list[Any] = []

    def filter_while_another_thread_binds(*args: Any) -> Verdict:
        binding = threading.Thread(target=lambda: got.append(framework.hub()))
        binding.start()
        binding.join(timeout=90)
        return Verdict(ok=-1)

    slow = Scripted("Slow", filter=filter_while_another_thread_binds)
    options = (with_hub_client(HUB), with_snapshot_lister(table.freeze))
    framework = Framework.build(a_registry(slow), a_profile(filter=["Slow"]), *options)
    _, decision = decided(framework)
    assert decision.outcome is Outcome.SELECTED
    assert got == [HUB]


@pytest.mark.parametrize("what", ["hub", "watches"])
def test_F3_105_what_is_not_there_cannot_be_had(what: str) -> None:
    framework = Framework.build(a_registry(), a_profile())
    with pytest.raises(PurityError, match="this framework only decides"):
        OUTSIDE[what](framework)


# --- waiting placements -----------------------------------------------------------------------------------------------


def test_effect_hooks_reach_the_waiting_room_through_the_handle(table: Table) -> None:
    room = Room()
    asked = Using("Gang", "permit", lambda handle: [OUTSIDE[one](handle) for one in OUTSIDE if "waiting" in one])
    assert effect_failure(framework_with(asked, table, with_waiting_room(room), permit=["Gang"]), "permit") is None
    assert asked.got == [[None, None, True, True]]
    assert room.asked == [("each",), ("get", "uid"), ("allow", "uid", "P", "*"), ("reject", "uid", "P", "no")]


# --- offline ----------------------------------------------------------------------------------------------------------


def test_an_offline_handle_has_what_it_is_given() -> None:
    frame, watches = a_frame(*clusters("c1")), Watches()
    handle = OfflineHandle(hub=HUB, watches=watches, snapshot=lambda: frame)
    assert (handle.hub(), handle.watches(), handle.snapshot(), handle.cache_view()) == (HUB, watches, frame, frame)


@pytest.mark.parametrize("what", ["hub", "watches"])
def test_an_offline_handle_reaches_nothing_outside(what: str) -> None:
    with pytest.raises(PurityError, match="this framework only decides"):
        OUTSIDE[what](OfflineHandle())


def test_an_offline_handle_without_a_fleet_says_so() -> None:
    with pytest.raises(ConfigurationError, match="no fleet to look at"):
        OfflineHandle().snapshot()


def test_nobody_waits_offline() -> None:
    handle = OfflineHandle()
    visited: list[Any] = []
    handle.for_each_waiting(visited.append)
    assert (visited, handle.get_waiting("uid"), handle.reject_waiting("uid", "P", "no")) == ([], None, False)
