"""Generated fleets and placements for conformance checks: small, odd, and the same in every run.

Clusters lack labels, report nonsense, are silent, leaving or tied with each other, because that is where plugins go
wrong. The generator is its own, so that a finding repeats on every machine and on every version of Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from fleet.framework.request import PlacementRequest, compile_request
from fleet.model.keys import (
    BOUND,
    HEALTHY,
    JOINED,
    MEMBER_AGENT,
    NAMESPACE_COLLECTION_SUCCEEDED,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PICK_ALL,
    PICK_N,
    PLACEMENT_GENERATION,
    SCHEDULED,
)
from fleet.model.timestamps import SECOND, format_timestamp
from fleet.model.views import (
    Affinity,
    AgentStatus,
    Binding,
    BindingSpec,
    ClusterAffinity,
    ClusterSelector,
    ClusterSelectorTerm,
    Condition,
    LabelSelector,
    MemberCluster,
    MemberClusterSpec,
    MemberClusterStatus,
    Metadata,
    PlacementPolicy,
    PolicySnapshot,
    PolicySnapshotSpec,
    PreferredClusterSelector,
    PropertyRequirement,
    PropertySelector,
    PropertySorter,
    PropertyValue,
    ResourceUsage,
    SelectorRequirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)

T = TypeVar("T")

NOW: Final = 1_790_000_000 * SECOND
_SIZES: Final = (0, 1, 2, 3, 5, 9, 17, 40)
_PLACEMENT: Final = "specimen"
_SNAPSHOT: Final = "specimen-1"
_NAMESPACE: Final = "shop"

LABELS: Final[Mapping[str, Sequence[str]]] = {"region": ("east", "west"), "zone": ("1", "2", "3"), "env": ("prod", "")}
PROPERTIES: Final[Mapping[str, Sequence[str]]] = {"example.com/cost": ("0", "3", "3000m", "0.125", "-2", "odd", "9e18")}
_AMOUNTS: Final = ("0", "4", "500m", "16Gi", "unknown")
_TAINTS: Final = ((), (), (Taint("gpu", "", "NoSchedule"),), (Taint("gpu", "", "NoSchedule"), Taint("spot", "yes", "")))


class SeededRandom:
    """A linear congruential generator: simple, portable, and the same on every version of Python."""

    def __init__(self, seed: int) -> None:
        self._state = seed * 2_862_933_555_777_941_757 + 3_037_000_493

    def below(self, limit: int) -> int:
        self._state = (self._state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        return (self._state >> 33) % limit

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def shuffle(self, items: Sequence[T]) -> list[T]:
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


@dataclass(frozen=True, slots=True)
class Specimen:
    clusters: tuple[MemberCluster, ...]
    bindings: tuple[Binding, ...]
    request: PlacementRequest
    seed: int
    """Seeds further random choices about the specimen."""
    now: int = NOW


def specimens(
    count: int, *, labels: Mapping[str, Sequence[str]], properties: Mapping[str, Sequence[str]]
) -> Iterator[Specimen]:
    """Every size of fleet several times; `labels` and `properties` are added to the usual ones."""
    labels, properties = {**LABELS, **labels}, {**PROPERTIES, **properties}
    for number in range(count):
        random = SeededRandom(number)
        names = random.shuffle([f"cluster-{position}" for position in range(_SIZES[number % len(_SIZES)])])
        clusters = tuple(_cluster(random, name, labels, properties) for name in names)
        bindings = tuple(_binding(random, name) for name in names if random.chance(30))
        yield Specimen(clusters, bindings, _request(random, labels, properties), number)


# --- clusters ---------------------------------------------------------------------------------------------------------


def _cluster(
    random: SeededRandom, name: str, labels: Mapping[str, Sequence[str]], properties: Mapping[str, Sequence[str]]
) -> MemberCluster:
    carried = {key: random.pick(values) for key, values in labels.items() if random.chance(80)}
    measured = {key: PropertyValue(random.pick(values)) for key, values in properties.items() if random.chance(80)}
    leaving = _ago(random, 100) if random.chance(5) else None
    return MemberCluster(
        metadata=Metadata(name=name, labels=carried or None, deletion_timestamp=leaving),
        spec=MemberClusterSpec(random.pick(_TAINTS)),
        status=MemberClusterStatus(
            conditions=(Condition(NAMESPACE_COLLECTION_SUCCEEDED, random.pick(("True", "True", "False"))),),
            properties=measured,
            resource_usage=ResourceUsage(_amounts(random), _amounts(random), _amounts(random))
            if random.chance(80)
            else None,
            agent_status=(_agent(random),) if random.chance(90) else (),
            namespaces=random.pick(({_NAMESPACE: "work"}, {_NAMESPACE: "work"}, {}, None)),
        ),
    )


def _amounts(random: SeededRandom) -> dict[str, str | int | float]:
    return {resource: random.pick(_AMOUNTS) for resource in ("cpu", "memory") if random.chance(85)}


def _agent(random: SeededRandom) -> AgentStatus:
    healthy = Condition(HEALTHY, random.pick(("True", "True", "True", "False")), last_transition_time=_ago(random, 900))
    joined = Condition(JOINED, random.pick(("True", "True", "True", "Unknown")))
    return AgentStatus(MEMBER_AGENT, (joined, healthy), _ago(random, 380) if random.chance(95) else None)


def _ago(random: SeededRandom, seconds: int) -> str:
    return format_timestamp(NOW - random.below(seconds) * SECOND)


def _binding(random: SeededRandom, cluster: str) -> Binding:
    return Binding(
        metadata=Metadata(name=f"{_PLACEMENT}-{cluster}", uid=cluster, labels={PARENT_PLACEMENT: _PLACEMENT}),
        spec=BindingSpec(
            state=random.pick((SCHEDULED, BOUND)),
            target_cluster=cluster,
            scheduling_policy_snapshot_name=random.pick((_SNAPSHOT, "specimen-0")),
        ),
    )


# --- placements -------------------------------------------------------------------------------------------------------


def _request(
    random: SeededRandom, labels: Mapping[str, Sequence[str]], properties: Mapping[str, Sequence[str]]
) -> PlacementRequest:
    kind = random.pick((PICK_ALL, PICK_N, PICK_N, PICK_N))
    required = tuple(_term(random, labels, properties) for _ in range(random.pick((0, 0, 1, 2))))
    preferred = tuple(_preference(random, labels, properties) for _ in range(random.pick((0, 1, 2))))
    constraints = tuple(
        TopologySpreadConstraint(key, 1 + random.below(2), random.pick(("DoNotSchedule", "ScheduleAnyway")))
        for key in labels
        if random.chance(45)
    )
    policy = PlacementPolicy(
        placement_type=kind,
        affinity=Affinity(ClusterAffinity(ClusterSelector(required), preferred)),
        topology_spread_constraints=constraints,
        tolerations=(Toleration("gpu", "Exists"),) if random.chance(50) else (),
    )
    metadata = Metadata(
        name=_SNAPSHOT,
        namespace=_NAMESPACE if random.chance(30) else "",
        labels={PARENT_PLACEMENT: _PLACEMENT},
        annotations={PLACEMENT_GENERATION: "1", NUMBER_OF_CLUSTERS: str(random.below(6))},
    )
    return compile_request(
        PolicySnapshot(metadata, PolicySnapshotSpec(policy)), placement_uid=f"uid-{random.below(99)}"
    )


def _term(
    random: SeededRandom, labels: Mapping[str, Sequence[str]], properties: Mapping[str, Sequence[str]]
) -> ClusterSelectorTerm:
    key = random.pick(sorted(labels))
    if random.chance(60):
        operator = random.pick(("In", "NotIn"))
        requirement = SelectorRequirement(key, operator, (random.pick(labels[key]),))
        return ClusterSelectorTerm(LabelSelector(match_expressions=(requirement,)))
    comparison = PropertyRequirement(random.pick(sorted(properties)), random.pick(("Ge", "Lt", "Ne")), ("3",))
    return ClusterSelectorTerm(property_selector=PropertySelector((comparison,)))


def _preference(
    random: SeededRandom, labels: Mapping[str, Sequence[str]], properties: Mapping[str, Sequence[str]]
) -> PreferredClusterSelector:
    weight = random.pick((100, 50, 7, -20))
    if random.chance(50):
        sorter = PropertySorter(random.pick(sorted(properties)), random.pick(("Ascending", "Descending")))
        return PreferredClusterSelector(weight, ClusterSelectorTerm(property_sorter=sorter))
    key = random.pick(sorted(labels))
    matching = LabelSelector(match_labels={key: random.pick(labels[key])})
    return PreferredClusterSelector(weight, ClusterSelectorTerm(matching))
