"""One cluster, placement by placement: every plugin's verdict with what it looked at, and where the cluster ranked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from fleet.cli.input.simulation import Decided, Moment, Simulation
from fleet.cli.output.console import indented, table
from fleet.cli.output.tables import heading, margin_text, title
from fleet.explain import ClusterExplanation, ClusterOutcome, find_full_domains
from fleet.explain.facts.cluster_explanation import PluginVerdict
from fleet.explain.facts.phrases import describe_expression, describe_reason, describe_skew
from fleet.explain.facts.rejections import ClusterRejection
from fleet.framework.cycle.decision import Decision
from fleet.model.keys import PICK_FIXED
from fleet.model.timestamps import DAY, HOUR, MINUTE, SECOND, timestamp_or_none

_VERDICT_STYLES: Final = {"pass": "green", "reject": "red"}
_UNITS: Final = (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND))


def why_texts(simulation: Simulation, names: Sequence[str]) -> Iterator[RenderableType]:
    yield heading(simulation)
    for name in names:
        yield Text()
        yield Text(name, style="bold reverse")
        for one in simulation.results:
            explanation = explanation_of(one, name)
            if explanation is not None:
                yield Text()
                yield from _parts(one, explanation, simulation.moment)


def explanation_of(one: Decided, name: str) -> ClusterExplanation | None:
    """None for a name outside the fleet that this decision knows nothing about."""
    if name in one.decision.frame.names or name in one.explainer.list_strangers():
        return one.explainer.explain(name)
    return None


def _parts(one: Decided, found: ClusterExplanation, moment: Moment) -> Iterator[RenderableType]:
    yield title(one)
    yield indented(Text(outcome_text(found, one.decision)))
    for fate in found.bindings:
        if fate.state:
            action = "stays as it is" if fate.action == "none" else f"to {fate.action}"
            yield indented(Text(f"binding {fate.name}: {fate.state}, {action}"))
    rows = [row for verdict in found.verdicts for row in _verdict_rows(verdict, one, moment)]
    if rows:
        yield Text()
        yield table(("PLUGIN", "VERDICT", "DETAILS"), rows)
    skipped = [verdict.plugin for verdict in found.verdicts if verdict.verdict == "skipped"]
    if skipped:
        yield indented(Text(f"skipped, {_why_skipped(one)}: {', '.join(skipped)}", style="dim"))


# --- outcome --------------------------------------------------------------------------------------------------------


def outcome_text(found: ClusterExplanation, decision: Decision) -> str:
    """Where the cluster stands, as one sentence."""
    match found.outcome:
        case ClusterOutcome.SELECTED | ClusterOutcome.REFRESHED | ClusterOutcome.REVIVED:
            return _chosen(found, decision)
        case ClusterOutcome.KEPT:
            return f"in use, and stays{_with_scores(found, decision)}"
        case ClusterOutcome.NOT_PICKED:
            return _not_picked(found, decision)
        case ClusterOutcome.FILTERED:
            return f"rejected by {_first(found)}"
        case ClusterOutcome.RETAINED:
            return f"not selected ({_first(found)}), but its binding stays for now"
        case ClusterOutcome.NOT_LISTED:
            return "not selected: the policy does not name it"
        case ClusterOutcome.REMOVED:
            return "given up: fewer clusters are wanted"
        case ClusterOutcome.NOT_EVALUATED:
            return f"not evaluated: {_why_nobody_was_asked(decision)}"
        case ClusterOutcome.DANGLING:
            return "not in the fleet any more: its binding is given up"
        case ClusterOutcome.MISSING:
            return "listed by the policy, but no cluster of the fleet has this name"


def _chosen(found: ClusterExplanation, decision: Decision) -> str:
    step = f" in step {found.step}" if decision.round_count > 1 else ""
    text = f"{found.outcome}{step}{_with_scores(found, decision)}"
    return f"{text}; it would not qualify as a newcomer, but stays over the policy change" if found.retained else text


def _first(found: ClusterExplanation) -> str:
    assert found.first is not None
    return f"{found.first.plugin}: {describe_reason(found.first)}"


def _with_scores(found: ClusterExplanation, decision: Decision) -> str:
    scores = found.scores
    if scores is None or decision.request.wanted is None:
        return ""
    extra = ", held a binding already" if scores.obsolete else ""
    return f" (topology {scores.topology}, affinity {scores.affinity}{extra})"


def _not_picked(found: ClusterExplanation, decision: Decision) -> str:
    text = f"fits, but is not picked{_with_scores(found, decision)}"
    if found.rank is not None:
        text += f": rank {found.rank} of {found.ranked} when the last cluster was picked"
    return f"{text}, behind {margin_text(found.margin)}" if found.margin else text


def _why_nobody_was_asked(decision: Decision) -> str:
    if decision.request.problems:
        return "the policy cannot be evaluated"
    if decision.error is not None:
        return "the decision failed"
    return "as many clusters as wanted are in use"


# --- verdicts -------------------------------------------------------------------------------------------------------


def _verdict_rows(verdict: PluginVerdict, one: Decided, moment: Moment) -> Iterator[tuple[str | Text, ...]]:
    style = _VERDICT_STYLES.get(verdict.verdict)
    if style is None:
        return
    refused = verdict.refusal
    yield verdict.plugin, Text(verdict.verdict, style=style), "" if refused is None else refused.message
    for line in () if refused is None else detail_lines(refused, one.decision, moment):
        yield "", "", line


def _why_skipped(one: Decided) -> str:
    fixed = one.decision.request.placement_type == PICK_FIXED
    return "PickFixed asks only whether a cluster is eligible" if fixed else "the policy gives them nothing to check"


def detail_lines(refused: ClusterRejection, decision: Decision, moment: Moment) -> Iterator[str]:
    """What the plugin looked at, line by line."""
    details = refused.details
    if "terms" in details:
        yield from _terms(details["terms"])
    elif "lowest" in details:
        yield describe_skew(details)
        yield from _held_up(details, decision)
    else:
        yield from _times(details, moment)
        yield from _others(refused)


def _terms(terms: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for term in terms:
        yield from (f"term {term['term'] + 1}: {describe_expression(failed)}" for failed in term["failed"])


def _held_up(details: Mapping[str, Any], decision: Decision) -> Iterator[str]:
    for domain in find_full_domains(decision):
        if domain.key == details["key"] and domain.domain in details["lowest"]:
            why = [
                f"{one.cluster} {'in use' if one.refusal is None else describe_reason(one.refusal)}"
                for one in domain.clusters
            ]
            yield f"{domain.key}={domain.domain} has no cluster left: {', '.join(why)}"


def _times(details: Mapping[str, Any], moment: Moment) -> Iterator[str]:
    for key, words in (("lastSeen", "last heartbeat"), ("since", "unhealthy since")):
        then = timestamp_or_none(details.get(key))
        if then is not None:
            yield f"{words} {details[key]}, {age_text(moment.nanoseconds - then)} before this decision"


def _others(refused: ClusterRejection) -> Iterator[str]:
    """Whatever else a plugin from elsewhere reports, as it is."""
    told = {"check", "when", "lastSeen", "since", "key", "value", "effect", "namespace", "maxSkew", "alreadySelected"}
    yield from (f"{key}: {value}" for key, value in refused.details.items() if key not in told)


def age_text(nanoseconds: int) -> str:
    """`42m10s`: the two largest units that are not zero, without rounding up."""
    left, parts = max(nanoseconds, 0), []
    for name, unit in _UNITS:
        count, left = divmod(left, unit)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts[:2]) or "0s"
