"""Where a decision spends its time: every hook of every plugin, seen by the probe that a controller would use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from fleet.framework.cycle.cycle import DecisionInput, decide
from plugins.default_profile import compile_default
from tests.bench.decisions import FORMS, later, questions
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import frame_of
from tests.bench.measuring import Run
from tests.bench.stopwatch import Step, clock, measure

Hook = tuple[str, str]

_FLEET: Final = 10_000
_PICKS: Final = {"plain": 10, "spread": 10, "hard": 100}
_REST: Final = ("outside plugins", "")


class HookTimes:
    """A probe: nanoseconds per hook and plugin."""

    def __init__(self) -> None:
        self.spent: dict[Hook, int] = defaultdict(int)

    def measure(self, hook: str, plugin: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        start = clock()
        answer = call(*args, **named)
        self.spent[hook, plugin] += clock() - start
        return answer


def hook_times(run: Run) -> Iterator[Figure]:
    frame, profile = frame_of(_FLEET), compile_default()
    for form, picks in _PICKS.items():
        asked = questions(frame, FORMS[form], picks=picks, profile=profile)
        hooks = _hooks_called(asked[0])
        samples = measure(_probing(asked, hooks), run.effort)
        for (hook, plugin), sample in zip([*hooks, _REST], samples, strict=True):
            part = f"{form}, {picks} picks"
            yield run.figure(f"{hook} {plugin}".strip(), part, Kind.MICROSECONDS, sample, informal=True)


def _hooks_called(inp: DecisionInput) -> list[Hook]:
    probe = HookTimes()
    decide(inp, probe)
    return list(probe.spent)


def _probing(asked: list[DecisionInput], hooks: list[Hook]) -> Step:
    def step(number: int) -> list[int]:
        probe, inp = HookTimes(), later(asked[number % len(asked)], number)
        start = clock()
        decide(inp, probe)
        total = clock() - start
        return [*(probe.spent[hook] for hook in hooks), total - sum(probe.spent.values())]

    return step
