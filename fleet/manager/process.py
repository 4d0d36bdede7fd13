"""The controller as a process of its own: connection, logs, probes, signals and exit codes."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from fleet.clock import SystemClock
from fleet.errors import ConfigurationError, LeadershipLost, NotLeading, find_first_error
from fleet.eventloop import loop_factory
from fleet.manager.health import Health, HealthServer
from fleet.manager.hub_connection import connect
from fleet.manager.logs import configure
from fleet.manager.manager import CONTROLLERS, Manager
from fleet.manager.watchdog import AFTERWARDS, end_within
from fleet.scheduler.attempt_record import NoRecorder, Recorder
from fleet.settings import Settings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from fleet.clock import Clock
    from fleet.history import History

_COLLECTING: Final = (10_000, 50, 50)
"""Thresholds of the garbage collector. Hardly anything here is part of a cycle: the usual ones find nothing, often."""

STOPPED: Final = 0
FAILED: Final = 1

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    settings: Settings
    kubeconfig: Path | None = None
    context: str | None = None
    controllers: frozenset[str] = CONTROLLERS


def run_controller(options: ControllerOptions) -> int:
    """Until a signal says stop (exit code 0), or the lease is lost, something breaks or work is cut off (1)."""
    configure(options.settings.logging.level, options.settings.logging.format)
    gc.set_threshold(*_COLLECTING)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(_serve(options))
        except* (LeadershipLost, NotLeading) as lost:
            log.error("the lease is lost, so this process ends; start it again", error=str(find_first_error(lost)))
        except* ConfigurationError as wrong:
            raise find_first_error(wrong) from None
    return FAILED


async def _serve(options: ControllerOptions) -> int:
    clock, settings = SystemClock(), options.settings
    async with (
        await connect(settings, kubeconfig=options.kubeconfig, context=options.context, clock=clock) as transport,
        _history(settings, clock=clock) as history,
    ):
        controller = Manager(
            transport,
            settings,
            controllers=options.controllers,
            elects=settings.leader_election.leader_elect,
            recorder=_recorder(history, settings),
            clock=clock,
        )
        _tell_about(history, controller.registry)
        health = Health(clock)
        health.require("caches", controller.missing)
        async with HealthServer(
            health,
            controller.registry,
            health_address=settings.health.address,
            metrics_address=settings.metrics.address,
        ):
            _stop_on_signals(controller, within=settings.shutdown.grace_period.seconds + AFTERWARDS)
            log.info("started", server=transport.server, controllers=sorted(options.controllers))
            await controller.run()
    log.info("stopped")
    return FAILED if controller.is_cut_off else STOPPED


# The history brings the library of a database, which takes longer to load than all the rest: only where it is kept.


@asynccontextmanager
async def _history(settings: Settings, *, clock: Clock) -> AsyncIterator[History | None]:
    if settings.history.url is None:
        yield None
        return
    from fleet.recorder.recorder import run_history

    async with run_history(settings, clock=clock) as history:
        yield history


def _recorder(history: History | None, settings: Settings) -> Recorder:
    if history is None:
        return NoRecorder()
    from fleet.recorder.recorder import build_recorder

    return build_recorder(history, settings)


def _tell_about(history: History | None, registry: CollectorRegistry) -> None:
    if history is not None:
        from fleet.recorder.metrics import RecorderMetrics

        RecorderMetrics(registry, counts=history.counts, state=history.state)


def _stop_on_signals(controller: Manager, *, within: float) -> None:
    """The first asks for an orderly end, within so many seconds. The second ends the process as it is: nothing is lost
    by that either."""
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        log.info("stopping", signal=number.name)
        controller.stop()
        end_within(within)
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
