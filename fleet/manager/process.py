"""The controller process: connection, logs, probes, signals and exit codes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from fleet.clock import SystemClock
from fleet.errors import ConfigurationError, LeadershipLost, NotLeading, find_first_error
from fleet.eventloop import handle_first_signal, loop_factory, tune_interpreter
from fleet.manager.config_reload import ConfigReload
from fleet.manager.health import HealthChecks, HealthServer
from fleet.manager.hub_connection import connect
from fleet.manager.logs import configure
from fleet.manager.manager import CONTROLLERS, Manager
from fleet.manager.secret_values import read_secrets
from fleet.manager.watchdog import SHUTDOWN_MARGIN, start_watchdog
from fleet.scheduler.attempt_record import NoRecorder, Recorder
from fleet.settings import Effective, Settings
from fleet.settings.document.substitution import SecretValues

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from fleet.clock import Clock
    from fleet.history import History
    from fleet.kube.api import Api

STOPPED: Final = 0
FAILED: Final = 1

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    settings: Settings
    kubeconfig: Path | None = None
    context: str | None = None
    controllers: frozenset[str] = CONTROLLERS
    config: Path | None = None
    """The file of `effective`; an edit takes effect without a restart."""
    effective: Effective | None = None
    load: Callable[[SecretValues | None, str | None], Effective] | None = None


def run_controller(options: ControllerOptions) -> int:
    """Exit code 0 after a signal; 1 if the lease is lost, an error occurs or keys in flight are cancelled."""
    configure(options.settings.logging.level, options.settings.logging.format)
    tune_interpreter()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(_serve(options))
        except* (LeadershipLost, NotLeading) as lost:
            log.error("lost the lease: exiting, to be restarted", error=str(find_first_error(lost)))
        except* ConfigurationError as wrong:
            raise find_first_error(wrong) from None
    return FAILED


async def _serve(options: ControllerOptions) -> int:
    clock, settings = SystemClock(), options.settings
    async with (
        await connect(settings, kubeconfig=options.kubeconfig, context=options.context, clock=clock) as transport,
        _open_history(settings, clock=clock) as history,
    ):
        manager = Manager(
            transport,
            settings,
            controllers=options.controllers,
            elects=settings.leader_election.leader_elect,
            recorder=_build_recorder(history, settings),
            clock=clock,
        )
        _register_history_metrics(history, manager.registry)
        health = HealthChecks(clock)
        health.add_readiness_check("caches", manager.list_unsynced)
        async with HealthServer(
            health,
            manager.registry,
            health_address=settings.health.address,
            metrics_address=settings.metrics.address,
            find_page=manager.find_page,
            is_profiled=settings.debug.enabled,
            tls=settings.tls,
        ):
            _stop_on_signals(manager, within=settings.shutdown.grace_period.seconds + SHUTDOWN_MARGIN)
            reloading = _start_reload(options, transport, manager, health, clock=clock)
            log.info("started", server=transport.server, controllers=sorted(options.controllers))
            try:
                await manager.run()
            finally:
                if reloading is not None:
                    reloading.cancel()
    log.info("stopped")
    return FAILED if manager.is_cut_off else STOPPED


def _start_reload(
    options: ControllerOptions, hub: Api, manager: Manager, health: HealthChecks, *, clock: Clock
) -> asyncio.Task[None] | None:
    if options.config is None or options.load is None or options.effective is None or manager.scheduler is None:
        return None
    reload = ConfigReload(
        options.config,
        options.effective,
        load=options.load,
        apply=lambda effective: manager.reload(effective.settings),
        registry=manager.registry,
        clock=clock,
        read_secrets=partial(read_secrets, hub),
    )
    health.add_notice("configuration", lambda: reload.problem)
    return asyncio.create_task(reload.run(), name="watching the configuration")


# The history imports the database library, which takes longer than all other imports: only if it is enabled.


@asynccontextmanager
async def _open_history(settings: Settings, *, clock: Clock) -> AsyncIterator[History | None]:
    if settings.history.url is None:
        yield None
        return
    from fleet.recorder.recorder import run_history

    async with run_history(settings, clock=clock) as history:
        yield history


def _build_recorder(history: History | None, settings: Settings) -> Recorder:
    if history is None:
        return NoRecorder()
    from fleet.recorder.recorder import build_recorder

    return build_recorder(history, settings)


def _register_history_metrics(history: History | None, registry: CollectorRegistry) -> None:
    if history is not None:
        from fleet.recorder.metrics import RecorderMetrics

        RecorderMetrics(registry, counts=history.counts, state=history.state)


def _stop_on_signals(manager: Manager, *, within: float) -> None:
    """The first signal starts an ordered shutdown, limited to `within` seconds. The second one loses nothing either."""

    def stop(number: signal.Signals) -> None:
        manager.stop()
        start_watchdog(within)
        log.info("stopping", signal=number.name)

    handle_first_signal(stop)
