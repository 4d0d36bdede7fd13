"""One scheduling cycle for each placement type, on classified bindings."""

from __future__ import annotations

import dataclasses

from tests.oracle.bindings import SCHEDULED, Bindings, target_of
from tests.oracle.documents import Json, labels_of, name_of
from tests.oracle.eligibility import eligibility_failure
from tests.oracle.evaluation import (
    FILTERED,
    NOT_PICKED,
    PICKED,
    Verdict,
    Verdicts,
    filter_all,
    filter_and_score,
)
from tests.oracle.filters import Problem
from tests.oracle.status import (
    Status,
    fixed_decision,
    outcome_condition,
    published,
    refused_decision,
    scored_decision,
    unselected_decisions,
)


@dataclasses.dataclass
class Cycle:
    """Everything one cycle reads and changes."""

    snapshot: Json
    problem: Problem
    bindings: Bindings
    status: Status
    generation: int
    verdicts: Verdicts = dataclasses.field(default_factory=dict)

    def publish(self, decisions: list[Json], *, fulfilled: bool, count: int) -> None:
        condition = outcome_condition(self.snapshot, fulfilled=fulfilled, count=count)
        self.status.publish(condition, decisions, self.generation)


def tidy_first(bindings: Bindings) -> None:
    """What happens before any evaluation."""
    for binding in bindings.deleting:
        bindings.drop_finalizer(binding)
    for binding in bindings.dangling:
        bindings.unschedule(binding)


def stored_decisions(bindings: list[Json]) -> list[Json]:
    return [binding["spec"]["clusterDecision"] for binding in bindings]


# -- PickAll ---------------------------------------------------------------------------------------------------------


def pick_all(cycle: Cycle) -> None:
    bindings = cycle.bindings
    cycle.verdicts = filter_all(cycle.problem, bindings.active_clusters())
    passed = sorted(name for name, verdict in cycle.verdicts.items() if verdict.outcome == NOT_PICKED)
    picks = [dataclasses.replace(cycle.verdicts[name], outcome=PICKED) for name in passed]
    cycle.verdicts.update({pick.cluster: pick for pick in picks})
    selected = match(bindings, picks)
    decisions = published(selected, unselected_decisions(cycle.verdicts), cycle.problem.settings)
    cycle.publish(decisions, fulfilled=True, count=len(picks) + len(bindings.active()))


def match(bindings: Bindings, picks: list[Verdict]) -> list[Json]:
    """Create, refresh or revive for every pick, then unschedule; returns the selected decisions in order."""
    old = {pick.cluster: bindings.obsolete_on(pick.cluster) for pick in picks}
    unscheduled = {pick.cluster: bindings.unscheduled_on(pick.cluster) for pick in picks}
    new = [pick for pick in picks if old[pick.cluster] is None and unscheduled[pick.cluster] is None]
    reused = [pick for pick in picks if pick not in new]
    for pick in new:
        bindings.create(pick.cluster, scored_decision(pick))
    for pick in reused:
        if (obsolete := old[pick.cluster]) is not None:
            bindings.refresh(obsolete, scored_decision(pick))
        elif (revivable := unscheduled[pick.cluster]) is not None:
            bindings.revive(revivable, scored_decision(pick))
    picked = {pick.cluster for pick in picks}
    unschedule_leftovers(bindings, keep=picked)
    return [scored_decision(pick) for pick in new + reused] + stored_decisions(bindings.active())


def unschedule_leftovers(bindings: Bindings, keep: set[str]) -> None:
    leftovers = [binding for binding in bindings.obsolete if target_of(binding) not in keep]
    for binding in leftovers + bindings.surplus:
        bindings.unschedule(binding)


# -- PickFixed -------------------------------------------------------------------------------------------------------


def pick_fixed(cycle: Cycle, names: list[str]) -> None:
    valid, retained, refused, unknown = judge_targets(cycle, list(dict.fromkeys(names)))
    assign_targets(cycle.bindings, valid, retained)
    decisions = [fixed_decision(name) for name in valid] + refused + unknown
    cycle.publish(
        decisions[: cycle.problem.settings.max_decisions], fulfilled=not refused and not unknown, count=len(valid)
    )


def judge_targets(cycle: Cycle, names: list[str]) -> tuple[list[str], list[str], list[Json], list[Json]]:
    """Valid targets, invalid ones that keep their old binding, and the decisions on invalid and unknown ones."""
    clusters = {name_of(cluster): cluster for cluster in cycle.problem.clusters}
    now, settings = cycle.problem.now, cycle.problem.settings
    valid, retained, refused, unknown = [], [], [], []
    for name in names:
        if name not in clusters:
            unknown.append(refused_decision(name, f'Specified cluster "{name}" is not found'))
            continue
        failure = eligibility_failure(clusters[name], now, settings)
        if failure is None:
            valid.append(name)
            cycle.verdicts[name] = Verdict(name, PICKED)
            continue
        reason = f'Cluster "{name}" is not eligible for resource placement yet: {failure.reason}'
        refused.append(refused_decision(name, reason))
        cycle.verdicts[name] = Verdict(name, FILTERED, plugin="ClusterEligibility", reason=reason)
        if name in cycle.problem.obsolete and failure.may_be_retained(settings):
            retained.append(name)
    return valid, retained, refused, unknown


