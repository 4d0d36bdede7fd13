"""Fixes that have not been tried yet: fixed sets of edits, and dials that can be turned until something happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fleet.explain.whatif.edits import Edit, Scope, describe, scope_of

Edits = tuple[Edit, ...]


def encode_key(edits: Edits) -> bytes:
    """Edits hold documents, which have no hash of their own."""
    return msgspec.json.encode(edits)


_SCOPES: tuple[Scope, ...] = ("placement", "policy", "cluster")


@dataclass(frozen=True, slots=True)
class Candidate:
    edits: Edits
    plugin: str
    """The clusters whose rejections it should end; empty if it concerns the placement as a whole."""
    size: float = 1.0
    """Relative size of the change, for choosing between equals."""
    title: str = ""
    settles: bool = False
    """It asks for less."""

    @property
    def text(self) -> str:
        return self.title or "; ".join(map(describe, self.edits))

    @property
    def scope(self) -> Scope:
        """The widest of its edits."""
        return max((scope_of(edit) for edit in self.edits), key=_SCOPES.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """A number in the policy that may be changed from `start` as far as `limit`, by as little as possible."""

    plugin: str
    field: str
    """What the number is called, for people."""
    start: int
    limit: int
    build_edits: Callable[[int], Edits]
    """The edits that set the number."""
    guess: int | None = None
    """Where the effect probably begins."""
    find_least: Callable[[int], int] | None = None
    """Where it probably begins, for the rows in use with the number at its limit."""
    bound: Edits = ()
    """Without an effect of these there is none."""
    settles: bool = False
    """To turn it is to ask for less."""

    @property
    def step(self) -> int:
        return 1 if self.limit > self.start else -1

    def build_candidate(self, value: int) -> Candidate:
        size = abs(value - self.start) / max(abs(self.start), 1)
        title = f"{self.field} {self.start} → {value}"
        return Candidate(self.build_edits(value), self.plugin, size, title, settles=self.settles)


Proposal = Candidate | Dial
