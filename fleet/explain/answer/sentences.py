"""The outcome of one cluster, as a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fleet.explain.answer.parts import ClusterRow
from fleet.explain.facts.cluster_outcome import ClusterOutcome
from fleet.explain.facts.rejections import PICK_FIXED_PLUGIN

_SENTENCES: Final[Mapping[str, str]] = {
    ClusterOutcome.SELECTED: "is chosen",
    ClusterOutcome.REFRESHED: "is chosen again, and its binding is renewed",
    ClusterOutcome.REVIVED: "is chosen again, and its binding comes back",
    ClusterOutcome.KEPT: "is in use, and stays",
    ClusterOutcome.NOT_PICKED: "fits, but others were chosen",
    ClusterOutcome.NOT_LISTED: "is not named by the policy",
    ClusterOutcome.REMOVED: "is given up: fewer clusters are wanted",
    ClusterOutcome.NOT_EVALUATED: "was not evaluated",
    ClusterOutcome.DANGLING: "is not in the fleet any more, and its binding is given up",
    ClusterOutcome.MISSING: "is named by the policy, but no cluster has this name",
}


def describe_cluster(row: ClusterRow) -> str:
    refusing = [verdict.plugin for verdict in row.rejections if verdict.verdict == "reject"]
    known = _SENTENCES.get(row.standing)
    if known is not None:
        others = [
            plugin for plugin in refusing if plugin != PICK_FIXED_PLUGIN and row.standing == ClusterOutcome.NOT_LISTED
        ]
        return f"{row.name} {known}" + (f", and rejected by {join_words(others)}" if others else "")
    rejected = f"{row.name} is rejected" + (f" by {join_words(refusing)}" if refusing else "")
    return f"{rejected}; its binding stays for now" if row.standing == ClusterOutcome.RETAINED else rejected


def join_words(words: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else ""
