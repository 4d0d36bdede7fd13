"""One full pass over all clusters: filter everything, score what is left, order it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.affinity import affinity_score, sorter_ranges
from tests.oracle.documents import Json, name_of
from tests.oracle.filters import Problem, Rejection, static_rejection
from tests.oracle.spread import counts_of, effect_on

FILTERED, ALREADY_SELECTED, NOT_PICKED, PICKED = "filtered", "already selected", "not picked", "picked"


@dataclass(frozen=True)
class Verdict:
    """What became of one cluster."""

    cluster: str
    outcome: str
    plugin: str = ""
    reason: str = ""
    topology: int = 0
    affinity: int = 0
    obsolete: int = 0
    step: int = 0

    def rank(self) -> tuple[int, int, int, str]:
        return self.topology, self.affinity, self.obsolete, self.cluster


Verdicts = dict[str, Verdict]


def filter_all(problem: Problem, holding: set[str]) -> Verdicts:
    """A verdict for every cluster; those that pass are "not picked" and have no score."""
    rejections = {name_of(cluster): static_rejection(cluster, problem, holding) for cluster in problem.clusters}
    return {name: verdict_of(name, rejection) for name, rejection in rejections.items()}


def verdict_of(name: str, rejection: Rejection | None) -> Verdict:
    if rejection is None:
        return Verdict(name, NOT_PICKED)
    if rejection.reason is None:
        return Verdict(name, ALREADY_SELECTED, plugin=rejection.plugin)
    return Verdict(name, FILTERED, plugin=rejection.plugin, reason=f"ClusterUnschedulable, {rejection.reason}")


def filter_and_score(problem: Problem, holding: set[str]) -> Verdicts:
    """A verdict for every cluster, `holding` being those with an active binding or an earlier pick."""
    verdicts = filter_all(problem, holding)
    passed = [cluster for cluster in problem.clusters if verdicts[name_of(cluster)].outcome == NOT_PICKED]
    counts = counts_of(problem.policy, domain_members_of(problem, holding, passed), holding)
    ranges = sorter_ranges(problem.policy, sorter_population(problem, passed))
    for cluster in passed:
        name = name_of(cluster)
        effect = effect_on(cluster, policy=problem.policy, counts=counts, settings=problem.settings)
        if effect.violation is not None:
            verdicts[name] = verdict_of(name, Rejection("TopologySpreadConstraints", effect.violation))
            continue
        affinity = affinity_score(problem.policy, cluster, ranges)
        obsolete = int(name in problem.obsolete)
        verdicts[name] = Verdict(name, NOT_PICKED, topology=effect.score, affinity=affinity, obsolete=obsolete)
    return verdicts


def domain_members_of(problem: Problem, holding: set[str], passed: list[Json]) -> list[Json]:
    if not problem.settings.usable_domains_only:
        return problem.clusters
    usable = {name_of(cluster) for cluster in passed} | holding
    return [cluster for cluster in problem.clusters if name_of(cluster) in usable]


def sorter_population(problem: Problem, passed: list[Json]) -> list[Json]:
    return passed if problem.settings.sorter_population == "PassedClusters" else problem.clusters
