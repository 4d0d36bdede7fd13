"""Every filter's opinion of every cluster, whatever the other filters think of it.

The decision itself records the first refusal only. The rest is asked for here, of the same hooks on the same frame, as
sets of rows; statuses and words are made for the rows that somebody looks at.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from fleet.explain.facts.rejections import Refusal, by_reason, refusal
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.cycle.inspection import judge_all
from fleet.framework.status import Status
from fleet.framework.verdicts import FilterRejection, Verdicts
from fleet.model.keys import PICK_FIXED

_UNDECIDED: Final = (Outcome.ERROR, Outcome.NEEDS_ANSWER)


class Matrix:
    def __init__(self, decision: Decision, inp: DecisionInput) -> None:
        self._frame, self._request, self._profile = decision.frame, decision.request, inp.profile
        self.is_known = decision.outcome not in _UNDECIDED
        """False where the attempt ended before the filters."""
        judged = judge_all(decision, inp) if self.is_known else []
        self._found: Mapping[str, FilterRejection] = dict(judged)
        self._alone: dict[str, Verdicts] = {}

    @cached_property
    def asked(self) -> list[str]:
        """The filters that judge this placement, in order."""
        if self._request.placement_type == PICK_FIXED:
            return [one.name for _, one in self._profile.fixed_filters]
        return [one.name for one in self._profile.filters if one.name in self._found]

    @property
    def refused(self) -> Mapping[str, int]:
        """By filter the rows it refuses, in order."""
        return {name: found.rows for name, found in self._found.items()}

    def reasons(self, plugin: str, rows: int) -> dict[str, int]:
        """Rows that the filter refuses, by the name of the reason."""
        found = self._found[plugin]
        return by_reason(self.alone(plugin), found, rows & found.rows)

    def status(self, plugin: str, row: int) -> Status | None:
        return self.alone(plugin).status(row)

    def refusal(self, plugin: str, row: int) -> Refusal | None:
        return refusal(self.alone(plugin), row)

    def alone(self, plugin: str) -> Verdicts:
        """What the filter says, as if there were no other."""
        known = self._alone.get(plugin)
        if known is None:
            found = self._found[plugin]
            known = self._alone[plugin] = Verdicts(self._frame, self._request, self._profile.judges)
            known.reject(found.plugin, found.verdict)
        return known
