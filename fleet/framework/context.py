"""What the hooks of one attempt may know beside the placement and the frame, and how they leave notes.

There is no clock, generator or logger here, and there must not be one: the moment of the decision is an argument,
ties are broken by names, and what a plugin wants to say travels in the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from fleet.framework.bindings import PlacementBindings
from fleet.framework.types import Answer, Question, Ranking, TieBreak

NO_ANSWERS: Final[Mapping[str, Answer]] = MappingProxyType({})


class Unanswered(Exception):
    """Leaves the attempt until the shell has asked; never seen outside the framework."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.key)
        self.question = question


@dataclass(frozen=True, slots=True)
class Warning:
    """Something odd that did not stop the decision: `rows` are the clusters it concerns."""

    kind: str
    subject: str
    rows: int = 0


UNREADABLE_PROPERTY: Final = "UnreadableProperty"
NAMESPACE_UNCONFIRMED: Final = "NamespaceUnconfirmed"
MISSING_TOPOLOGY_KEY: Final = "MissingTopologyKey"
SURPLUS_BINDING: Final = "SurplusBinding"
UNKNOWN_BINDING_STATE: Final = "UnknownBindingState"
MISSING_PREVIOUS_STATE: Final = "MissingPreviousState"
REFUSAL_WITHOUT_REASON: Final = "RefusalWithoutReason"


class Attempt:
    """Passed to hooks as `ctx`. One per attempt; `picked`, `need` and `shortfall` change from round to round."""

    __slots__ = (
        "_answers",
        "active",
        "bindings",
        "cursor",
        "desired",
        "need",
        "notes",
        "now",
        "obsolete",
        "picked",
        "plugin",
        "ranking",
        "scanned",
        "shortfall",
        "tie_break",
        "uid",
        "warnings",
    )

    def __init__(
        self,
        *,
        now: int,
        bindings: PlacementBindings,
        answers: Mapping[str, Answer] = NO_ANSWERS,
        cursor: int = 0,
        uid: str = "",
        ranking: Ranking = "lexicographic",
        tie_break: TieBreak = "nameDescending",
    ) -> None:
        self.now = now
        """Nanoseconds since the epoch: the moment of this decision."""
        self.bindings = bindings
        self.active = bindings.active_rows
        """Rows that hold an active binding of the placement."""
        self.obsolete = bindings.obsolete_rows
        """Rows that hold a binding made for an earlier policy."""
        self.picked = 0
        """Rows picked in earlier rounds."""
        self.desired = 0
        """How many clusters this attempt looks for."""
        self.need = 0
        """How many ranked rows somebody will look at."""
        self.shortfall = 0
        """For PostFilter: how many clusters are missing."""
        self.cursor = cursor
        """Where in the scan order a partial scan starts."""
        self.scanned = 0
        """How many rows partial scans have looked at."""
        self.uid, self.ranking, self.tie_break = uid, ranking, tie_break
        self.plugin = ""
        self.notes: dict[str, dict[str, Any]] = {}
        self.warnings: dict[tuple[str, str], Warning] = {}
        self._answers = answers

    @property
    def placed(self) -> int:
        """Rows where the placement is, or will be by what was picked so far."""
        return self.active | self.picked

    def note(self, key: str, value: Any) -> None:
        """Remember something with the decision, under the name of the calling plugin."""
        self.notes.setdefault(self.plugin, {})[key] = value

    def warn(self, kind: str, subject: str, rows: int = 0) -> None:
        known = self.warnings.get((kind, subject))
        self.warnings[kind, subject] = Warning(kind, subject, rows | (known.rows if known else 0))

    def ask(self, question: Question) -> Answer:
        """The answer to a question; without one the attempt ends here and is run again when the shell has asked."""
        answer = self._answers.get(question.key)
        if answer is None:
            raise Unanswered(question)
        return answer
