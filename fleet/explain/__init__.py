"""Why: questions asked of a decision after it was made, answered from what the plugins recorded.

Nothing here decides, and nothing here is laid out for a reader: answers are frozen values that the command line, the
API and events present each in their own way.
"""

from __future__ import annotations

from fleet.explain.clusters import ClusterExplanation, Explainer, explain_cluster
from fleet.explain.domains import FullDomain, full_domains
from fleet.explain.groups import Group, groups
from fleet.explain.standing import Counts, Standing, counts
from fleet.explain.summary import summary

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
