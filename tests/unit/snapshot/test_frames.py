"""Frames made from frames: forks, overlays, exclusions; and the orders a frame offers."""

from __future__ import annotations

import pytest

from fleet.snapshot import Frame
from fleet.snapshot.sidedata import Nomination, PlacedBinding
from fleet.snapshot.table import Table, overlay
from tests.builders import NOW, ClusterBuilder, a_cluster, a_frame, a_table, clusters, names_in


@pytest.fixture
def base() -> Frame:
    return a_frame(
        a_cluster("a").labelled(region="eu"), a_cluster("b").labelled(region="us"), a_cluster("c").labelled(region="eu")
    )


def regions(frame: Frame) -> dict[str, str | None]:
    region = frame.labels("region")
    return {name: region.value(row) for row, name in enumerate(frame.names.names) if name}


# --- overlays ---------------------------------------------------------------------------------------------------------


def test_F3_134_an_empty_overlay_is_its_base(base: Frame) -> None:
    assert overlay(base) is base
    assert Table.fork(base).freeze() is base


def test_F3_134_an_overlay_sees_its_writes_and_the_base_does_not(base: Frame) -> None:
    content = base.content_hash()
    regions(base)

    over = overlay(base, put=[a_cluster("a").labelled(region="mars").build(), a_cluster("d").build()], remove=["b"])

    assert regions(over) == {"a": "mars", "c": "eu", "d": None}
    assert regions(base) == {"a": "eu", "b": "us", "c": "eu"}
    assert base.content_hash() == content


def test_F3_134_columns_first_asked_for_on_an_overlay_are_not_those_of_the_base(base: Frame) -> None:
    over = overlay(base, put=[a_cluster("a").labelled(region="mars").build()])

    assert names_in(over, over.labels("region").eq("mars")) == {"a"}
    assert names_in(base, base.labels("region").eq("mars")) == set()
    assert names_in(base, base.labels("region").eq("eu")) == {"a", "c"}


def test_F3_134_two_overlays_of_one_base_do_not_see_each_other(base: Frame) -> None:
    regions(base)
    one, other = Table.fork(base), Table.fork(base)

    one.put(a_cluster("a").labelled(region="mars").build())
    other.put(a_cluster("a").labelled(region="venus").build())

    assert regions(one.freeze())["a"] == "mars"
    assert regions(other.freeze())["a"] == "venus"
    assert one.freeze().labels("region").eq("venus") == other.freeze().labels("region").eq("mars") == 0


def test_F3_134_an_overlay_may_be_laid_over_an_overlay(base: Frame) -> None:
    first = overlay(base, remove=["a"])

    second = overlay(first, put=[a_cluster("d").labelled(region="mars").build()])

    assert regions(second) == {"b": "us", "c": "eu", "d": "mars"}
    assert second.row_of("d") == 0
    assert regions(first) == {"b": "us", "c": "eu"}


def test_F3_134_bookings_on_an_overlay_stay_there() -> None:
    table = a_table(*clusters("a"))
    table.book("quota", "a", 5)
    table.feed("load", {"cpu": {"a": 0.5}}, sampled_at={"a": NOW})
    base = table.freeze()

    fork = Table.fork(base)
    fork.book("quota", "a", 1)
    fork.feed("load", {"cpu": {"a": 0.9}}, sampled_at={"a": NOW})

    assert (base.ledger("quota").tolist(), fork.freeze().ledger("quota").tolist()) == ([5], [6])
    assert base.feeds["load"].columns["cpu"].tolist() == [0.5]


def test_an_overlay_is_of_a_later_generation(base: Frame) -> None:
    assert overlay(base, remove=["a"]).generation > base.generation


# --- exclusions -------------------------------------------------------------------------------------------------------


def test_excluded_rows_are_marked_and_stay_members(base: Frame) -> None:
    without = base.exclude([0])

    assert (without.excluded, without.valid) == (1, base.valid)
    assert names_in(without, without.labels("region").eq("eu")) == {"a", "c"}
    assert base.excluded == 0


def test_exclusions_add_up(base: Frame) -> None:
    assert base.exclude([0]).exclude([2]).excluded == 0b101


def test_an_overlay_keeps_the_exclusions_of_its_base(base: Frame) -> None:
    over = overlay(base.exclude([1]), put=[a_cluster("d").build()])

    assert over.excluded == 0b010


def test_a_newcomer_does_not_inherit_an_exclusion(base: Frame) -> None:
    over = overlay(base.exclude([1]), remove=["b"])
    over = overlay(over, put=[a_cluster("d").build()])

    assert over.row_of("d") == 1
    assert over.excluded == 0


# --- orders -----------------------------------------------------------------------------------------------------------


def scan(frame: Frame, key: str | None = None) -> list[str]:
    return [frame.name(row) for row in frame.scan_order(key).tolist()]


def test_clusters_are_scanned_by_name_whatever_their_rows() -> None:
    assert scan(a_frame(*clusters("c", "a", "b"))) == ["a", "b", "c"]


