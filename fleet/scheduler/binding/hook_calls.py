"""Hook calls: effect hooks that are plain functions run in a bounded pool of threads, coroutines with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final

from fleet.errors import PluginError
from fleet.framework.state import CycleState, should_record_metrics
from fleet.framework.status import Code, Status, code_of

HOOK_DEADLINE: Final = 60.0
"""Seconds that a coroutine may take. A thread cannot be stopped: a plain function has to bound its own waits."""

ObservePlugin = Callable[[str, str, Code, float], None]
"""Called with the hook, the plugin, the code of its answer and the seconds it took, for attempts that are measured."""


class HookCalls:
    """Implements `fleet.framework.runtime.effects.HookCaller`. Threads start with the first plain function."""

    def __init__(self, *, threads: int, observe: ObservePlugin, deadline: float = HOOK_DEADLINE) -> None:
        self._executor = ThreadPoolExecutor(threads, "effect-hooks")
        self._observe = observe
        self._deadline = deadline

    async def __call__(self, hook: str, plugin: str, call: Callable[..., Any], *args: Any) -> Any:
        if not any(isinstance(arg, CycleState) and should_record_metrics(arg) for arg in args):
            return await self._call_alive(call, *args)
        started, code = time.perf_counter(), Code.ERROR
        try:
            answer = await self._call_alive(call, *args)
            code = _code_in(answer)
            return answer
        finally:
            self._observe(hook, plugin, code, time.perf_counter() - started)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _call_alive(self, call: Callable[..., Any], *args: Any) -> Any:
        """A plugin that cancels something of its own must not look like the end of the attempt."""
        try:
            return await self._call(call, *args)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise PluginError("its call was cancelled, but not by the scheduler") from error

    async def _call(self, call: Callable[..., Any], *args: Any) -> Any:
        if not iscoroutinefunction(call):
            in_context = partial(copy_context().run, call, *args)
            return await asyncio.get_running_loop().run_in_executor(self._executor, in_context)
        deadline = asyncio.timeout(self._deadline)
        try:
            async with deadline:
                return await call(*args)
        except TimeoutError as error:
            if deadline.expired():
                raise PluginError(f"no answer within {self._deadline:g}s") from error
            raise


def _code_in(answer: object) -> Code:
    status = answer[0] if isinstance(answer, tuple) and answer else answer
    return code_of(status) if isinstance(status, Status) else Code.SUCCESS
