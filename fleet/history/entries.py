"""What the history is made of, as values: rows and bytes, without a word of SQL and without columns of clusters.

Making an attempt from a decision is left to who observes decisions, judging it again to who replays it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec


class Part(enum.StrEnum):
    """What can be shed of an attempt, and whether it was."""

    KEPT = "kept"
    NONE = "none"
    """There was nothing of the kind, or it is not to be kept."""
    SHED = "shed"
    """Given up because the history could not follow."""
    EXPIRED = "expired"
    """Was kept, and removed by retention."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster chosen by an attempt."""

    cluster: str
    action: str = ""
    """What it took to use it; nothing where a binding was in place."""
    binding: str = ""
    affinity: int | None = None
    topology: int | None = None
    """Scores; None where the placement type does not score."""
    obsolete: int = 0
    step: int = 0
    rank: int = 0
    """From 1, in the order of the decision."""


class Write(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A binding that was written, or should have been."""

    action: str
    cluster: str
    binding: str
    result: str
    error: str = ""


class Warned(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Something odd that did not stop the decision."""

    kind: str
    subject: str
    clusters: int = 0


class Group(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How many clusters one plugin rejected first, for one reason."""

    plugin: str
    reason: str
    count: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The policy snapshot that was decided on."""

    name: str
    uid: str
    generation: int


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    key: str
    """Of the placement: `name`, or `namespace/name`."""
    placement_uid: str = ""
    started: int
    """Nanoseconds since the epoch: also the moment of the decision."""
    ending: str
    error: str = ""
    outcome: str = ""
    """Nothing where it did not come to a decision."""
    fulfilled: bool = False
    wanted: int | None = None
    active: int | None = None
    clusters: int = 0
    """How many were known."""
    triggers: tuple[str, ...] = ()
    phases: dict[str, float] = {}
    """Seconds, by name."""
    digest: str = ""
    config_hash: str = ""
    generation: int | None = None
    """Of the placement."""
    placement_type: str = ""
    snapshot: Snapshot | None = None
    targets: tuple[Target, ...] = ()
    writes: tuple[Write, ...] = ()
    warnings: tuple[Warned, ...] = ()
    groups: tuple[Group, ...] = ()
    invalid: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: bytes = b"{}"
    """What plugins left with the decision: JSON, by plugin."""
    published: bytes = b""
    """The status as it was to be published: JSON, or nothing."""
    status_written: bool = False
    rounds: int = 0
    process_number: int = 0
    """Which attempt of its process it was."""
    is_end: bool = False
    """Whether it found that the placement is gone."""

    # Known once it is kept.
    seq: int = 0
    number: int = 0
    """Which attempt of its placement it was, from 1; those folded into earlier ones count."""
    repeats: int = 0
    """How many attempts after it changed nothing."""
    last_at: int = 0
    """When the last of them began."""
    session: str = ""
    frame_seq: int | None = None
    """How far the journal of clusters had come."""
    columns: Part = Part.NONE
    inputs: Part = Part.NONE

    @property
    def changed_nothing(self) -> bool:
        return not self.writes and not self.status_written


class ScoreColumn(msgspec.Struct, frozen=True, kw_only=True):
    """What one Score plugin said of the feasible clusters, in the order of names: little-endian numbers."""

    plugin: str
    component: str
    weight: int
    width: int
    """Bytes of a number: as few as the largest of them takes, a power of two."""
    raw: bytes
    normalized: bytes
    """Empty where it equals `raw`."""
    final: bytes
    """Empty where it equals `normalized`."""


class Judgement(msgspec.Struct, frozen=True, array_like=True):
    """One of the few verdicts that a decision has for its clusters."""

    first: int
    """The judge that rejected first, by position; -1 where none did."""
    reason: int
    code: int


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict for every cluster, in the order of their names."""

    names_hash: str
    names: tuple[str, ...] | None = None
    """Only where no frame is kept that tells them."""
    judges: tuple[str, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    width: int = 1
    """Bytes of a number in `verdicts`."""
    verdicts: bytes = b""
    """By cluster, which of the judgements: unsigned, little-endian."""
    feasible: bytes = b""
    """A bit per cluster, the highest of a byte first: whether it was scored."""
    order: bytes = b""
    """int32: positions of ranked clusters, best first."""
    scores: tuple[ScoreColumn, ...] = ()

    def by_cluster(self) -> list[Judgement]:
        starts = range(0, len(self.verdicts), self.width)
        return [self.judgements[int.from_bytes(self.verdicts[at : at + self.width], "little")] for at in starts]


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt was decided on, beside the clusters. Documents are JSON."""

    request: bytes
    """The policy snapshot, without its status."""
    placement_uid: str
    bindings: tuple[bytes, ...]
    previous: bytes
    """The status of the policy snapshot as it was."""
    now: int
    cursor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """All it takes to evaluate an attempt again."""

    attempt: Attempt
    clusters: tuple[bytes, ...]
    """Documents of all clusters, in the order of their names."""
    request: bytes
    placement_uid: str
    bindings: tuple[bytes, ...]
    previous: bytes
    now: int
    cursor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlacement:
    """A placement that was decided on at least once."""

    key: str
    uid: str
    attempts: int
    first_at: int
    last_at: int
    newest: int
    """`seq` of its newest attempt."""
    ending: str
    outcome: str
    fulfilled: bool
    deleted_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Since this process began. Attempts unless said otherwise."""

    offered: int = 0
    written: int = 0
    folded: int = 0
    """Into the record of an earlier attempt that ended alike."""
    failed: int = 0
    """Could not be made into rows, or were still waiting at the end."""
    shed_columns: int = 0
    shed_inputs: int = 0
    shed_attempts: int = 0
    """Given up whole: those that changed nothing, and the oldest of too many that did."""
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    unavailable_since: int | None = None
    """Nanoseconds since the epoch."""
    reason: str = ""


ClusterRow = tuple[str, bytes | None]
"""A cluster's name and its document; None where it is gone."""


class Source(Protocol):
    """An attempt on its way into the history: what it is asked for is made in the writer's thread."""

    @property
    def key(self) -> str: ...

    @property
    def fleet(self) -> object:
        """Who remembers which clusters were told; a journal has room for one of them."""

    @property
    def changed(self) -> bool:
        """Whether it changed anything, or failed to."""

    @property
    def weight(self) -> int:
        """Bytes that it keeps in memory while it waits, roughly."""

    @property
    def light_weight(self) -> int:
        """The same, without its columns."""

    def without_columns(self) -> Source: ...

    def without_inputs(self) -> Source:
        """What is left when even the inputs are given up: columns are, too."""

    def attempt(self) -> Attempt: ...

    def columns(self, *, with_names: bool) -> Columns | None: ...

    def inputs(self) -> Inputs | None: ...

    def clusters(self, *, anew: bool) -> Sequence[ClusterRow]:
        """What changed among the clusters since this was last asked of any attempt; anew: all of them."""

    @property
    def shed(self) -> frozenset[str]:
        """`columns`, `inputs`: what was given up on the way."""
