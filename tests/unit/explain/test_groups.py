"""Rejected clusters by plugin and reason, and domains that block a spread constraint."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.explain.answer.answer import build_answer
from fleet.explain.answer.parts import GroupPart
from fleet.explain.facts.rejections import find_full_domains
from fleet.framework.request import PlacementRequest
from fleet.framework.status import Code
from fleet.framework.types import Reason, ReasonTable
from fleet.snapshot.frame import Frame
from tests.builders import ClusterBuilder, a_cluster, a_policy, clusters, label, measure
from tests.doubles import Rejecting, profile_of
from tests.unit.explain.questions import Asked, ask


def groups_of(asked: Asked) -> tuple[GroupPart, ...]:
    return build_answer(asked.inp, asked.decision).attempt.groups


def test_clusters_are_grouped_by_the_first_plugin_that_refused_them() -> None:
    fleet = [a_cluster("a").tainted("gpu").leaving(), a_cluster("b").tainted("gpu")]

    found = groups_of(ask(fleet, a_policy()))

    assert [(one.plugin, one.reason, one.clusters) for one in found] == [
        ("ClusterEligibility", "Left", ("a",)),
        ("TaintToleration", "UntoleratedTaint", ("b",)),
    ]


def test_the_largest_group_comes_first() -> None:
    fleet = [a_cluster("a").leaving(), a_cluster("b").tainted("x"), a_cluster("c").tainted("y")]

    found = groups_of(ask(fleet, a_policy()))

    assert [(one.plugin, one.count) for one in found] == [("TaintToleration", 2), ("ClusterEligibility", 1)]


def test_ten_names_are_shown_and_the_others_counted() -> None:
    fleet = [a_cluster(f"c{number:02}").leaving() for number in range(13)]

    (found,) = groups_of(ask(fleet, a_policy()))

    assert (len(found.clusters), found.more, found.count) == (10, 3, 13)


def test_the_closest_cluster_is_the_one_with_the_fewest_failed_expressions() -> None:
    fleet = [a_cluster("a"), a_cluster("b").labelled(tier="gold")]
    term = label("tier", "In", "gold")
    wanted = a_policy().require(
        type(term)(label_selector=term.label_selector, property_selector=measure("nodes", "Ge", "5").property_selector)
    )

    (found,) = groups_of(ask(fleet, wanted))

    assert found.closest is not None
    assert (found.closest.cluster, found.closest.lacks) == ("b", "nodes Ge 5 (not set)")


def test_clusters_a_fixed_policy_does_not_name_are_a_group() -> None:
    (found,) = groups_of(ask(clusters("a", "b"), a_policy().pick_fixed("a")))

    assert (found.plugin, found.reason, found.clusters) == ("PickFixed", "NotListed", ("b",))


# --- full domains -----------------------------------------------------------------------------------------------------


def uneven() -> list[ClusterBuilder]:
    return [
        a_cluster("a").labelled(zone="x"),
        a_cluster("b").labelled(zone="x"),
        a_cluster("c").labelled(zone="y").leaving(),
        a_cluster("d").labelled(zone="y").tainted("gpu"),
    ]


def test_a_domain_without_usable_clusters_is_named_with_what_is_wrong_in_it() -> None:
    (found,) = find_full_domains(ask(uneven(), a_policy().pick_n(3).spread("zone")).decision)

    assert (found.key, found.domain, found.count, found.max_skew) == ("zone", "y", 0, 1)
    assert [(one.cluster, one.refusal and one.refusal.reason) for one in found.clusters] == [
        ("c", "Left"),
        ("d", "UntoleratedTaint"),
    ]


def test_clusters_of_a_full_domain_that_are_in_use_are_not_blamed() -> None:
    fleet = [a_cluster(name).labelled(zone="x") for name in ("a", "b", "c")] + [a_cluster("d").labelled(zone="y")]

    (found,) = find_full_domains(ask(fleet, a_policy().pick_n(4).spread("zone")).decision)

    assert (found.domain, found.count) == ("y", 1)
    assert [(one.cluster, one.refusal) for one in found.clusters] == [("d", None)]


def test_nothing_is_held_up_when_the_policy_is_fulfilled() -> None:
    assert find_full_domains(ask(uneven(), a_policy().pick_n(1).spread("zone")).decision) == ()


def test_nothing_is_held_up_by_soft_constraints() -> None:
    assert find_full_domains(ask(uneven(), a_policy().pick_n(3).spread_softly("zone")).decision) == ()


# --- plugins from elsewhere -------------------------------------------------------------------------------------------


class Fenced(Rejecting):
    """Rejects all clusters but one; the farther back in the alphabet, the closer to the fence."""

    REASONS = ReasonTable(Reason("OutsideFence", Code.UNSCHEDULABLE, "outside the fence at {post}"))

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
        return {"post": "north", "meters": 40, "seenFrom": ["a", "b"]}

    def split_by_distance(self, req: PlacementRequest, frame: Frame, rows: int) -> list[int]:
        names = reversed(frame.sort_by_name(rows))
        return [1 << row for row in names]


def test_a_plugin_from_elsewhere_orders_the_clusters_that_it_rejects() -> None:
    asked = ask(clusters("a", "b", "c"), a_policy(), profile=profile_of(Fenced("Fence", ["a", "b", "c"])))
    answer = build_answer(asked.inp, asked.decision)

    assert [row.name for row in answer.attempt.clusters] == ["c", "b", "a"]
    (group,) = answer.attempt.groups
    assert group.closest is not None
    assert group.closest.cluster == "c"


def test_a_plugin_from_elsewhere_explains_each_cluster_once() -> None:
    explained: list[int] = []

    class Counted(Fenced):
        def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
            explained.append(row)
            return super().explain_row(req, frame, row, reason)

    names = [f"c{number}" for number in range(20)]
    asked = ask(clusters(*names), a_policy(), profile=profile_of(Counted("Fence", names)))
    build_answer(asked.inp, asked.decision, everything=True)

    assert len(explained) <= len(names) + 2


def test_values_that_a_message_lacks_are_listed_line_by_line() -> None:
    asked = ask(clusters("a"), a_policy(), profile=profile_of(Fenced("Fence", ["a"])))

    (row,) = build_answer(asked.inp, asked.decision).attempt.clusters
    assert (row.rejections[0].short, row.rejections[0].lines) == ("outside fence", ("meters: 40", "seenFrom: a, b"))
