"""Reasons in a few words: buckets for summaries, and what exactly one cluster lacks.

In-tree reasons have phrases of their own. A reason nobody here knows is told by its name, and one without a name by
its message, so plugins from elsewhere need nothing from this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from fleet.explain.facts.rejections import NOT_LISTED, PICK_FIXED_PLUGIN, Refusal
from fleet.framework.status import Code

Details = Mapping[str, Any]

_PLAIN: Final[Mapping[tuple[str, str], str]] = {
    ("ClusterAffinity", "NoTermMatched"): "no affinity term matched",
    ("ClusterEligibility", "Left"): "left the fleet",
    ("ClusterEligibility", "AgentMissing"): "agent missing",
    ("ClusterEligibility", "AgentSilent"): "agent silent",
    ("ClusterEligibility", "NotJoined"): "agent not joined",
    ("ClusterEligibility", "HealthUnknown"): "health unknown",
    ("ClusterEligibility", "Unhealthy"): "unhealthy",
    ("NamespaceAffinity", "NamespaceUnknown"): "namespaces not reported",
    (PICK_FIXED_PLUGIN, NOT_LISTED): "not listed",
}
_CODES: Final = frozenset(str(code) for code in Code)
LOWEST: Final = "lowest"
"""The domains with the fewest, in the details of a refusal for skew."""
LOWEST_LEFT_OUT: Final = "lowestLeftOut"
"""How many of them are not told."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _taint(details: Details) -> str:
    value = details.get("value")
    return f"untolerated taint {{{details['key']}: {value}}}" if value else f"untolerated taint {{{details['key']}}}"


_DETAILED: Final[Mapping[tuple[str, str], Callable[[Details], str]]] = {
    ("TaintToleration", "UntoleratedTaint"): _taint,
    ("NamespaceAffinity", "NamespaceMissing"): lambda details: f"namespace {details['namespace']} missing",
    ("TopologySpreadConstraints", "SkewExceeded"): lambda details: f"max skew of {details['key']} exceeded",
    ("TopologySpreadConstraints", "DomainMissing"): lambda details: f"label {details['key']} missing",
}


def is_in_tree(plugin: str, reason: str) -> bool:
    """Whether it is known here what a refusal can contain."""
    return (plugin, reason) in _PLAIN or (plugin, reason) in _DETAILED


def plain_bucket(plugin: str, reason: str) -> str | None:
    """The phrase for a reason that reads the same for every cluster; None where it depends on the cluster."""
    if (plugin, reason) in _DETAILED or reason in _CODES:
        return None
    return _PLAIN.get((plugin, reason)) or _HUMP.sub(" ", reason).lower()


def bucket(refused: Refusal) -> str:
    """The phrase under which a refusal is counted."""
    plain = plain_bucket(refused.plugin, refused.reason)
    if plain is not None:
        return plain
    detailed = _DETAILED.get((refused.plugin, refused.reason))
    return refused.message if detailed is None else detailed(refused.details)


# --- one cluster ----------------------------------------------------------------------------------------------------


def lacking(refused: Refusal) -> str:
    """What keeps this cluster out, with its values; of several terms, those of the closest one."""
    special = _LACKING.get((refused.plugin, refused.reason))
    return bucket(refused) if special is None else special(refused.details)


def expression(failed: Details) -> str:
    """`tier In [prod] (is lab)`"""
    observed = failed.get("observed")
    return f"{failed['expected']} ({'not set' if observed is None else f'is {observed}'})"


def skew(details: Details) -> str:
    """`region=eu has 2; fewest in us; max skew 1`"""
    here = f"{details['key']}={details['domain']} has {details['count']}"
    left = details.get(LOWEST_LEFT_OUT)
    fewest = [*details[LOWEST], *([f"{left} more"] if left else [])]
    return f"{here}; fewest in {', '.join(fewest)}; max skew {details['maxSkew']}"


def _closest_term(details: Details) -> str:
    terms = details.get("terms") or ()
    return ", ".join(expression(one) for one in terms[0]["failed"]) if terms else "no affinity term matched"


def _named_taint(details: Details) -> str:
    value = details.get("value")
    return f"{details['key']}{f'={value}' if value else ''}:{details['effect']}"


def _since(text: str, details: Details, key: str) -> str:
    return f"{text} since {details[key]}" if key in details else f"{text}, {details['when']}"


_LACKING: Final[Mapping[tuple[str, str], Callable[[Details], str]]] = {
    ("ClusterAffinity", "NoTermMatched"): _closest_term,
    ("ClusterEligibility", "AgentSilent"): lambda details: _since("agent silent", details, "lastSeen"),
    ("ClusterEligibility", "Unhealthy"): lambda details: _since("unhealthy", details, "since"),
    ("TaintToleration", "UntoleratedTaint"): _named_taint,
    ("TopologySpreadConstraints", "SkewExceeded"): skew,
}
