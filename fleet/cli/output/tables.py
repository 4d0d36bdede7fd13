"""The answer for people: per placement what was chosen, what was not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from fleet.cli.input.simulation import Decided, Moment, Simulation
from fleet.cli.output.console import indented, table
from fleet.cli.output.warnings import warning_text
from fleet.explain import (
    ClusterExplanation,
    ClusterOutcome,
    FullDomain,
    GroupSummary,
    build_groups,
    find_full_domains,
    summarize,
)
from fleet.explain.facts.margins import Margin
from fleet.explain.facts.phrases import describe_reason
from fleet.explain.facts.rejections import NOT_LISTED
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Action
from fleet.framework.status import message_of
from fleet.model.keys import PICK_FIXED
from fleet.model.timestamps import format_timestamp
from fleet.snapshot.columns.bitset import each_row

MOST_ROWS: Final = 20
"""Of clusters that were not picked; programs see all of them."""
MOST_BLAMED: Final = 8
MOST_NAMES: Final = 3
"""Of clusters in one line."""
_NUMBERS: Final = ("TOPOLOGY", "AFFINITY", "STEP", "RANK", "COUNT", "HAS")
_ACTIONS: Final = {
    ClusterOutcome.SELECTED: "create",
    ClusterOutcome.REFRESHED: "refresh",
    ClusterOutcome.REVIVED: "revive",
    ClusterOutcome.KEPT: "keep",
}


def tables(simulation: Simulation) -> Iterator[RenderableType]:
    yield heading(simulation)
    for one in simulation.results:
        yield Text()
        yield from placement_parts(one)


def heading(simulation: Simulation) -> Text:
    clusters, placements = len(simulation.clusters), len(simulation.results)
    text = f"{_counted(clusters, 'cluster')}, {_counted(placements, 'placement')}, {moment_text(simulation.moment)}"
    return Text(text, style="dim")


def moment_text(moment: Moment) -> str:
    return f"as of {format_timestamp(moment.nanoseconds)} ({moment.source})"


def placement_parts(one: Decided) -> Iterator[RenderableType]:
    """From top to bottom; parts with nothing to show are left out."""
    decision = one.decision
    yield title(one)
    yield indented(Text(_condition_text(decision)))
    yield indented(Text(summarize(decision)))
    for found in (_problems, _chosen, _not_picked, _rejected, _full, _strangers, _removed, _warned):
        for part in found(one):
            yield from (Text(), part)


def title(one: Decided) -> Text:
    decision, request = one.decision, one.asked.request
    text = Text(request.key, style="bold")
    text.append(f"  {one.asked.kind}  {wish(one)}  ", style="not bold")
    word, style = ("Fulfilled", "green") if decision.fulfilled else ("Not fulfilled", "bold red")
    return text.append(word, style=style)


def wish(one: Decided) -> str:
    request = one.asked.request
    if request.placement_type == PICK_FIXED:
        return f"{request.placement_type} of {len(request.cluster_names)}"
    return request.placement_type if request.wanted is None else f"{request.placement_type} {request.wanted}"


def _condition_text(decision: Decision) -> str:
    if decision.error is not None:
        return f"nothing decided: {message_of(decision.error)}"
    if decision.pending_query is not None:
        return f"nothing decided: a plugin asks for {decision.pending_query.key}, and there is nobody here to answer"
    if decision.published is None:
        return "scheduling stopped, and nothing can be published"
    if len(decision.request.problems) > 1:
        return "scheduling stopped"
    return decision.published.condition.message


def _problems(one: Decided) -> Iterator[RenderableType]:
    """One below the other; a single one stands in the condition already."""
    rows = [(str(problem),) for problem in one.decision.request.problems]
    if len(rows) > 1 or (rows and one.decision.published is None):
        yield table(("THE POLICY CANNOT BE EVALUATED",), rows)


# --- clusters that fit ----------------------------------------------------------------------------------------------


def _chosen(one: Decided) -> Iterator[RenderableType]:
    outcomes, frame = one.explainer.outcomes, one.decision.frame
    ordered = [target.cluster for target in one.decision.targets]
    kept = sorted(frame.name(row) for row in each_row(outcomes.kept) if row not in outcomes.targets)
    found = [one.explainer.explain(name) for name in (*ordered, *kept)]
    if not found:
        return
    if one.decision.request.wanted is None:
        yield _by_action(found)
        return
    columns = {"SELECTED": [cluster.cluster for cluster in found]}
    columns["ACTION"] = [_ACTIONS[cluster.outcome] for cluster in found]
    columns |= _scores(one, found)
    if one.decision.round_count > 1:
        columns["STEP"] = [str(cluster.step or "") for cluster in found]
    yield _columns(columns)


def _by_action(found: Sequence[ClusterExplanation]) -> RenderableType:
    """Where nothing is ranked, names suffice."""
    names: dict[str, list[str]] = {}
    for cluster in found:
        names.setdefault(_ACTIONS[cluster.outcome], []).append(cluster.cluster)
    rows = [(action, str(len(chosen)), " ".join(chosen)) for action, chosen in names.items()]
    return table(("ACTION", "COUNT", "SELECTED"), rows, numbers=_NUMBERS)


def _not_picked(one: Decided) -> Iterator[RenderableType]:
    names = one.explainer.list_unpicked()
    if not names:
        return
    shown = [one.explainer.explain(name) for name in names[:MOST_ROWS]]
    columns = {"NOT PICKED": [cluster.cluster for cluster in shown]}
    columns["RANK"] = [str(cluster.rank or "") for cluster in shown]
    columns |= _scores(one, shown)
    columns["BEHIND"] = [margin_text(cluster.margin) for cluster in shown]
    yield _columns(columns)
    if len(names) > MOST_ROWS:
        yield indented(Text(f"and {len(names) - MOST_ROWS} more; -o json lists all", style="dim"))


def _scores(one: Decided, found: Sequence[ClusterExplanation]) -> dict[str, list[str]]:
    """Topology scores only where something is spread."""
    columns = {}
    if one.decision.request.constraints or any(cluster.scores and cluster.scores.topology for cluster in found):
        columns["TOPOLOGY"] = ["" if cluster.scores is None else str(cluster.scores.topology) for cluster in found]
    columns["AFFINITY"] = ["" if cluster.scores is None else str(cluster.scores.affinity) for cluster in found]
    return columns


def _columns(columns: Mapping[str, Sequence[str]]) -> RenderableType:
    return table(tuple(columns), list(zip(*columns.values(), strict=True)), numbers=_NUMBERS)


def margin_text(margin: Margin | None) -> str:
    """`iad-2 by 20 in affinity`"""
    if margin is None:
        return ""
    match margin.decided_by:
        case "name":
            return f"{margin.to} by name only"
        case "obsolete":
            return f"{margin.to}, which holds a binding already"
        case part:
            distance = getattr(margin, part)
            return f"{margin.to} by {abs(distance)} in {part}"


# --- clusters that do not --------------------------------------------------------------------------------------------


def _rejected(one: Decided) -> Iterator[RenderableType]:
    shown = [group for group in build_groups(one.decision) if group.reason != NOT_LISTED]
    if not shown:
        return
    columns = {"REJECTED BY": [group.plugin for group in shown]}
    columns["COUNT"] = [str(group.count) for group in shown]
    columns["CLOSEST"] = [group.closest.cluster for group in shown]
    columns["BECAUSE"] = [group.closest.lacks for group in shown]
    if any(group.count > 1 for group in shown):
        columns["OTHERS"] = [_others(group) for group in shown]
    yield _columns(columns)


def _others(group: GroupSummary) -> str:
    names = [name for name in group.clusters if name != group.closest.cluster]
    left_out = group.count - 1 - len(names[:MOST_NAMES])
    return " ".join([*names[:MOST_NAMES], *([f"+{left_out}"] if left_out > 0 else [])])


def _full(one: Decided) -> Iterator[RenderableType]:
    """One part for all domains that hold a constraint up."""
    found = find_full_domains(one.decision)
    if found:
        rows = [(f"{domain.key}={domain.domain}", str(domain.count), unusable_text(domain)) for domain in found]
        yield table(("HELD UP BY", "HAS", "ITS CLUSTERS"), rows, numbers=_NUMBERS)


def unusable_text(domain: FullDomain) -> str:
    said = [
        f"{one.cluster} {'in use' if one.refusal is None else describe_reason(one.refusal)}"
        for one in domain.clusters[:MOST_BLAMED]
    ]
    more = len(domain.clusters) - len(said)
    return ", ".join([*said, *([f"+{more}"] if more else [])])


def _strangers(one: Decided) -> Iterator[RenderableType]:
    missing = one.decision.missing
    if missing:
        yield table(("NOT IN THE FLEET",), [(name,) for name in missing])


def _removed(one: Decided) -> Iterator[RenderableType]:
    rows = [
        (operation.cluster, operation.name, operation.previous_state, _removal_reason(one, operation.cluster))
        for operation in one.decision.operations
        if operation.action is Action.UNSCHEDULE
    ]
    if rows:
        yield table(("REMOVED FROM", "BINDING", "WAS", "BECAUSE"), rows)


def _removal_reason(one: Decided, cluster: str) -> str:
    if cluster not in one.decision.frame.names:
        return "cluster is not in the fleet"
    found = one.explainer.explain(cluster)
    if found.first is not None:
        return describe_reason(found.first)
    reasons = {
        ClusterOutcome.NOT_PICKED: f"not picked again, rank {found.rank}",
        ClusterOutcome.REMOVED: "fewer clusters are wanted",
        ClusterOutcome.NOT_EVALUATED: "made for an earlier policy",
    }
    return reasons.get(found.outcome, "a second binding for the cluster")


def _warned(one: Decided) -> Iterator[RenderableType]:
    rows = [(warning_text(warning, one.decision.frame),) for warning in one.decision.warnings]
    if rows:
        yield table(("WARNINGS",), rows)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
