"""The data that hooks of one attempt share: what is kept, what a clone is, when it ends."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import StateExpired, StateNotFound
from fleet.framework.cycle.runner import NULL_PROBE, Narrowing, Runner
from fleet.framework.runtime.framework import FrameworkOptions
from fleet.framework.runtime.locks import ReadWriteLock
from fleet.framework.state import (
    CycleState,
    FrozenState,
    StateData,
    StateKey,
    should_record_metrics,
)
from fleet.framework.types import Delta
from fleet.snapshot import Frame
from plugins.default_profile import compile_default
from tests.builders import a_cluster, a_frame, a_policy, names_in
from tests.unit.framework.plugin_fakes import Counter, an_attempt

KEY = StateKey("preFilter/Example")
PLUGINS = Path(__file__).resolve().parents[3] / "plugins"


class Fixed(FrozenState):
    pass


# --- life -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda state: state.read(KEY),
        lambda state: state.read(KEY, default=None),
        lambda state: state.write(KEY, Counter()),
        lambda state: state.delete(KEY),
        lambda state: state.clone(),
        lambda state: state.peek(KEY),
        lambda state: state.poke(KEY, Counter()),
    ],
    ids=["read", "read with a default", "write", "delete", "clone", "peek", "poke"],
)
def test_F3_020_a_state_cannot_be_used_after_its_attempt(use: Callable[[CycleState], Any]) -> None:
    state = CycleState()
    state.write(KEY, Counter())
    state.expire()
    with pytest.raises(StateExpired):
        use(state)


def test_F3_020_a_clone_lives_on_when_the_original_ends() -> None:
    state = CycleState()
    state.write(KEY, Counter(3))
    clone = state.clone()
    state.expire()
    assert value_of(clone) == 3


def test_F3_021_a_new_state_is_empty_and_knows_nothing_of_others() -> None:
    one, other = CycleState(), CycleState()
    one.write(KEY, Counter())
    with pytest.raises(StateNotFound):
        other.read(KEY)


def test_F3_021_states_made_for_attempts_are_fresh() -> None:
    options = FrameworkOptions()
    one = options.new_state(1)
    one.write(KEY, Counter())
    assert options.new_state(2).read(KEY, default=None) is None


# --- clones -----------------------------------------------------------------------------------------------------------


def test_F3_022_a_key_of_a_clone_is_invisible_in_the_original() -> None:
    state = CycleState()
    state.clone().write(KEY, Counter())
    assert state.read(KEY, default=None) is None


def test_F3_022_a_clone_has_a_lock_of_its_own() -> None:
    state = CycleState(new_lock=ReadWriteLock)
    clone = state.clone()
    with state.lock():
        clone.write(KEY, Counter(5))
    assert value_of(clone) == 5


# --- reading and writing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [7, "text", {"a": 1}.keys(), None])
def test_F3_023_a_value_that_cannot_be_cloned_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="state value for preFilter/Example has no clone"):
        CycleState().write(KEY, value)


def test_F3_024_a_miss_with_a_default_gives_the_default() -> None:
    assert CycleState().read(KEY, default=None) is None
    fallback = Counter()
    assert CycleState().read(KEY, default=fallback) is fallback


def test_F3_024_a_default_does_not_hide_what_is_there() -> None:
    state, counter = CycleState(), Counter()
    state.write(KEY, counter)
    assert state.read(KEY, default=None) is counter


# --- metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("percent", [0, 1, 7, 10, 33, 50, 75, 99, 100])
def test_F3_030_the_share_of_measured_attempts_is_the_one_asked_for(percent: int) -> None:
    options = FrameworkOptions(metrics_percent=percent)
    measured = sum(options.new_state(attempt).record_metrics for attempt in range(10_000))
    assert abs(measured / 100 - percent) <= 2


def test_F3_030_one_attempt_in_ten_unless_configured() -> None:
    assert sum(FrameworkOptions().samples(attempt) for attempt in range(10_000)) == 1_000


def test_F3_030_a_state_nobody_sampled_records_nothing() -> None:
    assert not CycleState().record_metrics


def test_F3_031_without_a_state_nothing_is_recorded() -> None:
    assert not should_record_metrics(None)
    assert not should_record_metrics(CycleState())
    assert should_record_metrics(CycleState(record_metrics=True))


def test_F3_031_by_default_nobody_measures() -> None:
    assert FrameworkOptions().probe is NULL_PROBE


# --- values -----------------------------------------------------------------------------------------------------------


def test_F3_032_whatever_has_clone_is_state_data() -> None:
    assert isinstance(Counter(), StateData)
    assert isinstance(Fixed(), StateData)
    assert not isinstance(object(), StateData)


def test_F3_032_frozen_values_are_their_own_clones() -> None:
    fixed = Fixed()
    assert fixed.clone() is fixed


def test_F3_032_adding_and_removing_on_a_clone_leaves_the_original_as_it_was() -> None:
    frame = a_frame(*(a_cluster(name).labelled(zone=zone) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))))
    request = a_policy().pick_n(3).spread("zone").request()
    original = CycleState()
    runner = Runner(compile_default(), an_attempt(), original, request)
    runner.run_pre_filter(frame)
    before = passing(runner, frame)

    runner.state = original.clone()
    runner.run_add_placement(frame, [Delta(row=0, placement=request.key, sign=1)])
    assert passing(runner, frame) == {"c"}
    runner.run_remove_placement(frame, [Delta(row=0, placement=request.key, sign=-1)])
    assert passing(runner, frame) == before

    runner.run_add_placement(frame, [Delta(row=0, placement=request.key, sign=1)])
    runner.state = original
    assert passing(runner, frame) == before == {"a", "b", "c"}


def passing(runner: Runner, frame: Frame) -> set[str]:
    return names_in(frame, runner.run_filter(frame, Narrowing()).alive)


# --- keys -------------------------------------------------------------------------------------------------------------


def state_keys_of(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "StateKey":
            (argument,) = node.args
            assert isinstance(argument, ast.Constant), "a key is a constant, so that it can be compared with others"
            yield str(argument.value)


def test_F3_033_no_two_in_tree_keys_are_equal() -> None:
    places = defaultdict(list)
    for module in sorted(PLUGINS.rglob("*.py")):
        for key in state_keys_of(module.read_text(encoding="utf-8")):
            places[key].append(module.name)
    assert places
    assert {key: modules for key, modules in places.items() if len(modules) > 1} == {}


def test_F3_033_in_tree_keys_name_hook_and_plugin() -> None:
    from fleet.framework.profiles.profile import METHODS
    from plugins import IN_TREE

    keys = {key for module in PLUGINS.rglob("*.py") for key in state_keys_of(module.read_text(encoding="utf-8"))}
    hooks, plugins = set(METHODS), {name for name, _ in IN_TREE}
    assert {key for key in keys if not (key.split("/")[0] in hooks and key.split("/")[1] in plugins)} == set()


def test_F3_033_a_key_said_twice_is_found() -> None:
    assert list(state_keys_of('A = StateKey("filter/X")\nB = StateKey("filter/X")')) == ["filter/X", "filter/X"]


def counter_of(state: CycleState, key: StateKey = KEY) -> Counter:
    found = state.read(key)
    assert isinstance(found, Counter)
    return found


def value_of(state: CycleState, key: StateKey = KEY) -> int:
    return counter_of(state, key).value
