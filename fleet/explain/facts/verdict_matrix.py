"""Verdict of every filter on every cluster, independent of the other filters.

The decision itself records the first rejection only. The rest is computed here, by the same hooks on the same frame, as
sets of rows; statuses and messages are built for the requested rows only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from fleet.explain.facts.rejections import ClusterRejection, find_rejection, split_by_reason
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.cycle.inspection import judge_all
from fleet.framework.status import Status
from fleet.framework.verdicts import FilterRejection, Verdicts
from fleet.model.keys import PICK_FIXED

_UNDECIDED: Final = (Outcome.ERROR, Outcome.NEEDS_ANSWER)


class VerdictMatrix:
    def __init__(self, decision: Decision, inp: DecisionInput) -> None:
        self._frame, self._request, self._profile = decision.frame, decision.request, inp.profile
        self.is_known = decision.outcome not in _UNDECIDED
        """False where the attempt ended before the filters."""
        judged = judge_all(decision, inp) if self.is_known else []
        self._found: Mapping[str, FilterRejection] = dict(judged)
        self._alone: dict[str, Verdicts] = {}

    @cached_property
    def judging(self) -> list[str]:
        """The filters that judge this placement, in order."""
        if self._request.placement_type == PICK_FIXED:
            return [plugin.name for _, plugin in self._profile.fixed_filters]
        return [plugin.name for plugin in self._profile.filters if plugin.name in self._found]

    @property
    def rejected(self) -> Mapping[str, int]:
        """By filter the rows it rejects, in order."""
        return {name: rejection.rows for name, rejection in self._found.items()}

    def split_by_reason(self, plugin: str, rows: int) -> dict[str, int]:
        """Rows that the filter rejects, by the name of the reason."""
        rejection = self._found[plugin]
        return split_by_reason(self.compute_verdicts(plugin), rejection, rows & rejection.rows)

    def find_status(self, plugin: str, row: int) -> Status | None:
        return self.compute_verdicts(plugin).status(row)

    def find_rejection(self, plugin: str, row: int) -> ClusterRejection | None:
        return find_rejection(self.compute_verdicts(plugin), row)

    def compute_verdicts(self, plugin: str) -> Verdicts:
        """Verdicts of one filter, as if it were the only one."""
        known = self._alone.get(plugin)
        if known is None:
            rejection = self._found[plugin]
            known = self._alone[plugin] = Verdicts(self._frame, self._request, self._profile.judges)
            known.reject(rejection.plugin, rejection.verdict)
        return known
