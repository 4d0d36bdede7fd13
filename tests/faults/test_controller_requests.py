"""Every single request of a controller meets every fault that makes sense for it: the end is always the same.

Each step of the scenario is played from a hub at rest, so every run also is a restart. The short form takes a few steps
for each fault, and of each step one request; the long one takes all of them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any, Final

import pytest

from fleet.kube.api import Request
from tests.faults.controller.faults import FAULTS, Applies
from tests.faults.controller.line import Fault, at
from tests.faults.controller.scenario import STEPS
from tests.faults.controller.stage import Checkpoint, checkpoints, replay, staged
from tests.faults.virtual import run_virtually

pytestmark = pytest.mark.timeout(1200)

LONG: Final = os.environ.get("FLEET_LONG", "") not in ("", "0")


@functools.cache
def requests_of(number: int) -> tuple[Request, ...]:
    """What a controller asks for that starts before this step and is not disturbed."""

    async def run() -> tuple[Request, ...]:
        async with staged(checkpoints()[number]) as stage:
            await replay(stage, [checkpoints()[number + 1].outcome], [STEPS[number]])
            return tuple(stage.lines[0].requests)

    return run_virtually(run())


async def spoilt(start: Checkpoint, end: Checkpoint, *, step: int, request: int, fault: Fault) -> None:
    async with staged(start, script=lambda life: at(request if life == 0 else -1, fault)) as stage:
        await replay(stage, [end.outcome], [STEPS[step]])
        assert stage.lines[0].met, f"request {request} was never made"


def chosen(numbers: list[int], position: int, *, all_of_them: bool) -> list[int]:
    """All requests, or one; different ones for different faults."""
    return numbers if all_of_them else [numbers[position * 37 % len(numbers)]]


def cases() -> Iterator[Any]:
    """Of each fault all steps, or two of the seven; others for the next fault."""
    for position, name in enumerate(FAULTS):
        for step, action in enumerate(STEPS):
            if LONG or (step + 2 * position) % len(STEPS) < 2:
                yield pytest.param(step, name, id=f"{action.__name__}-{name}".replace(" ", "_"))


@pytest.mark.servers  # a run of the scenario for each request
@pytest.mark.parametrize("step, name", list(cases()))
def test_a_fault_at_a_request_changes_nothing_in_the_end(step: int, name: str) -> None:
    fault, applies = FAULTS[name]
    start, end = checkpoints()[step : step + 2]
    numbers = numbers_of(step, applies)
    position = step + list(FAULTS).index(name)
    for request in chosen(numbers, position, all_of_them=LONG):
        run_virtually(spoilt(start, end, step=step, request=request, fault=fault))


def numbers_of(step: int, applies: Applies) -> list[int]:
    return [number for number, request in enumerate(requests_of(step)) if applies(request)]
