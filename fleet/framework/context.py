"""The context that hooks of one attempt share: time, bindings, external queries, notes and warnings.

It offers no clock, generator or logger on purpose: the moment of the decision is an input, ties are broken by names,
and notes travel in the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from fleet.framework.bindings import PlacementBindings
from fleet.framework.types import ExternalQuery, ExternalResult, Ranking, TieBreak

NO_QUERY_RESULTS: Final[Mapping[str, ExternalResult]] = MappingProxyType({})


class QueryPending(Exception):
    """Ends the attempt until the query is answered; never raised outside the framework."""

    def __init__(self, query: ExternalQuery) -> None:
        super().__init__(query.key)
        self.query = query


@dataclass(frozen=True, slots=True)
class Warning:
    """An oddity that did not stop the decision: `rows` are the clusters it concerns."""

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


class HookContext:
    """Passed to hooks as `ctx`, one per attempt; `picked`, `need` and `shortfall` change from round to round."""

    __slots__ = (
        "_query_results",
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
        query_results: Mapping[str, ExternalResult] = NO_QUERY_RESULTS,
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
        """How many clusters this attempt has to find."""
        self.need = 0
        """How many of the best rows Sort has to rank."""
        self.shortfall = 0
        """For PostFilter: how many clusters are missing."""
        self.cursor = cursor
        """Where in the scan order a partial scan starts."""
        self.scanned = 0
        """How many rows partial scans have examined."""
        self.uid, self.ranking, self.tie_break = uid, ranking, tie_break
        self.plugin = ""
        self.notes: dict[str, dict[str, Any]] = {}
        self.warnings: dict[tuple[str, str], Warning] = {}
        self._query_results = query_results

    @property
    def placed(self) -> int:
        """Rows where the placement is, or will be by what was picked so far."""
        return self.active | self.picked

    def note(self, key: str, value: Any) -> None:
        """Record a value with the decision, under the name of the calling plugin."""
        self.notes.setdefault(self.plugin, {})[key] = value

    def warn(self, kind: str, subject: str, rows: int = 0) -> None:
        known = self.warnings.get((kind, subject))
        self.warnings[kind, subject] = Warning(kind, subject, rows | (known.rows if known else 0))

    def query(self, query: ExternalQuery) -> ExternalResult:
        """The result of a query. Without one the attempt ends here, and runs again once the result is known."""
        result = self._query_results.get(query.key)
        if result is None:
            raise QueryPending(query)
        return result
