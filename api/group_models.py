"""The JSON of placement groups: what they wait for, and where their members could not be placed."""

from __future__ import annotations

from typing import Literal

from api.models import ApiModel
from api.waiting_models import GateModel, PreemptingModel, WaitingModel
from fleet.explain.answer.parts import HookStatus

GroupPhase = Literal["Missing", "Waiting", "Binding", "Scheduled", "TimedOut", "Degraded", "Unwinding"]
MemberState = Literal[
    "Bound",
    "Binding",
    "Gated",
    "Waiting",
    "Preempting",
    "InFlight",
    "WaitingForGroup",
    "Unschedulable",
    "BindFailed",
    "SchedulerError",
    "InputError",
    "Queued",
]


class GroupModel(ApiModel, frozen=True, kw_only=True):
    kind: str
    namespace: str
    name: str
    state: GroupPhase
    """Missing: placements name it, and there is no such object. The others follow from its conditions."""
    reason: str
    """Of the condition that says so, such as GroupInfeasible."""
    message: str
    """Left out where it could name members that the caller may not read."""
    since: str | None
    """Since when it waits."""
    deadline: str | None
    """When it is given up; None for never, and while room is made for it."""
    needed: int
    """How many members have to be bound together."""
    members: int
    placed: int
    """Members that are bound."""
    hidden: int
    """How many of the members the caller may not read."""
    domain: str
    """The value of the topology key in which all members are, where the caller may read a cluster of it."""
    topology_key: str
    same_clusters: bool
    schedule_timeout_seconds: int
    on_partial_bind: str


class GroupList(ApiModel, frozen=True, kw_only=True):
    items: tuple[GroupModel, ...]


class GroupRejection(ApiModel, frozen=True, kw_only=True):
    """Clusters of a domain that one plugin rejected for one reason."""

    plugin: str
    reason: str
    count: int
    """How many; 0 for a refusal of the placement itself."""
    clusters: tuple[str, ...]
    """Some of them, as far as the caller may read them."""
    message: str
    """Of one of these, as the plugin puts it. Left out where it could name clusters that the caller may not read."""


class GroupTrial(ApiModel, frozen=True, kw_only=True):
    """The group in one domain, or anywhere, as a member came off there."""

    domain: str
    """Empty without a topology key, and where the caller may read no cluster of it."""
    clusters: int
    fitting: int
    """Members of the group that fit, with those that are bound."""
    fits: bool | None
    """Whether this member does. None: it was not looked at, because the others could not reach the minimum any more."""
    rejections: tuple[GroupRejection, ...]


class GroupMemberModel(ApiModel, frozen=True, kw_only=True):
    key: str
    state: MemberState
    """Waiting is for approvals, Preempting for room, WaitingForGroup for the other members."""
    clusters: tuple[str, ...]
    """Where it is bound."""
    planned: tuple[str, ...]
    """Where it is to be bound with the others."""
    redacted: int
    """How many clusters are missing in these because the caller may not read them."""
    gate: GateModel | None = None
    waiting: WaitingModel | None = None
    preempting: PreemptingModel | None = None
    """Where room is made or kept for it."""
    at: str = ""
    """Of the attempt that the following is from; empty if none is recorded."""
    trials: tuple[GroupTrial, ...] = ()
    """Where it was tried together with the others."""
    more_trials: int = 0
    answers: tuple[HookStatus, ...] = ()
    """Refusals of its own, of plugins that act on decisions."""
    error: str = ""
    """Left out where it could name clusters that the caller may not read."""
    why: str
    """Path of the answer about this placement alone."""


class GroupWhy(ApiModel, frozen=True, kw_only=True):
    """Why a group is where it is. Everything in it is recorded: no decision is made for it."""

    group: GroupModel
    fitting: int | None
    """Members that fit in the best place that was found; None if no attempt is recorded."""
    blocking: tuple[str, ...]
    """Members that do not fit there, as far as the caller may read them."""
    members: tuple[GroupMemberModel, ...]
    """Those that are not bound first."""
    more: int
    """How many members are left out."""
    note: str
    """What is missing in this answer, and why; empty if nothing is."""
