"""The words of a plugin's author, as a plugin of an installed distribution finds them in a decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fleet.errors import FleetError
from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.scores import NamedScore, clamp, min_max, round_half_away
from fleet.framework.state import CycleState, FrozenState, StateKey, clone_state
from fleet.framework.status import Code, Status, as_error, code_of, is_success, is_unschedulable, message_of
from tests.doubles import Rejecting, Scoring
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.profiled import Noting, Simulator, error_of, row_of, simulating, targets
from tests.unit.framework.plugin_fakes import Counter

KEY = StateKey("preFilter/Reporter")
REFUSED = Status.new(Code.UNSCHEDULABLE, "over quota", "ask finance")


@pytest.fixture
def simulator(tmp_path: Path, fleet: Fleet) -> Iterator[Simulator]:
    yield from simulating(tmp_path, fleet)


def reported(simulator: Simulator, report: Callable[[CycleState], object]) -> Any:
    """What a plugin finds while it decides: its refusal carries the result into the answer."""

    def pre_filter(ctx: Any, state: CycleState, *args: Any) -> Any:
        return None, Status.new(Code.UNSCHEDULABLE, json.dumps(report(state)))

    decision = simulator.decide(Noting("Reporter", pre_filter=pre_filter))
    (rejection,) = row_of(decision, "a")["rejections"]
    return json.loads(rejection["message"])


def raised(kind: type[BaseException], action: Callable[[], object]) -> str:
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value)


# --- scores and codes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [101, -1])
def test_F3_001_F3_002_a_score_out_of_range_ends_the_attempt_and_names_plugin_cluster_and_value(
    simulator: Simulator, points: int
) -> None:
    wrong = Scoring("Wrong", {"b": 2 * points})
    wrong.normalize = lambda ctx, state, req, raw: raw // 2  # type: ignore[attr-defined]

    decision = simulator.decide(wrong, ranking="weighted")

    assert error_of(decision) == f"Wrong at score: score {points} of cluster b is not in 0 … 100"


def test_F3_001_F3_002_both_bounds_pass(simulator: Simulator) -> None:
    decision = simulator.decide(Scoring("Exact", {"a": 100, "b": 0, "c": 50}), number=3, ranking="weighted")

    assert targets(decision) == ["a", "c", "b"]


def test_F3_004_what_is_not_in_the_state_is_not_found(simulator: Simulator) -> None:
    missing = Noting("Missing", pre_filter=lambda ctx, state, *args: state.read(KEY))

    assert error_of(simulator.decide(missing)) == "Missing at preFilter: StateNotFound: not found"


def test_F3_005_codes_are_stored_as_bytes_and_survive_numbers_and_json(simulator: Simulator) -> None:
    found: list[Any] = []

    def post_filter(ctx: Any, state: Any, req: Any, frame: Any, verdicts: Any) -> Any:
        codes = verdicts.codes()
        found.append((codes.dtype, [Code(int(codes[frame.row_of(name)])) for name in "abc"]))
        return None, REFUSED

    decision = simulator.decide(
        Rejecting("Picky", {"a": 1, "b": 2, "c": 3}), Noting("Seer", post_filter=post_filter), number=1
    )

    rejected = [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING]
    assert found == [(np.uint8, rejected)]
    assert [row_of(decision, name)["rejections"][0]["code"] for name in "abc"] == [str(code) for code in rejected]
    assert all(Code(json.loads(json.dumps(code))) is code is Code(int(code)) for code in Code)


# --- statuses ---------------------------------------------------------------------------------------------------------


class Silent(ScalarPlugin):
    def filter_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> Status:
        return Status.new(Code.UNSCHEDULABLE)


def test_F3_013_a_status_is_frozen_and_a_refusal_without_a_reason_is_a_warning_and_does_not_conform(
    simulator: Simulator, fleet: Fleet
) -> None:
    def report(_: CycleState) -> object:
        status = Status(Code.UNSCHEDULABLE, details={"free": 3})
        return [raised(FrozenInstanceError, lambda: setattr(status, "code", 0)), hasattr(status, "__dict__")]

    assert reported(simulator, report) == ["cannot assign to field 'code'", False]

    decision = simulator.decide(Silent())

    assert [warning["kind"] for warning in decision["answer"]["attempt"]["warnings"]] == ["RefusalWithoutReason"]
    checked = fleet("plugins", "check", "Silent")
    assert checked.code == 1
    assert "is rejected with Unschedulable and without a reason" in checked.out + checked.err


def test_F3_014_F3_015_F3_016_F3_019_statuses_read_alike_with_and_without_one(simulator: Simulator) -> None:
    def report(_: CycleState) -> object:
        error = as_error(REFUSED)
        return {
            "one success": Status.new(Code.SUCCESS, "in passing") is Status.new(Code.SUCCESS),
            "errors": [as_error(None), isinstance(error, FleetError), str(error)],
            "codes": [code_of(None) is Code.SUCCESS, code_of(REFUSED)],
            "messages": [message_of(None), message_of(REFUSED)],
        }

    assert reported(simulator, report) == {
        "one success": True,
        "errors": [None, True, "over quota, ask finance"],
        "codes": [True, 2],
        "messages": ["", "over quota, ask finance"],
    }


def test_F3_017_F3_018_what_is_success_and_what_is_unschedulable(simulator: Simulator) -> None:
    def report(_: CycleState) -> object:
        every = [None, *(Status(code) for code in Code)]
        return [[is_success(status) for status in every], [is_unschedulable(status) for status in every]]

    success, unschedulable = reported(simulator, report)
    assert success == [True, True, False, False, False, False, False, False]
    assert unschedulable == [False, False, False, True, True, False, False, False]


# --- the cycle state --------------------------------------------------------------------------------------------------


class Shared(FrozenState):
    pass


def test_F3_022_F3_032_a_clone_has_values_of_its_own_but_for_frozen_ones(simulator: Simulator) -> None:
    def report(state: CycleState) -> object:
        measured = CycleState(record_metrics=True)
        state.write(KEY, Counter(1))
        state.write(StateKey("preFilter/Shared"), Shared())
        copy = state.clone()
        own, cloned = state.read(KEY), copy.read(KEY)
        assert isinstance(own, Counter)
        assert isinstance(cloned, Counter)
        cloned.value += 1
        cloned.value -= 2
        shared = [each.read(StateKey("preFilter/Shared")) for each in (state, copy)]
        return [own.value, cloned.value, shared[0] is shared[1], clone_state(None), measured.clone().record_metrics]

    assert reported(simulator, report) == [1, 0, True, None, False]


def test_F3_023_F3_024_F3_025_values_are_written_read_and_deleted(simulator: Simulator) -> None:
    def report(state: CycleState) -> object:
        def write(thread: int) -> None:
            for number in range(10_000):
                state.write(StateKey(f"{thread}/{number}"), Counter(number))

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(write, range(2)))
        kept = [state.read(StateKey(f"{thread}/{number}")) for thread in range(2) for number in range(10_000)]
        state.write(KEY, Counter(1))
        state.write(KEY, Counter(2))
        last = state.read(KEY)
        assert isinstance(last, Counter)
        state.delete(KEY)
        state.delete(KEY)
        missing = raised(LookupError, lambda: state.read(KEY))
        refused = raised(TypeError, lambda: state.write(KEY, 3))  # type: ignore[arg-type]
        return [len(kept), last.value, missing, state.read(KEY, default=None), refused]

    assert reported(simulator, report) == [
        20_000,
        2,
        "not found",
        None,
        "state value for preFilter/Reporter has no clone(): int",
    ]


# --- arguments and numbers --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    most: int = 3


def test_F3_040_arguments_are_read_strictly_from_mappings_and_texts(simulator: Simulator) -> None:
    given: list[Limits] = []

    def factory(raw: RawArgs | None, handle: Any) -> Noting:
        given.append(decode_into(raw, Limits))
        return Noting("Limited", pre_filter=(None, None))

    hooks = {"preFilter": ["Limited"]}

    def simulate(*args: Any) -> str:
        config = [{"name": "Limited", "args": content} for content in args]
        return simulator.run(hooks=hooks, factories={"Limited": factory}, pluginConfig=config).err

    assert (simulate({"most": 7}), given[-1]) == ("", Limits(7))
    assert (simulate(), given[-1]) == ("", Limits(3))
    assert "profiles[0].pluginConfig[0].args.Most: unknown field" in simulate({"Most": 7})
    assert "args.most: Expected `int`, got `str`" in simulate({"most": "7"})

    def report(_: CycleState) -> object:
        texts = [RawArgs('{"most": 8}'), RawArgs("most: 9", "application/yaml")]
        return [
            [decode_into(raw, Limits).most for raw in texts],
            raised(FleetError, lambda: decode_into(RawArgs("<most/>", "text/xml"), Limits)),
        ]

    assert reported(simulator, report) == [[8, 9], "not supported content type text/xml"]


def test_F3_138_F3_091_numbers_of_scores(simulator: Simulator) -> None:
    def report(_: CycleState) -> object:
        score = NamedScore("a", 7)
        return [
            [round_half_away(value) for value in (62.5, 92.5, -0.5)],
            [repr(score), msgspec.to_builtins(score), hasattr(score, "__dict__")],
            score == NamedScore("a", 7) == msgspec.json.decode(msgspec.json.encode(score), type=NamedScore),
        ]

    assert reported(simulator, report) == [
        [63, 93, -1],
        ["NamedScore(name='a', score=7)", {"name": "a", "score": 7}, False],
        True,
    ]


@pytest.mark.parametrize("adapter", [min_max, clamp])
@pytest.mark.parametrize("ranking", ["weighted", "lexicographic"])
def test_L_04_one_plugin_without_bounds_serves_both_rankings(
    simulator: Simulator, adapter: Callable[[Any], Any], ranking: str
) -> None:
    unbounded = Scoring("Unbounded", {"a": 4000, "b": 40})
    unbounded.normalize = lambda ctx, state, req, raw: adapter(raw)  # type: ignore[attr-defined]

    decision = simulator.decide(unbounded, number=1, ranking=ranking)

    assert targets(decision) == ["a"]
    total = {"weighted": 100, "lexicographic": 4000}[ranking]
    assert row_of(decision, "a")["scores"][0]["final"] == total
