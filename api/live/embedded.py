"""The live state of a controller in the same process: the API reads the controller's own objects."""

from __future__ import annotations

from api.live.live import LiveState
from fleet.clock import Clock, SystemClock
from fleet.errors import ConfigurationError
from fleet.manager.manager import Manager
from fleet.placement.selection.resource_filter import build_resource_filter


def build_live_state(controller: Manager, *, clock: Clock | None = None) -> LiveState:
    scheduler = controller.scheduler
    if scheduler is None:
        raise ConfigurationError("the API needs a controller that schedules; add scheduler to --controllers")
    return LiveState(
        controller.caches,
        scheduler.frameworks,
        scheduler.table.frame,
        clock=clock or SystemClock(),
        registry=controller.registry,
        queue=scheduler.queue,
        hub=controller.hub,
        feeds=scheduler.feeds,
        resource_filter=build_resource_filter(controller.settings),
        writes=controller.api,
        annotations_of=scheduler.read_annotations,
    )
