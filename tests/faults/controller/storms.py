"""Lives that end at random requests, in weather that is good or bad."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from fleet.kube.api import Request
from tests.faults.controller.faults import FAULTS
from tests.faults.controller.line import Fault, Faults, Killed, Late, fair

LONGEST_LIFE: Final = 120
"""In requests; it takes about forty to begin with work."""
SHORTEST_LIFE: Final = 1


_WEATHER: Final = [case for case in FAULTS.values() if not isinstance(case[0], Killed | Late)]


@dataclass
class Storm:
    """So many deaths, and then peace. `spoilt` is the share of requests that meet another fault meanwhile."""

    rng: Random
    deaths: int
    spoilt: float = 0.0
    latest_arrival: float = 0.0
    """Seconds after which the last thing that a dead process sent has arrived."""
    died: int = field(default=0, init=False)

    def __call__(self, life: int) -> Faults:
        return fair if life >= self.deaths else self._life(self.rng.randint(SHORTEST_LIFE, LONGEST_LIFE))

    def _life(self, length: int) -> Faults:
        def fault(number: int, request: Request) -> Fault:
            if number >= length:
                self.died += 1
                return Killed(arrives=self._arrival())
            return self._weather(request)

        return fault

    def _arrival(self) -> float | None:
        return self.rng.choice((None, 0.0, self.rng.uniform(0.0, self.latest_arrival)))

    def _weather(self, request: Request) -> Fault:
        if self.rng.random() >= self.spoilt:
            return None
        return self.rng.choice([fault for fault, applies in _WEATHER if applies(request)])
