"""The shape of an answer to "why is this placement where it is?".

Plain values that become JSON. Within `fleet/v1` fields are added, never renamed or removed. Tables may be empty but are
always there: an answer about one cluster, or none, looks like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from fleet.explain.facts.clusters import Answer as PluginAnswer
from fleet.explain.facts.clusters import BindingFate, Margin
from fleet.explain.facts.outcomes import ClusterCounts
from fleet.explain.facts.rejections import Unusable
from fleet.explain.fixes.fixes import Fix
from fleet.explain.remarks.remark import Remark

State = Literal[
    "Queued",
    "InFlight",
    "InputError",
    "Gated",
    "BackingOff",
    "Unschedulable",
    "Preempting",
    "Waiting",
    "Binding",
    "BindFailed",
    "Scheduled",
    "Partial",
    "SchedulerError",
    "ForeignScheduler",
    "Deleted",
]
RowOutcome = Literal["selected", "fit-not-selected", "already-selected", "rejected", "not-evaluated"]
Because = Literal["", "rank", "minTargets", "spread", "reserveFailed", "enough"]
"""`enough`: as many clusters as wanted are in use."""
Key = tuple[int, int, int]
"""Topology, affinity and the bonus for a binding that is there: compared in this order."""


class AnswerPart(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the answer's parts."""


class PlacementPart(AnswerPart, frozen=True):
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int | None
    scheduler_name: str
    priority: int


class ProblemPart(AnswerPart, frozen=True):
    """What in the policy cannot be evaluated."""

    field: str
    value: Any
    message: str
    repair: str = ""
    """The change that was probably meant: `operator Equals → In`."""


class IneligibleCluster(AnswerPart, frozen=True):
    """PickFixed: a cluster that is named and not eligible."""

    cluster: str
    plugin: str
    reason: str
    message: str


class VerdictPart(AnswerPart, frozen=True, kw_only=True):
    state: State
    outcome: str
    """SELECTED, PARTIAL, UNSCHEDULABLE or ERROR."""
    placement_type: str
    wanted: int | None
    """PickN: how many clusters."""
    min_targets: int | None
    selected: int
    in_use: int
    counts: ClusterCounts
    summary: str
    since: str = ""
    problems: tuple[ProblemPart, ...] = ()
    more_problems: int = 0
    """Of very many problems, those that are not listed."""
    error: str = ""
    invalid: tuple[IneligibleCluster, ...] = ()
    missing: tuple[str, ...] = ()
    """PickFixed: names that no cluster has."""


class PluginScore(AnswerPart, frozen=True):
    plugin: str
    raw: int
    normalized: int
    weight: int | None
    """None where scores are compared one after the other and not added up."""
    final: int
    remark: str = ""
    """The numbers behind it, where the plugin gives them."""


class FilterVerdict(AnswerPart, frozen=True, kw_only=True):
    """Verdict of one filter on the cluster."""

    plugin: str
    verdict: PluginAnswer = "reject"
    code: str = ""
    reason: str = ""
    message: str = ""
    short: str = ""
    """The reason in a few words."""
    lacks: str = ""
    """What keeps the cluster out, with its values."""
    lines: tuple[str, ...] = ()
    """The values behind it, line by line, as far as the message lacks them."""
    details: Mapping[str, Any] = {}


class StatusNote(AnswerPart, frozen=True, kw_only=True):
    """Something that the placement's own status or its events say, or lack, which the decision does not show."""

    condition: str = ""
    """The condition that is False; empty where it is not about one."""
    reason: str
    message: str = ""
    at: str = ""
    """When it last happened, of a Warning event; empty for what holds now."""


class PastUse(AnswerPart, frozen=True, kw_only=True):
    """A cluster that the placement used and gave up."""

    cluster: str
    at: str
    because: str
    n: int
    """The attempt that gave it up."""


class ClusterRow(AnswerPart, frozen=True, kw_only=True):
    name: str
    outcome: RowOutcome
    standing: str
    """More exactly: selected, refreshed, revived, kept, not-picked, filtered, retained, not-listed, removed, …"""
    because: Because = ""
    rank: int | None = None
    total: int | None = None
    key: Key | None = None
    """In place of a total where scores are compared one after the other."""
    margin_to_next: int | Key | None = None
    """Total or key minus those of the next in rank."""
    margin: Margin | None = None
    """Of a cluster that fits: to the last pick; of a target: to the best cluster that was not picked."""
    short: str = ""
    """That distance in words, for a cluster that fits."""
    tie: bool | None = None
    """Whether only the tie-break separates it from the next in rank; None where that is not recorded."""
    step: int | None = None
    scores: tuple[PluginScore, ...] = ()
    first: str = ""
    """The plugin that rejected it first."""
    rejections: tuple[FilterVerdict, ...] = ()
    retained: bool = False
    since: str = ""
    """Of a cluster in use: when its binding was created."""
    concerns: tuple[FilterVerdict, ...] = ()
    """Of a cluster in use: what would keep it from being chosen now."""
    bindings: tuple[BindingFate, ...] = ()


