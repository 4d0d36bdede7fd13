"""Rejections of one round: a few bitsets while deciding; columns and messages are rendered on first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fleet.framework.request import PlacementRequest
from fleet.framework.status import ALREADY_SELECTED, NO_DETAILS, Code, Status
from fleet.framework.types import PluginTraits, Reason, ReasonArray, ReasonTable, RowExplainer, Verdict
from fleet.snapshot.columns.bitset import BoolArray, as_bits, each_row, from_rows, to_bools, to_rows
from fleet.snapshot.frame import Frame

ALIVE: Final = -1
SET_ASIDE, TAKEN, YIELDED = 1, 2, 3
_FRAMEWORK_REASONS: Final = ReasonTable(
    Reason(
        "SetAside",
        Code.UNSCHEDULABLE,
        "cluster was set aside in this attempt: refused, not asked about, or outside the domain of its group",
    ),
    Reason("AlreadySelected", Code.UNSCHEDULABLE, "cluster is already selected", already_selected=True),
    Reason("Yielded", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "cluster makes room for a placement of higher priority"),
)


class FilterRejection(NamedTuple):
    plugin: int
    """Position in `Verdicts.judges`."""
    rows: int
    verdict: Verdict

    def reason_of(self, row: int) -> int:
        reason = self.verdict.reason
        return reason if isinstance(reason, int) else int(reason[row])


@dataclass(frozen=True, slots=True)
class Judge:
    """A source of rejections: a Filter plugin, a narrowing PreFilter, or the framework itself."""

    name: str
    reasons: ReasonTable
    plugin: object | None = None


FRAMEWORK: Final = Judge("Framework", _FRAMEWORK_REASONS)


class Verdicts:
    """First rejections of one round. Equal for equal decisions, independent of the order of rows."""

    __slots__ = (
        "_codes",
        "_explainers",
        "_first",
        "_latest",
        "_reason",
        "_texts",
        "alive",
        "examined",
        "fill",
        "frame",
        "judges",
        "refusals",
        "rejections",
        "request",
        "retained",
    )

    def __init__(
        self,
        frame: Frame,
        request: PlacementRequest,
        judges: Sequence[Judge],
        *,
        fill: Status | None = None,
        refusals: Sequence[Status] = (),
    ) -> None:
        self.frame, self.request, self.judges = frame, request, tuple(judges)
        self.rejections: list[FilterRejection] = []
        self.alive = 0 if fill else frame.valid
        self.retained = 0
        self.examined = frame.valid
        """Rows that were examined; a partial scan leaves some out."""
        self.fill = fill
        """What every row not listed gets: the rejection of the whole placement by a PreFilter."""
        self.refusals = tuple(refusals) or ((fill,) if fill else ())
        """That rejection and those of other plugins."""
        self._first: npt.NDArray[np.int16] | None = None
        self._reason: ReasonArray | None = None
        self._codes: npt.NDArray[np.uint8] | None = None
        self._texts: dict[tuple[int, int, str], Status] = {}
        self._explainers: dict[int, RowExplainer] = {}
        """By position of the judge."""
        self._latest: tuple[tuple[int, int], Status] | None = None
        """Of the row that was asked last: an explanation asks several times, and details may take long."""

    def rebind(self, frame: Frame, request: PlacementRequest) -> Verdicts:
        """The same verdicts for another placement, or in a frame in which they are as valid."""
        bound = Verdicts(frame, request, self.judges, fill=self.fill, refusals=self.refusals)
        bound.rejections, bound.alive = self.rejections.copy(), self.alive
        bound.retained, bound.examined = self.retained, self.examined
        return bound

    # --- while deciding ---------------------------------------------------------------------------------------------

    def reject(self, plugin: int, verdict: Verdict) -> None:
        """Reject the rows still alive that this verdict does not pass."""
        passed = as_bits(verdict.ok, self.alive)
        rejected = self.alive ^ passed
        self.retained |= verdict.retained & self.alive
        if rejected:
            self.rejections.append(FilterRejection(plugin, rejected, verdict))
            self.alive = passed

    # --- columns ----------------------------------------------------------------------------------------------------

    @property
    def first(self) -> npt.NDArray[np.int16]:
        """Per row the position of the first rejecting judge; -1 for rows alive, free or not looked at."""
        if self._first is None:
            self._materialise()
        assert self._first is not None
        return self._first

    @property
    def reason(self) -> ReasonArray:
        """Per row the reason number of its first rejection; 0 where there is none."""
        if self._reason is None:
            self._materialise()
        assert self._reason is not None
        return self._reason

    def codes(self) -> npt.NDArray[np.uint8]:
        """Per row the code of its first rejection; Success for rows alive."""
        if self._codes is None:
            self._materialise()
        assert self._codes is not None
        return self._codes

    def _materialise(self) -> None:
        size = self.frame.size
        first = np.full(size, ALIVE, dtype=np.int16)
        reason = np.zeros(size, dtype=np.uint16)
        codes = np.full(size, 0 if self.fill is None else int(self.fill.code), dtype=np.uint8)
        for rejection in self.rejections:
            mask = to_bools(rejection.rows, size)
            np.copyto(first, rejection.plugin, where=mask)
            np.copyto(reason, rejection.verdict.reason, where=mask)
            if self.fill is None:
                np.copyto(codes, self._codes_of(rejection, mask), where=mask)
        for column in (first, reason, codes):
            column.flags.writeable = False
        self._first, self._reason, self._codes = first, reason, codes

    def _codes_of(self, rejection: FilterRejection, mask: BoolArray) -> int | npt.NDArray[np.uint8]:
        reasons = rejection.verdict.reason
        if isinstance(reasons, int):
            return int(self._code(rejection, reasons))
        count = int(reasons.max(initial=0, where=mask)) + 1
        by_reason = [0, *(int(self._code(rejection, number)) for number in range(1, count))]
        return np.array(by_reason, dtype=np.uint8)[np.where(mask, reasons, 0)]

    def _code(self, rejection: FilterRejection, reason: int) -> Code:
        if rejection.verdict.statuses is not None:
            return rejection.verdict.statuses[reason - 1].code
        return self.judges[rejection.plugin].reasons[reason].code

    # --- names and messages -----------------------------------------------------------------------------------------

    @property
    def rejected(self) -> int:
        """All rows that some judge rejected."""
        bits = 0
        for rejection in self.rejections:
            bits |= rejection.rows
        return bits

    def rejectors(self) -> tuple[str, ...]:
        """Names of the plugins that rejected a cluster, sorted; an already selected one does not count as rejected."""
        names = {
            self.judges[rejection.plugin].name for rejection in self.rejections if not self._already_selected(rejection)
        }
        return tuple(sorted(names.union(status.plugin for status in self.refusals)))

    def pending(self) -> tuple[str, ...]:
        """Names of the plugins that rejected something with the code Pending, sorted."""
        names = {status.plugin for status in self.refusals if status.code is Code.PENDING}
        for rejection in self.rejections:
            reasons = rejection.verdict.reason
            numbers = {reasons} if isinstance(reasons, int) else set(reasons[to_bools(rejection.rows, self.frame.size)])
            if any(self._code(rejection, int(number)) is Code.PENDING for number in numbers):
                names.add(self.judges[rejection.plugin].name)
        return tuple(sorted(names))

    def rejection(self, row: int) -> FilterRejection | None:
        for rejection in self.rejections:
            if rejection.rows >> row & 1:
                return rejection
        return None

    def rejector(self, row: int) -> str | None:
        rejection = self.rejection(row)
        if rejection is None:
            return None if self.fill is None else self.fill.plugin
        return self.judges[rejection.plugin].name

    def status(self, row: int, *, is_brief: bool = False) -> Status | None:
        """Why a row was rejected; None for a row alive. Equal statuses are one object. A brief one lacks details that
        its message does not mention: for a large policy they take long to find."""
        rejection = self.rejection(row)
        if rejection is None:
            return self.fill
        if is_brief and rejection.verdict.statuses is None:
            number = rejection.reason_of(row)
            if not self.judges[rejection.plugin].reasons[number].mentions_details:
                return self._describe(rejection, number, NO_DETAILS)
        return self._status(rejection, row)

    def status_by_name(self, cluster: str, *, is_brief: bool = False) -> Status | None:
        row = self.frame.row_of(cluster)
        return self.fill if row is None else self.status(row, is_brief=is_brief)

    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many clusters each (plugin, reason) rejected first."""
        totals: Counter[tuple[str, str]] = Counter()
        for rejection in self.rejections:
            judge, reasons = self.judges[rejection.plugin], rejection.verdict.reason
            if isinstance(reasons, int):
                totals[judge.name, self._name(rejection, reasons)] += rejection.rows.bit_count()
                continue
            numbers = np.bincount(reasons[to_bools(rejection.rows, self.frame.size)])
            for number in np.flatnonzero(numbers).tolist():
                totals[judge.name, self._name(rejection, number)] += int(numbers[number])
        return totals

    def split_by_reason(self, rejection: FilterRejection, rows: int) -> dict[str, int]:
        """Some of its rows, by the names of their reasons."""
        reasons = rejection.verdict.reason
        if isinstance(reasons, int):
            return {self._name(rejection, reasons): rows} if rows else {}
        members = to_rows(rows, self.frame.size)
        by_number: dict[int, list[int]] = {}
        for row, number in zip(members.tolist(), reasons[members].tolist(), strict=True):
            by_number.setdefault(number, []).append(row)
        by_name: dict[str, int] = {}
        for number, same in by_number.items():
            name = self._name(rejection, number)
            by_name[name] = by_name.get(name, 0) | from_rows(same)
        return by_name

    def already_selected(self) -> int:
        """Rows passed over because the placement is there already."""
        bits = 0
        for rejection in self.rejections:
            if self._already_selected(rejection):
                bits |= rejection.rows
        return bits

    def _already_selected(self, rejection: FilterRejection) -> bool:
        reason = rejection.verdict.reason
        if rejection.verdict.statuses is not None or not isinstance(reason, int):
            return False
        return reason in self.judges[rejection.plugin].reasons.already_selected

    def _name(self, rejection: FilterRejection, reason: int) -> str:
        if rejection.verdict.statuses is not None:
            return str(rejection.verdict.statuses[reason - 1].code)
        return self.judges[rejection.plugin].reasons[reason].name

    def _status(self, rejection: FilterRejection, row: int) -> Status:
        asked, latest = (rejection.plugin, row), self._latest
        if latest is None or latest[0] != asked:
            latest = self._latest = asked, self._build_status(rejection, row)
        return latest[1]

    def _build_status(self, rejection: FilterRejection, row: int) -> Status:
        number = rejection.reason_of(row)
        if rejection.verdict.statuses is not None:
            given = replace(rejection.verdict.statuses[number - 1], plugin=self.judges[rejection.plugin].name)
            return self._texts.setdefault((rejection.plugin, 0, repr(given)), given)
        return self._describe(rejection, number, self._details(rejection, row))

    def _describe(self, rejection: FilterRejection, number: int, details: Mapping[str, Any]) -> Status:
        judge = self.judges[rejection.plugin]
        reason = judge.reasons[number]
        text = reason.form.format_map({**details, "plugin": judge.name})
        key = (rejection.plugin, number, repr(sorted(details.items(), key=repr)))
        known = self._texts.get(key)
        if known is None:
            shown = {**details, ALREADY_SELECTED: True} if reason.already_selected else details
            known = self._texts[key] = Status(reason.code, (text,), plugin=judge.name, details=shown)
        return known

    def _details(self, rejection: FilterRejection, row: int) -> Mapping[str, Any]:
        if rejection.verdict.explain is not None:
            return rejection.verdict.explain(row)
        explain = self._explainers.get(rejection.plugin)
        if explain is None:
            explain = self._explainers[rejection.plugin] = self._build_explainer(self.judges[rejection.plugin].plugin)
        return explain(row, rejection.reason_of(row))

    def _build_explainer(self, plugin: Any) -> RowExplainer:
        if hasattr(plugin, "build_row_explainer"):
            explain: RowExplainer = plugin.build_row_explainer(self.request, self.frame)
            return explain
        if hasattr(plugin, "explain_row"):
            return partial(plugin.explain_row, self.request, self.frame)
        return lambda *_: NO_DETAILS

    def find_judge(self, name: str) -> Judge | None:
        return next((judge for judge in self.judges if judge.name == name), None)

    def names(self, rows: int) -> list[str]:
        """Names of a set of rows, sorted."""
        return sorted(self.frame.name(row) for row in each_row(rows))


def judge_of(name: str, plugin: object) -> Judge:
    return Judge(name, getattr(plugin, "REASONS", PluginTraits.REASONS), plugin)
