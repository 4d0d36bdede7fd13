"""Priority classes of the hub, watched from when a placement first names one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fleet.errors import InputError
from fleet.kube.informer import Informer, WatchOnDemand
from fleet.model.keys import NEVER, PREEMPTION_POLICY, PRIORITY, PRIORITY_CLASS
from fleet.model.views import Metadata, Observed, PriorityClass
from fleet.scheduler.companions import LARGEST_PRIORITY, Companion

OnChange = Callable[[str], None]
"""Called with the name of a class that came, changed or went; with an empty name once all are known."""


class PriorityClasses:
    def __init__(self, informer: Informer[Observed[PriorityClass]], on_change: OnChange) -> None:
        self._informer: Final = informer
        self._on_change = on_change
        self.watch: Final = WatchOnDemand(informer, lambda: on_change(""))
        """Needed from when a class is named."""
        informer.store.subscribe(self._on_event)

    @property
    def are_known(self) -> bool:
        """Before that, a class that is named looks missing."""
        return self.watch.is_known

    def describe(self, companion: Companion, placement: Metadata) -> dict[str, str]:
        """As annotations, for decisions of profiles that evict; nothing while the class is missing."""
        annotations: dict[str, str] = {}
        with suppress(InputError):
            annotations[PRIORITY] = str(self.find_priority(companion, placement))
            if self.never_preempts(companion, placement.annotation(PRIORITY_CLASS) or ""):
                annotations[PREEMPTION_POLICY] = NEVER
        return annotations

    def find_priority(self, companion: Companion, placement: Metadata) -> int:
        """Raises InputError."""
        name = companion.choose_class(placement)
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
        self.watch.need()
        known = self._informer.store.get(name)
        if known is None:
            problem = (
                f"there is no PriorityClass {name}" if self.are_known else "priority classes have not been read yet"
            )
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
