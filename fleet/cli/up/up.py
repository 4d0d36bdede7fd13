"""`fleet up`: the embedded hub, a simulated fleet and the controller in one process, and what they do in words.

Everybody in this process speaks to the hub over HTTP on the loopback interface, as they would to any other hub.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, TextIO, cast

import msgspec

from fleet.cli.up.api import LOOPBACK, ApiEndpoint, answering, keeping
from fleet.cli.up.display import Overheard, Show, greeting
from fleet.cli.up.interrupts import Interrupts
from fleet.clock import Clock, SystemClock
from fleet.demo.demo import Demo
from fleet.demo.headlines import Headline, Headlines
from fleet.demo.status_rows import is_decided
from fleet.demo.workloads import placement_keys
from fleet.errors import ApiError, ConfigurationError, find_first_error
from fleet.eventloop import loop_factory
from fleet.hub.http.server import Endpoint, HubSettings, serve
from fleet.informers.cache import Caches
from fleet.kube.api import Method, Request
from fleet.kube.client.rate_limiter import RateLimit, RateLimiter
from fleet.kube.client.transport import Transport
from fleet.manager import logs
from fleet.manager.hub_connection import flow_of
from fleet.manager.manager import Manager
from fleet.recorder.recorder import CombinedRecorder, build_recorder
from fleet.settings import Duration, Effective, Settings, load_settings
from fleet.settings.loading import DEFAULT

_HEARTBEAT_TIMEOUT: Final = "eligibility.heartbeatTimeout"
_SHORTEST_TIMEOUT: Final = 30
"""Seconds; with the five minutes of the default, nobody would wait to see a silent cluster drop out."""
_MISSED: Final = 4
_GRACE: Final = 3.0
"""Seconds that the controller gets to finish what it does."""
_GOODBYE: Final = 30.0
"""Seconds in which a server that has stopped to listen has surely ended."""
_QPS: Final = 2000.0
"""More than the hub can serve beside everything else in this process."""
_MANY_MEMBERS: Final = RateLimit(rate=5000, burst=5000)
"""Members are machines of their own: what they send together is not held back here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    clusters: int | None = None
    data_dir: Path | None = None
    port: int = 0
    api_port: int = 0
    ready_file: Path | None = None
    quiet: bool = False
    settings: Sequence[str] = ()
    config: Path | None = None


def run_up(options: Options) -> int:
    effective = load_settings(options.config, os.environ, options.settings)
    _check_writable(options)
    _check_port(options)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            runner.run(_up(options, effective))
        except BaseExceptionGroup as group:
            raise find_first_error(group) from None
    return 0


async def _up(options: Options, effective: Effective) -> None:
    clock = SystemClock()
    with Interrupts() as interrupts:
        async with _hub(options, interrupts) as endpoint, _connected(endpoint, effective, clock) as (own, members):
            if not await _serves(own, interrupts):
                return
            _forget_former(options)
            up = Up(options, effective, endpoint, clock=clock)
            await _until(interrupts.asked, up, own, members)


async def _serves(hub: Transport, interrupts: Interrupts) -> bool:
    """Not if a signal came while the server of the hub had the signals: it ends as soon as it has begun."""
    try:
        await hub.call(Request(Method.GET, "/readyz"))
    except ApiError:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(interrupts.asked.wait(), _GOODBYE)
        if not interrupts.asked.is_set():
            raise
        return False
    return True


