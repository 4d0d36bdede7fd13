"""The API in the process of a controller: it looks at the controller's own objects."""

from __future__ import annotations

from api.live.live import Live
from fleet.clock import Clock, SystemClock
from fleet.errors import ConfigurationError
from fleet.manager.manager import Manager


def live_of(controller: Manager, *, clock: Clock | None = None) -> Live:
    scheduler = controller.scheduler
    if scheduler is None:
        raise ConfigurationError("the API needs a controller that schedules; add scheduler to --controllers")
    return Live(
        controller.caches,
        scheduler.framework,
        scheduler.table.frame,
        clock=clock or SystemClock(),
        registry=controller.registry,
        queue=scheduler.queue,
    )
