"""Comparisons, simulations and replays of decisions nobody thought of."""

from __future__ import annotations

import random

import msgspec
import pytest

from fleet.explain.facts.outcomes import ClusterOutcome, ClusterOutcomes, list_clusters_in_use
from fleet.explain.replay.replay import Evidence, InMemoryInputs, load_recorded_scenario, replay
from fleet.explain.whatif.compare import ABSENT, FITS, NOT_EVALUATED, compare
from fleet.explain.whatif.edits import AddCluster, AddTaint, Edit, LabelCluster, RemoveCluster, SetReady
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision
from tests.unit.explain.scenarios import a_random_scenario


@pytest.fixture
def seeds(*, long: bool) -> range:
    return range(500 if long else 30)


def random_edits(scenario: Scenario, seed: int) -> list[Edit]:
    dice = random.Random(seed)
    names = list(scenario.question.frame.names.ordered)
    if not names:
        return []
    dice.shuffle(names)
    first, second, third = (names * 3)[:3]
    ways: list[list[Edit]] = [
        [AddTaint(first, "x"), SetReady(second, value=False)],
        [SetReady(first, value=True), LabelCluster(second, "env", "prod")],
        [AddCluster("newcomer", first), RemoveCluster(first)],
        [LabelCluster(third, "env", None), AddTaint(third, "y")],
    ]
    return dice.choice(ways)


def says(decision: Decision, name: str) -> str:
    """Who refuses a cluster first, row by row."""
    row = decision.frame.row_of(name)
    if row is None:
        return ABSENT
    outcomes = ClusterOutcomes(decision)
    match outcomes.find(row):
        case ClusterOutcome.NOT_EVALUATED | ClusterOutcome.REMOVED:
            return NOT_EVALUATED
        case ClusterOutcome.NOT_LISTED | ClusterOutcome.FILTERED | ClusterOutcome.RETAINED:
            assert decision.verdicts is not None
            return decision.verdicts.rejector(row) or "PickFixed"
    return FITS


def test_W_15_a_comparison_lists_exactly_the_clusters_whose_first_refusal_changed(seeds: range) -> None:
    changed = 0
    for seed in seeds:
        scenario = a_random_scenario(seed)
        before, after = scenario.decide(), scenario.apply(random_edits(scenario, seed)).decide()
        found = compare(before, after)

        names = {*before.frame.names.ordered, *after.frame.names.ordered}
        pairs = {name: (says(before, name), says(after, name)) for name in names}
        want = {name: pair for name, pair in pairs.items() if pair[0] != pair[1] and NOT_EVALUATED not in pair}
        listed = {each.cluster: (one.before, one.after) for one in found.transitions for each in one.clusters}
        assert sum(one.count for one in found.transitions) == len(want), seed
        assert listed.items() <= want.items(), seed
        assert len(listed) + sum(one.more for one in found.transitions) == len(want), seed
        changed += len(want)

    assert changed > len(seeds) // 2


def test_W_15_what_was_gained_and_lost_is_the_difference_of_the_targets(seeds: range) -> None:
    for seed in seeds:
        scenario = a_random_scenario(seed)
        before, after = scenario.decide(), scenario.apply(random_edits(scenario, seed)).decide()
        found = compare(before, after)

        assert set(found.gained) == set(list_clusters_in_use(after)) - set(list_clusters_in_use(before)), seed
        assert set(found.lost) == set(list_clusters_in_use(before)) - set(list_clusters_in_use(after)), seed


def test_W_15_a_decision_compared_with_itself_is_unchanged(seeds: range) -> None:
    for seed in seeds:
        decision = a_random_scenario(seed).decide()
        found = compare(decision, decision)

        assert (found.same, found.transitions, found.gained, found.lost, found.scores) == (True, (), (), (), ()), seed


def test_W_11_a_record_of_any_decision_gives_its_digest_again(seeds: range) -> None:
    encode = msgspec.json.encode
    for seed in seeds:
        scenario = a_random_scenario(seed)
        asked = scenario.question
        dice = random.Random(seed)
        clusters = [encode(asked.frame.clusters[row]) for row in asked.frame.names.order.tolist()]
        dice.shuffle(clusters)
        past = InMemoryInputs(
            clusters=clusters,
            request=encode(scenario.snapshot),
            placement_uid=asked.request.uid,
            bindings=[encode(one) for one in asked.bindings],
            previous=encode(asked.previous),
            now=asked.now,
        )
        decision = scenario.decide()

        assert replay(past, Evidence(id=str(seed), digest=decision.digest), asked.profile).same, seed
        assert load_recorded_scenario(past, asked.profile).decide().published == decision.published, seed


def test_edits_of_the_fleet_mean_the_same_as_another_fleet(seeds: range) -> None:
    """An edited frame decides like a frame that was built from the edited clusters."""
    for seed in seeds:
        scenario = a_random_scenario(seed)
        edited = scenario.apply(random_edits(scenario, seed))
        frame = edited.question.frame
        members = [frame.cluster(row) for row in frame.names.order.tolist()]
        anew = Scenario.build(
            clusters=members,
            snapshot=edited.snapshot,
            bindings=edited.question.bindings,
            profile=edited.question.profile,
            now=edited.question.now,
            placement_uid=edited.question.request.uid,
        )

        assert edited.decide().digest == anew.decide().digest, seed
