"""The oracle: decides a whole scenario the slow and plain way, from JSON to JSON.

It shares no code with the product. Its only virtue is that every rule of the contract can be found in it, one object
at a time; where the product is clever, this is the second opinion.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracle.bindings import classify, target_of
from tests.oracle.cycle import Cycle, pick_all, pick_fixed, pick_n, tidy_first
from tests.oracle.documents import (
    GENERATION_ANNOTATION,
    PREVIOUS_STATE,
    Json,
    annotations_of,
    is_terminating,
    moment,
    name_of,
    namespace_of,
)
from tests.oracle.evaluation import Verdicts
from tests.oracle.filters import Problem
from tests.oracle.inputs import PICK_ALL, PICK_FIXED, InputError, Inputs, count_annotation, policy_of, read_inputs
from tests.oracle.naming import NameTaken
from tests.oracle.settings import DEFAULTS, Settings
from tests.oracle.status import Status, stopped_condition


@dataclass
class Result:
    """What a cycle leaves behind, in the shape of the vectors' `want`, and why."""

    bindings: list[Json]
    decisions: list[Json]
    condition: Json | None
    observed_generation: int
    error_class: str = "none"
    operations: list[Json] = field(default_factory=list)
    verdicts: Verdicts = field(default_factory=dict)
    documents: list[Json] = field(default_factory=list)
    """The placement's bindings as objects."""
    status_written: bool = False


def decide_scenario(scenario: Json, settings: Settings = DEFAULTS) -> Result:
    snapshot = scenario["policySnapshot"]
    now = moment(scenario["now"])
    assert now is not None
    status = Status(snapshot, now)
    try:
        inputs = read_inputs(snapshot)
    except InputError as error:
        publish_input_error(snapshot, status, str(error))
        return untouched(scenario, status, "input")
    cycle = new_cycle(scenario, inputs, status, settings.overridden_by(scenario.get("options") or {}))
    try:
        run(cycle, inputs)
    except NameTaken:
        return untouched(scenario, Status(snapshot, now), "transient")
    return result_of(scenario, cycle)


def new_cycle(scenario: Json, inputs: Inputs, status: Status, settings: Settings) -> Cycle:
    snapshot = scenario["policySnapshot"]
    bindings = classify(scenario)
    now = moment(scenario["now"])
    assert now is not None
    problem = Problem(
        clusters=scenario["memberClusters"],
        policy=policy_of(snapshot),
        namespace=namespace_of(snapshot),
        obsolete=frozenset(target_of(binding) for binding in bindings.obsolete),
        now=now,
        settings=settings,
    )
    return Cycle(snapshot, problem, bindings, status, inputs.generation)


def run(cycle: Cycle, inputs: Inputs) -> None:
    tidy_first(cycle.bindings)
    if inputs.placement_type == PICK_ALL:
        pick_all(cycle)
    elif inputs.placement_type == PICK_FIXED:
        pick_fixed(cycle, cycle.problem.policy.get("clusterNames") or [])
    else:
        pick_n(cycle, inputs.wanted)


def publish_input_error(snapshot: Json, status: Status, cause: str) -> None:
    """Only where the generation is readable; the decisions stay."""
    try:
        generation = count_annotation(snapshot, GENERATION_ANNOTATION)
    except InputError:
        return
    status.publish(stopped_condition(snapshot, cause), status.decisions, generation)


def untouched(scenario: Json, status: Status, error_class: str) -> Result:
    bindings = classify(scenario)
    return Result(
        bindings=described(bindings.everything, set()),
        documents=bindings.everything,
        decisions=status.decisions,
        condition=status.condition,
        observed_generation=status.generation,
        error_class=error_class,
        status_written=status.written,
    )


def result_of(scenario: Json, cycle: Cycle) -> Result:
    new = {name_of(binding) for binding in cycle.bindings.created}
    return Result(
        bindings=described(cycle.bindings.everything, new),
        documents=cycle.bindings.everything,
        decisions=cycle.status.decisions,
        condition=cycle.status.condition,
        observed_generation=cycle.status.generation,
        operations=cycle.bindings.operations,
        verdicts=cycle.verdicts,
        status_written=cycle.status.written,
    )


def described(bindings: list[Json], new: set[str]) -> list[Json]:
    """In the format of the vectors, sorted by cluster; several on one cluster by name, new ones last."""
    descriptions = [describe(binding, preexisting=name_of(binding) not in new) for binding in bindings]
    return sorted(descriptions, key=lambda each: (each["cluster"], not each["preexisting"], each["name"]))


def describe(binding: Json, *, preexisting: bool) -> Json:
    spec = binding["spec"]
    decision = {key: value for key, value in spec["clusterDecision"].items() if key != "clusterName"}
    description = {
        "cluster": target_of(binding),
        "state": spec.get("state"),
        "snapshot": spec.get("schedulingPolicySnapshotName"),
        "decision": decision,
        "preexisting": preexisting,
        "name": name_of(binding),
    }
    if PREVIOUS_STATE in annotations_of(binding):
        description["previousState"] = annotations_of(binding)[PREVIOUS_STATE]
    if is_terminating(binding):
        description["deleting"] = True
    return description
