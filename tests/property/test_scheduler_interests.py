"""D25 on random fleets: the index finds exactly the placements that a reading of their documents finds."""

from __future__ import annotations

import copy
import datetime
from typing import Final

import msgspec
import pytest

from fleet.framework.arguments import RawArgs
from fleet.framework.bindings import classify
from fleet.framework.context import HookContext
from fleet.framework.state import CycleState
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import parse_timestamp
from fleet.model.views import MemberCluster, PolicySnapshot
from fleet.scheduler.events.cluster_diff import diff_clusters
from fleet.scheduler.events.interest_index import InterestIndex, lacks_clusters
from fleet.snapshot import Table
from fleet.snapshot.columns.bitset import as_bits
from fleet.snapshot.columns.signals import Eligibility
from plugins.cluster_eligibility import ClusterEligibility
from plugins.default_profile import compile_default
from tests.builders import a_policy, names_in
from tests.oracle import triggers as oracle
from tests.oracle.documents import GENERATION_ANNOTATION, Json
from tests.oracle.quantities import NotAQuantity, parse_quantity
from tests.oracle.settings import DEFAULTS
from tests.strategies import random_scenario
from tests.vectors.generation import vocabulary as words
from tests.vectors.generation.clusters import random_cluster
from tests.vectors.generation.dice import Dice

EVENT_SOURCES: Final = compile_default().event_sources
RULE: Final = Eligibility.parse(heartbeat_timeout="5m", unhealthy_timeout="5m")
NOW: Final = parse_timestamp(words.NOW)
NOW_OF_ORACLE: Final = datetime.datetime.fromisoformat(words.NOW)

POLICIES = {"normal": 150, "long": 400}
CHANGES = {"normal": 150, "long": 3000}
FLEETS = {"normal": 100, "long": 3000}


def became_eligible(old: MemberCluster | None, new: MemberCluster) -> bool:
    return RULE.of(new, NOW) and (old is None or not RULE.of(old, NOW))


@pytest.fixture(scope="module")
def snapshots(*, long: bool) -> list[Json]:
    found = [random_scenario(seed)["policySnapshot"] for seed in range(POLICIES["long" if long else "normal"])]
    return [satisfied(one) if number % 2 else one for number, one in enumerate(found)]


def satisfied(snapshot: Json) -> Json:
    metadata = snapshot["metadata"]
    generation = metadata["annotations"].get(GENERATION_ANNOTATION, "0")
    condition = {"type": "Scheduled", "status": "True", "observedGeneration": metadata["generation"]}
    observed = int(generation) if generation.isdecimal() else 0
    return {**snapshot, "status": {"observedCRPGeneration": observed, "conditions": [condition]}}


def key_of(number: int) -> str:
    return f"placement-{number}"


# --- changes of a cluster ---------------------------------------------------------------------------------------------


def random_change(seed: int) -> tuple[Json | None, Json | None]:
    dice = Dice(seed)
    name = f"c{dice.randint(0, 9)}"
    old = random_cluster(dice, name, troubled=0.3, namespaces=True)
    match dice.weighed({"joins": 1, "leaves": 1, "becomes another": 1, "changes": 12}):
        case "joins":
            return None, old
        case "leaves":
            return old, None
        case "becomes another":
            return old, random_cluster(dice, name, troubled=0.3, namespaces=True)
    return old, edited(dice, old)


def edited(dice: Dice, old: Json) -> Json:
    """Some parts are those of another cluster; quantities may be the same in other words."""
    new = copy.deepcopy(old)
    donor = random_cluster(dice, "donor", troubled=0.3, namespaces=True)
    for path in dice.some(PARTS, most=2):
        transplant(path, donor, new)
    for usage in (new["status"].get("resourceUsage") or {}).values():
        for resource, value in usage.items():
            if dice.chance(0.3):
                usage[resource] = in_other_words(value)
    return new


PARTS: Final = (
    ("metadata", "labels"),
    ("metadata", "deletionTimestamp"),
    ("spec", "taints"),
    ("status", "properties"),
    ("status", "resourceUsage"),
    ("status", "agentStatus"),
    ("status", "namespaces"),
    ("status", "conditions"),
)


