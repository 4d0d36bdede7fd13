"""The report of `fleet diff`: one versioned object, which text and Markdown are rendered from.

Within `fleet/v2` fields are added, never renamed or removed. Run as a program, this module prints the JSON schema that
is kept in `docs/`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fleet.explain.remarks.remark import Remark
from fleet.explain.whatif.moves import ClusterMoves, ObjectChange, PlacementMoves, UndecidedPlacement
from fleet.model.json_schema import render_schema


class RemarkedPlacement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A placement in the files whose policy looks like a mistake."""

    kind: str
    key: str
    remarks: tuple[Remark, ...]


class DiffReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: Literal["fleet/v2"] = "fleet/v2"
    kind: Literal["Diff"] = "Diff"
    base: str
    """What the files are compared with."""
    now: str
    now_from: str
    settings: dict[str, Any]
    """Those that differ from their defaults."""
    cluster_count: int
    """After the change."""
    placement_count: int
    """After the change."""
    moves: bool
    """Whether the change moves anything: the exit code."""
    objects: tuple[ObjectChange, ...]
    placements: tuple[PlacementMoves, ...]
    clusters: tuple[ClusterMoves, ...]
    undecided: tuple[UndecidedPlacement, ...]
    remarks: tuple[RemarkedPlacement, ...]
    notes: tuple[str, ...]

    @property
    def moved(self) -> list[PlacementMoves]:
        return [placement for placement in self.placements if placement.is_moved_by_change]

    @property
    def moving_anyway(self) -> list[PlacementMoves]:
        """Not because of the files."""
        return [each for each in self.placements if each.is_moved and not each.is_moved_by_change]

    @property
    def summary(self) -> str:
        """One sentence."""
        moved = self.moved
        unknown = f"; {count(len(self.undecided), 'placement')} cannot be decided" if self.undecided else ""
        if not moved:
            return f"no move of {count(self.placement_count - len(self.undecided), 'placement')}{unknown}"
        gained, lost = sum(len(each.gained) for each in moved), sum(len(each.lost) for each in moved)
        verb = "moves" if len(moved) == 1 else "move"
        return f"{count(len(moved), 'placement')} {verb}: {count(gained, 'binding')} gained, {lost} lost{unknown}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def build_schema() -> str:
    """The JSON schema of a report."""
    return render_schema(DiffReport)


if __name__ == "__main__":
    import sys

    sys.stdout.write(build_schema() + "\n")
