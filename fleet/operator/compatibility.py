"""The versions that work together: compatibility.json, shipped with every release and shown in the docs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from fleet import __version__
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.release.tags import Tag

HUB_GROUP: Final = CLUSTER_SCOPED.placement.group
MEMBER_GROUP: Final = MEMBER_CLUSTERS.group
BEGIN: Final = "<!-- versions: begin -->\n"
END: Final = "<!-- versions: end -->\n"


class Compatibility(msgspec.Struct, frozen=True):
    """Of a line of releases."""

    fleet: str
    """Major and minor version."""
    hub: tuple[str, ...]
    """Versions of the API group of placements."""
    member: tuple[str, ...]
    """Versions of the API group of member clusters."""
    python: tuple[str, ...]


def load_matrix() -> tuple[Compatibility, ...]:
    text = files("fleet.operator").joinpath("compatibility.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Compatibility, ...])


MATRIX: Final = load_matrix()


def find_skew(tag: Tag, served: Mapping[str, Sequence[str]], matrix: Sequence[Compatibility] = MATRIX) -> str | None:
    """Why a scheduler and a hub are outside the matrix. `served` has the versions of each API group of the hub.

    Builds that name no release, such as snapshots, are taken for the line of this operator.
    """
    line = f"{tag.major}.{tag.minor}" if tag.base_micro is not None else __version__.rpartition(".")[0]
    row = next((row for row in matrix if row.fleet == line), None)
    if row is None:
        known = ", ".join(f"{row.fleet}.x" for row in matrix)
        return f"spec.schedulerImage: {tag.text} is of Fleet {line}.x, and this operator knows {known} only"
    for group, versions in ((HUB_GROUP, row.hub), (MEMBER_GROUP, row.member)):
        if not set(versions) & set(served.get(group, ())):
            has = ", ".join(served.get(group, ())) or "no version"
            return f"Fleet {line}.x needs {group}/{' or '.join(versions)}, and the hub serves {has} of {group}"
    return None


def insert_matrix(page: str) -> str:
    """The page with the present matrix."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    head = ["| Fleet | Hub API | Member API | Python |", "| --- | --- | --- | --- |"]
    rows = [
        f"| {row.fleet}.x | {', '.join(row.hub)} | {', '.join(row.member)} | {', '.join(row.python)} |"
        for row in MATRIX
    ]
    table = "\n".join([*head, *rows])
    return f"{before}{BEGIN}\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(insert_matrix(path.read_text(encoding="utf-8")), encoding="utf-8")
