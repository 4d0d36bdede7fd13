"""The product as an engine of the runner: a scenario goes through its decision function, the outcome into plain JSON.

`run` translates, and decides nothing itself:

* in: the scenario's objects become the views the product reads, its options become the product's settings (the names
  are listed in `tests.oracle.settings`), `placementUid` becomes the UID that names of new bindings depend on;
* out: the operations are applied to the scenario's bindings by sending each operation's own document through a JSON
  merge patch, so that the patches are under test as well; an object whose last finalizer goes while it is terminating
  vanishes; `tests.oracle.reference.described` and `Result` give the rest its shape.

Error classes are `none`, `input` and `transient`. Verdicts are wanted for the clusters that plugins judged (PickAll,
PickN when it schedules) and for the targets of PickFixed; otherwise there are none.
"""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import msgspec

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision, Outcome, Published
from fleet.framework.cycle.publish import invalid_reason
from fleet.framework.operations import Action, Operation
from fleet.framework.profiles.profile import CompiledProfile, StatusLimits
from fleet.framework.request import compile_request
from fleet.framework.status import message_of, published_text
from fleet.framework.types import Component
from fleet.model.keys import PARENT_PLACEMENT, PICK_FIXED
from fleet.model.timestamps import parse_timestamp
from fleet.model.views import Binding, MemberCluster, PolicySnapshot
from fleet.snapshot import Table
from plugins.default_profile import compile_default, default_profile
from tests.fake_hub import merged
from tests.oracle.documents import Json
from tests.oracle.evaluation import Verdict, Verdicts
from tests.oracle.reference import Result, described

ERROR_CLASSES = {Outcome.ERROR: "transient"}


def run(scenario: Json) -> Result:
    return result_of(scenario, decide(decision_input(scenario)))


def decision_input(scenario: Json) -> DecisionInput:
    snapshot = msgspec.convert(scenario["policySnapshot"], PolicySnapshot)
    return DecisionInput(
        frame=Table(msgspec.convert(scenario["memberClusters"], list[MemberCluster])).freeze(),
        request=compile_request(snapshot, placement_uid=scenario.get("placementUid", "")),
        bindings=msgspec.convert(scenario["bindings"], list[Binding]),
        profile=profile_for(tuple(sorted((scenario.get("options") or {}).items()))),
        now=parse_timestamp(scenario["now"]),
        previous=snapshot.status,
    )


@lru_cache(maxsize=256)
def profile_for(options: tuple[tuple[str, Any], ...]) -> CompiledProfile:
    named = dict(options)
    args = {
        "ClusterEligibility": {
            "heartbeatTimeout": f"{named.get('heartbeatTimeoutSeconds', 300)}s",
            "unhealthyTimeout": f"{named.get('healthTimeoutSeconds', 300)}s",
            "retention": f"{named.get('retentionSeconds', 900)}s",
        },
        "ClusterAffinity": {"sorterPopulation": named.get("sorterPopulation", "AllClusters")},
        "TopologySpreadConstraints": {
            "missingKey": named.get("spreadMissingKey", "Neutral"),
            "usableDomainsOnly": named.get("spreadUsableDomainsOnly", False),
        },
    }
    limits = StatusLimits(named.get("unselectedDecisions", 20), named.get("maxDecisions", 1000))
    return compile_default(
        default_profile(args=args, limits=limits, downscale_order=named.get("downscaleOrder", "StoredScore"))
    )


def result_of(scenario: Json, decision: Decision) -> Result:
    documents, new = applied(scenario, decision)
    published = decision.published
    written = published is not None and published.differs_from(decision.previous)
    status = shown(published) if published is not None and written else scenario["policySnapshot"].get("status") or {}
    condition = next((one for one in status.get("conditions") or [] if one["type"] == "Scheduled"), None)
    return Result(
        bindings=described(documents, new),
        documents=documents,
        decisions=status.get("targetClusters") or [],
        condition=condition,
        observed_generation=status.get("observedCRPGeneration") or 0,
        error_class="input" if decision.request.problems else ERROR_CLASSES.get(decision.outcome, "none"),
        operations=[
            {"operation": one.action.value, "name": one.name, "cluster": one.cluster} for one in decision.operations
        ],
        verdicts=fixed_verdicts(decision) if decision.request.placement_type == PICK_FIXED else verdicts(decision),
        status_written=written,
    )


def shown(published: Published) -> Json:
    return {
        "observedCRPGeneration": published.observed_generation,
        "conditions": [msgspec.to_builtins(published.condition)],
        "targetClusters": msgspec.to_builtins(published.decisions),
    }


def applied(scenario: Json, decision: Decision) -> tuple[list[Json], set[str]]:
    """The placement's bindings once the operations are carried out, and the names of new ones."""
    own = {one["metadata"]["name"]: copy.deepcopy(one) for one in scenario["bindings"] if belongs(one, decision)}
    new = set()
    for operation in decision.operations:
        document = operation.document(decision.request)
        if operation.action is Action.CREATE:
            own[operation.name] = document
            new.add(operation.name)
        else:
            patch_one(own, operation, document)
    return list(own.values()), new


def belongs(binding: Json, decision: Decision) -> bool:
    metadata = binding["metadata"]
    labels = metadata.get("labels") or {}
    same_namespace = (metadata.get("namespace") or "") == decision.request.namespace
    return same_namespace and labels.get(PARENT_PLACEMENT) == decision.request.placement


def patch_one(bindings: dict[str, Json], operation: Operation, patch: Json) -> None:
    before = bindings[operation.name]
    assert patch["metadata"].pop("resourceVersion") == before["metadata"].get("resourceVersion", "")
    after = merged(before, patch)
    if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
        del bindings[operation.name]
    else:
        bindings[operation.name] = after


def verdicts(decision: Decision) -> Verdicts:
    last = decision.round
    if last is None:
        return {}
    found: Verdicts = {}
    frame = decision.frame
    topology, affinity, obsolete = (last.scores.component(one) for one in Component)
    scored = {row: place for place, row in enumerate(last.scores.rows.tolist())}
    for row in frame.names.order.tolist():
        name, status = frame.name(row), last.verdicts.status(row)
        if status is None:
            scores = [
                0 if one is None or row not in scored else int(one[scored[row]])
                for one in (topology, affinity, obsolete)
            ]
            found[name] = Verdict(name, "not picked", "", "", *scores)
        elif last.verdicts.already_selected() >> row & 1:
            found[name] = Verdict(name, "already selected", plugin=status.plugin)
        else:
            found[name] = Verdict(name, "filtered", plugin=status.plugin, reason=published_text(status))
    for target in decision.targets:
        assert target.scores is not None
        found[target.cluster] = Verdict(
            target.cluster,
            "picked",
            topology=target.scores.topology,
            affinity=target.scores.affinity,
            obsolete=target.obsolete,
            step=target.step if decision.request.constraints else 0,
        )
    return found


def fixed_verdicts(decision: Decision) -> Verdicts:
    found = {one.cluster: Verdict(one.cluster, "picked") for one in decision.targets}
    for name in decision.invalid:
        assert decision.verdicts is not None
        status = decision.verdicts.status_by_name(name)
        assert status is not None
        found[name] = Verdict(name, "filtered", status.plugin, invalid_reason(name, message_of(status)))
    return found
