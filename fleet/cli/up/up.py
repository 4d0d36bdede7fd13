"""`fleet up`: the embedded hub, a simulated fleet and the controller in one process.

All of them use the hub over HTTP on the loopback interface, as they would use any other hub.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TextIO, cast

import msgspec

from fleet.cli.progress import show_progress
from fleet.cli.up.api import LOOPBACK, ApiEndpoint, open_up_history, serve_api
from fleet.cli.up.display import LogHeadlines, UpView, render_greeting
from fleet.clock import Clock, SystemClock
from fleet.demo.demo import Demo
from fleet.demo.headlines import Headline, Headlines
from fleet.demo.status_rows import is_decided
from fleet.demo.workloads import placement_keys
from fleet.errors import ConfigurationError, find_first_error
from fleet.eventloop import handle_first_signal, loop_factory, tune_interpreter
from fleet.hub.http.server import Endpoint, HubSettings, serve_hub
from fleet.informers.cache import Caches
from fleet.kube.client.rate_limiter import RateLimiter
from fleet.kube.client.transport import Transport
from fleet.manager import logs
from fleet.manager.config_reload import ConfigReload
from fleet.manager.hub_connection import build_rate_limiter
from fleet.manager.manager import Manager
from fleet.recorder.recorder import CombinedRecorder, build_recorder
from fleet.scheduler.profiles.configuration import build_profiles, find_more_problems
from fleet.settings import Duration, Effective, Settings, load_settings
from fleet.settings.document.substitution import NO_SOURCES, NamedSources
from fleet.settings.loading import DEFAULT

_HEARTBEAT_TIMEOUT: Final = "eligibility.heartbeatTimeout"
_SHORTEST_TIMEOUT: Final = 30
"""Seconds; the default of five minutes is too long to watch a silent cluster become ineligible."""
_MISSED: Final = 4
_GRACE: Final = 3.0
"""Seconds for the controller to finish work in flight."""
_SEED: Final = 20
"""Of the demo: members begin and behave alike in every run."""
_MEMBER_WRITES: Final = 256
"""Members are separate machines in reality, so their requests are not limited together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    clusters: int | None = None
    data_dir: Path | None = None
    port: int = 0
    api_port: int = 0
    ready_file: Path | None = None
    quiet: bool = False
    settings: Sequence[str] = ()
    config: Path | None = None
    sources: NamedSources = NO_SOURCES


def run_up(options: UpOptions) -> int:
    effective = load_up_settings(options)
    build_profiles(effective.settings)
    _check_writable(options)
    _check_port(options)
    tune_interpreter()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            runner.run(_up(options, effective))
        except BaseExceptionGroup as group:
            raise find_first_error(group) from None
    return 0


def load_up_settings(options: UpOptions) -> Effective:
    effective = load_settings(
        options.config, os.environ, options.settings, find_more=find_more_problems, sources=options.sources
    )
    if effective.secret_names:
        raise ConfigurationError("substitution.fromSecret: fleet up reads no Secrets; name variables in fromEnv")
    return effective


async def _up(options: UpOptions, effective: Effective) -> None:
    clock, stop_requested = SystemClock(), asyncio.Event()
    handle_first_signal(lambda _: stop_requested.set())
    async with _hub(options, stop_requested) as endpoint, _connect(endpoint, effective, clock) as (own, members):
        if not stop_requested.is_set():
            _remove_ready_file(options)
            up = Up(options, effective, endpoint, clock=clock)
            await _run_until_stopped(stop_requested, up, own, members)


