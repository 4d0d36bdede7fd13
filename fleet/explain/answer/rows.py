"""The rows of an answer: the order of clusters, and the facts about each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from fleet.cached import cached_property
from fleet.explain.answer.parts import Because, ClusterRow, FilterVerdict, Key, PluginScore, RowOutcome
from fleet.explain.facts.clusters import ClusterExplanation, Explainer, Margin, PluginVerdict, ScoreParts, find_decider
from fleet.explain.facts.outcomes import ClusterOutcome
from fleet.explain.facts.redaction import Redaction
from fleet.explain.facts.rejections import (
    NOT_LISTED,
    PICK_FIXED_PLUGIN,
    ClusterRejection,
    describe_lack,
    describe_reason,
    list_values,
    order_by_distance,
)
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision, Outcome, Round
from fleet.framework.status import Code
from fleet.snapshot.columns.rows import RowOrder

NEXT: Final = "would be the next"
_IDLE: Final = (Outcome.UNCHANGED, Outcome.SHRINK)
_OUTCOMES: Final[dict[ClusterOutcome, RowOutcome]] = {
    ClusterOutcome.SELECTED: "selected",
    ClusterOutcome.REFRESHED: "selected",
    ClusterOutcome.REVIVED: "selected",
    ClusterOutcome.KEPT: "already-selected",
    ClusterOutcome.NOT_PICKED: "fit-not-selected",
    ClusterOutcome.FILTERED: "rejected",
    ClusterOutcome.RETAINED: "rejected",
    ClusterOutcome.NOT_LISTED: "rejected",
}


class Rows:
    def __init__(self, decision: Decision, inp: DecisionInput, redaction: Redaction, *, everything: bool) -> None:
        """With `everything`, each row has the verdict of every filter."""
        self._decision, self._frame, self._redaction, self._everything = decision, decision.frame, redaction, everything
        self._inp, self._explainer = inp, Explainer(decision, inp)
        self._outcomes = self._explainer.outcomes
        self._weighted = inp.profile.ranking == "weighted"

    # --- order --------------------------------------------------------------------------------------------------

    def list_rows(self) -> Iterator[int]:
        """Targets by rank, then clusters in use, then others that fit by rank, then rejected ones, closest first."""
        for row in self._list_in_order():
            if not self._redaction.rows >> row & 1:
                yield row

    def _list_in_order(self) -> Iterator[int]:
        outcomes = self._outcomes
        yield from (target.row for target in self._decision.targets)
        yield from self._frame.sort_by_name(outcomes.kept & ~self._target_rows)
        yield from self._ranked.among(outcomes.fit)
        yield from self._frame.sort_by_name(outcomes.fit & ~self._ranked.bits)
        rejected_rows = list(self._explainer.matrix.rejected.values())
        yield from order_by_distance(self._inp, outcomes.rejected, rejected_rows)
        yield from self._frame.sort_by_name(outcomes.idle)

    @cached_property
    def _target_rows(self) -> int:
        return sum(1 << target.row for target in self._decision.targets)

    @cached_property
    def _ranked(self) -> RowOrder:
        """Rows in the order of the selection: picks, then the clusters ranked behind them."""
        if not self._decision.rounds or self._decision.request.wanted is None:
            return RowOrder((), self._frame.size)
        picks = [target.row for target in self._decision.targets]
        return RowOrder(
            [*picks, *self._explainer.ranking.order.among(~self._target_rows & ~self._outcomes.leaving)],
            self._frame.size,
        )

    # --- rows ---------------------------------------------------------------------------------------------------

    def build_row(self, row: int) -> ClusterRow:
        return self._build_row(self._explainer.explain(self._frame.name(row), everything=self._everything), row)

    def build_strangers(self) -> Iterator[ClusterRow]:
        for name in self._redaction.select_visible(self._explainer.strangers):
            yield self.build_stranger(name)

    def build_stranger(self, name: str) -> ClusterRow:
        """A KeyError for a name that is in neither the fleet nor the decision."""
        explanation = self._explainer.explain(name)
        return ClusterRow(
            name=name, outcome="not-evaluated", standing=explanation.outcome.value, bindings=explanation.bindings
        )

    def _build_row(self, explanation: ClusterExplanation, row: int) -> ClusterRow:
        key, place = self._find_key(explanation), self._ranked.of(row)
        margin = self._compute_margin(row, explanation)
        because = self._find_because(explanation, margin)
        is_outranked = explanation.outcome is ClusterOutcome.NOT_PICKED and because != "minTargets"
        return ClusterRow(
            name=explanation.cluster,
            outcome=_OUTCOMES.get(explanation.outcome, "not-evaluated"),
            standing=explanation.outcome.value,
            because=because,
            rank=None if place is None else place + 1,
            total=sum(key) if key is not None and self._weighted else None,
            key=None if self._weighted else key,
            margin_to_next=self._compute_margin_to_next(place),
            margin=margin,
            short=self._describe_distance(margin, row) if is_outranked else "",
            tie=self._is_tied(row),
            step=explanation.step,
            scores=self._collect_scores(row, key),
            first="" if explanation.first is None else explanation.first.plugin,
            rejections=tuple(self._build_verdicts(explanation, row)),
            retained=explanation.retained,
            since=self._find_start(row),
            concerns=tuple(self._build_rejection(concern, row) for concern in explanation.concerns),
            bindings=explanation.bindings,
        )

    def _find_start(self, row: int) -> str:
        bindings = self._decision.bindings
        holder = bindings.bound.get(row) or bindings.scheduled.get(row) or bindings.obsolete.get(row)
        return "" if holder is None else holder.metadata.creation_timestamp or ""

    def _find_because(self, explanation: ClusterExplanation, margin: Margin | None) -> Because:
        if explanation.outcome is not ClusterOutcome.NOT_PICKED:
            return ""
        if self._decision.outcome in _IDLE:
            return "enough"
        least = self._decision.request.min_targets
        if least is not None and (self._decision.active or 0) < least:
            return "minTargets"
        return "spread" if margin is not None and margin.decided_by == "topology" else "rank"

    # --- rejections -----------------------------------------------------------------------------------------------

    def _build_verdicts(self, explanation: ClusterExplanation, row: int) -> Iterator[FilterVerdict]:
        if self._everything:
            yield from (self._build_verdict(verdict, row) for verdict in explanation.verdicts)
        elif explanation.first is not None:
            yield self._build_rejection(explanation.first, row)

    def _build_verdict(self, verdict: PluginVerdict, row: int) -> FilterVerdict:
        if verdict.refusal is None:
            return FilterVerdict(plugin=verdict.plugin, verdict=verdict.verdict)
        return self._build_rejection(verdict.refusal, row)

    def _build_rejection(self, rejection: ClusterRejection, row: int) -> FilterVerdict:
        shown = self._redaction.redact_rejection(rejection)
        return FilterVerdict(
            plugin=rejection.plugin,
            code=str(self._find_code(rejection, row)),
            reason=rejection.reason,
            message=shown.message,
            short=describe_reason(shown),
            lacks=describe_lack(shown),
            lines=tuple(list_values(shown, self._decision.now)),
            details=shown.details,
        )

    def _find_code(self, rejection: ClusterRejection, row: int) -> Code:
        verdicts = self._decision.verdicts
        first = None if verdicts is None else verdicts.status(row)
        if first is not None and first.plugin == rejection.plugin:
            return first.code
        if (rejection.plugin, rejection.reason) == (PICK_FIXED_PLUGIN, NOT_LISTED):
            return Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        status = self._explainer.matrix.find_status(rejection.plugin, row)
        return Code.UNSCHEDULABLE if status is None else status.code

    # --- ranks --------------------------------------------------------------------------------------------------

    def _find_key(self, explanation: ClusterExplanation) -> Key | None:
        if self._decision.request.wanted is None or explanation.scores is None:
            return None
        return (explanation.scores.topology, explanation.scores.affinity, explanation.scores.obsolete)

    def _find_key_at(self, place: int) -> Key | None:
        row = self._ranked.at(place)
        target = self._outcomes.targets.get(row)
        if target is not None:
            return None if target.scores is None else (target.scores.topology, target.scores.affinity, target.obsolete)
        scores = self._explainer.ranking.find_scores(row)
        return None if scores is None else (scores.topology, scores.affinity, scores.obsolete)

    def _compute_margin_to_next(self, place: int | None) -> int | Key | None:
        if place is None or place + 1 >= len(self._ranked):
            return None
        mine, theirs = self._find_key_at(place), self._find_key_at(place + 1)
        if mine is None or theirs is None:
            return None
        return sum(mine) - sum(theirs) if self._weighted else _subtract(mine, theirs)

    def _compute_margin(self, row: int, explanation: ClusterExplanation) -> Margin | None:
        if explanation.margin is not None:
            return self._redact_margin(explanation.margin)
        place, runner_up = self._ranked.of(row), len(self._decision.targets)
        if place is None or place >= runner_up or runner_up >= len(self._ranked):
            return None
        mine, theirs = self._find_key_at(place), self._find_key_at(runner_up)
        if mine is None or theirs is None:
            return None
        parts = _subtract(mine, theirs)
        total = sum(parts) if self._weighted else None
        name = self._frame.name(self._ranked.at(runner_up))
        return self._redact_margin(Margin(name, find_decider(ScoreParts(*parts, total=total)), *parts, total=total))

    def _describe_distance(self, margin: Margin | None, row: int) -> str:
        """Where all wanted clusters are in use, the distance to the one that would be next."""
        if self._decision.outcome not in _IDLE:
            return _describe_margin(margin, "the last pick")
        return NEXT if self._ranked.of(row) == 0 else _describe_margin(margin, "the next")

    def _redact_margin(self, margin: Margin) -> Margin:
        if not self._redaction.hides(margin.to):
            return margin
        return Margin("", margin.decided_by, margin.topology, margin.affinity, margin.obsolete, margin.total)

    def _is_tied(self, row: int) -> bool | None:
        """Rows of one round can be compared; for picks of earlier rounds the record has no neighbors."""
        place = self._ranked.of(row)
        if place is None:
            return None
        first = 0
        last = self._decision.round
        if self._decision.round_count > 1 and last is not None:
            first = max(len(self._decision.targets) - len(last.picked), 0)
        if place < first:
            return None
        mine = self._find_key_at(place)
        beside = [other for other in (place - 1, place + 1) if first <= other < len(self._ranked)]
        return any(self._is_same(mine, self._find_key_at(other)) for other in beside)

    def _is_same(self, mine: Key | None, other: Key | None) -> bool:
        if mine is None or other is None:
            return False
        return sum(mine) == sum(other) if self._weighted else mine == other

    # --- scores -------------------------------------------------------------------------------------------------

    def _collect_scores(self, row: int, key: Key | None) -> tuple[PluginScore, ...]:
        last = self._decision.round
        if last is None or key is None or self._ranked.of(row) is None:
            return ()
        table = next((table for table in self._decision.rounds if row in table.picked), None)
        if table is None and not self._target_rows >> row & 1:
            table = last
        if table is not None:
            return self._read_recorded_scores(table, row)
        return self._split_scores(last, key)

    def _read_recorded_scores(self, table: Round, row: int) -> tuple[PluginScore, ...]:
        at = self._find_places(table).of(row)
        if at is None:
            return ()
        return tuple(
            PluginScore(
                column.plugin,
                int(column.raw[at]),
                int(column.normalized[at]),
                column.weight if self._weighted else None,
                int(column.final[at]),
                self._explain_score(column.plugin, row),
            )
            for column in table.scores.columns
        )

    def _explain_score(self, plugin: str, row: int) -> str:
        explain = self._score_explainers.get(plugin)
        if explain is None:
            return ""
        remark: str = explain(self._decision.request, self._frame, row, self._decision.now)
        return str(self._redaction.redact_value(remark))

    @cached_property
    def _score_explainers(self) -> dict[str, Callable[..., str]]:
        plugins = {entry.name: entry.plugin for entry in self._inp.profile.scores}
        return {name: plugin.explain_score for name, plugin in plugins.items() if hasattr(plugin, "explain_score")}

    def _find_places(self, table: Round) -> RowOrder:
        known = self._known_places.get(id(table))
        if known is None:
            known = self._known_places[id(table)] = RowOrder(table.scores.rows, self._frame.size)
        return known

    @cached_property
    def _known_places(self) -> dict[int, RowOrder]:
        return {}

    def _split_scores(self, last: Round, key: Key) -> tuple[PluginScore, ...]:
        """Of an earlier round only the sums are kept: they are a plugin's own where it is alone in its component."""
        if self._weighted:
            return ()
        by_component = dict(zip(("topology", "affinity", "obsolete"), key, strict=True))
        components = [column.component for column in last.scores.columns]
        if len(set(components)) < len(components):
            return ()
        values = ((column.plugin, by_component[column.component.value]) for column in last.scores.columns)
        return tuple(PluginScore(plugin, value, value, None, value) for plugin, value in values)


def _subtract(mine: Key, other: Key) -> Key:
    return (mine[0] - other[0], mine[1] - other[1], mine[2] - other[2])


def _describe_margin(margin: Margin | None, other: str) -> str:
    """`3 points of affinity short of the last pick c7`"""
    if margin is None:
        return ""
    last = f"{other} {margin.to}" if margin.to else other
    if margin.decided_by == "name":
        return f"level with {last}, the tie-break decides"
    if margin.decided_by == "obsolete":
        return f"behind {last}, which holds a binding already"
    lacking = abs(margin.total or 0) if margin.decided_by == "total" else abs(getattr(margin, margin.decided_by))
    points = "point" if lacking == 1 else "points"
    if margin.decided_by == "total":
        return f"{lacking} {points} short of {last}"
    return f"{lacking} {points} of {_COMPONENT_WORDS[margin.decided_by]} short of {last}"


_COMPONENT_WORDS: Final = {"topology": "spreading", "affinity": "affinity"}
