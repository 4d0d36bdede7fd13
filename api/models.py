"""The JSON of requests and answers, limited to what the caller may read.

Every answer is one of these structs, or one of `fleet.explain`; their JSON schemas are the components of the OpenAPI
document.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from fleet.explain.answer.parts import Answer
from fleet.explain.facts.compact import CompactVerdicts
from fleet.explain.replay.replay import Replayed, SkippedAttempt
from fleet.explain.whatif.compare import DecisionComparison
from fleet.explain.whatif.diff import DiffSummary, Moved
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.impact import Impact


class ApiModel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of all answers."""


class ConditionModel(ApiModel, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str
    message: str = ""
    """Left out where it could name clusters that the caller may not read."""


class SpreadModel(ApiModel, frozen=True, kw_only=True):
    topology_key: str
    max_skew: int
    when_unsatisfiable: str
    """DoNotSchedule, or ScheduleAnyway for a preference."""


class TolerationModel(ApiModel, frozen=True, kw_only=True):
    key: str
    operator: str
    value: str
    effect: str


class PlacementModel(ApiModel, frozen=True, kw_only=True):
    key: str
    """`name`, or `namespace/name`."""
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    created: str | None
    deleting: bool
    type: str
    """PickAll, PickN or PickFixed."""
    wanted: int | None
    """How many clusters; None for PickAll."""
    spread: tuple[SpreadModel, ...]
    """The policy's topology spread constraints."""
    tolerations: tuple[TolerationModel, ...]
    snapshot: str
    """The latest policy snapshot; empty while there is none."""
    targets: tuple[str, ...]
    """Clusters in use or chosen, sorted."""
    redacted: int
    """How many more there are that the caller may not read."""
    fulfilled: bool | None
    """Whether the scheduler selected all clusters that the policy requires; None while it has not decided."""
    conditions: tuple[ConditionModel, ...]


class PlacementPage(ApiModel, frozen=True, kw_only=True):
    items: tuple[PlacementModel, ...]
    next: str | None


class TaintModel(ApiModel, frozen=True, kw_only=True):
    key: str
    value: str
    effect: str


class ClusterModel(ApiModel, frozen=True, kw_only=True):
    name: str
    uid: str
    resource_version: str
    created: str | None
    leaving: bool
    eligible: bool
    """Whether it may get new work, by the status that its agent reports and the profile that placements without a
    scheduler name get."""
    joined: str
    """The status of the agent's condition: True, False, Unknown, or nothing."""
    healthy: str
    last_heartbeat: str | None
    labels: dict[str, str]
    taints: tuple[TaintModel, ...]
    properties: dict[str, str]
    capacity: dict[str, Any]
    allocatable: dict[str, Any]
    available: dict[str, Any]
    booked: dict[str, str]
    """What was placed there and is not in the report yet, of placements that request resources."""


class ClusterPage(ApiModel, frozen=True, kw_only=True):
    items: tuple[ClusterModel, ...]
    redacted: int
    """How many more clusters there are that the caller may not read."""
    next: str | None


class BindingModel(ApiModel, frozen=True, kw_only=True):
    placement: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    created: str | None
    deleting: bool
    state: str
    """Scheduled, Bound or Unscheduled."""
    cluster: str
    policy_snapshot: str
    resource_snapshot: str


class BindingPage(ApiModel, frozen=True, kw_only=True):
    items: tuple[BindingModel, ...]
    redacted: int
    """How many more there are, on clusters that the caller may not read."""
    next: str | None


class SettingModel(ApiModel, frozen=True, kw_only=True):
    name: str
    value: Any
    origin: str
    """`default`, a line of a file, a variable, or the command line."""
    meaning: str
    note: str = ""
    """`has no effect yet` for a setting that is accepted and that nothing reads."""


class SettingPage(ApiModel, frozen=True, kw_only=True):
    items: tuple[SettingModel, ...]


class VersionModel(ApiModel, frozen=True, kw_only=True):
    version: str
    """The tag; of a local build the version of the sources."""
    tag: str
    """`v0.0.0` for a local build."""
    kind: str
    """snapshot, branchfix, release, ondemand or local."""
    description: str
    revision: str
    """The commit; empty where the build did not name it."""
    created: str
    """When it was built; empty where the build did not name it."""


class HealthModel(ApiModel, frozen=True, kw_only=True):
    status: str
    """ok, degraded or failed."""
    checks: dict[str, str]
    """The problem by check; empty where there is none."""


# --- decisions --------------------------------------------------------------------------------------------------------


class TargetModel(ApiModel, frozen=True, kw_only=True):
    cluster: str
    rank: int
    action: str
    """create, refresh or revive; empty where the binding was in place."""
    binding: str
    topology: int | None
    affinity: int | None
    step: int


class RejectionCount(ApiModel, frozen=True, kw_only=True):
    plugin: str
    reason: str
    count: int


class DecisionModel(ApiModel, frozen=True, kw_only=True):
    """One attempt in short. Equal attempts after it only raise `repeats` and `lastAt`."""

    seq: int
    """Grows with every recorded decision: resume with `since`."""
    id: str
    key: str
    """Empty where the caller may not read the placement; what else would name it is left out, too."""
    placement_uid: str
    n: int
    """Which attempt of its placement it was, from 1."""
    at: str
    last_at: str
    repeats: int
    ending: str
    """How the attempt ended: Decided, Short, BadInput, Transient, …"""
    outcome: str
    """Of the decision. Empty where the attempt ended without one."""
    result: str
    """What came of it in a word: the outcome, unless the decision was not carried out, as one that was refused."""
    fulfilled: bool
    error: str
    """Left out where it could name clusters that the caller may not read."""
    type: str
    wanted: int | None
    active: int | None
    """Clusters in use afterwards."""
    clusters: int
    """How many there were."""
    targets: tuple[TargetModel, ...]
    """Clusters chosen, in the order of choice."""
    redacted: int
    """How many more there are that the caller may not read."""
    groups: tuple[RejectionCount, ...]
    """Rejected clusters by the first plugin that rejected them."""
    triggers: tuple[str, ...]
    """The events that made the scheduler decide."""
    generation: int | None
    snapshot: str
    digest: str
    config_hash: str
    duration_ms: float
    inputs: str
    """Whether it can be evaluated again: kept, none, shed or expired."""


# --- history, simulation and replay -----------------------------------------------------------------------------------


class HistoryPage(ApiModel, frozen=True, kw_only=True):
    items: tuple[DecisionModel, ...]
    next: str | None
    may_lag: bool = False
    """The history cannot be written or read at the moment: the newest decisions may be missing."""


class AttemptDiff(ApiModel, frozen=True, kw_only=True):
    """Two attempts of a placement, compared."""

    before: DecisionModel
    after: DecisionModel
    comparison: DecisionComparison


class SimulateRequest(ApiModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    placement: dict[str, Any]
    """`{"ref": "namespace/name"}`, or the whole document of a placement that need not exist."""
    from_: str = msgspec.field(default="current", name="from")
    """`current`, or the id of an attempt of this placement."""
    edits: tuple[Edit, ...] = ()
    explain: Literal["first", "all"] = "first"
    compare: bool = True
    fixes: Literal["none", "fast", "deep"] = "none"
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 20
    cluster: str | None = None
    """Exactly this cluster's row."""
    matrix: bool = False
    """Also: the verdict of every filter on every cluster, as in `GET /v1/matrix`."""
    impact: bool = False
    """Also: which placements would move. Edits of clusters only; for operators."""


class SimulateAnswer(ApiModel, frozen=True, kw_only=True):
    from_: str = msgspec.field(name="from")
    answer: Answer
    compare: DecisionComparison | None
    would_run: tuple[str, ...]
    """Hooks with plugins that would have acted on the decision. Empty for a profile without such plugins."""
    matrix: CompactVerdicts | None
    impact: Impact | None


class ScenarioRequest(ApiModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sequence of events, instead of a placement with edits. For operators."""

    steps: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(min_length=1, max_length=1000)]
    """As in the file of `fleet simulate --scenario`: `at`, and `apply`, `delete`, `leave`, `silence`, `recover`, `fill`
    or `expect`."""
    until: str | None = None
    """When it ends, such as `30m`; by default a minute after the last step."""
    from_: Literal["current"] = msgspec.field(default="current", name="from")


class ScenarioAttempt(ApiModel, frozen=True, kw_only=True):
    after: str
    """Since the start."""
    placement: str
    triggers: tuple[str, ...]
    """The events that moved the placement to the active queue."""
    result: str
    digest: str
    error: str = ""


class ScenarioMove(ApiModel, frozen=True, kw_only=True):
    placement: str
    cluster: str


class ScenarioStep(ApiModel, frozen=True, kw_only=True):
    at: str
    step: str
    attempts: tuple[ScenarioAttempt, ...]
    placed: tuple[ScenarioMove, ...]
    removed: tuple[ScenarioMove, ...]
    short: tuple[str, ...]
    """Placements with fewer clusters than they want, when the step ends."""
    unmet: tuple[str, ...]
    """Expectations that do not hold."""
    fits: int | None = None
    """Of `fill`: how many copies have all their clusters."""


class ScenarioAnswer(ApiModel, frozen=True, kw_only=True):
    start: str
    holds: bool
    """Whether everything is as expected, and the scenario was played to its end."""
    cut: str = ""
    """Why the scenario was not played to its end: the steps are those that were."""
    not_run: dict[str, tuple[str, ...]] = {}
    """The hooks of plugins that may act on the real world, and were left out."""
    steps: tuple[ScenarioStep, ...]


class ReplaySelection(ApiModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since: str | None = None
    """RFC 3339: attempts that began then or later."""
    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Only attempts with a greater `seq`: the `next` of an earlier report."""
    ids: Annotated[tuple[str, ...], msgspec.Meta(max_length=1000)] | None = None
    """Exactly these attempts."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class ReplayChange(ApiModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    edits: tuple[Edit, ...] = ()


class ReplayRequest(ApiModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    select: ReplaySelection = ReplaySelection()
    change: ReplayChange | None = None


class ReplayReport(ApiModel, frozen=True, kw_only=True):
    attempts: int
    same: int
    different: tuple[Replayed, ...]
    """Without a change: attempts that do not come out as recorded. There should be none."""
    changed: tuple[Moved, ...]
    """With a change: attempts that would have ended elsewhere."""
    skipped: tuple[SkippedAttempt, ...]
    summary: DiffSummary | None
    next: int | None
    """Where to continue if the time was up or the limit was reached: the `after` of the next request."""


class SnapshotDocument(ApiModel, frozen=True, kw_only=True):
    """All inputs of decisions at one moment."""

    api_version: Literal["fleet/v1"] = "fleet/v1"
    kind: Literal["FleetSnapshot"] = "FleetSnapshot"
    at: str
    config_hash: str
    settings: dict[str, Any]
    """Those that differ from their defaults."""
    clusters: tuple[dict[str, Any], ...]
    placements: tuple[dict[str, Any], ...]
    options: tuple[dict[str, Any], ...]
    """Of placements."""
    quotas: tuple[dict[str, Any], ...]
    policy_snapshots: tuple[dict[str, Any], ...]
    bindings: tuple[dict[str, Any], ...]
    pending: tuple[str, ...]
    """Placements in the queue, in flight, or with fewer clusters than required."""
