"""Framework options: the inputs other than registry and profile, and callables that set one each.

Options are applied in the order given, so a later one wins over an earlier one and over `Options(...)` given whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fleet.errors import ConfigurationError
from fleet.framework.cycle.runner import NULL_PROBE, Probe
from fleet.framework.handle import MAX_PERMIT_WAIT, EmptyWaitingRoom, WaitingRoom, WatchHub
from fleet.framework.state import CycleState, Lock
from fleet.snapshot.frame import Frame

_SECOND: Final = 1_000_000_000

SnapshotLister = Callable[[], Frame]
FrameworkOption = Callable[["FrameworkOptions"], "FrameworkOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkOptions:
    hub: Any = None
    watches: WatchHub | None = None
    frames: SnapshotLister | None = None
    waiting: WaitingRoom = field(default_factory=EmptyWaitingRoom)
    new_lock: Callable[[], Lock] | None = None
    """For cycle states that several threads share; without one, states are for a single thread."""
    probe: Probe = NULL_PROBE
    """Measures the plugins of sampled attempts."""
    metrics_percent: int = 10
    """Of attempts, to measure plugin by plugin."""
    max_permit_wait: int = MAX_PERMIT_WAIT
    """Nanoseconds."""
    debug: bool = False
    """Refuse uses that work only by chance, such as reading the decision's frame in a binding cycle."""

    def __post_init__(self) -> None:
        if not 0 <= self.metrics_percent <= 100:
            raise ConfigurationError(f"metrics sampling: {self.metrics_percent} is not in 0 … 100 percent")
        if not _SECOND <= self.max_permit_wait <= MAX_PERMIT_WAIT:
            seconds = self.max_permit_wait / _SECOND
            raise ConfigurationError(f"maxPermitWaitSeconds: {seconds:g} is not in 1 … {MAX_PERMIT_WAIT // _SECOND}")

    def samples(self, attempt: int) -> bool:
        """Whether to measure the process's n-th attempt: evenly spread, and exactly the configured share."""
        return attempt * self.metrics_percent % 100 < self.metrics_percent

    def new_state(self, attempt: int) -> CycleState:
        measured = self.samples(attempt)
        if self.new_lock is None:
            return CycleState(record_metrics=measured)
        return CycleState(new_lock=self.new_lock, record_metrics=measured)


def with_hub_client(client: Any) -> FrameworkOption:
    return lambda options: replace(options, hub=client)


def with_watch_hub(watches: WatchHub) -> FrameworkOption:
    """Started once all plugins of all profiles that are built together have added their handlers."""
    return lambda options: replace(options, watches=watches)


def with_snapshot_lister(lister: SnapshotLister) -> FrameworkOption:
    """The source of frames: the live cache, or a what-if."""
    return lambda options: replace(options, frames=lister)


def with_waiting_room(room: WaitingRoom) -> FrameworkOption:
    return lambda options: replace(options, waiting=room)


def with_locks(new_lock: Callable[[], Lock]) -> FrameworkOption:
    return lambda options: replace(options, new_lock=new_lock)


def with_probe(probe: Probe) -> FrameworkOption:
    return lambda options: replace(options, probe=probe)


def with_metrics_sampling(percent: int) -> FrameworkOption:
    return lambda options: replace(options, metrics_percent=percent)


def with_max_permit_wait(nanoseconds: int) -> FrameworkOption:
    return lambda options: replace(options, max_permit_wait=nanoseconds)


def with_debug() -> FrameworkOption:
    return lambda options: replace(options, debug=True)
