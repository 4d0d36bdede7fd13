"""Sentences about the parts of an answer: outcomes of clusters, warnings, removals, and the details of a rejection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fleet.explain.answer.parts import Answer, ClusterRow, DomainPart, FilterVerdict, VerdictPart, WarningPart
from fleet.explain.facts.outcomes import ClusterOutcome
from fleet.explain.facts.rejections import PICK_FIXED_PLUGIN
from fleet.framework.context import (
    MISSING_PREVIOUS_STATE,
    MISSING_TOPOLOGY_KEY,
    NAMESPACE_UNCONFIRMED,
    RESOURCE_UNKNOWN,
    SURPLUS_BINDING,
    UNKNOWN_BINDING_STATE,
    UNREADABLE_PROPERTY,
)
from fleet.framework.explaining import LOWEST
from fleet.model.keys import PICK_FIXED

NAMES: Final = 6
"""In one line."""
_OUTCOMES: Final[Mapping[str, str]] = {
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
_WARNINGS: Final[Mapping[str, str]] = {
    UNREADABLE_PROPERTY: "{subject} is not a quantity, so it counts as missing, on {clusters}",
    NAMESPACE_UNCONFIRMED: "namespace {subject} could not be confirmed on {clusters}",
    RESOURCE_UNKNOWN: "{subject} is requested and not reported, so it counts as enough, on {clusters}",
    MISSING_TOPOLOGY_KEY: "no label {subject}, so spreading ignores them: {clusters}",
    SURPLUS_BINDING: "{subject} is a second binding for its cluster",
    UNKNOWN_BINDING_STATE: "{subject} is in an unknown state and left alone",
    MISSING_PREVIOUS_STATE: "{subject} does not record its previous state; Scheduled is assumed",
}
_REMOVALS: Final[Mapping[str, str]] = {
    ClusterOutcome.REMOVED: "fewer clusters are wanted",
    ClusterOutcome.NOT_EVALUATED: "made for an earlier policy",
}


def describe_cluster(row: ClusterRow, verdict: VerdictPart | None = None) -> str:
    rejecting = [filter.plugin for filter in row.rejections if filter.verdict == "reject"]
    known = _OUTCOMES.get(row.standing)
    if known is None:
        rejected = f"{row.name} is rejected" + (f" by {join_words(rejecting)}" if rejecting else "")
        return f"{rejected}; its binding stays for now" if row.standing == ClusterOutcome.RETAINED else rejected
    if row.because == "enough":
        return f"{row.name} fits, but as many clusters as wanted are in use"
    if row.because == "minTargets":
        return f"{row.name} fits, but too few clusters do: with fewer than minTargets none is taken"
    text = f"{row.name} {known}"
    if row.standing == ClusterOutcome.KEPT and row.concerns:
        return f"{text}, though it would not be chosen now: {describe_concerns(row)}"
    if row.standing == ClusterOutcome.NOT_EVALUATED and verdict is not None:
        return f"{text}: {_why_not_evaluated(verdict)}"
    if row.standing == ClusterOutcome.NOT_LISTED:
        others = [plugin for plugin in rejecting if plugin != PICK_FIXED_PLUGIN]
        return text + (f", and rejected by {join_words(others)}" if others else "")
    return f"{text}; it would not qualify as a newcomer, but stays over the policy change" if row.retained else text


def describe_concerns(row: ClusterRow) -> str:
    """What a cluster in use lacks."""
    return ", ".join(describe_rejection(concern) for concern in row.concerns)


def describe_rejection(verdict: FilterVerdict) -> str:
    """The reason with its values."""
    if not verdict.lacks or verdict.lacks == verdict.short:
        return verdict.short or verdict.message
    return verdict.lacks if verdict.lacks.startswith(verdict.short) else f"{verdict.short} ({verdict.lacks})"


def _why_not_evaluated(verdict: VerdictPart) -> str:
    if verdict.problems:
        return "the placement has to be edited first"
    return "the decision failed" if verdict.error else "as many clusters as wanted are in use"


def describe_skipped(verdict: VerdictPart) -> str:
    fixed = verdict.placement_type == PICK_FIXED
    return "PickFixed checks eligibility only" if fixed else "the policy gives them nothing to check"


def describe_warning(warning: WarningPart) -> str:
    form = _WARNINGS.get(warning.kind, f"{warning.kind} {{subject}} {{clusters}}")
    return form.format(subject=warning.subject, clusters=join_names(warning.clusters, warning.hidden)).rstrip()


def describe_removal(row: ClusterRow) -> str:
    """The reason why a binding for this cluster is given up."""
    rejection = next((filter for filter in row.rejections if filter.verdict == "reject"), None)
    if rejection is not None:
        return rejection.short
    if row.standing == ClusterOutcome.NOT_PICKED:
        return f"not picked again, rank {row.rank}"
    return _REMOVALS.get(row.standing, "a second binding for the cluster")


def describe_domain(domain: DomainPart) -> str:
    """`nyc-1 agent silent, nyc-2 in use`"""
    unusable = [
        f"{cluster.cluster} {'in use' if cluster.refusal is None else cluster.short}"
        for cluster in domain.clusters[:NAMES]
    ]
    left = len(domain.clusters) - len(unusable) + domain.more + domain.hidden
    return ", ".join([*unusable, *([f"+{left}"] if left else [])])


# --- details --------------------------------------------------------------------------------------------------------


def describe_details(verdict: FilterVerdict, answer: Answer) -> Iterator[str]:
    """The values behind a rejection, line by line."""
    yield from verdict.lines
    if LOWEST in verdict.details:
        for domain in answer.attempt.full_domains:
            if domain.key == verdict.details["key"] and domain.domain in verdict.details[LOWEST]:
                yield f"{domain.key}={domain.domain} has no cluster left: {describe_domain(domain)}"


def format_moment(moment: str) -> str:
    """`2026-03-02 09:14:03 UTC` of an RFC 3339 time in UTC; anything else as it is."""
    date, separator, time = moment.partition("T")
    return f"{date} {time[:8]} UTC" if separator and time.endswith("Z") else moment


# --- lists ----------------------------------------------------------------------------------------------------------


def join_words(words: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else ""


def join_names(names: Sequence[str], more: int = 0) -> str:
    """`a b c +4`"""
    shown, left = names[:NAMES], max(len(names) - NAMES, 0) + more
    return " ".join([*shown, *([f"+{left}"] if left else [])])
