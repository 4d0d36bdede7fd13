"""Priority classes of the hub, watched from when a placement first names one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from fleet.errors import InputError
from fleet.kube.informer import Informer
from fleet.model.keys import NEVER
from fleet.model.views import Observed, PriorityClass
from fleet.scheduler.companions import LARGEST_PRIORITY, Companion

OnChange = Callable[[str], None]
"""Called with the name of a class that came, changed or went; with an empty name once all are known."""


class PriorityClasses:
    def __init__(self, informer: Informer[Observed[PriorityClass]], on_change: OnChange) -> None:
        self._informer: Final = informer
        self._on_change = on_change
        self._is_needed = asyncio.Event()
        informer.store.subscribe(self._on_event)

    async def run(self) -> NoReturn:
        """Until cancelled. Makes no request before a class is named."""
        await self._is_needed.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.reflector.run(), name="watching priority classes")
            await self._informer.reflector.wait_for_sync()
            self._on_change("")
        raise AssertionError("the watch has ended")

    @property
    def are_known(self) -> bool:
        """Before that, a class that is named looks missing."""
        return self._informer.reflector.is_synced

    def find_priority(self, companion: Companion, class_name: str) -> int:
        """`class_name` is that of the annotation. Raises InputError."""
        name = companion.priority_class_name or (class_name if companion.priority is None else "")
        if not name:
            return companion.priority or 0
        value = self._find_value(name)
        if companion.priority not in (None, value):
            raise InputError(f"priority {companion.priority} contradicts PriorityClass {name}, which says {value}")
        return value

    def never_preempts(self, companion: Companion, class_name: str) -> bool:
        """Whether the placement says so, else its class. Raises InputError for a class that is missing."""
        policy = companion.preemption_policy
        name = companion.priority_class_name or class_name
        if policy is None and name:
            self._find_value(name)
            known = self._informer.store.get(name)
            policy = None if known is None else known.view.preemption_policy
        return policy == NEVER

    def _find_value(self, name: str) -> int:
        self._is_needed.set()
        known = self._informer.store.get(name)
        if known is None:
            is_known = self._informer.reflector.is_synced
            problem = f"there is no PriorityClass {name}" if is_known else "priority classes have not been read yet"
            raise InputError(f"PriorityClassMissing: {problem}")
        if known.view.value > LARGEST_PRIORITY:
            raise InputError(f"PriorityClass {name} has the value {known.view.value}, above {LARGEST_PRIORITY}")
        return known.view.value

    def _on_event(self, old: Observed[PriorityClass] | None, new: Observed[PriorityClass] | None) -> None:
        if old is None or new is None or _read_terms(old) != _read_terms(new):
            known = old if new is None else new
            assert known is not None
            self._on_change(known.view.metadata.name)


def _read_terms(known: Observed[PriorityClass]) -> tuple[int, str | None]:
    return known.view.value, known.view.preemption_policy