async def _run_until_stopped(stop_requested: asyncio.Event, up: Up, own: Transport, members: Transport) -> None:
    running = asyncio.create_task(up.run(own, members), name="up")
    ending = asyncio.create_task(stop_requested.wait(), name="up-stop")
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
    """The controller and the demo, running side by side."""

    def __init__(self, options: UpOptions, effective: Effective, endpoint: Endpoint, *, clock: Clock) -> None:
        self._options = options
        self._effective = effective
        self._endpoint = endpoint
        self._clock = clock
        self._controller: Manager | None = None
        self._shows_view = not options.quiet and sys.stdout.isatty()

    async def run(self, own: Transport, members: Transport) -> None:
        """Run until `stop` is called."""
        lines = LineWriter(sys.stdout)
        publish: Callable[[Headline], None] = (lambda _: None) if self._shows_view else lines.headline
        headlines = Headlines(self._clock, publish=publish)
        self._configure_logs(headlines)
        demo = Demo(members, clock=self._clock, random=Random(_SEED), announce=headlines.announce)
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(demo.run(), name="demo")]
            try:
                await demo.begin(self._options.clusters)
                effective = adapt_effective(self._effective, interval=demo.members.interval)
                settings = effective.settings
                async with open_up_history(settings, self._endpoint, clock=self._clock) as history:
                    recorder = CombinedRecorder(headlines, build_recorder(history, settings))
                    controller = Manager(own, settings, elects=False, recorder=recorder, clock=self._clock)
                    show = UpView(
                        controller.caches, headlines, settings, self._endpoint, interval=demo.members.interval
                    )
                    self._controller = controller
                    api = serve_api(controller, history, own, effective, self._endpoint, port=self._options.api_port)
                    watch = partial(
                        self._watch_config, controller, headlines, effective, interval=demo.members.interval
                    )
                    telling = self._announce(controller, lines, show, api, watch)
                    beside.append(tasks.create_task(telling, name="telling"))
                    await controller.run()
                    await _cancel(beside)  # the API uses the history, which is closed next
            finally:
                for task in beside:
                    task.cancel()

    async def _announce(
        self,
        controller: Manager,
        lines: LineWriter,
        show: UpView,
        api: AbstractAsyncContextManager[ApiEndpoint],
        watch: Callable[[Path, ApiEndpoint], ConfigReload],
    ) -> None:
        """Until cancelled."""
        with show_progress("starting") if self._shows_view else contextlib.nullcontext():
            await controller.ready()
            await wait_until_decided(controller.caches, placement_keys())
        async with api as answers:
            if self._options.ready_file is not None:
                write_ready_file(self._options.ready_file, self._endpoint, answers)
            lines.write(
                render_greeting(
                    self._endpoint,
                    self._options.data_dir,
                    api=answers.url,
                    explorer=answers.explorer.get(),
                    clusters=len(controller.caches.clusters),
                )
            )
            async with asyncio.TaskGroup() as tasks:
                if self._options.config is not None:
                    tasks.create_task(watch(self._options.config, answers).run(), name="watching the configuration")
                if self._shows_view:
                    await show.run(self._clock, api=answers.url, link=answers.explorer.get)
                await asyncio.Event().wait()

    def _watch_config(
        self,
        controller: Manager,
        headlines: Headlines,
        effective: Effective,
        file: Path,
        api: ApiEndpoint,
        *,
        interval: float,
    ) -> ConfigReload:
        def apply(edited: Effective) -> None:
            assert controller.scheduler is not None, "fleet up schedules"
            controller.scheduler.reload(edited.settings)
            api.reload(edited)
            headlines.announce("configuration", f"reloaded from {file}")

        reload = ConfigReload(
            file,
            effective,
            load=lambda *_: adapt_effective(load_up_settings(self._options), interval=interval),
            apply=apply,
            registry=controller.registry,
            clock=self._clock,
        )
        api.notices["configuration"] = lambda: reload.problem
        return reload

    def stop(self) -> bool:
        """Returns whether a controller is running, which then stops by itself."""
        if self._controller is None:
            return False
        self._controller.stop()
        return True

    def _configure_logs(self, headlines: Headlines) -> None:
        if self._shows_view:
            logs.configure("warning", "console", stream=cast(TextIO, LogHeadlines(headlines)))
        else:
            logs.configure("warning")


class LineWriter:
    """Writes plain lines. A closed pipe stops the output, not the process."""

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


def adapt_settings(effective: Effective, *, interval: float = 0.0) -> Settings:
    """Shorten the heartbeat timeout, unless set explicitly.

    `interval`: seconds between two heartbeats of a member."""
    settings, origins = effective.settings, effective.origins
    timeout = Duration(f"{max(_SHORTEST_TIMEOUT, round(_MISSED * interval))}s")
    if origins[_HEARTBEAT_TIMEOUT] == DEFAULT:
        settings = _override(settings, "eligibility", heartbeat_timeout=timeout)
    return settings


