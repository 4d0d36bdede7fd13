"""Frames for questions: up to date like those of the table, and without a column that the table would look after."""

from __future__ import annotations

import random

from fleet.snapshot import Frame, Table
from fleet.snapshot.frame import QuestionFrames
from tests.builders import ClusterBuilder, a_cluster, a_table, clusters, names_in


def test_columns_of_questions_are_not_in_the_table() -> None:
    table = a_table(*clusters("a", "b"))
    table.freeze().labels("region")
    frames = QuestionFrames(table.freeze)

    frames.frame().labels("zone")

    assert table.freeze().count_columns() == 1
    assert frames.frame().count_columns() == 2


def test_columns_are_kept_while_the_fleet_is_the_same() -> None:
    frames = QuestionFrames(a_table(*clusters("a", "b")).freeze)

    assert frames.frame().labels("zone") is frames.frame().labels("zone")


def test_columns_that_no_change_concerns_are_kept_from_one_frame_to_the_next() -> None:
    table = a_table(a_cluster("a").labelled(zone="1"), a_cluster("b"))
    frames = QuestionFrames(table.freeze)
    before = frames.frame()
    zones = before.labels("zone")

    table.put(a_cluster("b").labelled(region="eu").build())

    assert frames.frame() is not before
    assert frames.frame().labels("zone") is zones


def test_an_earlier_frame_keeps_what_it_had() -> None:
    table = a_table(a_cluster("a").labelled(zone="1"), a_cluster("b"))
    frames = QuestionFrames(table.freeze)
    before = frames.frame()
    before.labels("zone")

    table.put(a_cluster("b").labelled(zone="1").build())

    assert names_in(frames.frame(), frames.frame().labels("zone").eq("1")) == {"a", "b"}
    assert names_in(before, before.labels("zone").eq("1")) == {"a"}


def test_whatever_happens_to_the_fleet_its_columns_are_those_that_are_built_anew() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        table, names = Table(), [f"c{number}" for number in range(12)]
        frames = QuestionFrames(table.freeze)
        for _ in range(40):
            change_fleet(table, chance, names)
            if chance.random() < 0.6:
                assert read_columns(frames.frame()) == read_columns(table.freeze().apart())


def change_fleet(table: Table, chance: random.Random, names: list[str]) -> None:
    name = chance.choice(names)
    if chance.random() < 0.3:
        table.remove(name)
    else:
        table.put(random_cluster(chance, name).build())


def random_cluster(chance: random.Random, name: str) -> ClusterBuilder:
    cluster = a_cluster(name).labelled(zone=chance.choice("123")).measured({"nodes": chance.choice(["1", "2", "x"])})
    return cluster.tainted(chance.choice("gh")) if chance.random() < 0.5 else cluster.leaving()


def read_columns(frame: Frame) -> list[object]:
    nodes = frame.property("nodes")
    return [
        [frame.names.names, frame.labels("zone").ids.astype(bool).tolist(), nodes.values.tolist().__repr__()],
        [frame.labels("zone").eq(zone) for zone in "123"],
        [(value, rows) for value, rows in sorted(frame.taints.distinct(), key=str)],
        [frame.signals.of(row) for row in range(frame.size)],
    ]


def test_columns_named_by_many_questions_are_not_kept_for_ever() -> None:
    table = a_table(*clusters("a", "b"))
    frames = QuestionFrames(table.freeze)

    for number in range(1_000):
        frames.frame().labels(f"key-{number}")

    assert frames.frame().count_columns() < 300
