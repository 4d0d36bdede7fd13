"""Replay of recorded decisions: checks that a record reproduces, and rehearses changes.

A record holds everything a decision depended on, so replay needs neither a hub nor a network. A difference is reported
with the first stage, and the first cluster, at which the two decisions part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from fleet.errors import InputError
from fleet.explain.facts.outcomes import name_outcome
from fleet.explain.whatif.diff import DiffSummary, Moved, diff_decisions, redact_move, redact_summary, summarize_diffs
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.context import decode_results
from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import CompiledProfile
from fleet.model.decoding import decode
from fleet.model.views import Binding, MemberCluster, PolicySnapshot, PolicySnapshotStatus
from fleet.snapshot.recorded_sidedata import restore_sidedata
from fleet.snapshot.table import Table

if TYPE_CHECKING:
    from fleet.history import entries

Stage = Literal["configuration", "fleet", "filter", "outcome", "ranking", "operations"]

GONE: Final = "the inputs are no longer retained"
IRREPRODUCIBLE: Final = "the recorded decision cannot be reproduced with this configuration; replay it unchanged"
INAPPLICABLE: Final = "an edit does not apply to it"


class StoredInputs(Protocol):
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
    @property
    def nominated(self) -> tuple[str, ...]: ...
    @property
    def set_aside(self) -> tuple[str, ...]: ...
    @property
    def results(self) -> bytes:
        """The answers of extenders; empty if none was asked."""

    @property
    def sidedata(self) -> bytes:
        """The numbers of feeds and ledgers; empty if no plugin reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InMemoryInputs:
    """Inputs held in memory."""

    clusters: Sequence[bytes]
    request: bytes
    placement_uid: str
    bindings: Sequence[bytes]
    previous: bytes = b""
    now: int
    cursor: int = 0
    results: bytes = b""
    sidedata: bytes = b""
    nominated: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The recorded results of a decision. Without columns, a difference cannot be traced to a cluster."""

    id: str
    digest: str
    config_hash: str = ""
    outcome: str = ""
    """As decisions name it; empty where it was not recorded."""
    targets: tuple[str, ...] | None = None
    """Chosen clusters, in the order of choice."""
    clusters: int | None = None
    judges: tuple[str, ...] = ()
    first: Sequence[int] | None = None
    """Position among the judges of the first to reject, -1 for none, for the clusters by name."""
    codes: Sequence[int] | None = None


def build_evidence(attempt: entries.HistoryAttempt, columns: entries.Columns | None = None) -> Evidence:
    """From the history's record of an attempt."""
    judgements = columns.by_cluster() if columns else []
    return Evidence(
        id=attempt.id,
        digest=attempt.digest,
        config_hash=attempt.config_hash,
        outcome=attempt.outcome,
        targets=tuple(target.cluster for target in sorted(attempt.targets, key=lambda target: target.rank)),
        clusters=attempt.clusters,
        judges=columns.judges if columns else (),
        first=[judgement.first for judgement in judgements] if columns else None,
        codes=[judgement.code for judgement in judgements] if columns else None,
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


class SkippedAttempt(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    because: str


class Rehearsal(msgspec.Struct, frozen=True, rename="camel"):
    """Recorded attempts under changed conditions."""

    attempts: int
    same: int
    changed: tuple[Moved, ...]
    skipped: tuple[SkippedAttempt, ...]
    summary: DiffSummary


def load_recorded_scenario(recorded: StoredInputs, profile: CompiledProfile) -> Scenario:
    """The scenario as it was. A document that cannot be read is an InputError."""
    snapshot = decode(recorded.request, PolicySnapshot).view
    previous = decode(recorded.previous, PolicySnapshotStatus).view if recorded.previous else snapshot.status
    table = Table(decode(cluster, MemberCluster).view for cluster in recorded.clusters)
    restore_sidedata(table, recorded.sidedata)
    return Scenario.build(
        clusters=table.freeze(),
        snapshot=snapshot,
        bindings=[decode(binding, Binding).view for binding in recorded.bindings],
        profile=profile,
        now=recorded.now,
        placement_uid=recorded.placement_uid,
        previous=previous,
        cursor=recorded.cursor,
        query_results=decode_results(recorded.results),
        nominated=recorded.nominated,
        set_aside=recorded.set_aside,
    )


def replay(recorded: StoredInputs, evidence: Evidence, profile: CompiledProfile) -> Replayed:
    decision = load_recorded_scenario(recorded, profile).decide()
    same = decision.digest == evidence.digest
    difference = None if same else find_difference(evidence, decision)
    return Replayed(evidence.id, same, decision.digest, evidence.digest, difference)


def rehearse(
    attempts: Iterable[tuple[Evidence, StoredInputs | None]],
    profile: CompiledProfile,
    *,
    edits: Sequence[Edit] = (),
    changed_profile: CompiledProfile | None = None,
) -> Rehearsal:
    """Every attempt as it was and as it would have been, each on its own record, independent of the others.

    An attempt is skipped where its inputs are gone, where the edits do not apply to it, or where it cannot even be
    reproduced without them.
    """
    diffs: list[Moved] = []
    skipped: list[SkippedAttempt] = []
    outcomes: list[tuple[str, str]] = []
    for evidence, inputs in attempts:
        try:
            before, after = _decide_both(evidence, inputs, profile, edits, changed_profile or profile)
        except InputError as error:
            skipped.append(SkippedAttempt(evidence.id, str(error)))
            continue
        outcomes.append((name_outcome(before), name_outcome(after)))
        movement = diff_decisions(evidence.id, before, after)
        diffs += [] if movement is None else [movement]
    return Rehearsal(
        attempts=len(outcomes) + len(skipped),
        same=len(outcomes) - len(diffs),
        changed=tuple(diffs),
        skipped=tuple(skipped),
        summary=summarize_diffs(outcomes, diffs),
    )


def _decide_both(
    evidence: Evidence,
    inputs: StoredInputs | None,
    profile: CompiledProfile,
    edits: Sequence[Edit],
    changed_profile: CompiledProfile,
) -> tuple[Decision, Decision]:
    if inputs is None:
        raise InputError(GONE)
    before = load_recorded_scenario(inputs, profile).decide()
    if before.digest != evidence.digest:
        raise InputError(IRREPRODUCIBLE)
    return before, load_recorded_scenario(inputs, changed_profile).apply(edits).decide()


# --- redaction -------------------------------------------------------------------------------------------------------


def redact_replay(replayed: Replayed, hides: Callable[[str], bool]) -> Replayed:
    """That there is a difference, and at which stage, but not at a cluster that may not be read.

    What was recorded and replayed may be names themselves, so they go where anything is hidden."""
    difference = replayed.difference
    if difference is None:
        return replayed
    cluster = "" if hides(difference.cluster) else difference.cluster
    return msgspec.structs.replace(
        replayed, difference=msgspec.structs.replace(difference, cluster=cluster, recorded="", replayed="")
    )


def redact_rehearsal(rehearsal: Rehearsal, hides: Callable[[str], bool]) -> Rehearsal:
    """Why an edit does not apply may be a matter of a hidden cluster, too."""
    return msgspec.structs.replace(
        rehearsal,
        changed=tuple(redact_move(diff, hides) for diff in rehearsal.changed),
        skipped=tuple(map(_redact_skip, rehearsal.skipped)),
        summary=redact_summary(rehearsal.summary, hides),
    )


def _redact_skip(skipped: SkippedAttempt) -> SkippedAttempt:
    return skipped if skipped.because in (GONE, IRREPRODUCIBLE) else SkippedAttempt(skipped.id, INAPPLICABLE)


# --- differences ----------------------------------------------------------------------------------------------------


def find_difference(evidence: Evidence, decision: Decision) -> Difference:
    """In the order of the stages of a decision; stages missing from the record are skipped."""
    if evidence.config_hash and evidence.config_hash != decision.config_hash:
        return Difference("configuration", "", evidence.config_hash, decision.config_hash)
    if evidence.clusters is not None and evidence.clusters != decision.frame.count:
        return Difference("fleet", "", str(evidence.clusters), str(decision.frame.count))
    return (
        _compare_filters(evidence, decision)
        or _compare_choice(evidence, decision)
        or Difference("operations", "", evidence.digest, decision.digest)
    )


def _compare_filters(evidence: Evidence, decision: Decision) -> Difference | None:
    verdicts = decision.verdicts
    if verdicts is None or evidence.first is None:
        return None
    order = decision.frame.names.order
    first, codes = verdicts.first[order].tolist(), verdicts.codes()[order].tolist()
    recorded_codes = codes if evidence.codes is None else evidence.codes
    names = [judge.name for judge in verdicts.judges]
    for place, cluster in enumerate(decision.frame.names.ordered):
        was, now = evidence.first[place], first[place]
        if was != now or recorded_codes[place] != codes[place]:
            return Difference("filter", cluster, _name_judge(evidence.judges or names, was), _name_judge(names, now))
    return None


def _name_judge(names: Sequence[str], position: int) -> str:
    if position < 0:
        return "fits"
    return names[position] if position < len(names) else f"filter {position}"


def _compare_choice(evidence: Evidence, decision: Decision) -> Difference | None:
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
