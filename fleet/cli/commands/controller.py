"""`fleet controller`: from what the command line says to a controller that runs.

Imported only when the command runs, so that `fleet --help` waits for nothing.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.cli.input.problems import did_you_mean
from fleet.errors import ConfigurationError
from fleet.settings import Effective, load_settings
from fleet.settings.loading import Flag

PLACEMENT: Final = "placement"
SCHEDULER: Final = "scheduler"
CONTROLLERS: Final = (PLACEMENT, SCHEDULER)
BAD_INPUT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """As they stand on the command line."""

    config: Path | None = None
    settings: Sequence[str] = ()
    kubeconfig: Path | None = None
    context: str | None = None
    controllers: str = ",".join(CONTROLLERS)
    health_address: str | None = None
    metrics_address: str | None = None
    leader_elect: bool | None = None


def run_controller_command(options: Options, environ: Mapping[str, str] = os.environ) -> int:
    """The exit code. Everything that is wrong is told before anything is started."""
    problems: list[str] = []
    controllers = _controllers(options.controllers, problems)
    effective = _effective(options, environ, problems)
    if options.kubeconfig is not None and not options.kubeconfig.is_file():
        problems.append(f"--kubeconfig: there is no file {options.kubeconfig}")
    if problems or effective is None:
        _tell(problems)
        return BAD_INPUT
    return _run(options, effective, controllers)


def _run(options: Options, effective: Effective, controllers: frozenset[str]) -> int:
    with _uncollected():
        import structlog

        from fleet.manager.logs import configure
        from fleet.manager.process import ControllerOptions, run_controller

    settings = effective.settings
    configure(settings.logging.level, settings.logging.format)
    log = structlog.get_logger(__name__)
    for name, value in settings.collect_changes().items():
        log.info("setting", name=name, value=value, origin=effective.origins[name])
    return run_controller(
        ControllerOptions(
            settings=settings, kubeconfig=options.kubeconfig, context=options.context, controllers=controllers
        )
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing of what is imported is garbage, and looking for it takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _controllers(text: str, problems: list[str]) -> frozenset[str]:
    names = [name for part in text.split(",") if (name := part.strip())]
    for name in names:
        if name not in CONTROLLERS:
            hint = did_you_mean(name, CONTROLLERS) or f"; there are {' and '.join(CONTROLLERS)}"
            problems.append(f"--controllers: no controller named {name!r}{hint}")
    if not names:
        problems.append(f"--controllers: nothing would run; name {' or '.join(CONTROLLERS)}, or both")
    return frozenset(names)


def _effective(options: Options, environ: Mapping[str, str], problems: list[str]) -> Effective | None:
    try:
        return load_settings(options.config, environ, options.settings, flags=_flags(options))
    except ConfigurationError as error:
        problems += str(error).splitlines()
        return None


def _flags(options: Options) -> Iterator[Flag]:
    """Options that are another way to write a setting."""
    if options.health_address is not None:
        yield Flag("--health-address", "health.address", options.health_address)
    if options.metrics_address is not None:
        yield Flag("--metrics-address", "metrics.address", options.metrics_address)
    if options.leader_elect is not None:
        option = "--leader-elect" if options.leader_elect else "--no-leader-elect"
        yield Flag(option, "leaderElection.leaderElect", str(options.leader_elect).lower())


def _tell(problems: Sequence[str]) -> None:
    for problem in problems:
        sys.stderr.write(f"error: {problem}\n")
    counted = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    sys.stderr.write(f"{counted}, nothing was started\n")
