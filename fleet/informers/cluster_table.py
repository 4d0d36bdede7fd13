"""The columns that decisions read, kept equal to the watched member clusters."""

from __future__ import annotations

from fleet.kube.cache.store import Store
from fleet.model.views import MemberCluster
from fleet.snapshot.frame import Frame
from fleet.snapshot.table import Table


class FleetTable:
    """Built at the first call of `frame`, then updated row by row: adding all rows one by one would cost more."""

    def __init__(self, clusters: Store[MemberCluster]) -> None:
        self._clusters = clusters
        self._table: Table | None = None
        clusters.subscribe(self._update)

    def frame(self) -> Frame:
        if self._table is None:
            self._table = Table(self._clusters.values())
        return self._table.freeze()

    def _update(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if self._table is None:
            return
        if new is not None:
            self._table.put(new)
        elif old is not None:
            self._table.remove(old.metadata.name)
