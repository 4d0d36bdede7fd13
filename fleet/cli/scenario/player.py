"""Player: runs the controller through a scenario, on a hub in memory and in virtual time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from random import Random
from threading import Timer
from time import time
from typing import Any, Final
from uuid import UUID

from fleet.cli.output.failures import strip_request
from fleet.cli.scenario.actors import leave_out_actors
from fleet.cli.scenario.document import Fill, ScenarioDocument, Step
from fleet.cli.scenario.memory_hub import MemoryHub
from fleet.cli.scenario.simulated_fleet import Move, SimulatedFleet, key_from
from fleet.cli.scenario.virtual_time import VirtualClock, no_jitter, run_virtually
from fleet.demo.agents import RolloutSimulator
from fleet.errors import ApiError, InputError, find_first_error
from fleet.manager.manager import Manager
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.settings import Settings
from fleet.settings.document.feeds import HttpSource

Json = dict[str, Any]

_PAUSE: Final = 0.5
"""Seconds between two looks."""
_LONGEST_ATTEMPT: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedAttempt:
    after: float
    """Seconds since the start of the scenario."""
    placement: str
    triggers: tuple[str, ...]
    result: str
    digest: str
    error: str


@dataclass(slots=True)
class PlayedStep:
    at: str
    title: str
    attempts: list[PlayedAttempt] = field(default_factory=list)
    placed: list[Move] = field(default_factory=list)
    removed: list[Move] = field(default_factory=list)
    short: list[str] = field(default_factory=list)
    """Placements with fewer clusters than they want, when the step ends."""
    fits: int | None = None
    """Of `fill`: how many copies have all their clusters."""
    unmet: list[str] = field(default_factory=list)
    """Expectations that do not hold."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the work for a scenario. The step in which one of them is reached is left out, and those after it."""

    attempts: int
    until: float
    """Seconds since the epoch, of the real clock."""


