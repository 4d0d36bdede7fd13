"""The JSON of placements that wait for approval or for room, and of answers to them."""

from __future__ import annotations

from typing import Literal

from api.models import ApiModel


class WaitingTargetModel(ApiModel, frozen=True, kw_only=True):
    """A chosen cluster, and who has to allow it."""

    cluster: str
    plugin: str
    rule: str
    """The approval rule; empty if the plugin has none."""
    since: str
    deadline: str | None
    """When the cluster is given up; None if nothing is reserved: the question stays open."""
    remaining_seconds: float | None
    users: tuple[str, ...]
    """Who may approve; with no user and no group everyone who has the right."""
    groups: tuple[str, ...]
    count: int
    """How many different approvers are needed."""
    approved_by: tuple[str, ...]
    may_answer: bool
    """Whether the caller may approve or deny."""


class WaitingModel(ApiModel, frozen=True, kw_only=True):
    uid: str
    """Of the placement."""
    key: str
    profile: str
    message: str
    targets: tuple[str, ...]
    """The chosen clusters."""
    redacted_targets: int
    """How many more clusters are chosen that the caller may not read."""
    waiting: tuple[WaitingTargetModel, ...]
    redacted: int
    """How many more clusters wait that the caller may not read."""


class WaitingList(ApiModel, frozen=True, kw_only=True):
    items: tuple[WaitingModel, ...]


class DenialModel(ApiModel, frozen=True, kw_only=True):
    """A cluster that an approver has denied the placement."""

    cluster: str
    rule: str
    by: str
    at: str
    message: str
    """Empty for callers who may not read all clusters: it may name any."""
    until: str
    """When the denial expires."""


class GateModel(ApiModel, frozen=True, kw_only=True):
    """What keeps the placement out of the queue."""

    by: str
    """The plugin, or what stands for one."""
    message: str
    since: str
    """Empty where that is not known yet."""
    gates: tuple[str, ...]
    """The placement's own gates that are left."""
    cleared_by: str
    """Who may clear them, in words."""
    clearable: tuple[str, ...]
    """Those that the caller may clear here."""


Phase = Literal["Selected", "Evicting", "Drained"]


class VictimBudgetModel(ApiModel, frozen=True, kw_only=True):
    """The disruption budget of a placement that has to leave."""

    placement: str
    rule: str
    """As it is written: `maxUnavailable 1` or `minAvailable 50%`."""
    disruptions: int
    """How many clusters the placement may lose now."""


class MakingRoomModel(ApiModel, frozen=True, kw_only=True):
    """A cluster where room is made for the placement."""

    cluster: str
    phase: Phase
    """Planned; its victims leave; they have left, and the room is kept."""
    since: str
    victims: tuple[str, ...]
    """Placements that have to leave, as far as the caller may read them."""
    hidden: int
    """How many more there are."""
    budgets: tuple[VictimBudgetModel, ...] = ()
    """Of those that have one."""


class PreemptingModel(ApiModel, frozen=True, kw_only=True):
    clusters: tuple[MakingRoomModel, ...]
    redacted: int
    """How many more clusters there are that the caller may not read."""


class AllowRequest(ApiModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    plugin: str
    target: str | None = None
    """The cluster; every one that waits when left out."""
    rule: str | None = None
    """The approval rule; every one that the caller may answer when left out."""
    reason: str = ""


class RejectRequest(ApiModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    plugin: str
    message: str
    """Shown to the owner of the placement."""
    target: str | None = None
    rule: str | None = None


class RemainingModel(ApiModel, frozen=True, kw_only=True):
    cluster: str
    plugin: str
    rule: str


class AllowAnswer(ApiModel, frozen=True, kw_only=True):
    dealt_with: bool
    """Whether nothing is waited for any more."""
    remaining: tuple[RemainingModel, ...]
    """What still has to be answered, by others or for other clusters, without those that the caller may not read."""


class RejectAnswer(ApiModel, frozen=True, kw_only=True):
    delivered: bool


class ClearedGate(ApiModel, frozen=True, kw_only=True):
    remaining: tuple[str, ...]
    """The gates that are left."""