async def _until(asked: asyncio.Event, up: Up, own: Transport, members: Transport) -> None:
    running = asyncio.create_task(up.run(own, members), name="up")
    ending = asyncio.create_task(asked.wait(), name="up-asked-to-end")
    try:
        await asyncio.wait({running, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done() and up.stop():
            await asyncio.wait({running}, timeout=_GRACE)
    finally:
        ending.cancel()
        running.cancel()
        await asyncio.wait({running, ending})
    if not running.cancelled():
        running.result()


class Up:
    """The controller and the demo beside each other."""

    def __init__(self, options: Options, effective: Effective, endpoint: Endpoint, *, clock: Clock) -> None:
        self._options = options
        self._effective = effective
        self._endpoint = endpoint
        self._clock = clock
        self._controller: Manager | None = None
        self._shows_view = not options.quiet and sys.stdout.isatty()

    async def run(self, own: Transport, members: Transport) -> None:
        """Until `stop` is called."""
        lines = Lines(sys.stdout)
        publish: Callable[[Headline], None] = (lambda _: None) if self._shows_view else lines.headline
        headlines = Headlines(self._clock, publish=publish)
        self._configure_logs(headlines)
        demo = Demo(members, clock=self._clock, random=Random(), tell=headlines.tell)
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(demo.run(), name="demo")]
            try:
                await demo.begin(self._options.clusters)
                effective = shown_for_the_demo(self._effective, interval=demo.members.interval)
                settings = effective.settings
                async with keeping(settings, self._endpoint, clock=self._clock) as history:
                    recorder = CombinedRecorder(headlines, build_recorder(history, settings))
                    controller = Manager(own, settings, elects=False, recorder=recorder, clock=self._clock)
                    show = Show(controller.caches, headlines, settings, self._endpoint, interval=demo.members.interval)
                    self._controller = controller
                    api = answering(controller, history, own, effective, self._endpoint, port=self._options.api_port)
                    beside.append(tasks.create_task(self._tell(controller, lines, show, api), name="telling"))
                    await controller.run()
                    await _cancelled(beside)  # the API asks the history, which closes now
            finally:
                for task in beside:
                    task.cancel()

    async def _tell(
        self, controller: Manager, lines: Lines, show: Show, api: AbstractAsyncContextManager[ApiEndpoint]
    ) -> None:
        """Until cancelled."""
        await controller.ready()
        await decided(controller.caches, placement_keys())
        async with api as answers:
            if self._options.ready_file is not None:
                write_ready_file(self._options.ready_file, self._endpoint, answers)
            lines.write(greeting(self._endpoint, self._options.data_dir, clusters=len(controller.caches.clusters)))
            if self._shows_view:
                await show.run(self._clock)
            await asyncio.Event().wait()

    def stop(self) -> bool:
        """Says whether there is anything that ends by itself."""
        if self._controller is None:
            return False
        self._controller.stop()
        return True

    def _configure_logs(self, headlines: Headlines) -> None:
        if self._shows_view:
            logs.configure("warning", "console", stream=cast(TextIO, Overheard(headlines)))
        else:
            logs.configure("warning")


class Lines:
    """Plain lines. A reader who has gone away ends the lines and nothing else."""

    def __init__(self, out: TextIO) -> None:
        self._out: TextIO | None = out

    def headline(self, headline: Headline) -> None:
        self.write(str(headline))

    def write(self, text: str) -> None:
        if self._out is None or not text:
            return
        try:
            self._out.write(f"{text}\n")
            self._out.flush()
        except OSError:
            self._out = None


def for_the_demo(effective: Effective, *, interval: float = 0.0) -> Settings:
    """The settings, with less patience for silent clusters and none of the consideration that a shared hub deserves,
    except where somebody has set what they are to be. `interval`: seconds between two heartbeats of a member."""
    settings, origins = effective.settings, effective.origins
    timeout = Duration(f"{max(_SHORTEST_TIMEOUT, round(_MISSED * interval))}s")
    if origins[_HEARTBEAT_TIMEOUT] == DEFAULT:
        settings = _with(settings, "eligibility", heartbeat_timeout=timeout)
    if origins["api.qps"] == DEFAULT:
        settings = _with(settings, "api", qps=_QPS)
    return settings


def shown_for_the_demo(effective: Effective, *, interval: float) -> Effective:
    """With the origins of what the demo has changed."""
    settings = for_the_demo(effective, interval=interval)
    before = effective.settings.collect_changes()
    ours = {name: "fleet up" for name, value in settings.collect_changes().items() if before.get(name) != value}
    return Effective(settings, {**effective.origins, **ours})


def _with(settings: Settings, section: str, **changes: object) -> Settings:
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update=changes)})