def assign_targets(bindings: Bindings, valid: list[str], retained: list[str]) -> None:
    open_targets = [name for name in valid if name not in bindings.active_clusters()]
    for name in open_targets:
        if bindings.obsolete_on(name) is None and bindings.unscheduled_on(name) is None:
            bindings.create(name, fixed_decision(name))
    for name in open_targets + retained:
        if (obsolete := bindings.obsolete_on(name)) is not None:
            bindings.refresh(obsolete, fixed_decision(name))
        elif (revivable := bindings.unscheduled_on(name)) is not None:
            bindings.revive(revivable, fixed_decision(name))
    unschedule_leftovers(bindings, keep=set(valid) | set(retained))


# -- PickN -----------------------------------------------------------------------------------------------------------


def pick_n(cycle: Cycle, wanted: int) -> None:
    bindings = cycle.bindings
    present = len(bindings.active())
    if wanted > present:
        schedule(cycle, wanted, present)
    elif (present - wanted) + len(bindings.obsolete) > 0:
        downscale(cycle, present - wanted)
    else:
        stay_satisfied(cycle)


def schedule(cycle: Cycle, wanted: int, present: int) -> None:
    picks, cycle.verdicts = pick_in_steps(cycle, wanted - present)
    count = present + len(picks)
    selected = match(cycle.bindings, picks)
    decisions = published(selected, unselected_decisions(cycle.verdicts), cycle.problem.settings)
    cycle.publish(decisions, fulfilled=count >= wanted, count=count)


def pick_in_steps(cycle: Cycle, desired: int) -> tuple[list[Verdict], Verdicts]:
    """One complete evaluation per pick; without spread constraints a single one gives all picks."""
    stepwise = bool(cycle.problem.policy.get("topologySpreadConstraints"))
    picks: list[Verdict] = []
    while True:
        holding = cycle.bindings.active_clusters() | {pick.cluster for pick in picks}
        verdicts = filter_and_score(cycle.problem, holding)
        candidates = [verdict for verdict in verdicts.values() if verdict.outcome == NOT_PICKED]
        ranked = sorted(candidates, key=Verdict.rank, reverse=True)
        step = len(picks) + 1 if stepwise else 0
        taken = ranked[:1] if stepwise else ranked[:desired]
        picks += [dataclasses.replace(verdict, outcome=PICKED, step=step) for verdict in taken]
        if not stepwise or not taken or len(picks) == desired:
            return picks, verdicts | {pick.cluster: pick for pick in picks}


def downscale(cycle: Cycle, surplus: int) -> None:
    bindings = cycle.bindings
    leaving = first_to_leave(cycle, surplus)
    leaving_clusters = {target_of(binding) for binding in leaving}
    twins = [binding for binding in bindings.surplus_bound if target_of(binding) in leaving_clusters]
    unschedule_leftovers(bindings, keep=set())
    for binding in leaving + twins:
        bindings.unschedule(binding)
    staying = remaining(bindings.scheduled, leaving) + remaining(bindings.bound, leaving)
    decisions = published(stored_decisions(staying), [], cycle.problem.settings)
    cycle.publish(decisions, fulfilled=True, count=len(staying))


def remaining(group: list[Json], leaving: list[Json]) -> list[Json]:
    """A group that lost some of its members is listed in the order of removal, an untouched one by name."""
    staying = [binding for binding in group if binding not in leaving]
    return staying if len(staying) == len(group) else sorted(staying, key=leaving_order)


def first_to_leave(cycle: Cycle, surplus: int) -> list[Json]:
    """Scheduled before bound, then by stored score; crowded domains first where the setting says so."""
    constraints = cycle.problem.policy.get("topologySpreadConstraints") or []
    spread_aware = cycle.problem.settings.downscale_order == "SpreadAware" and bool(constraints)
    domains = {name_of(cluster): labels_of(cluster) for cluster in cycle.problem.clusters}
    staying = cycle.bindings.active()
    leaving: list[Json] = []
    for _ in range(surplus):
        crowd = crowding(staying, domains, constraints[0]["topologyKey"]) if spread_aware else {}
        # no two bindings are equal in this order: it ends with the cluster, of which each has its own
        staying.sort(key=lambda binding: (-crowd.get(target_of(binding), 0), leaving_order(binding)))
        leaving.append(staying.pop(0))
    return leaving


def crowding(active: list[Json], labels: dict[str, dict[str, str]], key: str) -> dict[str, int]:
    """How many active bindings share the domain of each cluster; clusters without the label share none."""
    domain_of = {target_of(binding): labels[target_of(binding)].get(key) for binding in active}
    domains = list(domain_of.values())
    return {cluster: domains.count(domain) for cluster, domain in domain_of.items() if domain is not None}


def leaving_order(binding: Json) -> tuple[bool, bool, int, int, str]:
    score = binding["spec"]["clusterDecision"].get("clusterScore")
    topology, affinity = ((score or {}).get(field) or 0 for field in ("priorityScore", "affinityScore"))
    return binding["spec"]["state"] != SCHEDULED, score is not None, topology, affinity, target_of(binding)


def stay_satisfied(cycle: Cycle) -> None:
    bindings = cycle.bindings
    unschedule_leftovers(bindings, keep=set())
    fleet = {name_of(cluster) for cluster in cycle.problem.clusters}
    kept = [each for each in cycle.status.decisions if not each.get("selected") and each["clusterName"] in fleet]
    decisions = published(stored_decisions(bindings.bound + bindings.scheduled), kept, cycle.problem.settings)
    cycle.publish(decisions, fulfilled=True, count=len(bindings.active()))
