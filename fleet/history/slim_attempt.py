"""What is left of an attempt that waits when there is room for hardly more than what it decided.

Packed at once: as objects, what it decided takes ten times as much, and the things it was decided on live as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleet.history.encoding import pack_attempt, unpack_attempt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.history.entries import Attempt, ClusterRow, Columns, Inputs, Source

_OVERHEAD: Final = 600
"""Bytes of the objects around the packed ones."""


class Bare:
    """Implements `fleet.history.Source`."""

    __slots__ = ("_packed", "changed", "key", "shed", "weight")

    fleet: object = None

    def __init__(self, source: Source) -> None:
        self.key = source.key
        self.changed = source.changed
        self.shed = source.shed
        self._packed = pack_attempt(source.attempt())
        self.weight = len(self._packed) + _OVERHEAD

    @property
    def light_weight(self) -> int:
        return self.weight

    def without_columns(self) -> Bare:
        return self

    def without_inputs(self) -> Bare:
        return self

    def attempt(self) -> Attempt:
        return unpack_attempt(self._packed)

    def columns(self, *, with_names: bool) -> Columns | None:
        del with_names
        return None

    def inputs(self) -> Inputs | None:
        return None

    def clusters(self, *, anew: bool) -> Sequence[ClusterRow]:
        del anew
        return ()