def test_with_a_key_its_domains_take_turns_and_names_decide_inside_each() -> None:
    members: list[ClusterBuilder] = [
        *(a_cluster(f"eu-{number}").labelled(region="eu") for number in range(3)),
        a_cluster("us-0").labelled(region="us"),
        *clusters("none-0", "none-1"),
    ]

    assert scan(a_frame(*members), "region") == ["eu-0", "none-0", "us-0", "eu-1", "none-1", "eu-2"]
    assert scan(a_frame(*reversed(members)), "region") == scan(a_frame(*members), "region")


def test_free_rows_are_in_no_order() -> None:
    frame = overlay(a_frame(*clusters("a", "b", "c")), remove=["b"])

    assert scan(frame) == scan(frame, "region") == ["a", "c"]
    assert frame.names.rank.tolist() == [0, -1, 1]


# --- content ----------------------------------------------------------------------------------------------------------


def test_equal_fleets_have_equal_content_whatever_their_rows() -> None:
    there_and_back = a_table(*clusters("b", "x", "a"))
    there_and_back.remove("x")

    assert there_and_back.freeze().content_hash() == a_frame(*clusters("a", "b")).content_hash()


@pytest.mark.parametrize("change", ["label", "ledger", "sample", "sample time", "binding", "nomination", "newcomer"])
def test_whatever_differs_changes_the_content(change: str) -> None:
    table = a_table(*clusters("a"))
    table.book("quota", "a", 1)
    table.feed("load", {"cpu": {"a": 0.5}}, sampled_at={"a": NOW})
    before = table.freeze().content_hash()

    match change:
        case "label":
            table.put(a_cluster("a").labelled(region="eu").build())
        case "ledger":
            table.book("quota", "a", 1)
        case "sample":
            table.feed("load", {"cpu": {"a": 0.6}}, sampled_at={"a": NOW})
        case "sample time":
            table.feed("load", {"cpu": {"a": 0.5}}, sampled_at={"a": NOW + 1})
        case "binding":
            table.place("a", PlacedBinding("web"))
        case "nomination":
            table.nominate([Nomination("a", "web", 0, {})])
        case "newcomer":
            table.put(a_cluster("b").build())

    assert table.freeze().content_hash() != before


def test_names_that_no_cluster_has_take_one_column_however_many_are_read() -> None:
    frame = a_frame(
        *(a_cluster(f"c{n}").labelled({f"key-{n}": "x"}).measured({f"size-{n}": str(n)}) for n in range(100))
    )
    read = [frame.labels(f"unheard-of-{n}") for n in range(1_000)] + [frame.labels(f"key-{n}") for n in range(100)]
    numbers = [frame.property(f"unheard-of-{n}") for n in range(1_000)] + [
        frame.property(f"size-{n}") for n in range(100)
    ]

    assert frame.count_columns() < 300
    assert [names_in(frame, column.exists()) for column in read[1_000:]] == [{f"c{n}"} for n in range(100)]
    assert not any(column.exists() for column in read[:1_000])
    assert [column.bounds()[0] for column in numbers[1_000:]] == list(range(100))
    assert not any(column.present().any() for column in numbers[:1_000])


def test_usages_that_no_cluster_reports_share_a_column_too() -> None:
    frame = a_frame(a_cluster("a").having(available={"cpu": "4"}))
    columns = [frame.usage("available", f"resource-{number}") for number in range(1_000)]

    assert frame.count_columns() < 100
    assert not any(column.present().any() for column in columns)
    assert frame.usage("available", "cpu").values[0] == 4
    assert not frame.usage("capacity", "cpu").present().any()


def test_a_few_names_that_no_cluster_has_keep_their_columns_from_one_frame_to_the_next() -> None:
    """To list all names of the fleet after every change would cost more."""
    table = a_table(*(a_cluster(f"c{number}").build() for number in range(3)))
    frame = table.freeze()
    for number in range(100):
        frame.namespace(f"namespace-{number}")
    for revision in range(3):
        table.put(a_cluster("c0").labelled(revision=str(revision)).build())
        frame = table.freeze()
        before = frame.count_columns()
        frame.labels("maintenance")
        assert frame.count_columns() == before + (revision == 0)


def test_a_name_that_a_cluster_gets_later_is_found_in_the_next_frame() -> None:
    table = a_table(a_cluster("a").build())
    before = table.freeze()
    for number in range(200):
        before.labels(f"key-{number}")
        before.property(f"size-{number}")
    table.put(a_cluster("a").labelled({"key-150": "x"}).measured({"size-150": "7"}).build())
    after, apart = table.freeze(), table.freeze().apart(before)

    for frame in (after, apart):
        assert frame.labels("key-150").value(0) == "x"
        assert frame.property("size-150").values[0] == 7
        assert frame.labels("key-151").value(0) is None
    assert before.labels("key-150").value(0) is None
