"""The plugin's handle on its process: frames, the hub client, watches, and placements waiting in Permit.

Every factory gets the handle of its framework. `Framework` implements it for a running process, `OfflineHandle` for
programs that only decide: simulation, replay and tests. A placement that waits in Permit has its clusters reserved
until every plugin that asked for time has allowed it; the scheduler keeps such placements, because deadlines need a
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from fleet.errors import ConfigurationError, PurityError
from fleet.framework.approvals import ApprovalFacts
from fleet.framework.request import PlacementRequest

if TYPE_CHECKING:
    from fleet.snapshot.frame import Frame

NO_HUB = "there is no hub here: this framework only decides"
NO_WATCHES = "there is nothing to watch here: this framework only decides"
NO_FRAMES = "there is no fleet to look at here: build the framework with a snapshot lister"

MAX_PERMIT_WAIT: Final = 15 * 60 * 1_000_000_000
"""Nanoseconds. The longest wait that Permit plugins may ask for."""

Deadlines = Mapping[str, Mapping[str, int]]
"""Per target the plugins that asked to wait, each with its deadline (nanoseconds since the epoch)."""


class WaitingPlacement(Protocol):
    """One parked placement. The first decision about it wins; later ones have no effect and return False."""

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
        """The plugins that have not allowed it yet, sorted; for a target, or for any."""

    def allow(self, plugin: str, target: str = "*") -> bool:
        """False when the plugin was not waited for, or the placement is decided already."""

    def reject(self, plugin: str, message: str, target: str = "*") -> bool:
        """False when the placement is decided already. In a profile with `partialPermit` the target alone is refused,
        or all that the plugin has not allowed; otherwise the placement as a whole."""


class WaitingRoom(Protocol):
    """All parked placements of the process."""

    def for_each(self, visit: Callable[[WaitingPlacement], None]) -> None:
        """Visits a copy, so the visitor may allow and reject."""

    def get(self, uid: str) -> WaitingPlacement | None: ...

    def allow(self, uid: str, plugin: str, target: str = "*") -> bool:
        """Also while Permit is still running; False when the plugin was not waited for."""

    def reject(self, uid: str, plugin: str, message: str, target: str = "*") -> bool:
        """False when no placement waits under this UID."""


class EmptyWaitingRoom:
    """For simulation, replay and tests of decisions: no placement is ever parked."""

    def for_each(self, visit: Callable[[WaitingPlacement], None]) -> None:
        del visit

    def get(self, uid: str) -> WaitingPlacement | None:
        del uid
        return None

    def allow(self, uid: str, plugin: str, target: str = "*") -> bool:
        del uid, plugin, target
        return False

    def reject(self, uid: str, plugin: str, message: str, target: str = "*") -> bool:
        del uid, plugin, message, target
        return False


class WatchHub(Protocol):
    """Shared watches: one per kind, for any number of handlers."""

    def add_handler(self, kind: str, handler: Callable[..., None]) -> None:
        """The handler is called on the event loop with the former and the present view of an object, None where there
        is none: for every object of the kind that exists when watching starts, then for every change."""

    def start(self) -> None: ...


class NoWatches:
    """For programs that only decide: plugins may add handlers, and no handler is ever called."""

    def add_handler(self, kind: str, handler: Callable[..., None]) -> None:
        del kind, handler

    def start(self) -> None:
        pass


class RoomKeeper(Protocol):
    """Room on clusters that is taken and not reported yet. Called on the event loop."""

    def reserve_room(self, cluster: str, placement: str, requests: Mapping[str, int]) -> None:
        """For the placement with this key, until it is released or a binding there takes its place."""

    def release_room(self, cluster: str, placement: str) -> None: ...


class UnlimitedRoom:
    """For programs that only decide: nothing is ever bound, so nothing is taken."""

    def reserve_room(self, cluster: str, placement: str, requests: Mapping[str, int]) -> None:
        del cluster, placement, requests

    def release_room(self, cluster: str, placement: str) -> None:
        del cluster, placement


class QuotaKeeper(Protocol):
    """Quotas in use by clusters that have no binding yet. Called on the event loop."""

    def reserve_quota(self, cluster: str, placement: str) -> None:
        """For the placement with this key, until it is released or a binding there takes its place."""

    def release_quota(self, cluster: str, placement: str) -> None: ...


class UnlimitedQuota:
    """For programs that only decide."""

    def reserve_quota(self, cluster: str, placement: str) -> None:
        del cluster, placement

    def release_quota(self, cluster: str, placement: str) -> None:
        del cluster, placement


class Handle(RoomKeeper, QuotaKeeper, Protocol):
    """The same object for every plugin of a framework, for the life of the framework."""

    def snapshot(self) -> Frame:
        """The frame of the running attempt, as it was decided on. For decision hooks."""

    def cache_view(self) -> Frame:
        """The current state of the fleet. For effect hooks."""

    def hub(self) -> Any:
        """The hub client (`fleet.kube.api.Api`), whose writes count as those of bindings and fail while this process
        does not lead. For effect hooks that are coroutines; a decision hook that calls this gets a PurityError."""

    def watches(self) -> WatchHub: ...
    def for_each_waiting(self, visit: Callable[[WaitingPlacement], None]) -> None: ...
    def get_waiting(self, uid: str) -> WaitingPlacement | None: ...
    def allow_waiting(self, uid: str, plugin: str, target: str = "*") -> bool: ...
    def reject_waiting(self, uid: str, plugin: str, message: str, target: str = "*") -> bool: ...

    def activate(self, placement: str) -> None:
        """The placement with this key is tried at once, without backoff; if an attempt is under way, right after it.
        Nothing happens to one that no queue has. From any thread."""

    def find_approval_facts(self, placement: str) -> ApprovalFacts:
        """What the hub has about the approvals of the placement with this key. For effect hooks."""


class OfflineHandle(UnlimitedRoom, UnlimitedQuota):
    """Decisions only: no placement waits, and without a hub there are no watches."""

    def __init__(
        self, *, hub: Any = None, watches: WatchHub | None = None, snapshot: Callable[[], Frame] | None = None
    ) -> None:
        self._hub, self._watches, self._snapshot = hub, watches, snapshot
        self._waiting = EmptyWaitingRoom()

    def snapshot(self) -> Frame:
        if self._snapshot is None:
            raise ConfigurationError(NO_FRAMES)
        return self._snapshot()

    def cache_view(self) -> Frame:
        return self.snapshot()

    def hub(self) -> Any:
        if self._hub is None:
            raise PurityError(NO_HUB)
        return self._hub

    def watches(self) -> WatchHub:
        if self._watches is None:
            raise PurityError(NO_WATCHES)
        return self._watches

    def for_each_waiting(self, visit: Callable[[WaitingPlacement], None]) -> None:
        self._waiting.for_each(visit)

    def get_waiting(self, uid: str) -> WaitingPlacement | None:
        return self._waiting.get(uid)

    def allow_waiting(self, uid: str, plugin: str, target: str = "*") -> bool:
        return self._waiting.allow(uid, plugin, target)

    def reject_waiting(self, uid: str, plugin: str, message: str, target: str = "*") -> bool:
        return self._waiting.reject(uid, plugin, message, target)

    def activate(self, placement: str) -> None:
        del placement

    def find_approval_facts(self, placement: str) -> ApprovalFacts:
        del placement
        return ApprovalFacts()
