"""The one writer: rows are stable slots, every write touches one row, frames handed out stay as they were."""

from __future__ import annotations

import numpy as np
import pytest

from fleet.snapshot import Frame, Table
from tests.builders import NOW, a_cluster, a_frame, a_table, ago, clusters, names_in


def rows_of(frame: Frame) -> dict[str, int]:
    return {name: row for row, name in enumerate(frame.names.names) if name}


# --- slots ------------------------------------------------------------------------------------------------------------


def test_a_cluster_keeps_its_row_while_others_come_and_go() -> None:
    table = a_table(*clusters("a", "b", "c"))
    before = table.freeze().row_of("c")

    table.remove("a")
    table.put(a_cluster("d").build())
    table.put(a_cluster("c").labelled(region="eu").build())

    assert table.freeze().row_of("c") == before


def test_the_lowest_free_row_goes_to_the_next_newcomer() -> None:
    table = a_table(*clusters("a", "b", "c", "d"))
    table.remove("c")
    table.remove("b")

    table.put(a_cluster("e").build())
    table.put(a_cluster("f").build())

    assert rows_of(table.freeze()) == {"a": 0, "e": 1, "f": 2, "d": 3}


def test_a_full_table_grows_and_the_new_rows_are_free() -> None:
    table = a_table(*clusters("a", "b"))

    table.put(a_cluster("c").build())

    frame = table.freeze()
    assert frame.size > 3
    assert (frame.count, names_in(frame, frame.valid)) == (3, {"a", "b", "c"})


def test_a_table_may_start_empty() -> None:
    table = Table()
    empty = table.freeze()

    table.put(a_cluster("a").labelled(region="eu").build())

    assert (empty.size, empty.count, empty.valid) == (0, 0, 0)
    assert names_in(table.freeze(), table.freeze().labels("region").eq("eu")) == {"a"}


def test_of_two_clusters_with_one_name_the_last_counts() -> None:
    frame = a_frame(a_cluster("a").labelled(region="eu"), a_cluster("a").labelled(region="us"))

    assert (frame.count, frame.labels("region").value(0)) == (1, "us")


def test_removing_somebody_unknown_changes_nothing() -> None:
    table = a_table(*clusters("a"))
    before = table.freeze()

    assert table.remove("b") is False
    assert table.freeze() is before


def test_a_removed_cluster_is_in_no_answer() -> None:
    table = a_table(a_cluster("a").labelled(region="eu").tainted("gpu").measured({"p": "1"}), a_cluster("b"))
    old = table.freeze()
    assert old.labels("region").exists()
    assert old.taints.exists()
    assert old.property("p").present().any()

    table.remove("a")

    frame = table.freeze()
    assert frame.row_of("a") is None
    assert "a" not in table
    assert table.get("a") is None
    assert frame.labels("region").exists() == frame.taints.exists() == 0
    assert not frame.property("p").present().any()
    assert frame.labels("region").distinct() == []


def test_a_freed_row_holds_no_cluster() -> None:
    table = a_table(*clusters("a", "b"))
    table.remove("a")

    with pytest.raises(KeyError):
        table.freeze().cluster(0)


def test_the_newcomer_inherits_nothing_from_the_row_it_gets() -> None:
    table = a_table(a_cluster("old").labelled(region="eu").measured({"p": "x"}).leaving())
    frame = table.freeze()
    assert frame.property("p").unreadable
    table.book("quota", "old", 5)
    table.feed("load", {"cpu": {"old": 0.9}}, sampled_at={"old": NOW})
    frame.labels("region"), frame.signals

    table.remove("old")
    table.put(a_cluster("new").build())

    frame = table.freeze()
    assert frame.row_of("new") == 0
    assert frame.labels("region").value(0) is None
    assert frame.property("p").unreadable == 0
    assert frame.signals.of(0).flags == a_frame(a_cluster("new")).signals.of(0).flags
    assert frame.ledger("quota")[0] == 0
    assert np.isnan(frame.feeds["load"].columns["cpu"][0])
    assert frame.feeds["load"].sampled_at[0] == 0


# --- moments ----------------------------------------------------------------------------------------------------------


def test_a_frame_is_the_same_object_until_something_changes() -> None:
    table = a_table(*clusters("a"))

    assert table.freeze() is table.freeze()


def test_an_older_frame_does_not_see_later_writes() -> None:
    table = a_table(a_cluster("a").labelled(region="eu"), a_cluster("b"))
    old = table.freeze()
    assert names_in(old, old.labels("region").eq("eu")) == {"a"}

    table.put(a_cluster("a").labelled(region="us").build())
    table.put(a_cluster("c").labelled(region="eu").build())
    table.remove("b")

    assert names_in(old, old.labels("region").eq("eu")) == {"a"}
    assert old.labels("region").value(0) == "eu"
    assert names_in(old, old.valid) == {"a", "b"}
    assert names_in(table.freeze(), table.freeze().labels("region").eq("eu")) == {"c"}


def test_an_older_frame_may_be_asked_something_new_after_the_fleet_moved_on() -> None:
    table = a_table(a_cluster("a").labelled(region="eu"))
    old = table.freeze()
    table.put(a_cluster("a").labelled(region="us").build())

    assert names_in(old, old.labels("region").eq("eu")) == {"a"}
    assert names_in(table.freeze(), table.freeze().labels("region").eq("us")) == {"a"}


def test_successive_frames_share_the_columns_that_did_not_change() -> None:
    table = a_table(a_cluster("a").labelled(region="eu", env="prod").measured({"p": "1"}))
    old = table.freeze()
    columns = old.labels("region"), old.labels("env"), old.property("p"), old.taints, old.signals

    table.put(a_cluster("a").labelled(region="us", env="prod").measured({"p": "1"}).build())

    new = table.freeze()
    assert new.labels("region") is not columns[0]
    assert (new.labels("env"), new.property("p"), new.taints, new.signals) == columns[1:]


