"""Scenarios, which run a whole controller in virtual time: in a process of their own, one after the other.

The process has the lowest priority, ends by itself when the time is over, and with the request that waits for it.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from api.http.problems import busy, unavailable
from fleet.errors import InputError
from fleet.settings import Settings

MOST_ATTEMPTS: Final = 2000
SECONDS: Final = 22.0
"""Until a scenario is cut short: its process may take some more to begin and to end, and answers have 30."""
_GRACE: Final = 5.0
_MODULE: Final = "fleet.cli.scenario"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioInputs:
    scenario: dict[str, Any]
    """Its steps, and when it ends."""
    documents: Sequence[dict[str, Any]]
    """What is on the hub when it begins."""
    settings: Settings
    start: int


class ScenarioRunner:
    def __init__(self, *, seconds: float = SECONDS, attempts: int = MOST_ATTEMPTS) -> None:
        self.seconds = seconds
        self.attempts = attempts
        self._is_running = False

    async def run(self, inputs: ScenarioInputs) -> tuple[dict[str, Any], str]:
        """The report, and the same as text. Raises InputError for a scenario that cannot be played."""
        if self._is_running:
            raise busy(1, "scenarios", seconds=self.seconds)
        self._is_running = True
        try:
            answer = await self._run(inputs)
        finally:
            self._is_running = False
        if "problem" in answer:
            raise InputError(answer["problem"], field=answer["field"])
        return answer["report"], answer["text"]

    async def _run(self, inputs: ScenarioInputs) -> dict[str, Any]:
        given = {name: getattr(inputs, name) for name in inputs.__slots__}
        sent = pickle.dumps({**given, "attempts": self.attempts, "until": time.time() + self.seconds})
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", _MODULE, stdin=pipe, stdout=pipe)
        try:
            async with asyncio.timeout(self.seconds + _GRACE):
                output, _ = await process.communicate(sent)
        except TimeoutError:
            raise unavailable("the scenario did not begin in time", "ask for less, or use fleet simulate") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise unavailable("the process of the scenario failed; the log has the reason")
        answer: dict[str, Any] = msgspec.json.decode(output)
        return answer
