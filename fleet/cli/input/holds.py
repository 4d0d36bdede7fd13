"""Holds: what would keep the scheduler from deciding placements that are decided from files all the same."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.cli.input.problems import Findings
from fleet.cli.input.simulation_inputs import PlacementInputs, SimulationInputs
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest
from fleet.scheduler.holds import list_holds
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
    yield from (hold.message for hold in list_holds(metadata, companion, profile, place="the files have"))
    name = companion.choose_class(metadata)
    if name and companion.priority is None:
        yield f"decided with priority 0: files have no PriorityClass {name}; spec.priority of its options is read"
