"""Plugins that act on decisions, as a package installs them: they note every call and answer as a test says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from fleet.clock import Clock
from fleet.framework.explaining import HintRegistration
from fleet.framework.handle import Handle
from fleet.framework.profiles.adapter import UnreserveOnly
from fleet.framework.status import Code, Status
from fleet.kube.api import Api
from fleet.manager.manager import Manager
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.settings import Settings
from fleet.settings.loading import load_settings
from tests.conftest import LONG
from tests.e2e.world import World
from tests.fake_hub import Faults, FaultyApi, fair
from tests.faults.controller import line as lines
from tests.faults.controller.line import Killed, Line
from tests.faults.hub_api import HubApi
from tests.faults.virtual import VirtualClock, no_jitter
from tests.installed import an_installed_package

HOOKS: Final = ("reserve", "permit", "preBind", "postBind")
TWO: Final = {"placementType": "PickN", "numberOfClusters": 2}
_OFF: Final = ("metrics.address=off", "health.address=off", "eligibility.heartbeatTimeout=8760h")
_QUICK: Final = ("resourceSnapshots.minimumInterval=0s", "resourceSnapshots.collectionTime=0s", "api.qps=10000")

Answer = Callable[[str], Any]
"""Of a hook for a cluster."""


@dataclass
class Script:
    """What the plugins of one test answer, and what they were called for."""

    journal: list[str] = field(default_factory=list)
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    """By plugin and hook: an answer for all clusters, or a function of the cluster."""
    handles: dict[str, Handle] = field(default_factory=dict)
    states: list[Any] = field(default_factory=list)
    """Of the attempts that came to Reserve."""
    on_made: Callable[[Acting, Handle], None] = lambda *_: None
    seen: list[tuple[str, Any, Any]] = field(default_factory=list)
    """By plugins whose `see` handles a watch, and by Keeping: hook and placement, what was kept, and the state."""

    def act(self, plugin: str, hook: str, cluster: str) -> Any:
        self.journal.append(f"{plugin}.{hook}({cluster})")
        answer = self.answers.get((plugin, hook))
        given = answer(cluster) if callable(answer) else answer
        if isinstance(given, Exception):
            raise given
        return given


class Acting:
    """At every hook that acts; its Bind leaves every target to the next binder unless the test says otherwise."""

    script = Script()

    def __init__(self, raw: Any = None, handle: Handle | None = None) -> None:
        if handle is not None:
            self.script.handles[self.name()] = handle
            self.script.on_made(self, handle)

    def see(self, old: Any, new: Any) -> None:
        self.script.seen.append((self.name(), old, new))

    def pre_filter(self, ctx: Any, state: Any, req: Any, frame: Any) -> Any:
        return self.script.act(self.name(), "pre_filter", "")

    def name(self) -> str:
        return type(self).__name__

    async def reserve(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        self.script.states.append(state)
        return await self._act("reserve", target)

    async def unreserve(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        await self._act("unreserve", target)

    async def permit(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        return await self._act("permit", target)

    async def pre_bind(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        return await self._act("pre_bind", target)

    async def bind(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        return await self._act("bind", target) or Status.new(Code.SKIP)

    async def post_bind(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        return await self._act("post_bind", target)

    async def _act(self, hook: str, target: Any) -> Any:
        given = self.script.act(self.name(), hook, target.cluster)
        return await given if asyncio.iscoroutine(given) else given


class First(Acting):
    pass


class Second(Acting):
    pass


class Quota(Acting):
    """What it refuses may be reserved when others have given it back."""

    def queueing_hints(self) -> tuple[HintRegistration, ...]:
        return (HintRegistration("Binding/Delete"),)


class Plain:
    """The same with plain functions."""

    def __init__(self, raw: Any = None, handle: Handle | None = None) -> None:
        pass

    def name(self) -> str:
        return "Plain"

    def reserve(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        return Acting.script.act("Plain", "reserve", target.cluster)

    def unreserve(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        Acting.script.act("Plain", "unreserve", target.cluster)

    def pre_bind(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        return Acting.script.act("Plain", "pre_bind", target.cluster)


class Looking(Acting):
    """Looks whether there is something to prepare."""

    async def pre_bind_preflight(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        return await self._act("pre_bind_preflight", target)


class _Kept(NamedTuple):
    placement: str

    def clone(self) -> _Kept:
        return self


class Keeping(Acting):
    """Keeps in the state of the attempt which placement is decided. Notes what it finds there, and the state itself."""

    def pre_filter(self, ctx: Any, state: Any, req: Any, frame: Any) -> Any:
        self._note("pre_filter", req.key, state)
        state.write("keeping", _Kept(req.key))

    async def reserve(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        self._note("reserve", placement.key, state)

    async def permit(self, ctx: Any, state: Any, placement: Any, target: Any) -> Any:
        self._note("permit", placement.key, state)

    def _note(self, hook: str, key: str, state: Any) -> None:
        kept = state.read("keeping", default=None)
        self.script.seen.append((f"{hook} {key}", None if kept is None else kept.placement, state))


class _Undoing:
    def name(self) -> str:
        return "Undoing"

    async def unreserve(self, ctx: Any, state: Any, placement: Any, target: Any) -> None:
        Acting.script.act("Undoing", "unreserve", target.cluster)


def make_undoing(raw: Any = None, handle: Handle | None = None) -> UnreserveOnly:
    return UnreserveOnly(_Undoing())


_PLUGINS: Final = {name: name for name in ("First", "Second", "Quota", "Plain", "Looking", "Keeping")} | {
    "Undoing": "make_undoing"
}
SOURCE: Final = f"from tests.faults.acting import {', '.join(_PLUGINS.values())}\n"


@contextmanager
def acting_plugins(folder: Path) -> Iterator[Script]:
    """They are installed, and do nothing in particular yet."""
    script = Acting.script = Script()
    with an_installed_package(folder, SOURCE, _PLUGINS):
        yield script


def at_every_hook(*plugins: str, **profile: Any) -> str:
    """A document whose only profile has these plugins at every hook that acts, before the default binder."""
    named = ", ".join(f"{{name: {plugin}}}" for plugin in plugins)
    hooks = [f"    {hook}: {{enabled: [{named}]}}" for hook in HOOKS]
    hooks.append(
        f"    bind: {{disabled: [{{name: HubBindingBinder}}], enabled: [{named}, {{name: HubBindingBinder}}]}}"
    )
    return a_document("\n".join(hooks), **profile)


def a_document(hooks: str, **profile: Any) -> str:
    fields = "".join(f"\n  {name}: {value}" for name, value in profile.items())
    return (
        "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
        f"profiles:\n- schedulerName: DefaultScheduler{fields}\n  plugins:\n{hooks}\n"
    )


@dataclass
class Running:
    """A controller at work, and what it recorded."""

    world: World
    controller: Manager
    records: list[AttemptRecord] = field(default_factory=list)

    def record(self, attempt: AttemptRecord) -> None:
        self.records.append(attempt)

    @property
    def scheduler(self) -> Any:
        return self.controller.scheduler

    def of(self, key: str) -> list[AttemptRecord]:
        return [one for one in self.records if one.key == PlacementKey.parse(key)]

    def endings(self, key: str) -> list[AttemptResult]:
        return [one.result for one in self.of(key)]

    def sample(self, name: str, labels: Mapping[str, str]) -> float:
        return self.controller.registry.get_sample_value(name, dict(labels)) or 0.0


class _Killed(Exception):
    pass


@asynccontextmanager
async def killed(site: AbstractAsyncContextManager[Running]) -> AsyncIterator[Running]:
    """The same, and at the end the process is gone without a word."""
    with suppress(_Killed):
        async with site as opened:
            yield opened
            raise _Killed


def load(file: Path, *assignments: str) -> Settings:
    return load_settings(file, {}, [*_OFF, *_QUICK, "api.burst=10000", *assignments]).settings


@asynccontextmanager
async def running(
    hub: HubApi,
    file: Path,
    text: str,
    *assignments: str,
    fault: Faults = fair,
    clock: Clock | None = None,
    through: Api | None = None,
) -> AsyncIterator[Running]:
    """`through` is the line between the controller and the hub."""
    file.write_text(text, encoding="utf-8")
    settings = load(file, *assignments)
    recorder: Any = Running(World(hub), None)  # type: ignore[arg-type]
    controller = recorder.controller = Manager(
        FaultyApi(through or hub, fault),
        settings,
        elects=False,
        recorder=recorder,
        clock=clock or VirtualClock(),
        jitter=no_jitter,
    )
    task = asyncio.create_task(controller.run(), name="controller")
    try:
        await controller.ready()
        yield recorder
        controller.stop()
        await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, BaseExceptionGroup):
            await task


async def live_until_killed(
    hub: HubApi, file: Path, text: str, *assignments: str, faults: lines.Faults = lines.fair, seconds: float = 60.0
) -> Line:
    """A controller until one of the faults kills it, or for so long."""
    dead = asyncio.Event()
    line = Line(hub, faults=faults, rng=Random(1), on_kill=dead.set)
    async with killed(running(hub, file, text, *assignments, through=line)):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await dead.wait()
        line.cut(None)
    return line


def list_deaths(undisturbed: Line, paths: re.Pattern[str]) -> list[tuple[int, lines.Fault]]:
    """One at each write of these paths, which is lost, done, or done later, in turn; in a long run, each of them."""
    requests = enumerate(undisturbed.requests)
    writes = [number for number, request in requests if request.is_write and paths.search(request.path)]
    kinds = (Killed(), Killed(arrives=0.0), Killed(arrives=3.0))
    return [
        (number, kind)
        for place, number in enumerate(writes)
        for kind in (kinds if LONG else kinds[place % len(kinds) :][:1])
    ]
