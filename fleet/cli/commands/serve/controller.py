"""`fleet controller`: runs the controller with the options of the command line.

Imported only when the command runs, so that `fleet --help` stays fast.
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

from fleet.errors import ConfigurationError
from fleet.settings import Effective, Settings, load_settings
from fleet.settings.document.substitution import NO_SOURCES, NamedSources, SecretValues
from fleet.settings.loading import Flag
from fleet.settings.tree import DEBUG_VERBOSITY
from fleet.similarity import did_you_mean

PLACEMENT: Final = "placement"
SCHEDULER: Final = "scheduler"
CONTROLLERS: Final = (PLACEMENT, SCHEDULER)
BAD_INPUT: Final = 2
_MOST_VERBOSE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerCommandOptions:
    """The options of the command line."""

    config: Path | None = None
    sources: NamedSources = NO_SOURCES
    settings: Sequence[str] = ()
    kubeconfig: Path | None = None
    context: str | None = None
    controllers: str = ",".join(CONTROLLERS)
    health_address: str | None = None
    metrics_address: str | None = None
    leader_elect: bool | None = None
    verbosity: str = "2"


def run_controller_command(options: ControllerCommandOptions, environ: Mapping[str, str] = os.environ) -> int:
    """Returns the exit code. All problems are reported before anything is started."""
    problems: list[str] = []
    controllers = _parse_controllers(options.controllers, problems)
    if _parse_verbosity(options.verbosity) is None:
        problems.append(f"-v: {options.verbosity.removeprefix('=')!r} is no number from 0 to {_MOST_VERBOSE}")
    effective = _load_effective(options, environ, problems)
    if options.kubeconfig is not None and not options.kubeconfig.is_file():
        problems.append(f"--kubeconfig: there is no file {options.kubeconfig}")
    if problems or effective is None:
        _print_problems(problems)
        return BAD_INPUT
    return _run(options, effective, controllers, environ)


def _run(
    options: ControllerCommandOptions,
    effective: Effective,
    controllers: frozenset[str],
    environ: Mapping[str, str],
) -> int:
    with _pause_gc():
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
            settings=settings,
            kubeconfig=options.kubeconfig,
            context=options.context,
            controllers=controllers,
            config=options.config,
            effective=effective,
            load=lambda secrets, text: _load(options, environ, secrets, text),
        )
    )


@contextmanager
def _pause_gc() -> Iterator[None]:
    """Imports create no garbage, and collections would take a tenth of the import time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _parse_controllers(text: str, problems: list[str]) -> frozenset[str]:
    names = [name for part in text.split(",") if (name := part.strip())]
    for name in names:
        if name not in CONTROLLERS:
            hint = did_you_mean(name, CONTROLLERS) or f"; there are {' and '.join(CONTROLLERS)}"
            problems.append(f"--controllers: no controller named {name!r}{hint}")
    if not names:
        problems.append(f"--controllers: the list is empty; give {' or '.join(CONTROLLERS)}, or both")
    return frozenset(names)


def _parse_verbosity(text: str) -> int | None:
    """`-v=4` has the form that other components of Kubernetes take, `-v 4` that of the other options."""
    digits = text.removeprefix("=")
    return int(digits) if digits.isascii() and digits.isdigit() and int(digits) <= _MOST_VERBOSE else None


def _load_effective(
    options: ControllerCommandOptions, environ: Mapping[str, str], problems: list[str]
) -> Effective | None:
    try:
        effective = _load(options, environ)
        if effective.secret_names:
            effective = _load(options, environ, _read_secrets(options, effective))
        if effective.settings.profiles:  # else there is nothing to check, and the import takes a while
            from fleet.scheduler.profiles.configuration import build_profiles

            build_profiles(effective.settings)
        return effective
    except ConfigurationError as error:
        problems += str(error).splitlines()
        return None


def _load(
    options: ControllerCommandOptions,
    environ: Mapping[str, str],
    secrets: SecretValues | None = None,
    text: str | None = None,
) -> Effective:
    flags = _collect_flags(options)
    return load_settings(
        options.config,
        environ,
        options.settings,
        flags=flags,
        secrets=secrets,
        text=text,
        find_more=_find_more_problems,
        sources=options.sources,
    )


def _find_more_problems(settings: Settings, problems: Sequence[str]) -> list[str]:
    from fleet.scheduler.profiles.configuration import find_more_problems

    return find_more_problems(settings, problems)


def _read_secrets(options: ControllerCommandOptions, effective: Effective) -> SecretValues:
    from fleet.manager.secret_values import read_first_secrets

    return read_first_secrets(effective, kubeconfig=options.kubeconfig, context=options.context)


def _collect_flags(options: ControllerCommandOptions) -> Iterator[Flag]:
    """Options that set a setting."""
    if options.health_address is not None:
        yield Flag("--health-address", "health.address", options.health_address)
    if options.metrics_address is not None:
        yield Flag("--metrics-address", "metrics.address", options.metrics_address)
    if options.leader_elect is not None:
        option = "--leader-elect" if options.leader_elect else "--no-leader-elect"
        yield Flag(option, "leaderElection.leaderElect", str(options.leader_elect).lower())
    if (_parse_verbosity(options.verbosity) or 0) >= DEBUG_VERBOSITY:
        yield Flag("-v", "logging.level", "debug")


def _print_problems(problems: Sequence[str]) -> None:
    for problem in problems:
        sys.stderr.write(f"error: {problem}\n")
    counted = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    sys.stderr.write(f"{counted}, nothing was started\n")
