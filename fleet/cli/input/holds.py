"""Holds: what would keep the scheduler from deciding placements that are decided from files all the same."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.cli.input.problems import Findings
from fleet.cli.input.simulation_inputs import PlacementInputs, SimulationInputs
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import OPTIONS_REQUIRED, PlacementRequest
from fleet.model.keys import GROUP, OPTIONS, PRIORITY_CLASS
from fleet.scheduler.companions import NO_COMPANION, describe_missing_plugin, find_approval_plugin
from fleet.scheduler.pre_enqueue import merge_gates
from fleet.scheduler.profiles.frameworks import CompiledProfiles


def note_holds(inputs: SimulationInputs, profiles: CompiledProfiles, findings: Findings) -> None:
    for placement in inputs.placements:
        profile = profiles.choose(placement.request.scheduler_name)
        for hold in _list_holds(placement, profile):
            findings.note(f"placement {placement.request.key}: {hold}")
        if may_evict(placement.prepare_request(profile), profile, inputs):
            findings.note(
                f"placement {placement.request.key}: may make room by evicting less important placements, which is not "
                "decided here: play a scenario"
            )


def may_evict(request: PlacementRequest, profile: CompiledProfile, inputs: SimulationInputs) -> bool:
    """Whether anything is bound that could leave for the placement."""
    if not profile.evicts or not request.may_evict:
        return False
    lower = any((each.companion.priority or 0) < request.priority for each in inputs.bound if each.bindings)
    return (bool(request.priority) and lower) or any(share.borrowers for share in request.quotas)


def _list_holds(placement: PlacementInputs, profile: CompiledProfile) -> Iterator[str]:
    metadata, companion = placement.metadata, placement.companion
    if companion is NO_COMPANION and metadata.annotation(OPTIONS) == OPTIONS_REQUIRED:
        yield f"the scheduler holds it, because annotation {OPTIONS} asks for options, and the files have none"
    gates = ", ".join(gate.name for gate in merge_gates(metadata, companion))
    if gates:
        yield f"the scheduler holds it until its gates are cleared: {gates}"
    if companion.approvals and find_approval_plugin(profile) is None:
        yield f"the scheduler holds it: {describe_missing_plugin(profile.scheduler_name)}"
    elif companion.approvals:
        rules = ", ".join(rule.name for rule in companion.approvals)
        yield f"nothing is bound before approvals by {rules}"
    group = companion.group or metadata.annotation(GROUP)
    if group:
        yield f"decided by itself here; the scheduler, and a scenario, decide all members of group {group} together"
    name = companion.priority_class_name or metadata.annotation(PRIORITY_CLASS)
    if name and companion.priority is None:
        yield f"decided with priority 0: files have no PriorityClass {name}; spec.priority of its options is read"
