"""The rows of an answer: in which order clusters are listed, and what is said about each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from fleet.explain.answer.parts import Because, ClusterRow, Key, PluginScore, Rejection, RowOutcome
from fleet.explain.facts.cluster_explanation import ClusterExplanation, Explainer, PluginVerdict
from fleet.explain.facts.cluster_outcome import Standing
from fleet.explain.facts.margins import Margin, Scores, decider
from fleet.explain.facts.nearness import closest_first, in_name_order
from fleet.explain.facts.redaction import Veil
from fleet.explain.facts.rejections import NOT_LISTED, PICK_FIXED_PLUGIN, Refusal
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision, Round
from fleet.framework.status import Code
from fleet.snapshot.row_order import RowOrder

_OUTCOMES: Final[dict[Standing, RowOutcome]] = {
    Standing.SELECTED: "selected",
    Standing.REFRESHED: "selected",
    Standing.REVIVED: "selected",
    Standing.KEPT: "already-selected",
    Standing.NOT_PICKED: "fit-not-selected",
    Standing.FILTERED: "rejected",
    Standing.RETAINED: "rejected",
    Standing.NOT_LISTED: "rejected",
}


class Rows:
    def __init__(self, decision: Decision, inp: DecisionInput, veil: Veil, *, everything: bool) -> None:
        """With `everything`, each row has the verdict of every filter."""
        self._decision, self._frame, self._veil, self._everything = decision, decision.frame, veil, everything
        self._explainer = Explainer(decision, inp)
        self._standings = self._explainer.standings
        self._weighted = inp.profile.ranking == "weighted"

    # --- order --------------------------------------------------------------------------------------------------

    def ordered(self) -> Iterator[int]:
        """Targets by rank, then clusters in use, then others that fit by rank, then rejected ones, closest first."""
        for row in self._in_order():
            if not self._veil.rows >> row & 1:
                yield row

    def _in_order(self) -> Iterator[int]:
        standings = self._standings
        yield from (target.row for target in self._decision.targets)
        yield from in_name_order(self._frame, standings.kept & ~self._targeted)
        yield from self._ranked.among(standings.fit)
        yield from in_name_order(self._frame, standings.fit & ~self._ranked.bits)
        refused = list(self._explainer.matrix.refused.values())
        yield from closest_first(self._decision.request, self._frame, standings.rejected, refused)
        yield from in_name_order(self._frame, standings.idle)

    @cached_property
    def _targeted(self) -> int:
        return sum(1 << target.row for target in self._decision.targets)

    @cached_property
    def _ranked(self) -> RowOrder:
        """Rows in the order of the selection: picks, then everybody who was ranked behind them."""
        if not self._decision.rounds or self._decision.request.wanted is None:
            return RowOrder((), self._frame.size)
        picks = [target.row for target in self._decision.targets]
        return RowOrder([*picks, *self._explainer.ranking.order.among(~self._targeted)], self._frame.size)

    # --- rows ---------------------------------------------------------------------------------------------------

    def row(self, row: int) -> ClusterRow:
        return self._row(self._explainer.cluster(self._frame.name(row), everything=self._everything), row)

    def strangers(self) -> Iterator[ClusterRow]:
        for name in self._veil.visible(self._explainer.strangers()):
            yield self.stranger(name)

    def stranger(self, name: str) -> ClusterRow:
        """A KeyError for a name that neither the fleet nor the decision knows."""
        found = self._explainer.cluster(name)
        return ClusterRow(name=name, outcome="not-evaluated", standing=found.outcome.value, bindings=found.bindings)

    def _row(self, found: ClusterExplanation, row: int) -> ClusterRow:
        key, place = self._key(found), self._ranked.of(row)
        margin = self._margin(row, found)
        return ClusterRow(
            name=found.cluster,
            outcome=_OUTCOMES.get(found.outcome, "not-evaluated"),
            standing=found.outcome.value,
            because=self._because(found, margin),
            rank=None if place is None else place + 1,
            total=sum(key) if key is not None and self._weighted else None,
            key=None if self._weighted else key,
            margin_to_next=self._margin_to_next(place),
            margin=margin,
            short=_short(margin) if found.outcome is Standing.NOT_PICKED else "",
            tie=self._is_tied(row),
            step=found.step,
            scores=self._plugin_scores(row, key),
            first="" if found.first is None else found.first.plugin,
            rejections=tuple(self._rejections(found, row)),
            retained=found.retained,
            bindings=found.bindings,
        )

    def _because(self, found: ClusterExplanation, margin: Margin | None) -> Because:
        if found.outcome is not Standing.NOT_PICKED:
            return ""
        least = self._decision.request.min_targets
        if least is not None and (self._decision.active or 0) < least:
            return "minTargets"
        return "spread" if margin is not None and margin.decided_by == "topology" else "rank"

    # --- refusals -----------------------------------------------------------------------------------------------

    def _rejections(self, found: ClusterExplanation, row: int) -> Iterator[Rejection]:
        if self._everything:
            yield from (self._verdict(one, row) for one in found.verdicts)
        elif found.first is not None:
            yield self._refused(found.first, row)

    def _verdict(self, one: PluginVerdict, row: int) -> Rejection:
        if one.refusal is None:
            return Rejection(plugin=one.plugin, verdict=one.verdict)
        return self._refused(one.refusal, row)

    def _refused(self, refused: Refusal, row: int) -> Rejection:
        shown = self._veil.refusal(refused)
        return Rejection(
            plugin=refused.plugin,
            code=str(self._code(refused, row)),
            reason=refused.reason,
            message=shown.message,
            details=shown.details,
        )

    def _code(self, refused: Refusal, row: int) -> Code:
        verdicts = self._decision.verdicts
        first = None if verdicts is None else verdicts.status(row)
        if first is not None and first.plugin == refused.plugin:
            return first.code
        if (refused.plugin, refused.reason) == (PICK_FIXED_PLUGIN, NOT_LISTED):
            return Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        status = self._explainer.matrix.status(refused.plugin, row)
        return Code.UNSCHEDULABLE if status is None else status.code

    # --- ranks --------------------------------------------------------------------------------------------------

    def _key(self, found: ClusterExplanation) -> Key | None:
        if self._decision.request.wanted is None or found.scores is None:
            return None
        return (found.scores.topology, found.scores.affinity, found.scores.obsolete)

    def _key_at(self, place: int) -> Key | None:
        row = self._ranked.at(place)
        target = self._standings.targets.get(row)
        if target is not None:
            return None if target.scores is None else (target.scores.topology, target.scores.affinity, target.obsolete)
        found = self._explainer.ranking.scores(row)
        return None if found is None else (found.topology, found.affinity, found.obsolete)

    def _margin_to_next(self, place: int | None) -> int | Key | None:
        if place is None or place + 1 >= len(self._ranked):
            return None
        mine, theirs = self._key_at(place), self._key_at(place + 1)
        if mine is None or theirs is None:
            return None
        return sum(mine) - sum(theirs) if self._weighted else _minus(mine, theirs)

    def _margin(self, row: int, found: ClusterExplanation) -> Margin | None:
        if found.margin is not None:
            return self._unnamed(found.margin)
        place, runner_up = self._ranked.of(row), len(self._decision.targets)
        if place is None or place >= runner_up or runner_up >= len(self._ranked):
            return None
        mine, theirs = self._key_at(place), self._key_at(runner_up)
        if mine is None or theirs is None:
            return None
        parts = _minus(mine, theirs)
        total = sum(parts) if self._weighted else None
        name = self._frame.name(self._ranked.at(runner_up))
        return self._unnamed(Margin(name, decider(Scores(*parts, total=total)), *parts, total=total))

    def _unnamed(self, margin: Margin) -> Margin:
        if not self._veil.hides(margin.to):
            return margin
        return Margin("", margin.decided_by, margin.topology, margin.affinity, margin.obsolete, margin.total)

    def _is_tied(self, row: int) -> bool | None:
        """Rows of one round can be compared; of the picks of earlier rounds nobody knows who stood beside them."""
        place = self._ranked.of(row)
        if place is None:
            return None
        first = 0
        last = self._decision.round
        if self._decision.round_count > 1 and last is not None:
            first = max(len(self._decision.targets) - len(last.picked), 0)
        if place < first:
            return None
        mine = self._key_at(place)
        beside = [other for other in (place - 1, place + 1) if first <= other < len(self._ranked)]
        return any(self._same(mine, self._key_at(other)) for other in beside)

    def _same(self, one: Key | None, other: Key | None) -> bool:
        if one is None or other is None:
            return False
        return sum(one) == sum(other) if self._weighted else one == other

    # --- scores -------------------------------------------------------------------------------------------------

    def _plugin_scores(self, row: int, key: Key | None) -> tuple[PluginScore, ...]:
        last = self._decision.round
        if last is None or key is None or self._ranked.of(row) is None:
            return ()
        table = next((one for one in self._decision.rounds if row in one.picked), None)
        if table is None and not self._targeted >> row & 1:
            table = last
        if table is not None:
            return self._recorded_scores(table, row)
        return self._scores_by_component(last, key)

    def _recorded_scores(self, found: Round, row: int) -> tuple[PluginScore, ...]:
        at = self._places(found).of(row)
        if at is None:
            return ()
        return tuple(
            PluginScore(
                one.plugin,
                int(one.raw[at]),
                int(one.normalized[at]),
                one.weight if self._weighted else None,
                int(one.final[at]),
            )
            for one in found.scores.columns
        )

    def _places(self, found: Round) -> RowOrder:
        known = self._known_places.get(id(found))
        if known is None:
            known = self._known_places[id(found)] = RowOrder(found.scores.rows, self._frame.size)
        return known

    @cached_property
    def _known_places(self) -> dict[int, RowOrder]:
        return {}

    def _scores_by_component(self, last: Round, key: Key) -> tuple[PluginScore, ...]:
        """Of an earlier round only the sums are kept: they are a plugin's own where it is alone in its component."""
        if self._weighted:
            return ()
        by_component = dict(zip(("topology", "affinity", "obsolete"), key, strict=True))
        components = [one.component for one in last.scores.columns]
        if len(set(components)) < len(components):
            return ()
        values = ((one.plugin, by_component[one.component.value]) for one in last.scores.columns)
        return tuple(PluginScore(plugin, value, value, None, value) for plugin, value in values)


def _minus(one: Key, other: Key) -> Key:
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2])


def _short(margin: Margin | None) -> str:
    """`3 points of affinity short of the last pick c7`"""
    if margin is None:
        return ""
    last = f"the last pick {margin.to}" if margin.to else "the last pick"
    if margin.decided_by == "name":
        return f"level with {last}, the tie-break decides"
    lacking = abs(margin.total or 0) if margin.decided_by == "total" else abs(getattr(margin, margin.decided_by))
    points = "point" if lacking == 1 else "points"
    if margin.decided_by == "total":
        return f"{lacking} {points} short of {last}"
    return f"{lacking} {points} of {_COMPONENT_WORDS[margin.decided_by]} short of {last}"


_COMPONENT_WORDS: Final = {"topology": "spreading", "affinity": "affinity", "obsolete": "an existing binding"}
