"""A buffered attempt reduced to its decision, for when the buffer is almost full.

Packed immediately: as objects, the decision takes ten times as much memory and keeps its inputs alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleet.history.encoding import pack_attempt, unpack_attempt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.history.entries import AttemptSource, ClusterRow, Columns, HistoryAttempt, RecordedInputs

_OVERHEAD: Final = 600
"""Bytes of the objects around the packed bytes."""


class SlimAttempt:
    """Implements `fleet.history.AttemptSource`."""

    __slots__ = ("_packed", "changed", "key", "shed", "weight")

    fleet: object = None

    def __init__(self, source: AttemptSource) -> None:
        self.key = source.key
        self.changed = source.changed
        self.shed = source.shed
        self._packed = pack_attempt(source.attempt())
        self.weight = len(self._packed) + _OVERHEAD

    @property
    def light_weight(self) -> int:
        return self.weight

    def without_columns(self) -> SlimAttempt:
        return self

    def without_inputs(self) -> SlimAttempt:
        return self

    def attempt(self) -> HistoryAttempt:
        return unpack_attempt(self._packed)

    def columns(self, *, with_names: bool) -> Columns | None:
        del with_names
        return None

    def inputs(self) -> RecordedInputs | None:
        return None

    def clusters(self, *, anew: bool) -> Sequence[ClusterRow]:
        del anew
        return ()
