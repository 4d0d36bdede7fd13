"""Columns answer with sets of rows, remember their answers, and keep them right while rows change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fleet.snapshot import Frame, Table
from fleet.snapshot.columns.bitset import to_rows
from fleet.snapshot.columns.interned import (
    NAMESPACE_MISSING,
    NAMESPACE_PRESENT,
    NAMESPACE_UNCONFIRMED,
    NAMESPACES_UNREPORTED,
    InternedColumn,
)
from fleet.snapshot.columns.numbers import NumberColumn
from fleet.snapshot.columns.signals import (
    AGENT_KNOWN,
    HEALTH_KNOWN,
    HEALTH_TIME_KNOWN,
    HEALTHY_TRUE,
    HEARTBEAT_KNOWN,
    JOINED_TRUE,
    TERMINATING,
    signals_of,
)
from fleet.snapshot.frame import build_column
from tests.builders import NOW, ClusterBuilder, a_cluster, a_frame, a_table, clusters, names_in

ALL_WELL = AGENT_KNOWN | HEARTBEAT_KNOWN | JOINED_TRUE | HEALTH_KNOWN | HEALTHY_TRUE | HEALTH_TIME_KNOWN


@pytest.fixture
def frame() -> Frame:
    return a_frame(
        a_cluster("a").labelled(region="eu", tier=""),
        a_cluster("b").labelled(region="us"),
        a_cluster("c"),
        a_cluster("d").labelled(region="eu"),
    )


# --- labels -----------------------------------------------------------------------------------------------------------


def test_a_label_is_asked_by_value_by_values_and_by_presence(frame: Frame) -> None:
    region = frame.labels("region")

    assert names_in(frame, region.eq("eu")) == {"a", "d"}
    assert names_in(frame, region.isin(["us", "eu", "mars"])) == {"a", "b", "d"}
    assert names_in(frame, region.exists()) == {"a", "b", "d"}
    assert [region.value(row) for row in range(4)] == ["eu", "us", None, "eu"]


def test_an_empty_value_is_a_value(frame: Frame) -> None:
    assert names_in(frame, frame.labels("tier").eq("")) == {"a"}
    assert names_in(frame, frame.labels("tier").exists()) == {"a"}


def test_nobody_has_a_value_nobody_has(frame: Frame) -> None:
    assert frame.labels("region").eq("mars") == 0
    assert frame.labels("region").isin([]) == 0
    assert frame.labels("unheard-of").exists() == 0


def test_distinct_values_come_with_their_rows(frame: Frame) -> None:
    found = {value: names_in(frame, rows) for value, rows in frame.labels("region").distinct()}

    assert found == {"eu": {"a", "d"}, "us": {"b"}}


def test_domains_are_numbered_densely_and_minus_one_is_no_domain(frame: Frame) -> None:
    domains = frame.labels("region").domains()

    assert domains.count == 2
    assert sorted(set(domains.of_row.tolist())) == [-1, 0, 1]
    assert [frame.labels("region").domain_value(domain) for domain in domains.of_row[[0, 1, 3]]] == ["eu", "us", "eu"]


def test_the_domain_of_a_value_nobody_has_any_more_is_gone() -> None:
    table = a_table(a_cluster("a").labelled(region="eu"), a_cluster("b").labelled(region="us"))
    assert table.freeze().labels("region").domains().count == 2

    table.put(a_cluster("a").labelled(region="us").build())

    domains = table.freeze().labels("region").domains()
    assert (domains.count, domains.of_row.tolist()) == (1, [0, 0])


# --- remembered answers -----------------------------------------------------------------------------------------------


def test_remembered_answers_are_corrected_when_a_row_changes() -> None:
    table = a_table(a_cluster("a").labelled(region="eu"), a_cluster("b").labelled(region="us"), a_cluster("c"))
    region = table.freeze().labels("region")
    region.eq("eu"), region.eq("us"), region.exists()

    table.put(a_cluster("a").labelled(region="us").build())
    table.put(a_cluster("b").build())
    table.put(a_cluster("c").labelled(region="eu").build())

    frame = table.freeze()
    assert names_in(frame, frame.labels("region").eq("eu")) == {"c"}
    assert names_in(frame, frame.labels("region").eq("us")) == {"a"}
    assert names_in(frame, frame.labels("region").exists()) == {"a", "c"}


def test_a_remembered_answer_survives_a_change_and_its_reversal() -> None:
    table = a_table(a_cluster("a").labelled(region="eu"))
    table.freeze().labels("region").eq("eu")

    table.put(a_cluster("a").labelled(region="us").build())
    table.put(a_cluster("a").labelled(region="eu").build())

    assert names_in(table.freeze(), table.freeze().labels("region").eq("eu")) == {"a"}
    assert table.freeze().labels("region").eq("us") == 0


def test_a_value_that_returns_after_nobody_had_it_is_found_again() -> None:
    table = a_table(a_cluster("a").labelled(region="eu"), a_cluster("b"))
    table.freeze().labels("region").eq("eu")
    table.remove("a")
    assert table.freeze().labels("region").eq("eu") == 0

    table.put(a_cluster("b").labelled(region="eu").build())

    assert names_in(table.freeze(), table.freeze().labels("region").eq("eu")) == {"b"}


def test_more_values_than_are_remembered_are_answered_alike() -> None:
    many = [a_cluster(f"c{number}").labelled(rack=f"r{number}") for number in range(1100)]
    frame = a_frame(*many)

    for _ in range(2):
        assert [frame.labels("rack").eq(f"r{number}") for number in range(1100)] == [1 << row for row in range(1100)]


def test_values_nobody_has_any_more_are_forgotten() -> None:
    table = a_table(*clusters("a", "b"))
    table.put(a_cluster("b").labelled(build="stays").build())
    table.freeze().labels("build").eq("stays")

    for number in range(500):
        table.put(a_cluster("a").labelled(build=f"v{number}").build())
        table.freeze()

    build = table.freeze().labels("build")
    assert len(build._values) < 200
    assert names_in(table.freeze(), build.eq("v499")) == {"a"}
    assert names_in(table.freeze(), build.eq("stays")) == {"b"}
    assert build.eq("v0") == build.eq("v498") == 0
    assert {value for value, _ in build.distinct()} == {"stays", "v499"}


def test_a_frame_from_before_the_values_were_renumbered_reads_as_before() -> None:
    table = a_table(a_cluster("a").labelled(build="first"), a_cluster("b").labelled(build="second"))
    old = table.freeze()
    assert old.labels("build").value(0) == "first"

    for number in range(500):
        table.put(a_cluster("a").labelled(build=f"v{number}").build())

    assert [old.labels("build").value(row) for row in (0, 1)] == ["first", "second"]
    assert names_in(old, old.labels("build").eq("first")) == {"a"}
    assert old.labels("build").eq("v499") == 0


# --- the other kinds --------------------------------------------------------------------------------------------------


def test_clusters_with_equal_taints_share_one_entry() -> None:
    gpu, both = a_cluster("a").tainted("gpu"), a_cluster("b").tainted("gpu").tainted("spot", "yes")
    frame = a_frame(gpu, both, a_cluster("c").tainted("gpu"), a_cluster("d"))

    found = {tuple(one.key for one in taints): names_in(frame, rows) for taints, rows in frame.taints.distinct()}

    assert found == {("gpu",): {"a", "c"}, ("gpu", "spot"): {"b"}}


@pytest.mark.parametrize(
    "cluster, state",
    [
        (a_cluster("a"), None),
        (a_cluster("a").with_namespaces("shop"), NAMESPACE_PRESENT),
        (a_cluster("a").with_namespaces("other"), NAMESPACE_MISSING),
        (a_cluster("a").with_namespaces(), NAMESPACE_MISSING),
        (a_cluster("a").with_namespaces("other", confirmed=False), NAMESPACE_UNCONFIRMED),
        (a_cluster("a").with_namespaces("shop", confirmed=False), NAMESPACE_PRESENT),
        (a_cluster("a").with_namespaces()._status(namespaces=None), NAMESPACES_UNREPORTED),
    ],
    ids=["unknown", "present", "missing", "empty", "unconfirmed", "present in a cut list", "unreported"],
)
def test_what_a_cluster_says_about_a_namespace(cluster: ClusterBuilder, state: str | None) -> None:
    assert a_frame(cluster).namespace("shop").value(0) == state


@pytest.mark.parametrize(
    "cluster, flags",
    [
        (a_cluster("a"), ALL_WELL),
        (a_cluster("a").leaving(), ALL_WELL | TERMINATING),
        (a_cluster("a").without_agent(), 0),
        (a_cluster("a").without_agent().leaving(), TERMINATING),
        (a_cluster("a").never_heard(), ALL_WELL & ~HEARTBEAT_KNOWN),
        (a_cluster("a")._agent(last_received_heartbeat="soon"), ALL_WELL & ~HEARTBEAT_KNOWN),
        (a_cluster("a").joined("Unknown"), ALL_WELL & ~JOINED_TRUE),
        (a_cluster("a").healthy("False", since_seconds=1), ALL_WELL & ~HEALTHY_TRUE),
        (a_cluster("a")._agent(conditions=()), AGENT_KNOWN | HEARTBEAT_KNOWN),
    ],
    ids=["well", "leaving", "no agent", "leaving, no agent", "silent", "odd time", "not joined", "unhealthy", "mute"],
)
def test_the_flags_of_a_cluster(cluster: ClusterBuilder, flags: int) -> None:
    assert signals_of(cluster.build()).flags == flags


def test_times_are_stored_and_never_ages() -> None:
    signals = a_frame(a_cluster("a").heard(30).healthy("False", since_seconds=90)).signals.of(0)

    assert (signals.last_seen, signals.health_since) == (NOW - 30 * 10**9, NOW - 90 * 10**9)


def test_the_first_member_agent_speaks_for_the_cluster() -> None:
    other = a_cluster("a").heard(5).build().status.agent_status[0]
    cluster = a_cluster("a").heard(60)
    both = cluster._status(agent_status=(*cluster.build().status.agent_status, other))

    assert signals_of(both.build()).last_seen == NOW - 60 * 10**9


def test_a_column_of_an_unknown_kind_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        build_column(("colour", "red"), 0, ())


# --- read-only --------------------------------------------------------------------------------------------------------


def every_array(frame: Frame) -> dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]]:
    region, signals, cells = frame.labels("region"), frame.signals, frame.cells(("region", "tier"))
    return {
        "label ids": region.ids,
        "domains": region.domains().of_row,
        "domain ids": region.domains().ids,
        "taints": frame.taints.ids,
        "namespaces": frame.namespace("shop").ids,
        "numbers": frame.property("p").values,
        "usage": frame.usage("available", "cpu").values,
        "flags": signals.flags,
        "last seen": signals.last_seen,
        "health since": signals.health_since,
        "name order": frame.names.order,
        "name rank": frame.names.rank,
        "name hash": frame.names.hash,
        "scan order": frame.scan_order(),
        "cells": cells.of_row,
        "cell domains": cells.domains[0],
        "ledger": frame.ledger("quota"),
        "absent ledger": frame.ledger("absent"),
        "feed": frame.feeds["load"].columns["cpu"],
        "feed times": frame.feeds["load"].sampled_at,
    }


def a_frame_with_everything() -> Frame:
    table = a_table(a_cluster("a").labelled(region="eu").measured({"p": "1"}), a_cluster("b").tainted("gpu"))
    table.book("quota", "a", 1)
    table.feed("load", {"cpu": {"a": 0.5}}, sampled_at={"a": NOW})
    return table.freeze()


@pytest.mark.parametrize("column", list(every_array(a_frame_with_everything())))
def test_F3_124_writing_into_any_column_raises(column: str) -> None:
    array = every_array(a_frame_with_everything())[column]

    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


@pytest.mark.parametrize("column", list(every_array(a_frame_with_everything())))
def test_F3_124_so_it_is_after_the_fleet_changed(column: str) -> None:
    table = Table.fork(a_frame_with_everything())
    table.put(a_cluster("c").labelled(region="us").measured({"p": "2"}).tainted("x").build())
    table.book("quota", "c", 1)

    with pytest.raises(ValueError, match="read-only"):
        every_array(table.freeze())[column][0] = 0


# --- upkeep -----------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, Callable[[Frame], object]] = {
    "label": lambda frame: frame.labels("region"),
    "taints": lambda frame: frame.taints,
    "property": lambda frame: frame.property("p"),
    "usage": lambda frame: frame.usage("available", "cpu"),
    "namespace": lambda frame: frame.namespace("shop"),
    "signals": lambda frame: frame.signals,
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_is_kept_when_a_cluster_is_replaced_by_an_equal_one(kind: str) -> None:
    table = a_table(a_cluster("a").labelled(region="eu").measured({"p": "1"}))
    before = COLUMNS[kind](table.freeze())

    table.put(a_cluster("a").labelled(region="eu").measured({"p": "1"}).build())

    assert COLUMNS[kind](table.freeze()) is before


def test_a_column_is_built_once() -> None:
    frame = a_frame(a_cluster("a").labelled(region="eu"))

    assert frame.labels("region") is frame.labels("region")
    assert isinstance(frame.labels("region"), InternedColumn)
    assert isinstance(frame.property("region"), NumberColumn)


def test_a_large_fleet_answers_as_a_small_one() -> None:
    table = Table(a_cluster(f"c{number:04d}").labelled(half=str(number % 2)).build() for number in range(2000))

    assert to_rows(table.freeze().labels("half").eq("1"), 2000).tolist() == list(range(1, 2000, 2))
