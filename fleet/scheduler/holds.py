"""Holds: what keeps the scheduler from carrying out a decision that is made without it, from files or on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import OPTIONS_REQUIRED
from fleet.model.keys import GROUP, OPTIONS
from fleet.model.views import Metadata
from fleet.scheduler.companions import (
    NO_COMPANION,
    Companion,
    describe_lone_member,
    describe_missing_plugin,
    find_approval_plugin,
    merge_gates,
)


class Hold(NamedTuple):
    message: str
    is_of_new_clusters: bool = False
    """Whether nothing is held where no cluster is newly chosen."""


def list_holds(metadata: Metadata, companion: Companion, profile: CompiledProfile, *, place: str) -> Iterator[Hold]:
    """Without those of priority. `place`: where the options were looked for, with its verb."""
    if companion is NO_COMPANION and metadata.annotation(OPTIONS) == OPTIONS_REQUIRED:
        yield Hold(f"the scheduler holds it, because annotation {OPTIONS} asks for options, and {place} none")
    gates = ", ".join(gate.name for gate in merge_gates(metadata, companion))
    if gates:
        yield Hold(f"the scheduler holds it until its gates are cleared: {gates}")
    if companion.approvals and find_approval_plugin(profile) is None:
        yield Hold(f"the scheduler holds it: {describe_missing_plugin(profile.scheduler_name)}")
    elif companion.approvals:
        rules = ", ".join(rule.name for rule in companion.approvals)
        yield Hold(f"nothing is bound before approvals by {rules}", is_of_new_clusters=True)
    group = companion.group or metadata.annotation(GROUP)
    if group and not profile.decides_groups:
        yield Hold(f"the scheduler holds it: {describe_lone_member(group, profile.scheduler_name)}")
    elif group:
        yield Hold(
            f"decided by itself here; the scheduler, and a scenario, decide all members of group {group} together"
        )