async def decided(caches: Caches, keys: Sequence[str]) -> None:
    """Returns once each of these placements that is there has an answer of the scheduler in its status."""
    changed = asyncio.Event()
    for kinds in caches.kinds:
        kinds.placements.store.subscribe(lambda *_: changed.set())
    while not all(_is_answered(caches, key) for key in keys):
        await changed.wait()
        changed.clear()


def _is_answered(caches: Caches, key: str) -> bool:
    placements = (kinds.placements.store.get(key) for kinds in caches.kinds)
    found = next((one for one in placements if one is not None), None)
    return found is None or found.view.metadata.deletion_timestamp is not None or is_decided(found)


# --- the hub ----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _hub(options: Options, interrupts: Interrupts) -> AsyncIterator[Endpoint]:
    listening: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
    settings = HubSettings(data_dir=options.data_dir, port=options.port)
    serving = asyncio.create_task(serve(settings, ready=listening.set_result), name="hub")
    begun: set[asyncio.Future[Any]] = {serving, listening}
    await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
    if not listening.done():
        serving.result()
        raise ConfigurationError("the hub ended before it served")
    interrupts.take_back()  # it has begun, or it would not have said where it listens
    serving.add_done_callback(lambda _: interrupts.asked.set())  # without a hub there is nothing left to do
    try:
        yield listening.result()
    finally:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it calls it an error that watches are cut off
        interrupts.end_server()
        await serving


@contextlib.asynccontextmanager
async def _connected(
    endpoint: Endpoint, effective: Effective, clock: Clock
) -> AsyncIterator[tuple[Transport, Transport]]:
    """The controller's connection, with its budgets, and that of the members."""
    own, theirs = flow_of(for_the_demo(effective), clock), RateLimiter(clock, default=_MANY_MEMBERS)
    path = endpoint.kubeconfig
    async with (
        await Transport.from_kubeconfig(path, clock=clock, rate_limiter=own) as controller,
        await Transport.from_kubeconfig(path, clock=clock, rate_limiter=theirs) as members,
    ):
        yield controller, members


# --- files and processes ----------------------------------------------------------------------------------------------


def write_ready_file(path: Path, endpoint: Endpoint, api: ApiEndpoint) -> None:
    """Readers see all of it or nothing; it names files with secrets, so it is for its owner."""
    known = {
        "hub": endpoint.url,
        "kubeconfig": str(endpoint.kubeconfig.resolve()),
        "api": api.url,
        "tokenFile": str(api.token_file),
    }
    content = msgspec.json.encode(known)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content + b"\n")
    Path(temporary).replace(path)


def _check_writable(options: Options) -> None:
    """Before anything starts, so that the complaint is all there is to read."""
    if options.data_dir is not None:
        _check_folder(options.data_dir, "--data-dir")
    if options.ready_file is not None:
        _check_folder(options.ready_file.parent, "--ready-file")


def _check_folder(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigurationError(f"{option}: cannot write to {folder}: {error.strerror}") from error


def _check_port(options: Options) -> None:
    """The API serves last; by then a former run, whose port it may be, would have lost its ready file."""
    try:
        socket.create_server((LOOPBACK, options.api_port)).close()
    except OSError as error:
        where = f"{LOOPBACK}:{options.api_port}"
        raise ConfigurationError(f"--api-port: cannot listen on {where}: {error.strerror}") from error


def _forget_former(options: Options) -> None:
    """Scripts wait for the new ready file. Not before the hub is ours: whoever is refused must leave that of the other,
    which still runs."""
    if options.ready_file is not None:
        options.ready_file.unlink(missing_ok=True)


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
