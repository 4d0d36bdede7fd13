"""Where one cluster stands, as a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fleet.explain.answer.parts import ClusterRow
from fleet.explain.facts.cluster_outcome import Standing
from fleet.explain.facts.rejections import PICK_FIXED_PLUGIN

_SENTENCES: Final[Mapping[str, str]] = {
    Standing.SELECTED: "is chosen",
    Standing.REFRESHED: "is chosen again, and its binding is renewed",
    Standing.REVIVED: "is chosen again, and its binding comes back",
    Standing.KEPT: "is in use, and stays",
    Standing.NOT_PICKED: "fits, but others were chosen",
    Standing.NOT_LISTED: "is not named by the policy",
    Standing.REMOVED: "is given up: fewer clusters are wanted",
    Standing.NOT_EVALUATED: "was not looked at",
    Standing.DANGLING: "is not in the fleet any more, and its binding is given up",
    Standing.MISSING: "is named by the policy, but no cluster has this name",
}


def sentence(row: ClusterRow) -> str:
    refusing = [one.plugin for one in row.rejections if one.verdict == "reject"]
    known = _SENTENCES.get(row.standing)
    if known is not None:
        others = [plugin for plugin in refusing if plugin != PICK_FIXED_PLUGIN and row.standing == Standing.NOT_LISTED]
        return f"{row.name} {known}" + (f", and rejected by {listed(others)}" if others else "")
    rejected = f"{row.name} is rejected" + (f" by {listed(refusing)}" if refusing else "")
    return f"{rejected}; its binding stays for now" if row.standing == Standing.RETAINED else rejected


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else ""