def transplant(path: tuple[str, str], donor: Json, patient: Json) -> None:
    section, field = path
    if field in donor[section]:
        patient[section][field] = donor[section][field]
    else:
        patient[section].pop(field, None)


def in_other_words(value: str | int) -> str | int:
    try:
        return f"{parse_quantity(value) * 10**9}n"
    except NotAQuantity:
        return value


# --- the index --------------------------------------------------------------------------------------------------------


def an_index(snapshots: list[Json], dice: Dice) -> InterestIndex:
    """Filled by way of other states, so that what is left of those would show."""
    views = [msgspec.convert(one, PolicySnapshot) for one in snapshots]
    index = InterestIndex(lambda _: EVENT_SOURCES)
    for number, view in enumerate(views):
        others = [one for one in dice.sample(views, 10) if one.metadata.namespace == view.metadata.namespace]
        index.put(PlacementKey.parse(key_of(number)), dice.choice((None, *others)), short=dice.chance(0.5))
        if dice.chance(0.2):
            index.forget(PlacementKey.parse(key_of(number)))
        if dice.chance(0.2):
            index.begin_attempt(PlacementKey.parse(key_of(number)))
    for number, view in enumerate(views):
        index.put(PlacementKey.parse(key_of(number)), view, short=lacks_clusters(view))
        index.end_attempt(PlacementKey.parse(key_of(number)))
    return index


def test_D25_the_index_finds_whom_the_documents_name(snapshots: list[Json], *, long: bool) -> None:
    index = an_index(snapshots, Dice(0))
    reactions = 0
    for seed in range(CHANGES["long" if long else "normal"]):
        old, new = random_change(seed)
        want = {
            key_of(number)
            for number, snapshot in enumerate(snapshots)
            if oracle.reacts(snapshot, old, new, NOW_OF_ORACLE, DEFAULTS)
        }
        views = (None if one is None else msgspec.convert(one, MemberCluster) for one in (old, new))
        change = diff_clusters(*views, became_eligible=became_eligible)
        found = [str(key) for key in index.find_affected(change)]
        assert len(found) == len(set(found)), seed
        assert set(found) == want, seed
        reactions += 0 < len(want) < len(snapshots)
    assert reactions  # neither everybody nor nobody


# --- eligibility ------------------------------------------------------------------------------------------------------


def fleet(dice: Dice) -> list[MemberCluster]:
    documents = [random_cluster(dice, f"c{number}", troubled=0.7, namespaces=False) for number in range(20)]
    return [msgspec.convert(with_odd_times(dice, one), MemberCluster) for one in documents]


def with_odd_times(dice: Dice, cluster: Json) -> Json:
    """Now and then a time beyond what a column can hold, or none at all."""
    for agent in cluster["status"].get("agentStatus") or []:
        if dice.chance(0.2):
            agent["lastReceivedHeartbeat"] = dice.choice(ODD_TIMES)
        for condition in agent["conditions"]:
            if dice.chance(0.1):
                condition["lastTransitionTime"] = dice.choice(ODD_TIMES)
    return cluster


ODD_TIMES: Final = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1822-05-05T05:05:05Z", "yesterday", "")


def names_passing(plugin: ClusterEligibility, clusters: list[MemberCluster]) -> set[str]:
    frame = Table(clusters).freeze()
    request = a_policy().request()
    ctx = HookContext(now=NOW, bindings=classify((), frame, request))
    verdict = plugin.filter(ctx, CycleState(), request, frame, frame.valid)
    return names_in(frame, as_bits(verdict.ok, frame.valid))


@pytest.mark.parametrize("timeout", ["5m", "1m", "0", "1800000h", "100000000h"])
def test_whoever_the_triggers_hold_eligible_the_plugin_does_too(timeout: str, *, long: bool) -> None:
    rule = Eligibility.parse(heartbeat_timeout=timeout, unhealthy_timeout=timeout)
    plugin = ClusterEligibility(RawArgs({"heartbeatTimeout": timeout, "unhealthyTimeout": timeout}))
    for seed in range(FLEETS["long" if long else "normal"]):
        clusters = fleet(Dice(seed))
        assert {one.metadata.name for one in clusters if rule.of(one, NOW)} == names_passing(plugin, clusters), seed
