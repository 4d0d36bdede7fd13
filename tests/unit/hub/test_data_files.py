"""Data files are read strictly: a line that does not fit fails with its file and number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import InputError
from fleet.hub.apply.shapes import load_empty_objects, load_shapes
from fleet.hub.kinds.builtin import load_kinds
from fleet.hub.kinds.kind import Kind, TableColumn
from fleet.hub.wire.protobuf import load_messages

DEPLOYMENT = "apps/v1 Deployment deployments namespaced"


@pytest.mark.parametrize(
    "load, text, line, problem",
    [
        (load_kinds, "    Age  .a  date\n", 1, "continues a record"),
        (load_kinds, "apps/v1 Deployment deployments\n", 1, "namespaced or cluster"),
        (load_kinds, f"# kinds\n{DEPLOYMENT} shortName=deploy\n", 2, "unknown attribute shortName=deploy"),
        (load_kinds, f"{DEPLOYMENT} shortNames=a,\n", 1, "unknown attribute shortNames=a,"),
        (load_kinds, f"{DEPLOYMENT}\n    Age  .a  time\n", 2, "expected a column"),
        (load_kinds, f"{DEPLOYMENT}\n    Age .a  date  0\n", 2, "expected a column"),
        (load_kinds, f"{DEPLOYMENT}\n\n{DEPLOYMENT}\n", 3, "listed twice"),
        (load_messages, "Pod\n    1name:x\n", 2, "unknown type x"),
        (load_messages, "Pod 1name:Missing\n", 1, "unknown type Missing"),
        (load_messages, "kinds v1 Pod\n", 1, "unknown type Pod"),
        (load_messages, "Pod 1name:s\n    name:s\n", 2, "not a field: name:s"),
        (load_messages, "Pod 1name:s\n    1uid:s\n", 2, "two fields 1"),
        (load_messages, "Pod 1name:s\nPod 1name:s\n", 2, "listed twice"),
        (load_shapes, "Pod spec:\n", 1, "not a field: spec:"),
        (load_shapes, "Pod\n    spec:PodSpec[name\n", 2, "not a field: spec:PodSpec[name"),
        (load_shapes, "Pod spec:PodSpec spec:!\n", 1, "two fields spec"),
        (load_shapes, "Pod spec:!\nPod spec:!\n", 2, "listed twice"),
        (load_empty_objects, 'v1 Pod {}\nv1 Secret {"data":\n', 2, "not JSON"),
        (load_empty_objects, "v1 Pod []\n", 1, "a JSON object"),
    ],
)
def test_a_malformed_line_fails_with_its_number(
    load: Callable[[Path], object], text: str, line: int, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem.replace("[", r"\[")) as caught:
        load(path)
    assert caught.value.field == f"data.txt:{line}"


def test_a_kind_may_be_continued_with_attributes_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "kinds.txt"
    path.write_text(
        f"{DEPLOYMENT} shortNames=deploy fieldLabels=a\n"
        "    fieldLabels=b,c countsGenerations\n"
        "    Up-to-date  .status.updatedReplicas  integer\n"
        "    Last Seen  .a|.b  priority=1\n",
        encoding="utf-8",
    )
    columns = (
        TableColumn("Up-to-date", ".status.updatedReplicas", "integer"),
        TableColumn("Last Seen", ".a|.b", priority=1),
    )
    assert load_kinds(path) == (
        Kind(
            *("apps", "v1", "Deployment", "deployments"),
            namespaced=True,
            short_names=("deploy",),
            field_labels=("a", "b", "c"),
            counts_generations=True,
            columns=columns,
        ),
    )
