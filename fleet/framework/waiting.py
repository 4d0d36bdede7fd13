"""Placements parked in Permit, as plugins and runners see them.

A parked placement has its clusters reserved and waits until every plugin that asked for time has allowed it. Keeping
such placements, releasing them and watching their deadlines needs a clock and belongs to the scheduler; here is only
the shape in which they are handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from fleet.framework.request import PlacementRequest

MAX_PERMIT_WAIT: Final = 15 * 60 * 1_000_000_000
"""Nanoseconds. No plugin may hold reserved clusters longer, whatever it asks for."""

Deadlines = Mapping[str, Mapping[str, int]]
"""Per target the plugins that asked to wait, each with the moment its patience ends (nanoseconds since the epoch)."""


class WaitingPlacement(Protocol):
    """One parked placement. The first decision about it wins; later ones change nothing and say so."""

    @property
    def uid(self) -> str: ...

    @property
    def placement(self) -> PlacementRequest: ...

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the reserved clusters, best first."""

    @property
    def pending(self) -> Deadlines: ...

    def pending_plugins(self, target: str | None = None) -> list[str]:
        """Whoever has not allowed it yet, sorted; on one target, or on any."""

    def allow(self, plugin: str, target: str = "*") -> bool:
        """False when the plugin was not waited for, or the placement is decided already."""

    def reject(self, plugin: str, message: str) -> bool:
        """False when the placement is decided already."""


class WaitingRoom(Protocol):
    """All parked placements of the process."""

    def for_each(self, visit: Callable[[WaitingPlacement], None]) -> None:
        """Visits a copy, so the visitor may allow and reject."""

    def get(self, uid: str) -> WaitingPlacement | None: ...

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        """False when nobody waits under this UID."""


class EmptyWaitingRoom:
    """Where nothing is ever parked: simulation, replay, tests of decisions."""

    def for_each(self, visit: Callable[[WaitingPlacement], None]) -> None:
        del visit

    def get(self, uid: str) -> WaitingPlacement | None:
        del uid
        return None

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        del uid, plugin, message
        return False