@dataclass(frozen=True, slots=True)
class Timeline:
    start: datetime
    steps: Sequence[PlayedStep]
    ignored: Mapping[str, int]
    """Documents of kinds that the controllers write themselves, by kind."""
    not_run: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The hooks that act and were left out, by the plugin."""
    cut: str = ""
    """Why the scenario was not played to its end."""

    @property
    def holds(self) -> bool:
        return not self.cut and not any(step.unmet for step in self.steps)

    @property
    def has_failed(self) -> bool:
        failures = {result.value for result in AttemptResult if result.is_failure}
        return any(attempt.result in failures for step in self.steps for attempt in step.attempts)


def play(
    scenario: ScenarioDocument,
    documents: Iterable[Json],
    settings: Settings,
    *,
    start: int,
    bounds: Bounds | None = None,
) -> Timeline:
    """`documents` are on the hub before the first step, at the moment `start`, in nanoseconds since the epoch."""
    _refuse_services(settings)
    try:
        return run_virtually(_play(scenario, list(documents), settings, start=start, bounds=bounds))
    except ExceptionGroup as failures:
        raise find_first_error(failures) from failures


def _refuse_services(settings: Settings) -> None:
    """They are real: they would be asked all of these hours in seconds, and extenders may act."""
    feeds = [feed for feed in settings.feeds if isinstance(feed.source, HttpSource)]
    for field_name, named in (("extenders", settings.extenders), ("feeds", feeds)):
        for each in named:
            message = f"{each.name} is a real service, and scenarios ask none: take it out of the configuration"
            raise InputError(message, field=field_name, value=each.name)


async def _play(
    scenario: ScenarioDocument, documents: list[Json], settings: Settings, *, start: int, bounds: Bounds | None
) -> Timeline:
    began = datetime.fromtimestamp(start / 1e9, UTC)
    clock = VirtualClock(began)
    random = Random(0)  # names and digests follow from uids, and are to be the same in every run
    hub = MemoryHub.boot(
        clock=lambda: clock.now().timestamp(), new_uid=lambda: str(UUID(int=random.getrandbits(128), version=4))
    )
    attempts = _Attempts()
    fleet = SimulatedFleet(hub, clock, settings.eligibility.heartbeat_timeout.seconds)
    ignored = await fleet.load(documents)
    manager = Manager(hub, settings, elects=False, recorder=attempts, clock=clock, jitter=no_jitter)
    assert manager.scheduler is not None
    not_run = leave_out_actors(manager.scheduler.frameworks)
    rollout = RolloutSimulator(hub, clock=clock, jitter=no_jitter)
    player = _Player(fleet, clock, attempts)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(manager.run(), name="controller"),
            group.create_task(rollout.run(), name="rollout"),
            group.create_task(fleet.send_heartbeats(), name="heartbeats"),
        ]
        await manager.ready()
        playing = group.create_task(player.play(scenario), name="player")
        with _watch_bounds(playing, attempts, bounds) as reached:
            await asyncio.wait((playing,))
        manager.stop()
        for task in tasks[1:]:
            task.cancel()
    return Timeline(began, player.steps, ignored, not_run, "".join(reached[:1]))


@contextmanager
def _watch_bounds(playing: asyncio.Task[None], attempts: _Attempts, bounds: Bounds | None) -> Iterator[list[str]]:
    """What is reached of the bounds. The deadline is watched by a thread: a timer of this loop has virtual time."""
    reached: list[str] = []
    if bounds is None:
        yield reached
        return

    def cut(reason: str) -> None:
        reached.append(reason)
        playing.cancel()

    attempts.at_most(bounds.attempts, partial(cut, f"{bounds.attempts} attempts were made"))
    deadline = partial(cut, "the time for one answer was over")
    timer = Timer(max(0.0, bounds.until - time()), asyncio.get_running_loop().call_soon_threadsafe, (deadline,))
    timer.start()
    try:
        yield reached
    finally:
        timer.cancel()
        timer.join()


class _Attempts:
    """A recorder that keeps all attempts."""

    def __init__(self) -> None:
        self.records: list[AttemptRecord] = []
        self._most, self._cut = sys.maxsize, _do_nothing

    def at_most(self, most: int, cut: Callable[[], None]) -> None:
        """`cut` is called when more than these are made."""
        self._most, self._cut = most, cut

    def record(self, attempt: AttemptRecord) -> None:
        self.records.append(attempt)
        if len(self.records) > self._most:
            self._cut()


def _do_nothing() -> None:
    """Without bounds."""


class _Player:
    def __init__(self, fleet: SimulatedFleet, clock: VirtualClock, attempts: _Attempts) -> None:
        self._fleet, self._clock, self._attempts = fleet, clock, attempts
        self._began = clock.monotonic()
        self._start = int(clock.now().timestamp() * 1e9)
        self._reported = 0
        self.steps: list[PlayedStep] = []
        """Those that have ended."""

    async def play(self, scenario: ScenarioDocument) -> None:
        """A step lasts until the next one begins."""
        ends = [step.at.seconds for step in scenario.steps[1:]] + [scenario.end]
        await self._sleep_until(scenario.steps[0].at.seconds)
        moves = set[Move]()
        for number, (step, end) in enumerate(zip(scenario.steps, ends, strict=True)):
            played = PlayedStep(str(step.at), step.note or describe(step))
            played.unmet += [line for each in step.expect if (line := await self._fleet.judge(each))]
            try:
                await self._act(step, played)
            except (ApiError, InputError) as error:
                message = strip_request(str(error))
                raise InputError(message, field=f"steps[{number}]", value=describe(step)) from error
            await self._sleep_until(end)
            before, moves = moves, await self._fleet.list_moves()
            played.placed, played.removed = _sort(moves - before), _sort(before - moves)
            played.short = await self._fleet.list_short()
            played.attempts = list(self._take_attempts())
            self.steps.append(played)

    async def _sleep_until(self, seconds: float) -> None:
        await self._clock.sleep(max(0.0, self._began + seconds - self._clock.monotonic()))

    async def _act(self, step: Step, played: PlayedStep) -> None:
        for document in step.apply:
            await self._fleet.apply(document)
        for deletion in step.delete:
            await self._fleet.delete(deletion.api_version, deletion.kind, deletion.namespace, deletion.name)
        if step.silence is not None:
            self._fleet.silence(await self._fleet.select(step.silence))
        if step.recover is not None:
            await self._fleet.recover(await self._fleet.select(step.recover))
        if step.leave is not None:
            for name in await self._fleet.select(step.leave):
                await self._fleet.remove(name)
        if step.fill is not None:
            played.fits = await self._fill(step.fill)

    async def _fill(self, fill: Fill) -> int:
        template = await self._fleet.get_placement(fill.placement)
        for number in range(1, fill.at_most + 1):
            name = f"{template['metadata']['name']}-{number}"
            metadata = {**template["metadata"], "name": name}
            await self._fleet.apply({**template, "metadata": metadata})
            namespace = metadata.get("namespace")
            key = f"{namespace}/{name}" if namespace else name
            if not await self._is_satisfied(key):
                await self._fleet.delete(template["apiVersion"], template["kind"], namespace or "", name)
                return number - 1
        return fill.at_most

    async def _is_satisfied(self, key: str) -> bool:
        deadline = self._clock.monotonic() + _LONGEST_ATTEMPT
        while self._clock.monotonic() < deadline:
            decided = (each for each in self._attempts.records if str(each.key) == key and each.decision is not None)
            first = next(decided, None)
            if first is not None:
                return first.result is AttemptResult.DECIDED
            await self._clock.sleep(_PAUSE)
        return False

    def _take_attempts(self) -> Iterator[PlayedAttempt]:
        records, self._reported = self._attempts.records[self._reported :], len(self._attempts.records)
        for record in records:
            yield PlayedAttempt(
                after=max(0.0, (record.started - self._start) / 1e9),
                placement=str(record.key),
                triggers=record.triggers,
                result=record.result.value,
                digest="" if record.decision is None else record.decision.digest,
                error=record.failure,
            )


def describe(step: Step) -> str:
    """In a few words what happens."""
    parts = [f"apply {each.get('kind', '')} {key_from(each.get('metadata') or {})}".rstrip() for each in step.apply]
    parts += [f"delete {each.kind} {key_from(each.model_dump())}" for each in step.delete]
    for verb, clusters in (("leave", step.leave), ("silence", step.silence), ("recover", step.recover)):
        if clusters is not None:
            labels = (f"{name}={value}" for name, value in clusters.match_labels.items())
            parts.append(f"{verb} {', '.join(clusters.names or labels)}")
    if step.fill is not None:
        parts.append(f"fill with {step.fill.placement}")
    if step.expect:
        parts.append(f"expect {', '.join(each.placement for each in step.expect)}")
    return "; ".join(parts)


def _sort(moves: Iterable[Move]) -> list[Move]:
    return sorted(moves, key=lambda move: (move.placement, move.cluster))
