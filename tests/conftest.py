"""What holds for every test: which examples Hypothesis draws, and when the long tests run."""

from __future__ import annotations

import functools
import gc
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import structlog
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

from tests.control_plane import tier
from tests.control_plane.process import GO

LONG = os.environ.get("FLEET_LONG", "") not in ("", "0")
IN_CI = bool(os.environ.get("CI"))
LOGGERS = [
    logging.getLogger(name)
    for name in ("root", "aiohttp.access", "asyncio", "kubernetes", "uvicorn", "uvicorn.access", "uvicorn.error")
]
"""Those that a process of Fleet configures."""
GC_THRESHOLDS = 10_000, 50, 50
SIGNALS = signal.SIGINT, signal.SIGTERM
"""Those that it waits for. Event loops of uvloop keep them when they are closed."""
ALONE = "FLEET_TEST_ALONE"
"""Set in the process that a test marked `alone` has for itself."""

# No deadline, and slow drawing is no mistake: a busy machine is not a failure, pytest-timeout catches what hangs. In CI
# the examples are the same in every run, so that a change is judged by what it changed; the search for new ones happens
# on laptops and in long runs.
settings.register_profile(
    "fleet",
    deadline=None,
    derandomize=IN_CI and not LONG,
    print_blob=True,
    max_examples=1000 if LONG else 50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fleet")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The modules and tests that are loaded here stay: the garbage collector need not walk through them ever again.

    What comes to stay later it walks through as seldom as in a controller, or that takes a quarter of the tests' time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before `-m` is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Marks what needs servers. What hangs is noticed later in a long run, which draws ten times as many examples."""
    tier.mark(items)
    for item in items if LONG else ():
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))
    yield
    if not config.getoption("loadscopereorder", default=True):
        tier.order(items)


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """At any time some tests wait, for processes and for clocks, so that one worker more finds a free processor."""
    return (yield) + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What `make test` leaves out as a whole is not even read."""
    if config.option.markexpr == "not servers" and tier.is_left_out(collection_path):
        return True
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    tier.enter(item)
    if item.get_closest_marker("cel") and find_spec("cel_expr_python") is None:
        pytest.skip("there is no cel-expr-python for this Python")
    if item.get_closest_marker("long") and not LONG:
        pytest.skip("long: runs with FLEET_LONG=1 (make test-long)")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test marked `alone` without the threads of fixtures that live as long as the worker."""
    if not pyfuncitem.get_closest_marker("alone") or ALONE in os.environ:
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-m", "", pyfuncitem.nodeid]
    run = subprocess.run(
        command, cwd=pyfuncitem.config.rootpath, env={**os.environ, ALONE: "1"}, capture_output=True, text=True
    )
    if run.returncode:
        pytest.fail(f"{run.stdout}{run.stderr}", pytrace=False)
    return True


@pytest.fixture(scope="session")
def long() -> bool:
    """Whether this is a long run, for tests that only scale with it."""
    return LONG


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests do not find the fleets of whoever works on this machine, nor the other way round."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FLEET_API", "FLEET_TOKEN_FILE", "KUBECONFIG"):
            patch.delenv(name, raising=False)
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        for name, value in GO.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session", autouse=True)
def commands_built_once() -> Iterator[None]:
    """Typer takes every command apart anew for each call, which costs more than most commands that tests run here."""
    build = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", build)
        patch.setattr(typer.testing, "_get_command", build)
        yield


@pytest.fixture(autouse=True)
def unconfigured_process() -> Iterator[None]:
    """What one test configures for the whole process is not the next one's."""
    before = [(logger, list(logger.handlers), logger.level, logger.propagate) for logger in LOGGERS]
    waiting = [(number, signal.getsignal(number)) for number in SIGNALS]
    callbacks = list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*GC_THRESHOLDS)
    for number, handler in waiting:
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)
    for logger, handlers, level, propagate in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        if logger.level != level:
            logger.setLevel(level)
    structlog.reset_defaults()
