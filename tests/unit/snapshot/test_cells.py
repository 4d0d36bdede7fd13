"""Rows grouped by their values under several keys at once."""

from __future__ import annotations

import random

import numpy as np

from fleet.snapshot import Frame
from fleet.snapshot.cells import group
from fleet.snapshot.columns.interned import Domains
from tests.builders import a_cluster, a_frame, a_table


def groups(frame: Frame, keys: tuple[str, ...]) -> dict[tuple[str | None, ...], set[str]]:
    """Cluster names by the values under the keys, read from the cells."""
    cells = frame.cells(keys)
    found: dict[tuple[str | None, ...], set[str]] = {}
    for cell in range(cells.count):
        values = tuple(_value(frame, key, int(cells.domains[place][cell])) for place, key in enumerate(keys))
        rows = np.flatnonzero(cells.of_row == cell).tolist()
        assert values not in found
        found[values] = {frame.name(row) for row in rows}
    return found


def _value(frame: Frame, key: str, domain: int) -> str | None:
    return None if domain < 0 else frame.labels(key).domain_value(domain)


def test_clusters_of_one_cell_agree_under_every_key() -> None:
    frame = a_frame(
        a_cluster("a").labelled(region="eu", zone="1"),
        a_cluster("b").labelled(region="eu", zone="1"),
        a_cluster("c").labelled(region="eu", zone="2"),
        a_cluster("d").labelled(region="us"),
        a_cluster("e"),
    )

    assert groups(frame, ("region", "zone")) == {
        ("eu", "1"): {"a", "b"},
        ("eu", "2"): {"c"},
        ("us", None): {"d"},
        (None, None): {"e"},
    }
    assert groups(frame, ("region",)) == {("eu",): {"a", "b", "c"}, ("us",): {"d"}, (None,): {"e"}}


def test_cells_are_remembered_until_a_key_changes() -> None:
    table = a_table(a_cluster("a").labelled(region="eu"), a_cluster("b").labelled(region="us"))
    old = table.freeze()
    cells = old.cells(("region",))
    table.put(a_cluster("a").labelled(region="eu", env="prod").build())
    assert table.freeze().cells(("region",)) is cells

    table.put(a_cluster("a").labelled(region="us", env="prod").build())

    assert groups(table.freeze(), ("region",)) == {("us",): {"a", "b"}}
    assert groups(old, ("region",)) == {("eu",): {"a"}, ("us",): {"b"}}


def test_the_order_of_keys_is_the_order_of_domains() -> None:
    frame = a_frame(a_cluster("a").labelled(region="eu", zone="1"), a_cluster("b").labelled(region="eu", zone="2"))

    assert groups(frame, ("zone", "region")) == {("1", "eu"): {"a"}, ("2", "eu"): {"b"}}


def test_more_combined_values_than_an_integer_can_count_are_grouped_alike() -> None:
    """Seven keys with a thousand values each: their product is beyond 64 bits."""
    dice = random.Random(5)
    rows = [tuple(dice.randrange(-1, 3) for _ in range(7)) for _ in range(400)]
    columns = [np.array([row[key] for row in rows], dtype=np.int32) for key in range(7)]
    keys = [Domains(of_row=column, ids=np.arange(1, 1001), count=1000) for column in columns]

    cells = group(keys)

    assert cells.count == len(set(rows))
    for row, values in enumerate(rows):
        assert tuple(int(domains[cells.of_row[row]]) for domains in cells.domains) == values


def test_an_empty_fleet_has_no_cells() -> None:
    assert a_frame().cells(("region",)).count == 0
