"""The report of a simulation for programs: one versioned object, for JSON and YAML.

Within `fleet/v2` fields are added, never renamed or removed. Run as a program, this module prints the JSON schema that
is kept in `docs/`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from fleet.cli.input.simulation import SimulatedDecision, Simulation
from fleet.explain.answer.parts import Answer
from fleet.framework.cycle.decision import Decision
from fleet.model.json_schema import render_schema
from fleet.model.timestamps import format_timestamp
from fleet.settings import Settings

API_VERSION: Final = "fleet/v2"
KIND: Final = "Simulation"


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the report's parts."""


class PolicyPart(_Part, frozen=True):
    type: str
    wanted: int | None
    """PickN: how many clusters."""
    cluster_names: tuple[str, ...]
    """PickFixed: which clusters."""
    snapshot: str
    source: Literal["snapshot", "placement"]
    """The object the policy was read from."""


class ConditionPart(_Part, frozen=True):
    type: str
    status: str
    reason: str
    message: str
    observed_generation: int


class OperationPart(_Part, frozen=True):
    """A change to a binding, in the order of writing."""

    action: str
    cluster: str
    binding: str
    group: str


class PublishedPart(_Part, frozen=True):
    """What would be written as the policy snapshot's status."""

    observed_generation: int = msgspec.field(name="observedCRPGeneration")
    target_clusters: list[dict[str, Any]]
    changed: bool
    """Whether it differs from the status that was read."""


class DecisionPart(_Part, frozen=True):
    policy: PolicyPart
    outcome: str
    """Selected, Partial, Unschedulable, Unchanged, Shrink or Error."""
    fulfilled: bool
    condition: ConditionPart | None
    """None if no status could be published."""
    operations: tuple[OperationPart, ...]
    published: PublishedPart | None
    answer: Answer
    """As `GET /v1/placements/{ns}/{name}/why?explain=all` gives it, with every cluster of the fleet."""


class Report(_Part, frozen=True):
    api_version: Literal["fleet/v2"]
    kind: Literal["Simulation"]
    now: str
    now_from: str
    settings: dict[str, Any]
    """Those that differ from their defaults."""
    cluster_count: int
    fulfilled: bool
    """Whether every policy is."""
    decisions: tuple[DecisionPart, ...]


def build_report(simulation: Simulation, settings: Settings) -> Report:
    return Report(
        api_version=API_VERSION,
        kind=KIND,
        now=format_timestamp(simulation.moment.nanoseconds),
        now_from=simulation.moment.source,
        settings=settings.collect_changes(),
        cluster_count=len(simulation.clusters),
        fulfilled=simulation.is_fulfilled,
        decisions=tuple(_build_decision(result) for result in simulation.results),
    )


def format_json(report: Report) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def format_yaml(report: Report) -> str:
    import yaml

    text: str = yaml.safe_dump(msgspec.to_builtins(report), sort_keys=False, allow_unicode=True, width=120)
    return text.rstrip("\n")


def build_schema() -> str:
    """The JSON schema of a report."""
    return render_schema(Report)


# --- parts ----------------------------------------------------------------------------------------------------------


def _build_decision(result: SimulatedDecision) -> DecisionPart:
    decision = result.decision
    return DecisionPart(
        policy=_build_policy(result),
        outcome=decision.outcome.value,
        fulfilled=decision.fulfilled,
        condition=_build_condition(decision),
        operations=_build_operations(decision),
        published=_build_published(decision),
        answer=result.explain(everything=True),
    )


def _build_policy(result: SimulatedDecision) -> PolicyPart:
    request = result.placement.request
    return PolicyPart(
        type=request.placement_type,
        wanted=request.wanted,
        cluster_names=request.cluster_names,
        snapshot=request.snapshot,
        source="placement" if result.placement.from_placement else "snapshot",
    )


def _build_condition(decision: Decision) -> ConditionPart | None:
    if decision.published is None:
        return None
    condition = decision.published.condition
    return ConditionPart(
        condition.type, condition.status, condition.reason, condition.message, condition.observed_generation
    )


def _build_operations(decision: Decision) -> tuple[OperationPart, ...]:
    return tuple(
        OperationPart(
            operation.action.value, operation.cluster, operation.name, operation.group.name.lower().replace("_", "-")
        )
        for operation in decision.operations
    )


def _build_published(decision: Decision) -> PublishedPart | None:
    published = decision.published
    if published is None:
        return None
    return PublishedPart(
        observed_generation=published.observed_generation,
        target_clusters=msgspec.to_builtins(list(published.decisions)),
        changed=published.differs_from(decision.previous),
    )


if __name__ == "__main__":
    import sys

    sys.stdout.write(build_schema() + "\n")
