"""Waiting store: what has to survive a restart of attempts that wait, or that prepare their clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from fleet.framework.request import PlacementRequest
from fleet.model.placement_key import PlacementKey

PERMIT: Final = "Permit"
PRE_BIND: Final = "PreBind"
PREEMPTION: Final = "Preemption"


class WaitingEntry(NamedTuple):
    """A plugin that has not allowed a cluster yet. Times are nanoseconds since the epoch."""

    cluster: str
    plugin: str
    rule: str
    """Of the plugin, that asks for the wait; may be empty."""
    since: int
    deadline: int | None
    """None: nothing is reserved, and the placement is tried again when the plugin has an answer."""


class NominatedCluster(NamedTuple):
    """A chosen cluster, to be chosen again by the next attempt."""

    cluster: str
    since: int
    cause: str


@dataclass(frozen=True, slots=True)
class WaitingState:
    uid: str
    """Of the placement."""
    waiting: tuple[WaitingEntry, ...] = ()
    nominated: tuple[NominatedCluster, ...] = ()
    message: str = ""
    """Why it waits, in a sentence; empty while nothing waits."""
    generation: int = 0
    """Of the placement, when its clusters were chosen."""
    options_generation: int = 0
    """Of its options, set by the store; 0 without a spec of their own."""

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not self.nominated

    @property
    def is_under_way(self) -> bool:
        """An attempt waits for answers, or prepares its clusters. Questions that stay open belong to no attempt."""
        return any(entry.deadline is not None for entry in self.waiting) or any(
            target.cause == PRE_BIND for target in self.nominated
        )


class WaitingStore(Protocol):
    def load(self, key: PlacementKey, uid: str) -> WaitingState:
        """As published last, own writes included; empty for another UID."""

    def resume(self, key: PlacementKey, request: PlacementRequest) -> WaitingState:
        """The same for an attempt, without what another one was about, before the placement or its options changed."""

    async def publish(self, key: PlacementKey, state: WaitingState) -> None:
        """Returns when it is stored; retries by itself. Raises only what ends all work, such as a lost lease."""

    def forget(self, key: PlacementKey) -> None:
        """The placement is gone."""
