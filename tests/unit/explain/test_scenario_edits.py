"""What edits do to a fleet and to a policy."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from fleet.errors import InputError
from fleet.explain.fixes.fixes import find_fixes
from fleet.explain.whatif.edits import (
    AddCluster,
    AddTaint,
    Edit,
    Evict,
    LabelCluster,
    NewTaint,
    Patch,
    RelaxAffinity,
    RelaxSpread,
    RemoveCluster,
    RemoveTaint,
    SetCount,
    SetMinTargets,
    SetProperty,
    SetReady,
    Tolerate,
)
from fleet.explain.whatif.scenario import Scenario, apply_to_frame
from fleet.framework.cycle.cycle import decide
from fleet.framework.policy.terms import VALUES_SHOWN
from fleet.model.views import ClusterSelectorTerm, LabelSelector, SelectorRequirement
from tests.builders import (
    NOW,
    SNAPSHOT,
    ClusterBuilder,
    PolicyBuilder,
    a_binding,
    a_cluster,
    a_frame,
    a_policy,
    clusters,
    label,
    measure,
)
from tests.unit.explain.questions import DEFAULT
from tests.unit.explain.scenarios import a_scenario, targets

# --- nothing changes --------------------------------------------------------------------------------------------------


def test_without_edits_the_question_is_the_very_same() -> None:
    scenario = a_scenario(clusters("a"), a_policy().pick_n(1))

    assert scenario.apply([]).question == scenario.question


def test_W_07_editing_leaves_the_world_it_began_with_as_it_was() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(1))
    before = (scenario.question.frame.content_hash(), scenario.decide().digest)

    scenario.apply([SetCount(2), AddTaint("a", "gpu"), RemoveCluster("b"), AddCluster("c", "a")])

    assert (scenario.question.frame.content_hash(), scenario.decide().digest) == before


def test_a_world_is_made_of_objects_as_well() -> None:
    snapshot = a_policy().pick_n(1).snapshot()

    scenario = Scenario.build(
        clusters=[a_cluster("a").build()], snapshot=snapshot, bindings=(), profile=DEFAULT, now=NOW
    )

    assert targets(scenario) == ["a"]


# --- clusters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cluster, policy, edit",
    [
        (a_cluster("a"), a_policy().require(label("tier", "In", "gold")), LabelCluster("a", "tier", "gold")),
        (
            a_cluster("a").labelled(tier="lead"),
            a_policy().require(label("tier", "DoesNotExist")),
            LabelCluster("a", "tier", None),
        ),
        (a_cluster("a").tainted("gpu", "yes"), a_policy(), RemoveTaint("a", "gpu")),
        (a_cluster("a").tainted("gpu", "yes"), a_policy(), RemoveTaint("a", "gpu", "yes", "NoSchedule")),
        (a_cluster("a").heard(3600), a_policy(), SetReady("a", value=True)),
        (a_cluster("a").joined("False"), a_policy(), SetReady("a", value=True)),
        (a_cluster("a").healthy("False", since_seconds=3600), a_policy(), SetReady("a", value=True)),
        (a_cluster("a").without_agent(), a_policy(), SetReady("a", value=True)),
        (a_cluster("a"), a_policy().require(measure("nodes", "Ge", "5")), SetProperty("a", "nodes", "5")),
    ],
    ids=["label", "unlabel", "taint", "that taint", "silent", "not joined", "unhealthy", "no agent", "property"],
)
def test_an_edit_lets_a_refused_cluster_in(cluster: ClusterBuilder, policy: PolicyBuilder, edit: Edit) -> None:
    scenario = a_scenario([cluster], policy)

    assert (targets(scenario), targets(scenario, edit)) == ([], ["a"])


@pytest.mark.parametrize(
    "edit",
    [AddTaint("a", "gpu"), SetReady("a", value=False), RemoveCluster("a"), SetProperty("a", "nodes", "4")],
    ids=lambda edit: edit.op,
)
def test_an_edit_keeps_a_cluster_out(edit: Edit) -> None:
    scenario = a_scenario([a_cluster("a").measured({"nodes": "5"})], a_policy().require(measure("nodes", "Ge", "5")))

    assert (targets(scenario), targets(scenario, edit)) == (["a"], [])


def test_a_new_cluster_is_like_another_one() -> None:
    scenario = a_scenario([a_cluster("a").labelled(tier="gold")], a_policy().require(label("tier", "In", "gold")))

    assert targets(scenario, AddCluster("b", "a")) == ["a", "b"]


def test_a_cluster_that_leaves_is_replaced() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(1), a_binding("b"))

    assert targets(scenario, RemoveCluster("b")) == ["a"]


def test_edits_build_on_one_another() -> None:
    scenario = a_scenario(clusters("a"), a_policy().require(label("tier", "In", "gold")))

    assert targets(scenario, AddCluster("b", "a"), LabelCluster("b", "tier", "gold")) == ["b"]


@pytest.mark.parametrize(
    "edit, field, message",
    [
        (RemoveCluster("berlin-2"), "cluster", "no cluster is named 'berlin-2'; did you mean berlin-1?"),
        (RemoveCluster("zzz"), "cluster", "no cluster is named 'zzz'; use the name of a member cluster"),
        (AddCluster("new", "zzz"), "like", "no cluster is named 'zzz'"),
        (AddCluster("new", labels={"a b": "c"}), "labels.key", "'a b' is no key of a label"),
        (AddCluster("new", properties={"x": "many"}), "properties.value", "'many' is no quantity"),
        (AddCluster("new", taints=(NewTaint("a", effect="NoExecute"),)), "taints.effect", "'NoExecute' is no effect"),
        (RelaxSpread("region"), "maxSkew", "give maxSkew, or whenUnsatisfiable ScheduleAnyway"),
        (AddCluster("berlin-1", "berlin-1"), "name", "a cluster named 'berlin-1' exists already"),
        (AddCluster("Köln", "berlin-1"), "name", "'Köln' is not a valid name of a cluster"),
        (LabelCluster("berlin-1", "a b", "c"), "key", "'a b' is no key of a label"),
        (LabelCluster("berlin-1", "a", "b" * 64), "value", "is no value of a label"),
        (AddTaint("berlin-1", "", "x"), "key", "'' is no key of a taint"),
        (AddCluster("", "berlin-1"), "name", "the new cluster needs a name"),
        (RemoveTaint("berlin-1", "cpu"), "key", "cluster berlin-1 has no such taint; its taints: gpu=yes:NoSchedule"),
        (AddTaint("berlin-1", "gpu", "", "NoExecute"), "effect", "use NoSchedule"),
        (SetProperty("berlin-1", "nodes", "many"), "value", "'many' is no quantity such as 4, 500m or 16Gi"),
        (Evict("berlin-1"), "cluster", "placement web has no binding on cluster 'berlin-1'"),
    ],
    ids=lambda value: None if isinstance(value, str) else value.op,
)
def test_an_edit_that_makes_no_sense_is_told_with_its_place(edit: Edit, field: str, message: str) -> None:
    scenario = a_scenario([a_cluster("berlin-1").tainted("gpu", "yes")], a_policy())

    with pytest.raises(InputError) as caught:
        scenario.apply([edit])

    assert caught.value.field == f"edits[0].{field}"
    assert message in caught.value.message


def test_W_10_a_hint_names_no_hidden_cluster() -> None:
    scenario, edits = a_scenario([a_cluster("berlin-1"), a_cluster("bern-1")], a_policy()), [RemoveCluster("berlin-2")]

    for edit in (scenario.apply, partial(apply_to_frame, scenario.question.frame, now=NOW)):
        with pytest.raises(InputError) as caught:
            edit(edits, hidden={"berlin-1"}.__contains__)

        assert caught.value.message == "no cluster is named 'berlin-2'; did you mean bern-1?"


def test_only_clusters_of_a_whole_fleet_can_be_edited() -> None:
    with pytest.raises(InputError, match=r"edits\[1\]\.op: setCount is about one placement"):
        apply_to_frame(a_frame(a_cluster("a")), [AddTaint("a", "gpu"), SetCount(1)], now=NOW)


# --- policies ---------------------------------------------------------------------------------------------------------


def test_a_count_is_changed_without_a_new_snapshot() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(1), a_binding("b")).apply([SetCount(2)])

    assert (scenario.question.request.snapshot, scenario.question.request.wanted) == (SNAPSHOT, 2)
    assert targets(scenario) == ["a", "b"]


def test_another_policy_comes_with_a_snapshot_of_its_own_and_everything_is_chosen_anew() -> None:
    fleet = [a_cluster("a"), a_cluster("b").tainted("gpu")]
    scenario = a_scenario(fleet, a_policy().pick_n(1), a_binding("a")).apply([Tolerate("gpu")])

    decision = scenario.decide()

    assert scenario.snapshot.metadata.name == "web-1"
    assert [(one.cluster, one.action and one.action.value) for one in decision.targets] == [("a", "refresh")]


def test_the_new_snapshot_has_a_name_that_no_binding_knows() -> None:
    scenario = a_scenario(clusters("a"), a_policy().pick_n(1), a_binding("a").of_snapshot("web-1")).apply(
        [Tolerate("gpu")]
    )

    assert scenario.snapshot.metadata.name == "web-2"


def test_expressions_are_named_as_explanations_write_them() -> None:
    term = msgspec.structs.replace(
        label("tier", "In", "gold", "silver"), property_selector=measure("nodes", "Ge", "5").property_selector
    )
    fleet = [a_cluster("a").labelled(tier="gold"), a_cluster("b").measured({"nodes": "9"})]
    scenario = a_scenario(fleet, a_policy().require(term))

    assert targets(scenario, RelaxAffinity(0, "nodes Ge 5")) == ["a"]
    assert targets(scenario, RelaxAffinity(0, "tier In [gold, silver]")) == ["b"]


ALIKE = tuple(f"v{number}" for number in range(VALUES_SHOWN))
"""Of expressions that explanations write alike."""


@pytest.mark.parametrize("last", [("b", "q"), ("q", "b")])
def test_of_expressions_that_read_the_same_the_one_that_helps_is_suggested_with_all_its_values(
    last: tuple[str, str],
) -> None:
    requirements = tuple(SelectorRequirement("zone", "NotIn", (*ALIKE, value)) for value in last)
    both = ClusterSelectorTerm(LabelSelector(None, requirements))
    scenario = a_scenario([a_cluster("a").labelled(zone="b")], a_policy().pick_n(1).require(both))
    fixes = find_fixes(scenario, scenario.decide(), mode="fast").fixes
    full = f"zone NotIn [{', '.join([*ALIKE, 'b'])}]"

    assert RelaxAffinity(0, full) in [edit for fix in fixes for edit in fix.edits]
    assert targets(scenario, RelaxAffinity(0, full)) == ["a"]
    with pytest.raises(InputError, match="2 expressions of term 0 read"):
        targets(scenario, RelaxAffinity(0, f"zone NotIn [{', '.join(ALIKE)}, and 1 more]"))


def test_a_spread_constraint_is_widened() -> None:
    fleet = [a_cluster(name).labelled(zone="x") for name in ("a", "b")] + [a_cluster("c").labelled(zone="y").leaving()]
    scenario = a_scenario(fleet, a_policy().pick_n(2).spread("zone"))

    assert (targets(scenario), targets(scenario, RelaxSpread("zone", 2))) == (["b"], ["b", "a"])


def test_a_patch_merges_into_the_policy() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(1))

    assert targets(scenario, Patch({"numberOfClusters": 2})) == ["b", "a"]
    assert targets(
        scenario, Patch({"placementType": "PickFixed", "numberOfClusters": None, "clusterNames": ["a"]})
    ) == ["a"]


@pytest.mark.parametrize(
    "policy, edit, field, message",
    [
        (a_policy(), SetCount(1), "op", "PickAll has no number of clusters"),
        (a_policy().pick_n(1), SetCount(-1), "value", "-1 should be 0 or more"),
        (a_policy().pick_fixed("a"), Tolerate("gpu"), "op", "PickFixed ignores taints"),
        (a_policy(), Tolerate("gpu", "Exists", "yes"), "value", "Exists compares no value"),
        (a_policy(), Tolerate(), "key", "Equal needs a key; use Exists for every taint"),
        (a_policy(), Tolerate("gpu", effect="NoExecute"), "effect", "use NoSchedule, or leave it out"),
        (a_policy(), RelaxAffinity(0, "x Exists"), "term", "there is no required term 0; the policy has 0"),
        (a_policy().require(label("x", "Exists")), RelaxAffinity(0, "y Exists"), "expression", "it has x Exists"),
        (a_policy().pick_n(1).spread("zone"), RelaxSpread("zon", 2), "key", "there is zone"),
        (a_policy().pick_n(1).spread("zone"), RelaxSpread("zone", 0), "maxSkew", "0 should be 1 or more"),
        (a_policy(), Patch({"numberOfClusters": 2}), "patch", "not allowed with PickAll"),
        (a_policy(), Patch({"numberOfCluster": 2}), "patch.numberOfCluster", "no such field; use placementType"),
        (a_policy(), Patch({"tolerations": [{"keys": "x"}]}), "patch", "without a key use Exists"),
        (a_policy(), Patch({"placementType": "PickSome"}), "patch.placementType", "PickAll"),
    ],
    ids=lambda value: value.op if isinstance(value, Edit) else None,
)
def test_a_policy_is_judged_as_in_a_placement(policy: PolicyBuilder, edit: Edit, field: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        a_scenario(clusters("a"), policy).apply([edit])

    assert caught.value.field == f"edits[0].{field}"
    assert message in caught.value.message


def test_what_was_wrong_with_a_policy_before_is_not_held_against_an_edit() -> None:
    policy = a_policy().require(label("tier", "Like", "gold"))

    assert a_scenario(clusters("a"), policy).apply([Patch({"affinity": None})]).decide().fulfilled


# --- bindings ---------------------------------------------------------------------------------------------------------


def test_an_evicted_binding_is_gone() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(1), a_binding("a"))

    assert (targets(scenario), targets(scenario, Evict("a"))) == (["a"], ["b"])


def test_one_of_several_bindings_can_be_evicted_by_name() -> None:
    scenario = a_scenario(
        clusters("a"), a_policy().pick_n(1), a_binding("a", name="one").bound(), a_binding("a", name="two")
    )

    evicted = scenario.apply([Evict("a", "two")])

    assert [one.metadata.name for one in evicted.question.bindings] == ["one"]


def test_the_bindings_of_others_cannot_be_evicted() -> None:
    scenario = a_scenario(clusters("a"), a_policy(), a_binding("a").of_placement("other"))

    with pytest.raises(InputError, match="there is nothing to evict"):
        scenario.apply([Evict("a")])


def test_a_question_asked_of_an_unedited_world_is_decided_alike() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(1))

    assert decide(scenario.question).digest == scenario.apply([]).decide().digest


def test_a_new_cluster_has_the_labels_properties_and_taints_it_is_given() -> None:
    policy = a_policy().pick_n(1).require(label("tier", "In", "gold"))
    scenario = a_scenario(clusters("a"), policy)
    new = AddCluster("new", labels={"tier": "gold"}, properties={"example.com/rating": "5"})

    assert targets(scenario, new) == ["new"]
    assert targets(scenario, msgspec.structs.replace(new, taints=(NewTaint("gpu"),))) == []
    added = scenario.apply([new]).question.frame
    row = added.row_of("new")
    assert row is not None
    assert added.property("example.com/rating").values[row] == 5


def test_a_new_cluster_like_another_has_its_labels_and_those_it_is_given() -> None:
    fleet = [a_cluster("a").labelled(tier="gold", region="eu").leaving()]
    scenario = a_scenario(fleet, a_policy().pick_n(1).require(label("tier", "In", "gold"), label("region", "In", "us")))

    frame = scenario.apply([AddCluster("new", "a", labels={"region": "us"})]).question.frame
    row = frame.row_of("new")
    assert row is not None
    assert (frame.labels("tier").value(row), frame.labels("region").value(row)) == ("gold", "us")


def test_a_spread_that_only_ranks_lets_every_cluster_in() -> None:
    fleet = [*(a_cluster(name).labelled(region="eu") for name in "abc"), a_cluster("d").labelled(region="us").leaving()]
    scenario = a_scenario(fleet, a_policy().pick_n(3).spread("region"))

    assert len(targets(scenario)) == 1
    assert len(targets(scenario, RelaxSpread("region", when_unsatisfiable="ScheduleAnyway"))) == 3


# --- the least number of clusters -------------------------------------------------------------------------------------


def test_min_targets_is_set_kept_over_other_edits_and_taken_away() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(3))

    assert targets(scenario, SetMinTargets(3)) == []
    assert targets(scenario, SetMinTargets(3), Tolerate("gpu")) == []
    assert targets(scenario, SetMinTargets(3), SetMinTargets(None)) == ["b", "a"]


def test_more_min_targets_than_clusters_wanted_are_refused_until_one_of_them_is_changed() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(2)).apply([SetMinTargets(3)])

    (problem,) = scenario.question.request.problems
    assert str(problem).startswith("spec.policy.numberOfClusters: 2 is less than the 3 clusters of minTargets")
    assert scenario.apply([SetCount(3)]).question.request.problems == ()
    assert scenario.apply([SetMinTargets(2)]).question.request.problems == ()


@pytest.mark.parametrize(
    "policy, value, message",
    [
        (a_policy().pick_n(2), 0, "0 is less than 1"),
        (a_policy(), 1, "minTargets has an effect with PickN only"),
    ],
)
def test_min_targets_that_cannot_be_are_refused(policy: PolicyBuilder, value: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        a_scenario(clusters("a"), policy).apply([SetMinTargets(value)])
