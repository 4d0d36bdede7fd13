"""Every filter's verdict on every cluster, a byte each: for pictures of a whole fleet.

The verdicts are those of `Explainer`, computed for sets of rows instead of row by row. Reasons are phrases, each once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from fleet.explain.facts.clusters import Explainer, VerdictMatrix
from fleet.explain.facts.outcomes import ClusterOutcomes
from fleet.explain.facts.redaction import Redaction
from fleet.explain.facts.rejections import (
    ClusterRejection,
    describe_reason,
    find_first_rejection,
    find_plain_phrase,
    find_reason,
    find_rejection,
    group_rejections,
)
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.inspection import consider_newcomers
from fleet.framework.verdicts import Verdicts
from fleet.snapshot.columns.bitset import from_rows, to_bools, to_rows

NOT_RUN: Final = 255
MOST_REASONS: Final = 254
MOST_PHRASES: Final = 64
"""Of one plugin and reason: further clusters get the name of the reason. Each phrase takes an explanation."""
_OTHER: Final = "another reason"
SELECTED, IN_USE, FITS, REJECTED, NOT_EVALUATED = "safrn"


class VerdictReason(msgspec.Struct, frozen=True, rename="camel"):
    plugin: str
    text: str


class CompactVerdicts(msgspec.Struct, frozen=True, rename="camel"):
    """Clusters are in the order of their names, without hidden ones."""

    plugins: tuple[str, ...]
    clusters: tuple[str, ...]
    redacted: int
    verdicts: bytes
    """A row of bytes for each plugin: 0 passed, 255 not run, else one more than an index of `reasons`."""
    reasons: tuple[VerdictReason, ...]
    scores: tuple[int | None, ...]
    """Of each cluster the sum of its scores; None where it has none."""
    outcomes: str
    """Of each cluster a letter: (s)elected, (a)lready selected, (f)its, (r)ejected, (n)ot evaluated."""
    bound: tuple[int, ...]
    """Indices of the clusters in use, once the decision is carried out."""


def build_compact_verdicts(decision: Decision, inp: DecisionInput, redaction: Redaction) -> CompactVerdicts:
    return _Builder(*consider_newcomers(decision, inp), redaction).build()


class _Builder:
    def __init__(self, decision: Decision, inp: DecisionInput, redaction: Redaction) -> None:
        self._decision, self._inp, self._redaction, self._frame = decision, inp, redaction, decision.frame
        self._explainer = Explainer(decision, inp)
        self._visible = decision.frame.valid & ~redaction.rows
        order = decision.frame.names.order
        self._order = order[to_bools(self._visible, decision.frame.size)[order]]
        self._reasons: dict[VerdictReason, int] = {}

    def build(self) -> CompactVerdicts:
        outcomes = self._explainer.outcomes
        columns = dict(self._build_columns(outcomes))
        names = self._frame.names
        return CompactVerdicts(
            plugins=tuple(columns),
            clusters=tuple(map(names.name, self._order.tolist())),
            redacted=self._redaction.count,
            verdicts=b"".join(columns.values()),
            reasons=tuple(self._reasons),
            scores=self._collect_scores(outcomes),
            outcomes=self._name_outcomes(outcomes),
            bound=tuple(self._in_order(outcomes.in_use).nonzero()[0].tolist()),
        )

    # --- verdicts -----------------------------------------------------------------------------------------------

    def _build_columns(self, outcomes: ClusterOutcomes) -> Iterator[tuple[str, bytes]]:
        first: dict[str, dict[str, int]] = {}
        for group in group_rejections(outcomes):
            first.setdefault(group.plugin, {})[group.reason] = group.rows
        filters = [plugin.name for plugin in self._inp.profile.filters]
        for plugin in first.keys() - set(filters):
            yield plugin, self._encode({NOT_RUN: ~_union(first[plugin])}, self._number_first(plugin, first[plugin]))
        for plugin in filters:
            yield plugin, self._encode(*self._judge(plugin, outcomes, first))

    def _judge(
        self, plugin: str, outcomes: ClusterOutcomes, first: dict[str, dict[str, int]]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """The rows that the plugin did not judge, and those that it rejects, by number."""
        kept, numbers = outcomes.kept & ~outcomes.chosen, dict[int, int]()
        placed = self._explainer.matrix
        in_use = self._explainer.unplaced if kept & self._visible else placed
        not_run = 0
        if plugin not in placed.judging or not placed.is_known:
            not_run |= ~kept
        else:
            own = first.get(plugin, {})
            passed = outcomes.chosen | outcomes.fit
            for behind in placed.judging[placed.judging.index(plugin) + 1 :]:
                passed |= _union(first.get(behind, {}))
            _merge(numbers, self._number_first(plugin, own))
            _merge(numbers, self._number(plugin, placed, ~(kept | passed | _union(own))))
        if not in_use.is_known or plugin not in in_use.judging:
            not_run |= kept
        else:
            _merge(numbers, self._number(plugin, in_use, kept))
        return {NOT_RUN: not_run}, numbers

    def _encode(self, *sets: dict[int, int]) -> bytes:
        """Disjoint sets of rows by number; the others passed."""
        column = self._in_order(0).astype("uint8")
        for rows_by_number in sets:
            for number, rows in rows_by_number.items():
                column |= self._in_order(rows) * column.dtype.type(number)
        encoded: bytes = column.tobytes()
        return encoded

    def _in_order(self, rows: int) -> Any:
        return to_bools(rows & self._visible, self._frame.size)[self._order]

    # --- reasons ------------------------------------------------------------------------------------------------

    def _number_first(self, plugin: str, by_reason: dict[str, int]) -> dict[int, int]:
        """The rejections that counted."""
        outcomes, verdicts = self._explainer.outcomes, self._decision.verdicts
        numbers: dict[int, int] = {}
        for reason, rows in by_reason.items():
            assert verdicts is not None
            _merge(numbers, dict(self._number_phrases(verdicts, plugin, reason, rows, outcomes)))
        return numbers

    def _number(self, plugin: str, matrix: VerdictMatrix, rows: int) -> dict[int, int]:
        """Those that the filter would give on its own."""
        numbers: dict[int, int] = {}
        rows &= matrix.rejected.get(plugin, 0) & self._visible
        if rows:
            verdicts = matrix.compute_verdicts(plugin)
            for reason, members in matrix.split_by_reason(plugin, rows).items():
                _merge(numbers, dict(self._number_phrases(verdicts, plugin, reason, members, None)))
        return numbers

    def _number_phrases(
        self, verdicts: Verdicts, plugin: str, reason: str, rows: int, outcomes: ClusterOutcomes | None
    ) -> Iterator[tuple[int, int]]:
        rows &= self._visible
        plain = find_plain_phrase(reason, find_reason(verdicts, plugin, reason))
        if not rows:
            return
        if plain is not None:
            yield self._find_number(plugin, plain), rows
            return
        numbers: dict[int, int] = {}
        for count, members in enumerate(self._split(verdicts, plugin, rows)):
            if count == MOST_PHRASES:
                left = rows & ~_union(numbers)
                name = find_plain_phrase(reason, None) or _OTHER
                _merge(numbers, {self._find_number(plugin, name): left})
                break
            row = (members & -members).bit_length() - 1
            rejection = find_rejection(verdicts, row) if outcomes is None else find_first_rejection(outcomes, row)
            assert rejection is not None
            _merge(numbers, {self._find_number(plugin, self._describe(rejection)): members})
        yield from numbers.items()

    def _describe(self, rejection: ClusterRejection) -> str:
        return describe_reason(self._redaction.redact_rejection(rejection))

    def _split(self, verdicts: Verdicts, plugin: str, rows: int) -> Iterator[int]:
        """Sets with the same phrase: by the columns that the plugin's explanations depend on, else each row alone."""
        judge = verdicts.find_judge(plugin)
        list_columns = getattr(judge and judge.plugin, "explanation_columns", None)
        columns = [] if list_columns is None else list_columns(self._decision.request, self._frame)
        members = to_rows(rows, self._frame.size)
        if not columns:
            yield from (1 << row for row in members.tolist())
            return
        values = zip(*(column.ids[members].tolist() for column in columns), strict=True)
        classes: dict[tuple[int, ...], list[int]] = {}
        for row, value in zip(members.tolist(), values, strict=True):
            classes.setdefault(value, []).append(row)
        yield from map(from_rows, classes.values())

    def _find_number(self, plugin: str, text: str) -> int:
        reason = VerdictReason(plugin, text)
        if reason not in self._reasons and len(self._reasons) >= MOST_REASONS - 1:
            reason = VerdictReason("", _OTHER)
        return self._reasons.setdefault(reason, len(self._reasons) + 1)

    # --- scores and outcomes ------------------------------------------------------------------------------------

    def _collect_scores(self, outcomes: ClusterOutcomes) -> tuple[int | None, ...]:
        totals: dict[int, int] = {}
        last = self._decision.round
        if self._decision.request.wanted is None or last is None:
            return (None,) * len(self._order)
        if last.scores.columns:
            totals.update(zip(last.scores.rows.tolist(), last.scores.totals().tolist(), strict=True))
        in_use = to_rows(outcomes.in_use & self._visible, self._frame.size).tolist()
        for row in in_use:
            scores = self._explainer.find_scores(row)
            totals.pop(row, None)
            if scores is not None:
                totals[row] = scores.topology + scores.affinity + scores.obsolete
        return tuple(map(totals.get, self._order.tolist()))

    def _name_outcomes(self, outcomes: ClusterOutcomes) -> str:
        letters = self._in_order(0).astype("uint8")
        sets = {
            SELECTED: outcomes.chosen,
            IN_USE: outcomes.kept & ~outcomes.chosen,
            FITS: outcomes.fit,
            REJECTED: outcomes.rejected,
        }
        for letter, rows in sets.items():
            letters |= self._in_order(rows) * letters.dtype.type(ord(letter))
        letters[letters == 0] = ord(NOT_EVALUATED)
        text: str = letters.tobytes().decode("ascii")
        return text


def _merge(numbers: dict[int, int], more: dict[int, int]) -> None:
    for number, rows in more.items():
        numbers[number] = numbers.get(number, 0) | rows


def _union(sets: dict[Any, int]) -> int:
    rows = 0
    for members in sets.values():
        rows |= members
    return rows
