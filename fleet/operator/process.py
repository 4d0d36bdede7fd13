"""The operator process: connection, logs, probes, signals and exit codes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from fleet.clock import Clock, SystemClock
from fleet.errors import LeadershipLost, NotLeading, find_first_error
from fleet.eventloop import handle_first_signal, loop_factory
from fleet.manager.health import HealthChecks, HealthServer
from fleet.manager.hub_connection import connect
from fleet.manager.logs import configure
from fleet.operator.local.local_target import LocalTarget, lock_state
from fleet.operator.local.python_launcher import PythonLauncher
from fleet.operator.operator import Operator
from fleet.settings import Settings
from fleet.settings.tree import DEBUG_VERBOSITY

STOPPED: Final = 0
FAILED: Final = 1

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    settings: Settings
    namespace: str
    kubeconfig: Path | None = None
    context: str | None = None
    state: Path | None = None
    """Folder of the local target; None for the hub."""
    environments: Mapping[str, Path] = field(default_factory=dict)
    """Of the local target, by image."""


def run_operator(options: OperatorOptions) -> int:
    """Exit code 0 after a signal; 1 if the lease is lost."""
    configure(options.settings.logging.level, options.settings.logging.format)
    locked = nullcontext() if options.state is None else lock_state(options.state)
    with locked, asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            runner.run(_serve(options))
            return STOPPED
        except* (LeadershipLost, NotLeading) as lost:
            log.error("lost the lease: exiting, to be restarted", error=str(find_first_error(lost)))
    return FAILED


def _set_verbosity(settings: Settings, verbosity: int) -> None:
    level = "debug" if verbosity >= DEBUG_VERBOSITY else settings.logging.level
    configure(level, settings.logging.format)


def _build_target(options: OperatorOptions, clock: Clock) -> LocalTarget | None:
    if options.state is None:
        return None
    given = {"--kubeconfig": options.kubeconfig, "--context": options.context}
    connection = [f"{name}={value}" for name, value in given.items() if value is not None]
    return LocalTarget(options.state, PythonLauncher(options.environments, connection), clock=clock)


async def _serve(options: OperatorOptions) -> None:
    clock, settings = SystemClock(), options.settings
    async with await connect(settings, kubeconfig=options.kubeconfig, context=options.context, clock=clock) as hub:
        operator = Operator(
            hub,
            options.namespace,
            clock=clock,
            target=_build_target(options, clock),
            set_verbosity=partial(_set_verbosity, settings),
        )
        health = HealthChecks(clock)
        health.add_readiness_check("caches", operator.list_unsynced)
        async with HealthServer(
            health,
            CollectorRegistry(),
            health_address=settings.health.address,
            metrics_address=settings.metrics.address,
        ):
            handle_first_signal(lambda _: operator.stop())
            log.info("started", server=hub.server, namespace=options.namespace)
            await operator.run()
    log.info("stopped")
