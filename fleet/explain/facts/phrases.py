"""Reasons in a few words: phrases for summaries, and the values that keep one cluster out.

In-tree reasons have phrases of their own. An unknown reason is described by its name, and one without a name by its
message, so out-of-tree plugins need nothing from this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from fleet.explain.facts.rejections import NOT_LISTED, PICK_FIXED_PLUGIN, ClusterRejection
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
"""The domains with the fewest, in the details of a rejection for skew."""
LOWEST_LEFT_OUT: Final = "lowestLeftOut"
"""How many of them are left out."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _describe_taint(details: Details) -> str:
    value = details.get("value")
    return f"untolerated taint {{{details['key']}: {value}}}" if value else f"untolerated taint {{{details['key']}}}"


_DETAILED: Final[Mapping[tuple[str, str], Callable[[Details], str]]] = {
    ("TaintToleration", "UntoleratedTaint"): _describe_taint,
    ("NamespaceAffinity", "NamespaceMissing"): lambda details: f"namespace {details['namespace']} missing",
    ("TopologySpreadConstraints", "SkewExceeded"): lambda details: f"max skew of {details['key']} exceeded",
    ("TopologySpreadConstraints", "DomainMissing"): lambda details: f"label {details['key']} missing",
}


def is_in_tree(plugin: str, reason: str) -> bool:
    """Whether the contents of its rejections are known here."""
    return (plugin, reason) in _PLAIN or (plugin, reason) in _DETAILED


def find_plain_phrase(plugin: str, reason: str) -> str | None:
    """The phrase for a reason that reads the same for every cluster; None where it depends on the cluster."""
    if (plugin, reason) in _DETAILED or reason in _CODES:
        return None
    return _PLAIN.get((plugin, reason)) or _HUMP.sub(" ", reason).lower()


def describe_reason(rejection: ClusterRejection) -> str:
    """The phrase under which a rejection is counted."""
    plain = find_plain_phrase(rejection.plugin, rejection.reason)
    if plain is not None:
        return plain
    detailed = _DETAILED.get((rejection.plugin, rejection.reason))
    return rejection.message if detailed is None else detailed(rejection.details)


# --- one cluster ----------------------------------------------------------------------------------------------------


def describe_lack(rejection: ClusterRejection) -> str:
    """What keeps this cluster out, with its values; of several terms, those of the closest one."""
    special = _LACKING.get((rejection.plugin, rejection.reason))
    return describe_reason(rejection) if special is None else special(rejection.details)


def describe_expression(failed: Details) -> str:
    """`tier In [prod] (is lab)`"""
    observed = failed.get("observed")
    return f"{failed['expected']} ({'not set' if observed is None else f'is {observed}'})"


def describe_skew(details: Details) -> str:
    """`region=eu has 2; fewest in us; max skew 1`"""
    here = f"{details['key']}={details['domain']} has {details['count']}"
    left = details.get(LOWEST_LEFT_OUT)
    fewest = [*details[LOWEST], *([f"{left} more"] if left else [])]
    return f"{here}; fewest in {', '.join(fewest)}; max skew {details['maxSkew']}"


def _describe_closest_term(details: Details) -> str:
    terms = details.get("terms") or ()
    return (
        ", ".join(describe_expression(failed) for failed in terms[0]["failed"]) if terms else "no affinity term matched"
    )


def _format_taint(details: Details) -> str:
    value = details.get("value")
    return f"{details['key']}{f'={value}' if value else ''}:{details['effect']}"


def _describe_since(text: str, details: Details, key: str) -> str:
    return f"{text} since {details[key]}" if key in details else f"{text}, {details['when']}"


_LACKING: Final[Mapping[tuple[str, str], Callable[[Details], str]]] = {
    ("ClusterAffinity", "NoTermMatched"): _describe_closest_term,
    ("ClusterEligibility", "AgentSilent"): lambda details: _describe_since("agent silent", details, "lastSeen"),
    ("ClusterEligibility", "Unhealthy"): lambda details: _describe_since("unhealthy", details, "since"),
    ("TaintToleration", "UntoleratedTaint"): _format_taint,
    ("TopologySpreadConstraints", "SkewExceeded"): describe_skew,
}
