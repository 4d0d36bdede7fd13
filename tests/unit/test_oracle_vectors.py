"""The recorded scheduling situations: engines agree with them, and the runner would notice if one did not."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.oracle.documents import Json
from tests.oracle.example_fleet import a_binding, a_scenario, pick_n
from tests.oracle.reference import Result, decide_scenario
from tests.vectors.comparison import Rules, compare_explanations, compare_outcomes, compare_with_want
from tests.vectors.runner import ENGINES, FAILED, differences, engine_named, judge, main, read_vectors

DATA = Path(__file__).parents[1] / "vectors" / "data"


@pytest.mark.parametrize("engine", ENGINES)
def test_every_recorded_situation_has_the_recorded_outcome(engine: str) -> None:
    decide, oracle = engine_named(engine), engine_named("oracle")
    judged = [
        (vector, judge(vector, engine=decide, oracle=oracle, ignored=frozenset())) for vector in read_vectors(DATA)
    ]

    failed = [f"{vector['id']} {found[0]}" for vector, (verdict, found) in judged if verdict == FAILED]

    assert len(judged) == 600
    assert not failed, "\n".join(failed)


# -- what the comparison notices -------------------------------------------------------------------------------------


@pytest.fixture
def outcome() -> Result:
    """One kept binding, one unscheduled, one new, and explanations."""
    old = [a_binding("c1", "Bound", snapshot="s0"), a_binding("c7", "Scheduled", snapshot="s0")]
    return decide_scenario(a_scenario(pick_n(2), *old))


def with_binding(number: int, **changes: object) -> Callable[[Result], None]:
    return lambda result: result.bindings[number].update(changes)


def with_decision(number: int, **changes: object) -> Callable[[Result], None]:
    return lambda result: result.decisions[number].update(changes)


def with_condition(**changes: object) -> Callable[[Result], None]:
    return lambda result: (result.condition or {}).update(changes)


CHANGES: dict[str, Callable[[Result], object]] = {
    "binding's state": with_binding(0, state="Unscheduled"),
    "binding's snapshot": with_binding(0, snapshot="s0"),
    "binding's score": lambda result: result.bindings[0]["decision"].pop("clusterScore"),
    "remembered state": with_binding(0, previousState="Bound"),
    "terminating binding": with_binding(0, deleting=True),
    "name": with_binding(0, name="other"),
    "missing binding": lambda result: result.bindings.pop(),
    "decision's reason": with_decision(0, reason="because"),
    "decision's selection": with_decision(0, selected=False),
    "missing decision": lambda result: result.decisions.pop(),
    "repeated decision": lambda result: result.decisions.append(result.decisions[0]),
    "order of decisions": lambda result: result.decisions.reverse(),
    "condition's status": with_condition(status="False"),
    "condition's message": with_condition(message="found 7 cluster(s)"),
    "operation": lambda result: result.operations.pop(),
    "verdict": lambda result: result.verdicts.pop("c8"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_difference_is_noticed(change: str, outcome: Result) -> None:
    changed = copy.deepcopy(outcome)
    CHANGES[change](changed)

    assert compare_outcomes(outcome, outcome) + compare_explanations(outcome, outcome) == []
    assert compare_outcomes(outcome, changed) + compare_explanations(outcome, changed) != []


def test_the_generation_and_the_error_class_are_compared(outcome: Result) -> None:
    assert compare_outcomes(outcome, replace(outcome, observed_generation=8)) != []
    assert compare_outcomes(outcome, replace(outcome, error_class="input")) != []


# -- what a vector leaves open ---------------------------------------------------------------------------------------


def a_vector(outcome: Result, *tags: str) -> Json:
    condition = outcome.condition or {}
    want = {
        "bindings": [
            {key: value for key, value in binding.items() if key != "name" or binding["preexisting"]}
            for binding in outcome.bindings
        ],
        "decisions": outcome.decisions,
        "condition": {key: condition[key] for key in ("reason", "status")},
        "observedGeneration": outcome.observed_generation,
        "errorClass": "none",
    }
    return {"id": "v", "category": "own", "want": want, "divergence": list(tags), "orderComparable": True}


def found_in(vector: Json, got: Result) -> list[str]:
    return [each.field for each in compare_with_want(vector["want"], got, Rules.of(vector))]


def test_times_in_reasons_are_masked_on_both_sides(outcome: Result) -> None:
    vector = copy.deepcopy(a_vector(outcome))
    stale = next(each for each in vector["want"]["decisions"] if each["clusterName"] == "c8")
    stale["reason"] = stale["reason"].replace("at 2026-01-05T10:00:00Z", "N minutes ago")

    assert found_in(vector, outcome) == []


def test_the_order_is_ignored_where_it_is_not_comparable(outcome: Result) -> None:
    vector = a_vector(outcome) | {"orderComparable": False}

    assert found_in(vector, replace(outcome, decisions=outcome.decisions[::-1])) == []


def test_a_kept_annotation_is_exempt_on_live_bindings_only(outcome: Result) -> None:
    unscheduled = copy.deepcopy(outcome)
    unscheduled.bindings[1]["state"] = "Unscheduled"

    for got, differing in ((outcome, []), (unscheduled, ["binding c7 web-c7-s0 0.previousState"])):
        vector = copy.deepcopy(a_vector(got, "annotation-kept"))
        vector["want"]["bindings"][1]["previousState"] = "Bound"
        assert found_in(vector, got) == differing


@pytest.mark.parametrize("tag", ["budget-slots", "unpicked-kept"])
def test_unselected_entries_are_exempt_but_selected_ones_are_not(tag: str, outcome: Result) -> None:
    vector = a_vector(outcome, tag)
    selected = [decision for decision in outcome.decisions if decision["selected"]]

    assert found_in(vector, replace(outcome, decisions=selected)) == []
    assert found_in(vector, replace(outcome, decisions=selected[1:])) == ["decision on c7"]


def test_exempt_fields_are_held_to_the_oracle() -> None:
    vector = next(each for each in read_vectors(DATA) if each["divergence"] == ["budget-slots"])

    def forgetful(scenario: Json) -> Result:
        result = decide_scenario(scenario)
        return replace(result, decisions=[each for each in result.decisions if each["selected"]])

    assert differences(vector, decide_scenario, decide_scenario) == []
    assert differences(vector, forgetful, decide_scenario) != []


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, outcome: Result) -> Path:
    """One vector that passes and one that fails, the latter with a tag."""
    old = [a_binding("c1", "Bound", snapshot="s0"), a_binding("c7", "Scheduled", snapshot="s0")]
    right = a_vector(outcome) | {"scenario": a_scenario(pick_n(2), *old)}
    wrong = copy.deepcopy(right) | {"id": "w", "divergence": ["annotation-kept"]}
    wrong["want"]["observedGeneration"] = 99
    lines = "\n".join(json.dumps(vector) for vector in (right, wrong))
    (tmp_path / "own.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return tmp_path


def test_the_command_prints_differences_and_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), "--engine", "oracle"]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "w observedGeneration: want 99, got 7"
    assert lines[-1] == "1 passed, 1 failed, 0 skipped"


def test_the_command_skips_what_it_is_told_to_ignore(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), "--engine", "oracle", "--ignore", "retention annotation-kept"]) == 0

    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"


def test_the_command_refuses_a_folder_without_vectors(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"holds no \*\.jsonl"):
        main([str(tmp_path)])