def test_two_changes_between_two_frames_copy_a_column_once() -> None:
    table = a_table(*(one.labelled(region="eu") for one in clusters("a", "b")))
    table.freeze().labels("region")

    table.put(a_cluster("a").labelled(region="us").build())
    ids = table._columns["label", "region"].ids  # type: ignore[union-attr]
    table.put(a_cluster("b").labelled(region="us").build())

    assert table.freeze().labels("region").ids is ids


# --- generations ------------------------------------------------------------------------------------------------------


def test_a_heartbeat_alone_raises_the_revision_and_not_the_generation() -> None:
    table = a_table(a_cluster("a").heard(30))
    before = table.freeze()

    table.put(a_cluster("a").heard(10).build())

    after = table.freeze()
    assert after.generation == before.generation
    assert after.revision > before.revision
    assert after.signals.of(0).last_seen > before.signals.of(0).last_seen


def test_the_time_of_an_observation_alone_raises_no_generation() -> None:
    seen = a_cluster("a").measured({"p": "1"})
    table = a_table(seen)
    before = table.freeze().generation
    properties = seen.build().status.properties
    assert properties is not None
    later = {name: type(value)(value.value, ago(1)) for name, value in properties.items()}

    table.put(seen._status(properties=later).build())

    assert table.freeze().generation == before


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(a_cluster("a").labelled(region="eu"), id="label"),
        pytest.param(a_cluster("a").tainted("gpu"), id="taint"),
        pytest.param(a_cluster("a").measured({"p": "1"}), id="property"),
        pytest.param(a_cluster("a").having(available={"cpu": "1"}), id="usage"),
        pytest.param(a_cluster("a").with_namespaces("shop"), id="namespace"),
        pytest.param(a_cluster("a").leaving(), id="leaving"),
        pytest.param(a_cluster("a").joined("False"), id="joined"),
        pytest.param(a_cluster("a").healthy("False", since_seconds=9), id="health"),
        pytest.param(a_cluster("a").healthy("True", since_seconds=9), id="health transition"),
        pytest.param(a_cluster("a").never_heard(), id="heartbeat lost"),
        pytest.param(a_cluster("a").without_agent(), id="agent lost"),
        pytest.param(a_cluster("b"), id="newcomer"),
    ],
)
def test_whatever_a_decision_may_depend_on_raises_the_generation(changed: object) -> None:
    table = a_table(a_cluster("a"))
    before = table.freeze().generation

    table.put(changed.build())  # type: ignore[attr-defined]

    assert table.freeze().generation == before + 1


def test_leaving_booking_and_feeding_raise_the_generation() -> None:
    table = a_table(*clusters("a", "b"))
    generations = [table.freeze().generation]

    table.remove("b")
    generations.append(table.freeze().generation)
    table.book("quota", "a", 1)
    generations.append(table.freeze().generation)
    table.feed("load", {"cpu": {"a": 0.5}}, sampled_at={"a": NOW})
    generations.append(table.freeze().generation)

    assert generations == sorted(set(generations))


# --- side data --------------------------------------------------------------------------------------------------------


def test_bookings_add_up_and_can_be_given_back() -> None:
    table = a_table(*clusters("a", "b"))

    table.book("quota", "b", 5)
    table.book("quota", "b", 3)
    table.book("quota", "b", -4)

    assert table.freeze().ledger("quota").tolist() == [0, 4]


def test_a_ledger_nobody_wrote_is_all_zero() -> None:
    assert a_frame(*clusters("a", "b")).ledger("quota").tolist() == [0, 0]


def test_booking_on_an_unknown_cluster_is_refused() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        a_table(*clusters("a")).book("quota", "nowhere", 1)


def test_an_older_frame_does_not_see_later_bookings_and_samples() -> None:
    table = a_table(*clusters("a"))
    table.book("quota", "a", 1)
    table.feed("load", {"cpu": {"a": 0.5}}, sampled_at={"a": NOW})
    old = table.freeze()

    table.book("quota", "a", 1)
    table.feed("load", {"cpu": {"a": 0.9}}, sampled_at={"a": NOW + 1})

    assert old.ledger("quota").tolist() == [1]
    assert old.feeds["load"].columns["cpu"].tolist() == [0.5]
    assert old.feeds["load"].sampled_at.tolist() == [NOW]


def test_a_feed_is_unknown_where_it_was_not_sampled() -> None:
    table = a_table(*clusters("a", "b"))

    table.feed("load", {"cpu": {"a": 0.5, "gone": 1.0}}, sampled_at={"a": NOW, "gone": NOW})

    feed = table.freeze().feeds["load"]
    assert feed.columns["cpu"][0] == 0.5
    assert np.isnan(feed.columns["cpu"][1])
    assert feed.sampled_at.tolist() == [NOW, 0]


def test_side_data_grows_with_the_fleet() -> None:
    table = a_table(*clusters("a"))
    table.book("quota", "a", 7)
    table.feed("load", {"cpu": {"a": 0.5}}, sampled_at={"a": NOW})

    table.put(a_cluster("b").build())

    frame = table.freeze()
    row = frame.row_of("b")
    assert row is not None
    assert frame.ledger("quota")[[0, row]].tolist() == [7, 0]
    assert len(frame.ledger("quota")) == len(frame.feeds["load"].sampled_at) == frame.size
    assert np.isnan(frame.feeds["load"].columns["cpu"][row])
