"""Remarks about policies: names that no cluster has, with the nearest, contradictions, and parts without effect."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleet.explain.facts.redaction import Redaction
from fleet.explain.remarks.remark import NameCount, Remark
from fleet.explain.remarks.remarks import find_remarks
from plugins.default_profile import compile_default, default_profile
from tests.builders import (
    ClusterBuilder,
    PolicyBuilder,
    a_cluster,
    a_frame,
    a_policy,
    clusters,
    label,
    measure,
    sorted_by,
)
from tests.unit.explain.questions import DEFAULT

NODES = "kubernetes-fleet.io/node-count"
CPU = "resources.kubernetes-fleet.io/available-cpu"
FLEET = (
    a_cluster("ams-1").labelled(env="prod", region="eu").measured({NODES: "3"}).having(available={"cpu": "4"}),
    a_cluster("ams-2").labelled(env="prod", region="eu").measured({NODES: "many"}),
    a_cluster("iad-1").labelled(env="staging", region="us").tainted("nvidia.com/gpu", "a100"),
)


def remark(
    policy: PolicyBuilder, fleet: Sequence[ClusterBuilder] = FLEET, hidden: Sequence[str] = ()
) -> tuple[Remark, ...]:
    frame = a_frame(*fleet)
    return find_remarks(policy.request(), frame, DEFAULT, Redaction(frame, set(hidden).__contains__))


def texts(policy: PolicyBuilder, fleet: Sequence[ClusterBuilder] = FLEET, hidden: Sequence[str] = ()) -> list[str]:
    return [each.message for each in remark(policy, fleet, hidden)]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, message",
    [
        (a_policy().require(label("Env", "In", "prod")), "label Env; did you mean env, which is on 3 of 3?"),
        (a_policy().require(label("evn", "In", "prod")), "label evn; did you mean env, which is on 3 of 3?"),
        (a_policy().require(label("tier", "Exists")), "label tier"),
        (a_policy().require(label("tier", "NotIn", "gold")), "label tier, so NotIn excludes no cluster"),
        (
            a_policy().require(label("env", "In", "prod", "production")),
            "env=production; env has prod 2, staging 1; did you mean prod?",
        ),
        (
            a_policy().require(measure("kubernetes-fleet.io/nodecount", "Ge", "5")),
            f"property kubernetes-fleet.io/nodecount; did you mean {NODES}, which is on 2 of 3?",
        ),
        (
            a_policy().pick_n(1).prefer(5, sorted_by(f"{CPU}s")),
            f"property {CPU}s; did you mean {CPU}, which is on 1 of 3?",
        ),
        (
            a_policy().pick_n(2).spread("topology.kubernetes.io/region"),
            "label topology.kubernetes.io/region, so spreading over it has no effect; did you mean region, which is on "
            "3 of 3?",
        ),
        (
            a_policy().tolerate("nvidia.com/gpus", operator="Exists"),
            "taint nvidia.com/gpus; did you mean nvidia.com/gpu, which is on 1 of 3?",
        ),
        (
            a_policy().tolerate("nvidia.com/gpu", "a10"),
            "taint nvidia.com/gpu=a10; nvidia.com/gpu has a100 1; did you mean a100?",
        ),
    ],
)
def test_a_name_that_no_cluster_has(policy: PolicyBuilder, message: str) -> None:
    assert texts(policy) == [f"no cluster has {message}"]


def test_clusters_that_are_named_but_not_there() -> None:
    assert texts(a_policy().pick_fixed("ams-1", "iad1", "amsterdam-2", "sydney")) == [
        "no cluster is named iad1; did you mean iad-1?",
        "no cluster is named amsterdam-2; did you mean ams-2?",
        "no cluster is named sydney",
    ]


@pytest.mark.parametrize(
    "policy",
    [
        a_policy(),
        a_policy().require(label("env", "In", "prod", "staging"), measure(NODES, "Ge", "5"), measure(CPU, "Ge", "5")),
        a_policy().tolerate("nvidia.com/gpu", "a100").tolerate("nvidia.com/gpu", operator="Exists"),
        a_policy().tolerate("", operator="Exists"),
        a_policy().pick_fixed("ams-1", "iad-1"),
        a_policy().pick_n(3).spread("region").prefer(5, label("env", "NotIn", "prod")).prefer(5, sorted_by(CPU)),
    ],
)
def test_a_policy_without_mistakes_has_no_remarks(policy: PolicyBuilder) -> None:
    assert texts(policy) == []


def test_a_remark_says_where_and_counts_what_there_is() -> None:
    (found,) = remark(a_policy().require(label("region", "In", "eu"), label("env", "In", "production")))
    assert found.field.endswith("requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[1].labelSelector")
    assert (found.kind, found.subject, found.value) == ("unknown-label-value", "env", "production")
    assert (found.near, found.near_clusters, found.clusters) == ("prod", 2, 3)
    assert found.counts == (NameCount("prod", 2), NameCount("staging", 1))


def test_one_name_in_two_terms_is_remarked_once() -> None:
    policy = a_policy().require(label("Env", "In", "prod"), label("Env", "NotIn", "lab"))
    assert len(remark(policy)) == 1


def test_namespaces_that_every_cluster_lacks() -> None:
    fleet = [a_cluster(name).with_namespaces("shop", "web") for name in ("a", "b")]
    lacking = a_policy().in_namespace("shopp")
    assert texts(lacking, fleet) == ["no cluster has namespace shopp; did you mean shop, which is on 2 of 2?"]
    assert texts(a_policy().in_namespace("shop"), fleet) == []
    unconfirmed = [*fleet, a_cluster("c").with_namespaces("shop", confirmed=False)]
    assert texts(lacking, unconfirmed) == []


def test_an_empty_fleet_says_nothing_about_names() -> None:
    assert texts(a_policy().pick_n(3).require(label("env", "In", "prod")), ()) == []


# --- conflicts --------------------------------------------------------------------------------------------------------


def test_more_clusters_than_there_are() -> None:
    assert texts(a_policy().pick_n(40)) == ["40 clusters are wanted, and the fleet has 3"]
    assert texts(a_policy().pick_n(3)) == []


def test_expressions_that_exclude_each_other() -> None:
    both = label("region", "In", "eu"), label("region", "NotIn", "eu")
    selector = both[0].label_selector
    other = both[1].label_selector
    assert selector is not None
    assert other is not None
    joined = type(selector)(match_expressions=(*selector.match_expressions, *other.match_expressions))
    policy = a_policy().require(type(both[0])(joined))
    assert texts(policy) == ["region In [eu] and region NotIn [eu] exclude each other: no cluster can match term 1"]


def test_spreading_over_what_the_terms_rule_out() -> None:
    fleet = [*FLEET, a_cluster("bom-1").labelled(env="prod", region="ap")]
    policy = a_policy().pick_n(2).spread("region").require(label("region", "In", "eu"))
    assert texts(policy, fleet) == [
        "the required terms leave 1 of 3 values of region, so a max skew of 1 allows 1 of 2 clusters"
    ]
    assert texts(a_policy().pick_n(2).spread("region", 2).require(label("region", "In", "eu")), fleet) == []
    assert texts(a_policy().pick_n(2).spread_softly("region").require(label("region", "In", "eu")), fleet) == []


def test_parts_that_the_placement_type_does_not_evaluate() -> None:
    policy = a_policy().prefer(5, label("env", "In", "prod"))
    assert texts(policy) == [
        "preferredDuringSchedulingIgnoredDuringExecution has no effect with PickAll, only with PickN"
    ]
    assert texts(a_policy().pick_n(1).prefer(0, label("env", "In", "prod"))) == [
        "preference 1 has weight 0, so it ranks nothing"
    ]
    assert texts(a_policy().pick_n(1).require(sorted_by(CPU))) == [
        "term 1: a propertySorter is evaluated in preferred terms only"
    ]


def test_a_plugin_that_fails_costs_its_own_remarks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = compile_default(default_profile())
    plugin = dict(profile.find_plugins("list_reads"))["ClusterAffinity"]

    def fail(request: object) -> None:
        raise RuntimeError(request)

    monkeypatch.setattr(plugin, "list_reads", fail)
    policy = a_policy().require(label("Env", "Exists")).tolerate("nvidia.com/gpus", operator="Exists")
    messages = [each.message for each in find_remarks(policy.request(), a_frame(*FLEET), profile)]
    assert [message.split(";")[0] for message in messages] == ["no cluster has taint nvidia.com/gpus"]


# --- callers who may not read all clusters ----------------------------------------------------------------------------


def test_nothing_of_hidden_clusters_is_mentioned() -> None:
    policy = a_policy().require(label("region", "In", "us"), label("Env", "Exists")).tolerate("nvidia.com/gpu", "a10")
    assert texts(policy, hidden=["iad-1"]) == [
        "no cluster that you may read has region=us; region has eu 2",
        "no cluster that you may read has label Env; did you mean env, which is on 2 of 2?",
        "no cluster that you may read has taint nvidia.com/gpu",
    ]
    assert texts(a_policy().pick_fixed("iad-1", "iad1"), hidden=["iad-1"]) == [
        "no cluster that you may read is named iad1"
    ]


def test_what_follows_from_the_whole_fleet_is_for_those_who_may_read_it() -> None:
    policy = a_policy().pick_n(40).spread("region").require(label("region", "In", "eu"))
    assert len(texts(policy)) == 2
    assert texts(policy, hidden=["iad-1"]) == []


def test_a_caller_who_may_read_nothing_learns_nothing() -> None:
    names = [cluster.cluster.metadata.name for cluster in FLEET]
    assert texts(a_policy().require(label("env", "In", "prodd")), hidden=names) == []


def test_clusters_are_not_needed_for_a_policy_of_names_that_exist() -> None:
    """The names of a fleet are collected only for a name that is missing."""
    frame = a_frame(*clusters("a", "b"))
    assert find_remarks(a_policy().require(label("x", "DoesNotExist")).request(), frame, DEFAULT)[0].near == ""
