"""The context that hooks of one attempt share: time, bindings, external queries, notes and warnings.

It offers no clock, generator or logger on purpose: the moment of the decision is an input, ties are broken by names,
and notes travel in the decision.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NoReturn

import msgspec

from fleet.framework.bindings import PlacementBindings
from fleet.framework.status import Code, Status
from fleet.framework.types import ExternalQuery, ExternalResult, Ranking, TieBreak
from fleet.snapshot.removals import Removals

NO_QUERY_RESULTS: Final[Mapping[str, ExternalResult]] = MappingProxyType({})


def encode_results(results: Mapping[str, ExternalResult]) -> bytes:
    """As JSON; empty without any."""
    return msgspec.json.encode(results, order="sorted") if results else b""


def decode_results(encoded: bytes) -> Mapping[str, ExternalResult]:
    return msgspec.json.decode(encoded, type=dict[str, ExternalResult]) if encoded else NO_QUERY_RESULTS


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
EXTENDER_IGNORED: Final = "ExtenderIgnored"
RESOURCE_UNKNOWN: Final = "ResourceUnknown"


WriteOperation = Callable[[Any], Awaitable[Status | None]]


JudgeWithout = Callable[[Removals], int]
AskExtender = Callable[[ExternalQuery], Awaitable[ExternalResult]]


def _judge_nothing(removed: Removals) -> int:
    del removed
    return 0


async def _refuse_question(query: ExternalQuery) -> ExternalResult:
    return ExternalResult({}, error=f"no extender can be asked for {query.key}")


async def refuse_write(operation: Any) -> Status | None:
    del operation
    return Status.new(Code.ERROR, "there is no hub to write to")


class HookContext:
    """Passed to hooks as `ctx`, one per attempt; `picked`, `need` and `shortfall` change from round to round."""

    __slots__ = (
        "_query_results",
        "active",
        "ask",
        "asks",
        "bindings",
        "cursor",
        "desired",
        "judge_without",
        "need",
        "nominated",
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
        "write",
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
        self.judge_without: JudgeWithout = _judge_nothing
        """For PostFilter: of some rows, those that qualify once the bindings named with them are gone."""
        self.nominated: tuple[int, ...] = ()
        """Rows to pick before any other, where they are feasible."""
        self.cursor = cursor
        """Where in the scan order a partial scan starts."""
        self.scanned = 0
        """How many rows partial scans have examined."""
        self.uid, self.ranking, self.tie_break = uid, ranking, tie_break
        self.plugin = ""
        self.asks = True
        """Whether extenders are asked; explanations have what was answered, and nothing more."""
        self.notes: dict[str, dict[str, Any]] = {}
        self.warnings: dict[tuple[str, str], Warning] = {}
        self._query_results = query_results
        self.write: WriteOperation = refuse_write
        """For Bind: sends an operation of this attempt to the hub. A coroutine."""
        self.ask: AskExtender = _refuse_question
        """For Bind: the answer of an extender, which may be an error. A coroutine."""

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
        result = self.find_result(query.key)
        if result is None:
            raise QueryPending(query)
        return result

    @property
    def has_results(self) -> bool:
        """Of any query."""
        return bool(self._query_results)

    def find_result(self, key: str) -> ExternalResult | None:
        return self._query_results.get(key)

    def query_more(self, query: ExternalQuery) -> NoReturn:
        """For a query whose result is known for other clusters only: the attempt runs again once it is complete."""
        raise QueryPending(query)
