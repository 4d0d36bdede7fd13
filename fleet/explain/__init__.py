"""Explanations of decisions, computed after the fact from what the plugins recorded.

Decisions are made by the one decision function only, without side effects: an answer, a fix, a simulation or a replay
is a value computed from values. Layers, from the bottom: `facts` about one decision, `whatif` (edits, scenarios,
comparisons), `fixes` (edits that help, verified), `replay` (recorded decisions, decided again) and `answer` (the
object that REST returns and the command line prints).
"""

from __future__ import annotations

from fleet.explain.facts.cluster_explanation import ClusterExplanation, Explainer, explain_cluster
from fleet.explain.facts.cluster_outcome import ClusterCounts, ClusterOutcome, count_clusters
from fleet.explain.facts.full_domains import FullDomain, find_full_domains
from fleet.explain.facts.rejection_groups import GroupSummary, build_groups
from fleet.explain.facts.summary import summarize

__all__ = [
    "ClusterCounts",
    "ClusterExplanation",
    "ClusterOutcome",
    "Explainer",
    "FullDomain",
    "GroupSummary",
    "build_groups",
    "count_clusters",
    "explain_cluster",
    "find_full_domains",
    "summarize",
]
