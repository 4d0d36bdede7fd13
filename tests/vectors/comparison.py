"""Differences between two outcomes of the same scenario, field by field, under the rules of the vector format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]

ELAPSED_OR_TIME = re.compile(r"\((?:last received|last transitioned|never received)[^)]*\)")

PREVIOUS_STATE_EXEMPT = frozenset({"annotation-kept"})
UNSELECTED_EXEMPT = frozenset({"budget-slots", "unpicked-kept"})
# Our classes of errors in the words of the vectors; every other class gives the cycle up for good.
ERROR_CLASSES = {"none": "none", "transient": "retriable"}
LIMITED = PREVIOUS_STATE_EXEMPT | UNSELECTED_EXEMPT


class Verdict(Protocol):
    """What became of one cluster: `filtered`, `already selected`, `not picked` or `picked`."""

    @property
    def outcome(self) -> str: ...
    @property
    def plugin(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def topology(self) -> int: ...
    @property
    def affinity(self) -> int: ...
    @property
    def obsolete(self) -> int: ...
    @property
    def step(self) -> int: ...


class Outcome(Protocol):
    """What an engine returns for a scenario."""

    @property
    def bindings(self) -> list[Json]: ...
    @property
    def decisions(self) -> list[Json]: ...
    @property
    def condition(self) -> Json | None: ...
    @property
    def observed_generation(self) -> int: ...
    @property
    def error_class(self) -> str: ...
    @property
    def operations(self) -> list[Json]: ...
    @property
    def verdicts(self) -> Mapping[str, Verdict]: ...


@dataclass(frozen=True)
class Difference:
    field: str
    want: object
    got: object

    def __str__(self) -> str:
        return f"{self.field}: want {self.want!r}, got {self.got!r}"


@dataclass(frozen=True)
class Rules:
    """What may be ignored in a comparison."""

    ordered: bool = True
    previous_state: bool = True
    """False: the previous state of bindings that are not unscheduled is not compared."""
    unselected: bool = True
    """False: unselected decisions are not compared."""
    times: bool = True
    """False: the times that reasons mention in parentheses are masked."""

    @classmethod
    def of(cls, vector: Json) -> Rules:
        tags = set(vector["divergence"])
        return cls(
            times=False,
            ordered=vector["orderComparable"],
            previous_state=not tags & PREVIOUS_STATE_EXEMPT,
            unselected=not tags & UNSELECTED_EXEMPT,
        )


def compare_with_want(want: Json, got: Outcome, rules: Rules) -> list[Difference]:
    """Against the outcome stated by a vector: names of new bindings and the message are unknown there."""
    condition = None if got.condition is None else {key: got.condition[key] for key in ("reason", "status")}
    error_class = ERROR_CLASSES.get(got.error_class, "unexpected")
    return [
        *_fields(want["errorClass"], error_class, "errorClass"),
        *_fields(want["observedGeneration"], got.observed_generation, "observedGeneration"),
        *_fields(want["condition"], condition, "condition"),
        *compare_bindings(want["bindings"], [_anonymous_if_new(binding) for binding in got.bindings], rules),
        *compare_decisions(want["decisions"], got.decisions, rules),
    ]


def compare_outcomes(want: Outcome, got: Outcome, rules: Rules = Rules()) -> list[Difference]:
    """Against another engine: everything, including the names of new bindings and the message."""
    return [
        *_fields(want.error_class, got.error_class, "errorClass"),
        *_fields(want.observed_generation, got.observed_generation, "observedGeneration"),
        *_fields(_comparable_condition(want.condition), _comparable_condition(got.condition), "condition"),
        *compare_bindings(want.bindings, got.bindings, rules),
        *compare_decisions(want.decisions, got.decisions, rules),
    ]


def compare_explanations(want: Outcome, got: Outcome) -> list[Difference]:
    """The writes, whatever their order inside a group, and the verdict on every cluster."""
    return [
        *_fields(_sorted_operations(want), _sorted_operations(got), "operations"),
        *_fields(_verdict_fields(want), _verdict_fields(got), "verdicts"),
    ]


def compare_bindings(want: list[Json], got: list[Json], rules: Rules) -> Iterator[Difference]:
    wanted, found = (_keyed(bindings, rules) for bindings in (want, got))
    for key in sorted(wanted.keys() | found.keys()):
        yield from _fields(wanted.get(key), found.get(key), f"binding {' '.join(key)}")


def compare_decisions(want: list[Json], got: list[Json], rules: Rules) -> Iterator[Difference]:
    wanted, found = (_comparable_decisions(decisions, rules) for decisions in (want, got))
    by_name = {each["clusterName"]: each for each in wanted}, {each["clusterName"]: each for each in found}
    for name in sorted(by_name[0].keys() | by_name[1].keys()):
        yield from _fields(by_name[0].get(name), by_name[1].get(name), f"decision on {name}")
    if len(wanted) != len(by_name[0]) or len(found) != len(by_name[1]):
        yield Difference("number of decisions", len(wanted), len(found))
    if rules.ordered and by_name[0].keys() == by_name[1].keys():
        yield from _fields([*by_name[0]], [*by_name[1]], "order of decisions")


def _fields(want: Any, got: Any, path: str) -> Iterator[Difference]:
    """The innermost fields that differ."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted(want.keys() | got.keys()):
            yield from _fields(want.get(key), got.get(key), f"{path}.{key}")
    elif want != got:
        yield Difference(path, want, got)


def _keyed(bindings: list[Json], rules: Rules) -> dict[tuple[str, str, str], Json]:
    """By cluster and name; new ones, which have no comparable name, are counted per cluster."""
    keyed: dict[tuple[str, str, str], Json] = {}
    for binding in bindings:
        prepared = _comparable_binding(binding, rules)
        number = sum(key[:2] == (binding["cluster"], binding.get("name", "new")) for key in keyed)
        keyed[binding["cluster"], binding.get("name", "new"), str(number)] = prepared
    return keyed


def _comparable_binding(binding: Json, rules: Rules) -> Json:
    prepared = {**binding, "decision": _comparable_decision(binding["decision"], rules)}
    if not rules.previous_state and binding["state"] != "Unscheduled":
        prepared.pop("previousState", None)
    return prepared


def _comparable_decisions(decisions: list[Json], rules: Rules) -> list[Json]:
    return [_comparable_decision(each, rules) for each in decisions if rules.unselected or each["selected"]]


def _comparable_decision(decision: Json, rules: Rules) -> Json:
    return decision if rules.times else {**decision, "reason": ELAPSED_OR_TIME.sub("(time)", decision["reason"])}


def _sorted_operations(outcome: Outcome) -> list[tuple[str, ...]]:
    return sorted((each["operation"], each["cluster"], each["name"]) for each in outcome.operations)


def _verdict_fields(outcome: Outcome) -> dict[str, Json]:
    compared = ("outcome", "plugin", "reason", "topology", "affinity", "obsolete", "step")
    return {name: {field: getattr(verdict, field) for field in compared} for name, verdict in outcome.verdicts.items()}


def _anonymous_if_new(binding: Json) -> Json:
    return binding if binding["preexisting"] else {key: value for key, value in binding.items() if key != "name"}


def _comparable_condition(condition: Json | None) -> Json | None:
    if condition is None:
        return None
    prepared = {key: condition.get(key) for key in ("status", "reason", "message", "observedGeneration")}
    if str(prepared["message"]).startswith("scheduling stopped: "):
        prepared["message"] = "scheduling stopped: (cause)"
    return prepared
