"""The answer for programs: one versioned object with everything a simulation found, for JSON and YAML.

Within `fleet/v1` fields are added, never renamed or removed. Run as a program, this module prints the JSON schema that
is kept in `docs/`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from fleet.cli.input.simulation import Decided, Simulation
from fleet.explain import (
    ClusterCounts,
    ClusterExplanation,
    FullDomain,
    GroupSummary,
    build_groups,
    count_clusters,
    find_full_domains,
    summarize,
)
from fleet.explain.facts.margins import ScoreParts
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Target
from fleet.framework.status import message_of
from fleet.model.timestamps import format_timestamp
from fleet.settings import Settings
from fleet.snapshot.columns.bitset import each_row

API_VERSION: Final = "fleet/v1"
KIND: Final = "Simulation"


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the report's parts."""


class PlacementPart(_Part, frozen=True):
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int | None


class PolicyPart(_Part, frozen=True):
    type: str
    wanted: int | None
    """PickN: how many clusters."""
    cluster_names: tuple[str, ...]
    """PickFixed: which clusters."""
    snapshot: str
    source: Literal["snapshot", "placement"]
    """Where the policy was read."""


class ConditionPart(_Part, frozen=True):
    type: str
    status: str
    reason: str
    message: str
    observed_generation: int


class ProblemPart(_Part, frozen=True):
    """Why a policy cannot be evaluated."""

    field: str
    value: Any
    message: str


class TargetPart(_Part, frozen=True):
    """A chosen cluster, in the order of picking."""

    cluster: str
    action: Literal["create", "refresh", "revive", "keep"]
    binding: str
    scores: ScoreParts | None
    step: int | None


class OperationPart(_Part, frozen=True):
    """A change to a binding, in the order of writing."""

    action: str
    cluster: str
    binding: str
    group: str


class WarningPart(_Part, frozen=True):
    kind: str
    subject: str
    clusters: tuple[str, ...]


class PublishedPart(_Part, frozen=True):
    """What would be written as the policy snapshot's status."""

    observed_generation: int = msgspec.field(name="observedCRPGeneration")
    target_clusters: list[dict[str, Any]]
    changed: bool
    """Whether it differs from the status that was read."""


class DecisionPart(_Part, frozen=True):
    placement: PlacementPart
    policy: PolicyPart
    outcome: str
    fulfilled: bool
    condition: ConditionPart | None
    """None where nothing could be published."""
    summary: str
    counts: ClusterCounts
    problems: tuple[ProblemPart, ...]
    error: str
    targets: tuple[TargetPart, ...]
    operations: tuple[OperationPart, ...]
    groups: tuple[GroupSummary, ...]
    full_domains: tuple[FullDomain, ...]
    invalid: tuple[str, ...]
    """PickFixed: listed clusters that are not eligible."""
    missing: tuple[str, ...]
    """PickFixed: listed names that no cluster has."""
    clusters: tuple[ClusterExplanation, ...]
    """Every cluster of the fleet, by name."""
    strangers: tuple[ClusterExplanation, ...]
    """Names outside the fleet: missing ones, and targets of dangling bindings."""
    warnings: tuple[WarningPart, ...]
    published: PublishedPart | None
    rounds: int
    skipped: dict[str, tuple[str, ...]]
    """Per hook the plugins that had nothing to do."""
    config_hash: str
    digest: str
    """Equal for equal decisions."""


class Report(_Part, frozen=True):
    api_version: Literal["fleet/v1"]
    kind: Literal["Simulation"]
    now: str
    now_from: str
    settings: dict[str, Any]
    """Those that differ from their defaults."""
    cluster_count: int
    fulfilled: bool
    """Whether every policy is."""
    decisions: tuple[DecisionPart, ...]


def report(simulation: Simulation, settings: Settings) -> Report:
    return Report(
        api_version=API_VERSION,
        kind=KIND,
        now=format_timestamp(simulation.moment.nanoseconds),
        now_from=simulation.moment.source,
        settings=settings.collect_changes(),
        cluster_count=len(simulation.clusters),
        fulfilled=simulation.is_fulfilled,
        decisions=tuple(_decision(one, simulation.clusters) for one in simulation.results),
    )


def as_json(found: Report) -> str:
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def as_yaml(found: Report) -> str:
    import yaml

    text: str = yaml.safe_dump(msgspec.to_builtins(found), sort_keys=False, allow_unicode=True, width=120)
    return text.rstrip("\n")


def json_schema() -> str:
    """The JSON schema of a report."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Report)), indent=2).decode()


# --- parts ----------------------------------------------------------------------------------------------------------


def _decision(one: Decided, clusters: tuple[str, ...]) -> DecisionPart:
    decision, explainer = one.decision, one.explainer
    return DecisionPart(
        placement=_placement(one),
        policy=_policy(one),
        outcome=decision.outcome.value,
        fulfilled=decision.fulfilled,
        condition=_condition(decision),
        summary=summarize(decision),
        counts=count_clusters(decision),
        problems=tuple(ProblemPart(p.field, p.value, p.message) for p in decision.request.problems),
        error=message_of(decision.error),
        targets=tuple(_target(target) for target in decision.targets),
        operations=_operations(decision),
        groups=build_groups(decision),
        full_domains=find_full_domains(decision),
        invalid=decision.invalid,
        missing=decision.missing,
        clusters=tuple(explainer.explain(name) for name in clusters),
        strangers=tuple(explainer.explain(name) for name in explainer.list_strangers()),
        warnings=_warnings(decision),
        published=_published(decision),
        rounds=decision.round_count,
        skipped={hook: tuple(names) for hook, names in decision.skipped.items()},
        config_hash=decision.config_hash,
        digest=decision.digest,
    )


def _placement(one: Decided) -> PlacementPart:
    request = one.asked.request
    return PlacementPart(one.asked.kind, request.namespace, request.placement, request.uid, request.generation)


def _policy(one: Decided) -> PolicyPart:
    request = one.asked.request
    return PolicyPart(
        type=request.placement_type,
        wanted=request.wanted,
        cluster_names=request.cluster_names,
        snapshot=request.snapshot,
        source="placement" if one.asked.from_placement else "snapshot",
    )


def _condition(decision: Decision) -> ConditionPart | None:
    if decision.published is None:
        return None
    found = decision.published.condition
    return ConditionPart(found.type, found.status, found.reason, found.message, found.observed_generation)


def _target(target: Target) -> TargetPart:
    scores = target.scores
    return TargetPart(
        cluster=target.cluster,
        action="keep" if target.action is None else target.action.value,  # type: ignore[arg-type]
        binding="" if target.operation is None else target.operation.name,
        scores=None if scores is None else ScoreParts(scores.topology, scores.affinity, target.obsolete),
        step=target.step or None,
    )


def _operations(decision: Decision) -> tuple[OperationPart, ...]:
    return tuple(
        OperationPart(one.action.value, one.cluster, one.name, one.group.name.lower().replace("_", "-"))
        for one in decision.operations
    )


def _warnings(decision: Decision) -> tuple[WarningPart, ...]:
    def names(rows: int) -> tuple[str, ...]:
        return tuple(sorted(decision.frame.name(row) for row in each_row(rows)))

    return tuple(WarningPart(one.kind, one.subject, names(one.rows)) for one in decision.warnings)


def _published(decision: Decision) -> PublishedPart | None:
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

    sys.stdout.write(json_schema() + "\n")
