"""Plugins written for hooks that are no longer separate, made to fit today's.

An author registers the adapter instead of the plugin:
`registry.register("Old", lambda raw, handle: UnreserveOnly(Old(raw, handle)))`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fleet.framework.runtime.adapter import ClusterView
from fleet.framework.status import Status

if TYPE_CHECKING:
    from fleet.framework.context import Attempt
    from fleet.framework.cycle.decision import Target
    from fleet.framework.request import PlacementRequest
    from fleet.framework.state import CycleState
    from fleet.framework.verdicts import Verdicts
    from fleet.snapshot.columns.bitset import Rows
    from fleet.snapshot.frame import Frame


class UnreserveOnly:
    """A plugin that books nothing itself but cleans up after an attempt that failed."""

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.__dict__["_plugin"], attribute)

    def reserve(self, ctx: Attempt, state: CycleState, placement: PlacementRequest, target: Target) -> Status | None:
        del ctx, state, placement, target
        return None


class LegacyPostFilterAdapter:
    """A plugin whose `post_filter` is told of feasible clusters before scoring, as older frameworks did.

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
        ctx: Attempt,
        state: CycleState,
        req: PlacementRequest,
        frame: Frame,
        feasible: Rows,
        verdicts: Verdicts,
    ) -> Status | None:
        clusters = [ClusterView(frame, row) for row in feasible.tolist()]
        status: Status | None = self._plugin.post_filter(ctx, state, req, clusters, RejectedClusters(verdicts))
        return status


class RejectedClusters(Mapping[str, Status]):
    """Why clusters were rejected, by name. A status is made when it is read."""

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
