"""Cells of tables, and ages as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.hub.kinds.kind import Kind, TableColumn
from fleet.hub.listwatch import tables

DOCUMENT: dict[str, Any] = {
    "metadata": {"name": "x", "creationTimestamp": "2023-11-14T22:13:20Z"},
    "spec": {"n": 3, "on": True, "dotted.key": "value", "list": [{"a": "1"}, {"a": "2"}]},
    "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Done", "status": "True"}]},
}


def cell(column: TableColumn, *, custom: bool = True) -> Any:
    kind = Kind("g", "v1", "X", "xs", namespaced=True, custom=custom, columns=(column,))
    return tables.build_table(kind, [DOCUMENT], {}, include="None")["rows"][0]["cells"][1]


@pytest.mark.parametrize(
    "path, type, want",
    [
        (".spec.n", "integer", 3),
        (".spec.on", "boolean", True),
        (".spec.on", "string", "true"),
        (r".spec.dotted\.key", "string", "value"),
        (".spec['dotted.key']", "string", "value"),
        ('.status.conditions[?(@.type=="Done")].status', "string", "True"),
        (".spec.list[1].a", "string", "2"),
        (".spec.list[*].a", "string", "1,2"),
        (".spec.absent.further", "string", None),
        (".spec.n.further", "string", None),
        ("nonsense[", "string", None),
    ],
)
def test_a_cell_is_what_the_path_leads_to(path: str, type: str, want: Any) -> None:
    assert cell(TableColumn("C", path, type)) == want


def test_built_in_kinds_say_none() -> None:
    assert cell(TableColumn("C", ".spec.absent"), custom=False) == "<none>"


@pytest.mark.parametrize(
    "seconds, want",
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (7 * 3600 + 60, "7h1m"),
        (47 * 3600, "47h"),
        (7 * 86400 + 3600, "7d1h"),
        (100 * 86400, "100d"),
        (731 * 86400, "2y1d"),
        (-5, "<invalid>"),
    ],
)
def test_an_age_gets_coarser_as_it_grows(seconds: int, want: str) -> None:
    assert tables.format_age("2023-11-14T22:13:20Z", now=1_700_000_000 + seconds) == want
