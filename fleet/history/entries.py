"""Records of the history as plain values: rows and bytes, without SQL and without numpy columns.

`fleet.recorder` builds attempts from decisions; `fleet.explain.replay` evaluates them again.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec


class PartState(enum.StrEnum):
    """State of a part of an attempt that can be shed."""

    KEPT = "kept"
    NONE = "none"
    """The attempt had no such part, or it is not recorded."""
    SHED = "shed"
    """Dropped because the writer could not keep up."""
    EXPIRED = "expired"
    """Recorded, then removed by retention."""


class RecordedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster selected by an attempt."""

    cluster: str
    action: str = ""
    """The write that was needed; empty if a binding was in place."""
    binding: str = ""
    affinity: int | None = None
    topology: int | None = None
    """Scores; None where the placement type does not score."""
    obsolete: int = 0
    step: int = 0
    rank: int = 0
    """From 1, in the order of the decision."""


class RecordedWrite(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A write of a binding, successful or not."""

    action: str
    cluster: str
    binding: str
    result: str
    error: str = ""


class RecordedHook(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The answer of a plugin that acts on decisions, for one cluster."""

    hook: str
    plugin: str
    cluster: str
    code: str
    message: str = ""
    deadline: int = 0
    """Of a Permit plugin that waits: nanoseconds since the epoch."""
    details: bytes = b""
    """JSON; empty without any."""


class RecordedWarning(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A warning, which did not stop the decision."""

    kind: str
    subject: str
    clusters: int = 0


class RecordedRejection(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How many clusters one plugin rejected first, for one reason."""

    plugin: str
    reason: str
    count: int


class SnapshotReference(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The policy snapshot of the decision."""

    name: str
    uid: str
    generation: int


NOT_CARRIED_OUT: Final = frozenset(("Waiting", "Rejected", "BindFailed", "Transient", "Internal"))
"""Endings of attempts whose decision stands in no binding, or not in all of them."""


class HistoryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    key: str
    """Of the placement: `name`, or `namespace/name`."""
    placement_uid: str = ""
    epoch: int = 0
    """Of the leadership in which it, or the last attempt folded into it, was made: attempts of a later one are newer,
    whenever they are written."""
    started: int
    """Nanoseconds since the epoch; also the time of the decision."""
    ending: str
    error: str = ""
    outcome: str = ""
    """Empty if there was no decision."""
    fulfilled: bool = False
    wanted: int | None = None
    active: int | None = None
    clusters: int = 0
    """Number of member clusters."""
    triggers: tuple[str, ...] = ()
    phases: dict[str, float] = {}
    """Seconds, by name."""
    digest: str = ""
    config_hash: str = ""
    generation: int | None = None
    """Of the placement."""
    placement_type: str = ""
    snapshot: SnapshotReference | None = None
    targets: tuple[RecordedTarget, ...] = ()
    writes: tuple[RecordedWrite, ...] = ()
    effects: tuple[RecordedHook, ...] = ()
    """Of the plugins that act on decisions, in the order of their answers."""
    warnings: tuple[RecordedWarning, ...] = ()
    groups: tuple[RecordedRejection, ...] = ()
    invalid: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: bytes = b"{}"
    """Plugin notes on the decision: JSON, by plugin."""
    published: bytes = b""
    """The status to publish: JSON, or empty."""
    status_written: bool = False
    rounds: int = 0
    process_number: int = 0
    """Number of the attempt within its process."""
    is_end: bool = False
    """Whether the placement no longer existed."""

    # Set when the attempt is recorded.
    seq: int = 0
    number: int = 0
    """Number of the attempt within its placement, from 1, in the order of recording; folded attempts count."""
    repeats: int = 0
    """How many attempts that changed nothing were folded into this one."""
    last_at: int = 0
    """Start of the last of them."""
    session: str = ""
    frame_seq: int | None = None
    """Position in the cluster journal."""
    columns: PartState = PartState.NONE
    inputs: PartState = PartState.NONE

    @property
    def result(self) -> str:
        """What came of it in a word: the outcome of its decision, unless that was not carried out."""
        return self.ending if self.ending in NOT_CARRIED_OUT else self.outcome or self.ending

    @property
    def changed_nothing(self) -> bool:
        return not self.writes and not self.status_written


class RecordedScores(msgspec.Struct, frozen=True, kw_only=True):
    """Scores of the feasible clusters by one Score plugin, in the order of names: little-endian numbers."""

    plugin: str
    component: str
    weight: int
    width: int
    """Bytes per number: the smallest power of two that fits the largest number."""
    raw: bytes
    normalized: bytes
    """Empty where it equals `raw`."""
    final: bytes
    """Empty where it equals `normalized`."""


class Judgement(msgspec.Struct, frozen=True, array_like=True):
    """A distinct verdict of a decision, shared by many clusters."""

    first: int
    """Position of the plugin that rejected first; -1 if none did."""
    reason: int
    code: int


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict for every cluster, in the order of their names."""

    names_hash: str
    names: tuple[str, ...] | None = None
    """Only if no cluster journal is kept from which they follow."""
    judges: tuple[str, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    width: int = 1
    """Bytes of a number in `verdicts`."""
    verdicts: bytes = b""
    """By cluster, the index of its judgement: unsigned, little-endian."""
    feasible: bytes = b""
    """A bit per cluster, most significant first: whether it was scored."""
    order: bytes = b""
    """int32: positions of ranked clusters, best first."""
    scores: tuple[RecordedScores, ...] = ()

    def by_cluster(self) -> list[Judgement]:
        starts = range(0, len(self.verdicts), self.width)
        return [self.judgements[int.from_bytes(self.verdicts[at : at + self.width], "little")] for at in starts]


class RecordedInputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The inputs of an attempt, except the clusters. Documents are JSON."""

    request: bytes
    """The policy snapshot, without its status."""
    placement_uid: str
    bindings: tuple[bytes, ...]
    previous: bytes
    """The status of the policy snapshot before the attempt."""
    now: int
    cursor: int = 0
    results: bytes = b""
    """The answers of extenders, as JSON; empty if none was asked."""
    sidedata: bytes = b""
    """The numbers of feeds and ledgers, if a plugin may have read them."""
    nominated: tuple[str, ...] = ()
    """Clusters chosen by an earlier attempt, picked first."""
    set_aside: tuple[str, ...] = ()
    """Clusters that were refused in the same attempt, or that no plugin was asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayInputs:
    """All inputs needed to evaluate an attempt again."""

    attempt: HistoryAttempt
    clusters: tuple[bytes, ...]
    """Documents of all clusters, in the order of their names."""
    request: bytes
    placement_uid: str
    bindings: tuple[bytes, ...]
    previous: bytes
    now: int
    cursor: int
    results: bytes = b""
    sidedata: bytes = b""
    nominated: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    profile: bytes = b""
    """The canonical document of the profile; empty if it is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlacement:
    """A placement with at least one recorded attempt."""

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
class HistoryCounts:
    """Numbers of attempts since the start of the process."""

    offered: int = 0
    written: int = 0
    folded: int = 0
    """Folded into the record of an earlier attempt with the same result."""
    failed: int = 0
    """Could not be converted to rows, or were still buffered at shutdown."""
    shed_columns: int = 0
    shed_inputs: int = 0
    shed_attempts: int = 0
    """Dropped entirely: attempts that changed nothing, and the oldest of too many."""
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryHealth:
    unavailable_since: int | None = None
    """Nanoseconds since the epoch."""
    reason: str = ""


ClusterRow = tuple[str, bytes | None]
"""A cluster's name and its document; None where it is gone."""


class AttemptSource(Protocol):
    """An attempt to be recorded. Its parts are built lazily, in the writer's thread."""

    @property
    def key(self) -> str: ...

    @property
    def fleet(self) -> object:
        """Identity of the fleet's change log; a journal follows one at a time."""

    @property
    def changed(self) -> bool:
        """Whether it changed something, or tried to."""

    @property
    def weight(self) -> int:
        """Approximate bytes in memory while buffered."""

    @property
    def light_weight(self) -> int:
        """The same, without its columns."""

    def without_columns(self) -> AttemptSource: ...

    def without_inputs(self) -> AttemptSource:
        """The attempt without inputs and without columns."""

    def attempt(self) -> HistoryAttempt: ...

    def columns(self, *, with_names: bool) -> Columns | None: ...

    def inputs(self) -> RecordedInputs | None: ...

    def profile(self) -> bytes:
        """The canonical document of the profile; empty if there is none, or it must not be kept."""

    def clusters(self, *, anew: bool) -> Sequence[ClusterRow]:
        """Clusters that changed since the previous call on any attempt; with `anew`, all clusters."""

    @property
    def shed(self) -> frozenset[str]:
        """The parts shed so far: `columns`, `inputs`."""
