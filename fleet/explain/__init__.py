"""Why: questions asked of a decision after it was made, answered from what the plugins recorded.

Nothing here decides but by the one decision function, and nothing touches the outside: an answer, a fix, a simulation
or a replay is a value made of values. Answers are frozen; the command line, the API and events present them in their
own ways. Larger questions have modules of their own: `answer`, `fixes`, `simulate`, `compare`, `impact`, `replay`.
"""

from __future__ import annotations

from fleet.explain.facts.cluster_explanation import ClusterExplanation, Explainer, explain_cluster
from fleet.explain.facts.cluster_outcome import Counts, Standing, counts
from fleet.explain.facts.full_domains import FullDomain, full_domains
from fleet.explain.facts.rejection_groups import Group, groups
from fleet.explain.facts.summary import summary

__all__ = [
    "ClusterExplanation",
    "Counts",
    "Explainer",
    "FullDomain",
    "Group",
    "Standing",
    "counts",
    "explain_cluster",
    "full_domains",
    "groups",
    "summary",
]
