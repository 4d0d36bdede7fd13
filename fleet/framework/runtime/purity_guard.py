"""Purity guard: the phase of the running code, so that decision hooks cannot reach the hub or the live cache.

A handle outlives attempts and serves both decision and effect hooks. Decisions and the binding cycles of earlier
attempts overlap, each on a thread or task of its own; hence a context variable and not an attribute.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from fleet.snapshot.frame import Frame


class Phase(enum.Enum):
    DECIDING = "deciding"
    ACTING = "acting"


@dataclass(frozen=True, slots=True)
class GuardScope:
    phase: Phase
    frame: Frame
    """What the attempt decides, or was decided, on."""


_MOMENT: Final[ContextVar[GuardScope | None]] = ContextVar("fleet_framework_moment", default=None)


def current_scope() -> GuardScope | None:
    """None outside of attempts: in factories, in handlers of watches."""
    return _MOMENT.get()


@contextmanager
def enter_phase(phase: Phase, frame: Frame) -> Iterator[None]:
    token = _MOMENT.set(GuardScope(phase, frame))
    try:
        yield
    finally:
        _MOMENT.reset(token)