class Closest(AnswerPart, frozen=True):
    cluster: str
    lacks: str
    """What keeps it out, in a few words."""


class GroupPart(AnswerPart, frozen=True, kw_only=True):
    plugin: str
    reason: str
    code: str
    count: int
    clusters: tuple[str, ...]
    """The first names, sorted."""
    more: int
    """How many names are left out."""
    hidden: int
    """How many may not be named."""
    closest: Closest | None


class SkippedPlugin(AnswerPart, frozen=True):
    plugin: str
    hook: str


class HookStatus(AnswerPart, frozen=True, kw_only=True):
    plugin: str
    code: str
    message: str = ""
    target: str = ""
    deadline: str = ""
    """Of a Permit plugin that waits."""
    details: dict[str, Any] = {}
    """As the plugin gave them."""


class WritePart(AnswerPart, frozen=True, kw_only=True):
    cluster: str
    action: str
    """create, refresh, revive, unschedule or dropFinalizer."""
    result: str
    """Such as written; how it ended."""
    error: str = ""


class RoundPart(AnswerPart, frozen=True):
    round: int
    limit: int
    """At most how many it could pick."""
    picked: tuple[str, ...]
    hidden: int


class WarningPart(AnswerPart, frozen=True):
    kind: str
    subject: str
    clusters: tuple[str, ...]
    hidden: int


class PostFilterPart(AnswerPart, frozen=True):
    plugins: tuple[str, ...]
    nomination: tuple[str, ...]


class DomainPart(AnswerPart, frozen=True, kw_only=True):
    """A domain that should take the next pick and has no cluster left for it."""

    key: str
    domain: str
    count: int
    """How many of the placement's clusters are there."""
    max_skew: int
    clusters: tuple[Unusable, ...]
    """The first, by name."""
    more: int
    hidden: int


class AttemptPart(AnswerPart, frozen=True, kw_only=True):
    n: int | None
    id: str
    profile: str
    config_hash: str
    frame_generation: int
    evaluated_on: Literal["recorded", "current"]
    at: str
    duration_ms: float | None
    digest: str
    rounds: int
    round_detail: tuple[RoundPart, ...]
    examined: int
    ranking: str
    tie_break: str
    scores_from: Literal["recorded", "explain"] | None
    skipped: tuple[SkippedPlugin, ...]
    groups: tuple[GroupPart, ...]
    clusters: tuple[ClusterRow, ...]
    next_cursor: str
    """For the rows that follow; empty at the end."""
    strangers: tuple[ClusterRow, ...]
    """Names outside the fleet that appear in the decision."""
    full_domains: tuple[DomainPart, ...]
    """The first, by key and name."""
    full_domains_left_out: int = 0
    pre_filter: tuple[HookStatus, ...]
    pre_score: tuple[HookStatus, ...]
    post_filter: PostFilterPart | None
    reserve: tuple[HookStatus, ...] = ()
    permit: tuple[HookStatus, ...] = ()
    pre_bind: tuple[HookStatus, ...] = ()
    bind: tuple[HookStatus, ...] = ()
    writes: tuple[WritePart, ...] = ()
    """The writes of bindings that the attempt sent."""
    newcomers: bool = False
    """Whether the attempt evaluated no cluster: groups and ranks are those of a round for one more cluster, which ran
    for this answer."""
    notes: Mapping[str, Any] = {}
    warnings: tuple[WarningPart, ...] = ()


class Answer(AnswerPart, frozen=True, kw_only=True):
    """One decision, explained. The queue, the history and links are added by the server."""

    api_version: Literal["fleet/v1"] = "fleet/v1"
    placement: PlacementPart
    verdict: VerdictPart
    attempt: AttemptPart
    remarks: tuple[Remark, ...] = ()
    """Mistakes of meaning in the policy: names that nothing has, contradictions, parts without effect."""
    fixes: tuple[Fix, ...] | None = None
    """None where they were not requested."""
    fixes_truncated: bool = False
    fixes_evaluated_on: Literal["recorded", "current"] | None = None
    """The fleet on which the fixes were verified; the decision itself may still be a recorded one."""
    status_notes: tuple[StatusNote, ...] = ()
    given_up: tuple[PastUse, ...] = ()
    """The latest first, without clusters that are in use again; as far as the recent history goes."""
    history_unavailable_since: str = ""
    """Since when the history has been unavailable; empty while it is available."""
    redacted: int = 0
    """Clusters that are counted and not named."""
