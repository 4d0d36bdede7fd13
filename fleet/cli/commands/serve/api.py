"""`fleet api`: the API in its own process, separate from the controller.

Imported only when the command runs, so that `fleet --help` stays fast.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from api.app import create_app, reload_app
from api.auth.access import HubAuthorizer
from api.auth.front_proxy import FrontProxy
from api.auth.sealing import Sealer
from api.http.server import ListenOptions, serve_app
from api.live.live import LiveState
from fleet.clock import SystemClock
from fleet.errors import ConfigurationError, find_first_error
from fleet.eventloop import handle_first_signal, leave_out_present_objects, loop_factory, tune_interpreter
from fleet.history import History
from fleet.kube.backoff import JITTER
from fleet.manager import logs
from fleet.manager.config_reload import ConfigReload
from fleet.manager.hub_connection import connect
from fleet.manager.secret_values import read_first_secrets, read_secrets
from fleet.manager.watchdog import SHUTDOWN_MARGIN, start_watchdog
from fleet.recorder.metrics import HistoryMetrics
from fleet.recorder.recorder import open_history
from fleet.scheduler.profiles.configuration import build_profiles, find_more_problems
from fleet.settings import Address, Effective, load_settings
from fleet.settings.document.substitution import NO_SOURCES, NamedSources, SecretValues

FINE = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """The options of the command line."""

    address: str = "127.0.0.1:8090"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    plain_http: bool = False
    aggregated: bool = False
    explain_only: bool = False
    config: Path | None = None
    sources: NamedSources = NO_SOURCES
    settings: Sequence[str] = ()
    kubeconfig: Path | None = None
    context: str | None = None
    ready_file: Path | None = None


def run_api(options: ApiOptions) -> int:
    """Run until SIGTERM or SIGINT."""
    effective = _load(options)
    if effective.secret_names:
        secrets = read_first_secrets(effective, kubeconfig=options.kubeconfig, context=options.context)
        effective = _load(options, secrets)
    build_profiles(effective.settings)
    listening = ListenOptions(
        address=_address(options.address),
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        plain_http=options.plain_http,
    )
    listening.check()
    if options.aggregated and options.tls_cert is None:
        raise ConfigurationError("--aggregated: the API server proxies over TLS only; give --tls-cert and --tls-key")
    if options.kubeconfig is not None and not options.kubeconfig.is_file():
        raise ConfigurationError(f"--kubeconfig: there is no file {options.kubeconfig}")
    logs.configure(effective.settings.logging.level, effective.settings.logging.format)
    tune_interpreter()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(options, effective, listening))
    except BaseExceptionGroup as group:
        raise find_first_error(group) from None
    return FINE


def _load(options: ApiOptions, secrets: SecretValues | None = None, text: str | None = None) -> Effective:
    return load_settings(
        options.config,
        os.environ,
        options.settings,
        secrets=secrets,
        text=text,
        find_more=find_more_problems,
        sources=options.sources,
    )


async def _serve(options: ApiOptions, effective: Effective, listening: ListenOptions) -> None:
    clock, stopping = SystemClock(), asyncio.Event()

    def stop(_: signal.Signals) -> None:
        stopping.set()
        start_watchdog(effective.settings.shutdown.grace_period.seconds + SHUTDOWN_MARGIN)

    handle_first_signal(stop)
    async with (
        _open_history(effective) as history,
        await connect(
            effective.settings, kubeconfig=options.kubeconfig, context=options.context, clock=clock
        ) as transport,
        asyncio.TaskGroup() as tasks,
    ):
        live = LiveState.standalone(transport, effective.settings, clock=clock, jitter=JITTER)
        if history is not None:
            HistoryMetrics(live.registry, state=history.state)
        watching = [tasks.create_task(live.run(), name="watching")]
        if live.feeds is not None:
            watching.append(tasks.create_task(live.feeds.run(), name="sampling feeds"))
        front_proxy = FrontProxy(transport, clock=clock) if options.aggregated else None
        app = create_app(
            live,
            history,
            HubAuthorizer(transport, clock=clock),
            effective,
            front_proxy=front_proxy,
            sealer=None if options.tls_key is None else Sealer(options.tls_key),
            explains_other=options.explain_only,
        )
        if options.config is not None:
            reload = ConfigReload(
                options.config,
                effective,
                load=partial(_load, options),
                apply=lambda edited: reload_app(app, edited),
                registry=live.registry,
                clock=clock,
                read_secrets=partial(read_secrets, transport),
            )
            app.state.shared.backend.notices["configuration"] = lambda: reload.problem
            watching.append(tasks.create_task(reload.run(), name="watching the configuration"))
        try:
            if front_proxy is not None:
                await front_proxy.load()
                watching.append(tasks.create_task(front_proxy.watch(), name="front proxy"))
            authorities = None if front_proxy is None else lambda: front_proxy.authorities
            async with serve_app(app, listening, clock=clock, client_authorities=authorities) as url:
                await _wait_until_ready(live, stopping)
                leave_out_present_objects()
                if not stopping.is_set():
                    _announce(options, url)
                await stopping.wait()
        finally:
            for task in watching:
                task.cancel()
            app.state.shared.backend.close()
            live.frameworks.close()


@asynccontextmanager
async def _open_history(effective: Effective) -> AsyncIterator[History | None]:
    """The history that the controller writes, opened for reading."""
    history = await asyncio.to_thread(open_history, effective.settings)
    if history is not None:
        history.watch()
    try:
        yield history
    finally:
        if history is not None:
            await asyncio.to_thread(history.close)


async def _wait_until_ready(live: LiveState, stopping: asyncio.Event) -> None:
    synced = asyncio.ensure_future(live.caches.wait_until_synced())
    stop = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({synced, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        synced.cancel()
        stop.cancel()


def _announce(options: ApiOptions, url: str) -> None:
    sys.stdout.write(f"The API listens at {url}. Press Ctrl-C to stop.\n")
    sys.stdout.flush()
    if options.ready_file is not None:
        descriptor, temporary = tempfile.mkstemp(dir=options.ready_file.parent, prefix=options.ready_file.name)
        with os.fdopen(descriptor, "w") as file:
            file.write(json.dumps({"api": url}) + "\n")
        Path(temporary).replace(options.ready_file)


def _address(text: str) -> Address:
    try:
        return TypeAdapter(Address).validate_python(text)
    except ValidationError as error:
        raise ConfigurationError(f"--address: {text!r} is not {Address.expected}") from error
