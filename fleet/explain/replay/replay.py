"""Recorded decisions, decided again: proof that a record tells the truth, and a rehearsal of changes.

A record holds everything a decision depended on, so deciding again needs neither a hub nor a network. Whatever comes
out differently is reported with the first stage, and the first cluster, at which the two part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from fleet.errors import InputError
from fleet.explain.facts.placement_outcome import level_name
from fleet.explain.whatif.diff import Moved, Tally, moved, tally, unnamed_move, unnamed_tally
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.scenario import World
from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import CompiledProfile
from fleet.model.decoding import decode
from fleet.model.views import Binding, MemberCluster, PolicySnapshot, PolicySnapshotStatus

if TYPE_CHECKING:
    from fleet.history import entries

Stage = Literal["configuration", "fleet", "filter", "outcome", "ranking", "operations"]

GONE: Final = "the inputs are no longer retained"
IRREPRODUCIBLE: Final = "the recorded decision cannot be reproduced with this configuration; replay it unchanged"
INAPPLICABLE: Final = "an edit does not apply to it"


class Inputs(Protocol):
    """What a decision depended on, as documents in JSON."""

    @property
    def clusters(self) -> Iterable[bytes]: ...
    @property
    def request(self) -> bytes:
        """The policy snapshot."""

    @property
    def placement_uid(self) -> str: ...
    @property
    def bindings(self) -> Iterable[bytes]: ...
    @property
    def previous(self) -> bytes:
        """The status as published before; empty where it is the snapshot's own."""

    @property
    def now(self) -> int: ...
    @property
    def cursor(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Inputs held in memory."""

    clusters: Sequence[bytes]
    request: bytes
    placement_uid: str
    bindings: Sequence[bytes]
    previous: bytes = b""
    now: int
    cursor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a record says about the decision. Without columns, a difference cannot be traced to a cluster."""

    id: str
    digest: str
    config_hash: str = ""
    outcome: str = ""
    """As decisions name it; empty where nobody wrote it down."""
    targets: tuple[str, ...] | None = None
    """Chosen clusters, in the order of choice."""
    clusters: int | None = None
    judges: tuple[str, ...] = ()
    first: Sequence[int] | None = None
    """Position among the judges of the first to refuse, -1 for nobody, for the clusters by name."""
    codes: Sequence[int] | None = None


def evidence_of(attempt: entries.HistoryAttempt, columns: entries.Columns | None = None) -> Evidence:
    """From the history's record of an attempt."""
    judgements = columns.by_cluster() if columns else []
    return Evidence(
        id=attempt.id,
        digest=attempt.digest,
        config_hash=attempt.config_hash,
        outcome=attempt.outcome,
        targets=tuple(one.cluster for one in sorted(attempt.targets, key=lambda one: one.rank)),
        clusters=attempt.clusters,
        judges=columns.judges if columns else (),
        first=[one.first for one in judgements] if columns else None,
        codes=[one.code for one in judgements] if columns else None,
    )


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """Where a decision first departs from its record."""

    stage: Stage
    cluster: str
    """Empty where the stage is about the decision as a whole."""
    recorded: str
    replayed: str


class Replayed(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    same: bool
    digest: str
    recorded: str
    difference: Difference | None = None


class Skipped(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    because: str


class Rehearsal(msgspec.Struct, frozen=True, rename="camel"):
    """Recorded attempts under changed conditions."""

    attempts: int
    same: int
    changed: tuple[Moved, ...]
    skipped: tuple[Skipped, ...]
    summary: Tally


def recorded_world(recorded: Inputs, profile: CompiledProfile) -> World:
    """The world as it was. A document that cannot be read is an InputError."""
    snapshot = decode(recorded.request, PolicySnapshot).view
    previous = decode(recorded.previous, PolicySnapshotStatus).view if recorded.previous else snapshot.status
    return World.made_of(
        clusters=[decode(one, MemberCluster).view for one in recorded.clusters],
        snapshot=snapshot,
        bindings=[decode(one, Binding).view for one in recorded.bindings],
        profile=profile,
        now=recorded.now,
        placement_uid=recorded.placement_uid,
        previous=previous,
        cursor=recorded.cursor,
    )


def replay(recorded: Inputs, evidence: Evidence, profile: CompiledProfile) -> Replayed:
    decision = recorded_world(recorded, profile).decide()
    same = decision.digest == evidence.digest
    difference = None if same else difference_between(evidence, decision)
    return Replayed(evidence.id, same, decision.digest, evidence.digest, difference)


def rehearse(
    attempts: Iterable[tuple[Evidence, Inputs | None]],
    profile: CompiledProfile,
    *,
    edits: Sequence[Edit] = (),
    changed_profile: CompiledProfile | None = None,
) -> Rehearsal:
    """Every attempt as it was and as it would have been, each on its own record: nothing carries over.

    An attempt is skipped where its inputs are gone, where the edits do not apply to it, or where it cannot even be
    reproduced without them.
    """
    found: list[Moved] = []
    skipped: list[Skipped] = []
    outcomes: list[tuple[str, str]] = []
    for evidence, inputs in attempts:
        try:
            before, after = _both(evidence, inputs, profile, edits, changed_profile or profile)
        except InputError as error:
            skipped.append(Skipped(evidence.id, str(error)))
            continue
        outcomes.append((level_name(before), level_name(after)))
        movement = moved(evidence.id, before, after)
        found += [] if movement is None else [movement]
    return Rehearsal(
        attempts=len(outcomes) + len(skipped),
        same=len(outcomes) - len(found),
        changed=tuple(found),
        skipped=tuple(skipped),
        summary=tally(outcomes, found),
    )


def _both(
    evidence: Evidence,
    inputs: Inputs | None,
    profile: CompiledProfile,
    edits: Sequence[Edit],
    changed_profile: CompiledProfile,
) -> tuple[Decision, Decision]:
    if inputs is None:
        raise InputError(GONE)
    before = recorded_world(inputs, profile).decide()
    if before.digest != evidence.digest:
        raise InputError(IRREPRODUCIBLE)
    return before, recorded_world(inputs, changed_profile).apply(edits).decide()


# --- for those who may not read all clusters --------------------------------------------------------------------------


def unnamed_replay(one: Replayed, hides: Callable[[str], bool]) -> Replayed:
    """That there is a difference, and at which stage, but not at a cluster that may not be read.

    What was recorded and replayed may be names themselves, so they go where anything is hidden."""
    found = one.difference
    if found is None:
        return one
    cluster = "" if hides(found.cluster) else found.cluster
    return msgspec.structs.replace(
        one, difference=msgspec.structs.replace(found, cluster=cluster, recorded="", replayed="")
    )


def unnamed_rehearsal(found: Rehearsal, hides: Callable[[str], bool]) -> Rehearsal:
    """Why an edit does not apply may be a matter of a hidden cluster, too."""
    return msgspec.structs.replace(
        found,
        changed=tuple(unnamed_move(one, hides) for one in found.changed),
        skipped=tuple(map(_unnamed_skip, found.skipped)),
        summary=unnamed_tally(found.summary, hides),
    )


def _unnamed_skip(one: Skipped) -> Skipped:
    return one if one.because in (GONE, IRREPRODUCIBLE) else Skipped(one.id, INAPPLICABLE)


# --- differences ----------------------------------------------------------------------------------------------------


def difference_between(evidence: Evidence, decision: Decision) -> Difference:
    """In the order in which a decision comes about; what the record does not tell is passed over."""
    if evidence.config_hash and evidence.config_hash != decision.config_hash:
        return Difference("configuration", "", evidence.config_hash, decision.config_hash)
    if evidence.clusters is not None and evidence.clusters != decision.frame.count:
        return Difference("fleet", "", str(evidence.clusters), str(decision.frame.count))
    return (
        _filtered_differently(evidence, decision)
        or _chosen_differently(evidence, decision)
        or Difference("operations", "", evidence.digest, decision.digest)
    )


def _filtered_differently(evidence: Evidence, decision: Decision) -> Difference | None:
    verdicts = decision.verdicts
    if verdicts is None or evidence.first is None:
        return None
    order = decision.frame.names.order
    first, codes = verdicts.first[order].tolist(), verdicts.codes()[order].tolist()
    recorded_codes = codes if evidence.codes is None else evidence.codes
    names = [one.name for one in verdicts.judges]
    for place, cluster in enumerate(decision.frame.names.ordered):
        was, now = evidence.first[place], first[place]
        if was != now or recorded_codes[place] != codes[place]:
            return Difference("filter", cluster, _judge(evidence.judges or names, was), _judge(names, now))
    return None


def _judge(names: Sequence[str], position: int) -> str:
    if position < 0:
        return "fits"
    return names[position] if position < len(names) else f"filter {position}"


def _chosen_differently(evidence: Evidence, decision: Decision) -> Difference | None:
    if evidence.outcome and evidence.outcome != decision.outcome.value:
        return Difference("outcome", "", evidence.outcome, decision.outcome.value)
    if evidence.targets is None:
        return None
    chosen = tuple(target.cluster for target in decision.targets)
    longest = max(len(chosen), len(evidence.targets))
    for place in range(longest):
        was = evidence.targets[place] if place < len(evidence.targets) else ""
        now = chosen[place] if place < len(chosen) else ""
        if was != now:
            return Difference("ranking", was or now, was or "nothing", now or "nothing")
    return None
