"""Adapters: per-cluster plugins run as columnar ones, and plugins written for earlier forms of hooks.

A per-cluster plugin gets the vector hooks. Its adapter skips rows that are already rejected, hands out read-only views
of single clusters, and numbers the statuses it gets as reasons of the attempt. For a plugin of an earlier form, the
author registers the adapter: `registry.register("Old", lambda raw, handle: UnreserveOnly(Old(raw, handle)))`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fleet.errors import ConfigurationError, PluginError
from fleet.framework.context import QueryPending
from fleet.framework.operations import Target
from fleet.framework.scalar import ClusterView
from fleet.framework.scores import NamedScore
from fleet.framework.status import REJECTIONS, SUCCESS, Code, Status, is_success
from fleet.framework.types import Delta, Verdict
from fleet.framework.verdicts import Verdicts
from fleet.snapshot.columns.bitset import Int64Array, Mask, Rows, from_rows, to_rows

if TYPE_CHECKING:
    from fleet.framework.context import HookContext
    from fleet.framework.request import PlacementRequest
    from fleet.framework.state import CycleState
    from fleet.snapshot.frame import Frame

_LIMIT: Final = 2**63

# Per-cluster method → the vector hook that it implements.
_SCALAR_FORMS: Final = {
    "filter_one": "filter",
    "score_one": "score",
    "normalize_list": "normalize",
    "pre_filter_names": "pre_filter",
    "add_one": "add",
    "remove_one": "remove",
}


def adapt(plugin: Any) -> Any:
    """The plugin itself, or its vector form when it is written per cluster. Both forms of one hook are refused."""
    forms = [scalar for scalar in _SCALAR_FORMS if callable(getattr(plugin, scalar, None))]
    for scalar in forms:
        vector = _SCALAR_FORMS[scalar]
        if callable(getattr(plugin, vector, None)):
            raise ConfigurationError(f"{plugin.name()} defines both {scalar} and {vector}: keep one")
    return _Adapted(plugin, forms) if forms else plugin


def is_scalar(plugin: Any, method: str) -> bool:
    return isinstance(plugin, _Adapted) and method in plugin.scalar_methods


class _Adapted:
    """Delegates everything it does not adapt, so traits and other hooks of the plugin stay visible."""

    def __init__(self, plugin: Any, forms: Sequence[str]) -> None:
        self.wrapped = plugin
        self.scalar_methods = frozenset(_SCALAR_FORMS[form] for form in forms)

    def __getattr__(self, attribute: str) -> Any:
        own = _VECTOR_FORMS.get(attribute)
        if own is not None and attribute in self.scalar_methods:
            return own.__get__(self, type(self))
        return getattr(self.__dict__["wrapped"], attribute)

    def _filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        passed: list[int] = []
        failed: list[int] = []
        numbers: list[int] = []
        reasons = _Reasons()
        for row, status in self._each_status(ctx, state, req, frame, alive):
            if status is None or (isinstance(status, Status) and is_success(status)):
                passed.append(row)
            else:
                failed.append(row)
                numbers.append(reasons.number(status, frame.name(row)))
        ok = np.zeros(frame.size, dtype=np.bool_)
        ok[passed] = True
        by_row = np.zeros(frame.size, dtype=np.uint16)
        by_row[failed] = numbers
        return Verdict(ok=ok, reason=by_row, statuses=reasons.known)

    def _each_status(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int
    ) -> Iterator[tuple[int, Any]]:
        judge = self.wrapped.filter_one
        for row in _by_name(frame, alive):
            view = ClusterView(frame, row)
            try:
                status = judge(ctx, state, req, view)
            except (PluginError, QueryPending):
                raise
            except Exception as error:
                raise _cluster_error(view, error) from error
            yield row, status

    def _score(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows
    ) -> Int64Array:
        scores = np.zeros(len(rows), dtype=np.int64)
        for position, row in enumerate(rows.tolist()):
            answer = self._call_for_row("score_one", ctx, state, req, ClusterView(frame, row))
            score, status = answer if isinstance(answer, tuple) else (answer, SUCCESS)
            if not is_success(status):
                raise PluginError(f"score of {frame.name(row)} failed: {', '.join(status.reasons)}")
            if not isinstance(score, int) or not -_LIMIT <= score < _LIMIT:
                raise PluginError(f"score of {frame.name(row)} is {score!r}, not a whole number of 64 bits")
            scores[position] = score
        return scores

    def _normalize(self, ctx: HookContext, state: CycleState, req: PlacementRequest, raw: Int64Array) -> Int64Array:
        # The names are positions: normalising may depend on scores only.
        scores = [NamedScore(str(position), score) for position, score in enumerate(raw.tolist())]
        changed = self.wrapped.normalize_list(ctx, state, req, scores)
        return np.array([named.score for named in (changed or scores)], dtype=np.int64)

    def _pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]:
        views = [ClusterView(frame, row) for row in _by_name(frame, frame.valid)]
        names, status = self.wrapped.pre_filter_names(ctx, state, req, views)
        if names is None:
            return None, status
        rows = (frame.row_of(name) for name in names)
        return from_rows(row for row in rows if row is not None), status

    def _add(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, deltas: Sequence[Delta]
    ) -> Status | None:
        return self._each_delta("add_one", ctx, state, req, frame, deltas)

    def _remove(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, deltas: Sequence[Delta]
    ) -> Status | None:
        return self._each_delta("remove_one", ctx, state, req, frame, deltas)

    def _each_delta(
        self,
        method: str,
        ctx: HookContext,
        state: CycleState,
        req: PlacementRequest,
        frame: Frame,
        deltas: Sequence[Delta],
    ) -> Status | None:
        for delta in deltas:
            status: Status | None = getattr(self.wrapped, method)(
                ctx, state, req, delta.placement, ClusterView(frame, delta.row)
            )
            if not is_success(status):
                return status
        return None

    def _call_for_row(
        self, method: str, ctx: HookContext, state: CycleState, req: PlacementRequest, view: ClusterView
    ) -> Any:
        try:
            return getattr(self.wrapped, method)(ctx, state, req, view)
        except (PluginError, QueryPending):
            raise
        except Exception as error:
            raise _cluster_error(view, error) from error


class _Reasons:
    """Statuses given in one attempt, each numbered once; a plugin tends to give one and the same many times."""

    def __init__(self) -> None:
        self.known: list[Status] = []
        self._numbers: dict[tuple[Code, tuple[str, ...], str], int] = {}
        self._last: tuple[Status, int] | None = None

    def number(self, status: Status | None, cluster: str) -> int:
        if self._last is not None and self._last[0] is status:
            return self._last[1]
        if not isinstance(status, Status):
            raise PluginError(f"cluster {cluster}: answered {type(status).__name__}, not a Status")
        if status.code is Code.ERROR:
            raise PluginError(f"cluster {cluster}: {', '.join(status.reasons)}")
        if status.code not in REJECTIONS:
            raise PluginError(f"invalid code {status.code} at Filter (cluster {cluster})")
        key = (status.code, status.reasons, repr(sorted(status.details.items())))
        number = self._numbers.get(key)
        if number is None:
            self.known.append(status)
            number = self._numbers[key] = len(self.known)
        self._last = (status, number)
        return number


def _cluster_error(view: ClusterView, error: Exception) -> PluginError:
    return PluginError(f"cluster {view.name}: {type(error).__name__}: {error}")


_VECTOR_FORMS: Final = {
    "filter": _Adapted._filter,
    "score": _Adapted._score,
    "normalize": _Adapted._normalize,
    "pre_filter": _Adapted._pre_filter,
    "add": _Adapted._add,
    "remove": _Adapted._remove,
}


def _by_name(frame: Frame, rows: int) -> list[int]:
    """Rows in the order of names, so that plugins that keep state also give repeatable results."""
    chosen = to_rows(rows & frame.valid, frame.size)
    ordered: list[int] = chosen[np.argsort(frame.names.rank[chosen])].tolist()
    return ordered


# --- earlier forms of hooks -------------------------------------------------------------------------------------------


class UnreserveOnly:
    """A plugin that reserves nothing, but cleans up after a failed attempt."""

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.__dict__["_plugin"], attribute)

    def reserve(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None:
        del ctx, state, placement, target
        return None


class LegacyPostFilterAdapter:
    """A plugin whose `post_filter` gets the feasible clusters before scoring, as in older frameworks.

    The plugin is called as `post_filter(ctx, state, placement, clusters, statuses)` with the clusters that passed and,
    by name, why others did not. Today's PostFilter is another hook; it is hidden from the framework here.
    """

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "post_filter":
            raise AttributeError(attribute)
        return getattr(self.__dict__["_plugin"], attribute)

    def pre_score(
        self,
        ctx: HookContext,
        state: CycleState,
        req: PlacementRequest,
        frame: Frame,
        feasible: Rows,
        verdicts: Verdicts,
    ) -> Status | None:
        clusters = [ClusterView(frame, row) for row in feasible.tolist()]
        status: Status | None = self._plugin.post_filter(ctx, state, req, clusters, RejectionsByName(verdicts))
        return status


class RejectionsByName(Mapping[str, Status]):
    """Why clusters were rejected, by name. Statuses are built on access."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts

    def __getitem__(self, cluster: str) -> Status:
        row = self._verdicts.frame.row_of(cluster)
        status = None if row is None else self._verdicts.status(row)
        if status is None:
            raise KeyError(cluster)
        return status

    def __iter__(self) -> Iterator[str]:
        return iter(self._verdicts.names(self._verdicts.rejected))

    def __len__(self) -> int:
        return self._verdicts.rejected.bit_count()