def adapt_effective(effective: Effective, *, interval: float) -> Effective:
    """Likewise, with the origins of the changed settings."""
    settings = adapt_settings(effective, interval=interval)
    before = effective.settings.collect_changes()
    ours = {name: "fleet up" for name, value in settings.collect_changes().items() if before.get(name) != value}
    return replace(effective, settings=settings, origins={**effective.origins, **ours})


def _override(settings: Settings, section: str, **changes: object) -> Settings:
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update=changes)})


async def wait_until_decided(caches: Caches, keys: Sequence[str]) -> None:
    """Return once the scheduler has answered in the status of each existing placement of these."""
    changed = asyncio.Event()
    for kinds in caches.kinds:
        kinds.placements.store.subscribe(lambda *_: changed.set())
    while not all(_is_answered(caches, key) for key in keys):
        await changed.wait()
        changed.clear()


def _is_answered(caches: Caches, key: str) -> bool:
    placements = (kinds.placements.store.get(key) for kinds in caches.kinds)
    placement = next((match for match in placements if match is not None), None)
    return placement is None or placement.view.metadata.deletion_timestamp is not None or is_decided(placement)


# --- the hub ----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _hub(options: UpOptions, stop_requested: asyncio.Event) -> AsyncIterator[Endpoint]:
    """It stops after those that use it."""
    unused = asyncio.Event()
    listening: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
    settings = HubSettings(data_dir=options.data_dir, port=options.port)
    serving = asyncio.create_task(serve_hub(settings, stop=unused, ready=listening.set_result), name="hub")
    begun: set[asyncio.Future[Any]] = {serving, listening}
    await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
    if not listening.done():
        serving.result()
        raise ConfigurationError("the hub stopped before it was ready")
    serving.add_done_callback(lambda _: stop_requested.set())  # without a hub everything stops
    try:
        yield listening.result()
    finally:
        unused.set()
        await serving


@contextlib.asynccontextmanager
async def _connect(
    endpoint: Endpoint, effective: Effective, clock: Clock
) -> AsyncIterator[tuple[Transport, Transport]]:
    """Connections of the controller, with its rate limits, and of the members."""
    own, theirs = build_rate_limiter(adapt_settings(effective), clock), RateLimiter(clock, concurrency=_MEMBER_WRITES)
    path = endpoint.kubeconfig
    async with (
        await Transport.from_kubeconfig(path, clock=clock, rate_limiter=own) as controller,
        await Transport.from_kubeconfig(path, clock=clock, rate_limiter=theirs) as members,
    ):
        yield controller, members


# --- files and processes ----------------------------------------------------------------------------------------------


def write_ready_file(path: Path, endpoint: Endpoint, api: ApiEndpoint) -> None:
    """Written atomically and readable by its owner only, because it names files with secrets."""
    known = {
        "hub": endpoint.url,
        "kubeconfig": str(endpoint.kubeconfig.resolve()),
        "api": api.url,
        "tokenFile": str(api.token_file),
        "ui": api.explorer.get(),
    }
    content = msgspec.json.encode(known)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content + b"\n")
    Path(temporary).replace(path)


def _check_writable(options: UpOptions) -> None:
    """Check before anything starts, so that the error is the only output."""
    if options.data_dir is not None:
        _check_folder(options.data_dir, "--data-dir", is_made=True)
    if options.ready_file is not None:
        _check_folder(options.ready_file.parent, "--ready-file", is_made=False)


def _check_folder(folder: Path, option: str, *, is_made: bool) -> None:
    try:
        if is_made:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigurationError(f"{option}: cannot write to {folder}: {error.strerror}") from error


def _check_port(options: UpOptions) -> None:
    """Check early: the API starts last, after the ready file of a previous run has been removed."""
    from fleet.serving import bind

    try:
        bind(LOOPBACK, options.api_port).close()
    except OSError as error:
        where = f"{LOOPBACK}:{options.api_port}"
        raise ConfigurationError(f"--api-port: cannot listen on {where}: {error.strerror}") from error


def _remove_ready_file(options: UpOptions) -> None:
    """Scripts wait for the new ready file. Remove the old one only once the hub's data is locked: if it is in use, the
    file belongs to the run that is still going on."""
    if options.ready_file is not None:
        options.ready_file.unlink(missing_ok=True)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
