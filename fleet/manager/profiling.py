"""Profiles of this process while it works: where its processor time goes, what its threads and tasks wait for, and what
its memory holds.

Stacks are sampled from outside, a hundred times a second: nothing is instrumented, and a process that is not being
profiled pays nothing. Short calls are found by chance, in proportion to their time.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from fleet.checkpoint import check
from fleet.text_table import Page, finish, render_table

_INTERVAL: Final = 0.01
_DEEPEST: Final = 100
"""Calls of a stack: the innermost ones are kept."""
_MOST_TASKS: Final = 1000
_MOST_TYPES: Final = 50
_CHECKED_EVERY: Final = 10_000
"""Objects."""
_MICROSECOND: Final = 1000


def profile_cpu(seconds: float) -> str:
    """Folded stacks: a line for each, with the thread, the calls from the outermost to the innermost, and microseconds
    of processor time. Where the system does not tell the time of a thread, waiting counts too."""
    spent: Counter[str] = Counter()
    before: dict[threading.Thread, int] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        check()
        for thread, frame in _list_stacks():
            used = _read_cpu_time(thread)
            more = used - before.get(thread, used)
            before[thread] = used
            if more > 0:
                spent[_fold(thread.name, frame)] += more
        time.sleep(_INTERVAL)
    return "".join(f"{stack} {nanoseconds // _MICROSECOND}\n" for stack, nanoseconds in spent.most_common())


def describe_stacks(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Of threads, then of tasks; the innermost call last."""
    known = sorted(tasks, key=lambda task: task.get_name())
    blocks = [_format_stack(f"thread {thread.name}", _iter_calls(frame)) for thread, frame in _list_stacks()]
    blocks += [_format_stack(f"task {task.get_name()}", _iter_awaits(task)) for task in known[:_MOST_TASKS]]
    if len(known) > _MOST_TASKS:
        blocks.append(f"and {len(known) - _MOST_TASKS} more tasks\n")
    return "\n".join(blocks)


def describe_heap() -> str:
    """The types whose objects take most memory, without what these refer to."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for position, thing in enumerate(gc.get_objects()):
        if position % _CHECKED_EVERY == 0:
            check()
        name = f"{type(thing).__module__}.{type(thing).__qualname__}"
        counts[name] += 1
        sizes[name] += sys.getsizeof(thing, 0)
    rows = [(str(size), str(counts[name]), name) for name, size in sizes.most_common(_MOST_TYPES)]
    table = render_table(("BYTES", "OBJECTS", "TYPE"), rows, numbers=("BYTES", "OBJECTS"))
    frozen = gc.get_freeze_count()
    head = f"{counts.total()} objects that the garbage collector visits; {frozen} that it skips are not listed"
    return finish(f"{head}\n\n{table}\n", Page())


def _list_stacks() -> Iterator[tuple[threading.Thread, FrameType]]:
    """Of all threads but this one."""
    threads = {thread.ident: thread for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident in threads and ident != threading.get_ident():
            yield threads[ident], frame


def _read_cpu_time(thread: threading.Thread) -> int:
    """In nanoseconds."""
    try:
        return int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_bytes().split()[0])
    except (OSError, ValueError, IndexError):
        return time.monotonic_ns()


def _iter_calls(frame: FrameType | None) -> Iterator[tuple[CodeType, int | None, str]]:
    """From the innermost."""
    while frame is not None:
        yield frame.f_code, frame.f_lineno, frame.f_globals.get("__name__", "?")
        frame = frame.f_back


def _iter_awaits(task: asyncio.Task[Any]) -> Iterator[tuple[CodeType, int | None, str]]:
    """From the innermost, which is what the task waits for."""
    calls: list[tuple[CodeType, int | None, str]] = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None)
        if frame is not None:
            calls.append((frame.f_code, frame.f_lineno, frame.f_globals.get("__name__", "?")))
            waiting = waiting.cr_await
        else:  # of `Precedence`: a generator that runs a coroutine step by step
            generator = getattr(waiting, "gi_frame", None)
            waiting = None if generator is None else generator.f_locals.get("coroutine")
    return reversed(calls)


def _fold(thread: str, frame: FrameType) -> str:
    calls = [f"{module}.{code.co_qualname}" for code, _, module in islice(_iter_calls(frame), _DEEPEST)]
    return ";".join(name.replace(";", ",").replace(" ", "_") for name in [*calls, thread][::-1])


def _format_stack(head: str, calls: Iterable[tuple[CodeType, int | None, str]]) -> str:
    innermost = [f"  {module}.{code.co_qualname}:{line}" for code, line, module in islice(calls, _DEEPEST)]
    return "\n".join([head, *reversed(innermost), ""])
