"""Are the picks right? Asked before anything is measured: a fast wrong answer is worth nothing.

Two judges: the recorded picks of KubeFleet's scheduler for twenty policies on two fleets, with their scores and in
their order, and for the harder policies, which nobody recorded, the naive oracle on a small fleet.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.profiles.profile import CompiledProfile
from fleet.snapshot import Frame, Table
from plugins.default_profile import compile_default
from tests.bench.fleets import RECORDED_SIZES, cluster_document, clusters_with_hosts, fleet_document, frame_of
from tests.bench.policies import (
    Json,
    cells_policy,
    hard_policy,
    hosts_policy,
    policy_snapshot,
    question,
    recorded_policies,
)
from tests.oracle.reference import Result, decide_scenario

Pick = tuple[str, int, int]
"""Cluster, affinity score, topology spread score."""

_RECORDED: Final = Path(__file__).parent / "data" / "expected-picks.json.gz"
_HARD_FLEET: Final = 120
_HARD_PICKS: Final = 12


def wrong_picks() -> list[str]:
    """A line for every policy whose picks are not what they should be."""
    profile = compile_default()
    return [*_unlike_the_record(profile), *_unlike_the_oracle(profile)]


def how_many_are_checked() -> int:
    return sum(len(picks) for picks in recorded()["fleets"].values()) + len(list(_hard_questions()))


@cache
def recorded() -> Json:
    content: Json = json.loads(gzip.decompress(_RECORDED.read_bytes()))
    return content


def picks_of(inp: DecisionInput) -> list[Pick]:
    targets = decide(inp).targets
    return [(one.cluster, one.scores.affinity, one.scores.topology) for one in targets if one.scores is not None]


# --- the record -----------------------------------------------------------------------------------------------------


def _unlike_the_record(profile: CompiledProfile) -> Iterator[str]:
    for size in RECORDED_SIZES:
        frame, want = frame_of(size), recorded()["fleets"][str(size)]
        for policy in recorded_policies():
            expected = [tuple(pick) for pick in want[policy["id"]]]
            got = picks_of(question(frame, policy["policySnapshot"], profile))
            yield from _difference(f"{policy['id']} on {size} clusters", expected, got)


def input_hashes() -> dict[str, str]:
    """Of what the picks are asked for, to be compared with what they were recorded for."""
    fleets = {f"fleet-{size}": _hash(fleet_document(size)) for size in RECORDED_SIZES}
    return {**fleets, "policies": _hash(recorded_policies())}


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# --- the oracle -----------------------------------------------------------------------------------------------------


def _unlike_the_oracle(profile: CompiledProfile) -> Iterator[str]:
    for name, frame, scenario in _hard_questions():
        got = picks_of(question(frame, scenario["policySnapshot"], profile))
        yield from _difference(f"{name} on {_HARD_FLEET} clusters", oracle_picks(decide_scenario(scenario)), got)


def _hard_questions() -> Iterator[tuple[str, Frame, Json]]:
    frame = Table(clusters_with_hosts(_HARD_FLEET)).freeze()
    fleet = fleet_document(_HARD_FLEET)
    fleet["memberClusters"] = [cluster_document(row, labels={"host": f"h{row}"}) for row in range(_HARD_FLEET)]
    for name, policy in (("hard", hard_policy), ("cells", cells_policy), ("hosts", hosts_policy)):
        snapshot = policy_snapshot(name, policy(_HARD_PICKS, 0))
        yield name, frame, scenario_of(fleet, snapshot)


def scenario_of(fleet: Json, snapshot: Json) -> Json:
    """A question to the oracle."""
    return {**fleet, "policySnapshot": snapshot, "bindings": []}


def oracle_picks(result: Result) -> list[Pick]:
    picked = [one for one in result.verdicts.values() if one.outcome == "picked"]
    return [(one.cluster, one.affinity, one.topology) for one in sorted(picked, key=lambda one: one.step)]


def _difference(question: str, want: list[Any], got: list[Pick]) -> Iterator[str]:
    for place, (expected, found) in enumerate(zip(want, got, strict=False)):
        if expected != found:
            yield f"{question}: pick {place + 1} should be {expected}, is {found}"
            return
    if len(want) != len(got):
        yield f"{question}: {len(got)} picks instead of {len(want)}"
