"""Everything that services read: the watched state, the history, the evaluator and the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from api.live.answer_cache import AnswerCache, FleetChanges
from api.live.evaluation import DecisionEvaluator
from api.live.history_reader import HistoryReader
from api.live.live import LiveState
from api.live.scenario_process import ScenarioRunner
from api.live.warnings import WarningEvents
from fleet.settings import Effective


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    live: LiveState
    history: HistoryReader
    evaluator: DecisionEvaluator
    effective: Effective
    answers: AnswerCache
    fleet: FleetChanges
    warnings: WarningEvents
    scenarios: ScenarioRunner = field(default_factory=ScenarioRunner)
    notices: dict[str, Callable[[], str]] = field(default_factory=dict)
    """What `/readyz` shows without an effect on it, by name."""
    explains_other: bool = False
    """Another scheduler decides on this hub."""

    def close(self) -> None:
        """Its threads end with what they are doing."""
        self.evaluator.close()
        self.history.close()
