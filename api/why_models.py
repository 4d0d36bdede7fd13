"""The JSON of `why`: an explained decision with what the server knows beyond it."""

from __future__ import annotations

from typing import Literal

from api.group_models import GroupModel
from api.models import ApiModel, DecisionModel
from api.waiting_models import DenialModel, GateModel, PreemptingModel, WaitingModel
from fleet.explain.answer.parts import Answer


class Waker(ApiModel, frozen=True, kw_only=True):
    """An event that requeues the placement."""

    event: str
    """Such as `MemberCluster/UpdateTaints`."""
    plugin: str
    """The plugin whose verdict it may change; `*` for all."""
    when: str
    """The event in words."""
    names: tuple[str, ...] | None
    """Only for these labels, properties, namespaces or clusters; None for any."""
    more_names: int = 0
    """Of very many names, those that are not listed."""


class QueueModel(ApiModel, frozen=True, kw_only=True):
    """Where the placement is in the scheduling queue."""

    space: str
    """active, backoff, error, unschedulable, gated, in_flight or none; unknown where the process that answers does not
    schedule."""
    note: str = ""
    """A remark on the above."""
    ready: int = 0
    """Placements in the active queue."""
    ahead: int | None = None
    """How many of them come first, as of now; None for a placement that is not ready."""
    ahead_of_higher_priority: int | None = None
    priority: int | None = None
    attempts: int = 0
    """Since it last succeeded."""
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    rejectors: tuple[str, ...] = ()
    """Plugins that rejected the last attempt."""
    pending: tuple[str, ...] = ()
    gated_by: str | None = None
    gate_message: str = ""
    """The message of the plugin that gates it."""
    since: str | None = None
    """In this space."""
    backoff_until: str | None = None
    """When it is ready again. After a failed attempt at the earliest: all failed ones share a rate limit."""
    early_pop: bool | None = None
    """Whether an idle worker may take it earlier."""
    flush_by: str | None = None
    """When it is retried even without an event; None for never."""
    wakes_on: tuple[Waker, ...] = ()
    """Events that requeue it. They follow from the policy, also where the queue is unknown."""


class PastAttempt(ApiModel, frozen=True, kw_only=True):
    n: int
    id: str
    at: str
    outcome: str
    repeats: int


class EvaluationModel(ApiModel, frozen=True, kw_only=True):
    """Where another scheduler decides: Fleet's decision compared with what is bound. Clusters that the caller may not
    read are only counted."""

    by: Literal["Fleet"] = "Fleet"
    decided: bool
    """Whether the other scheduler has decided on the present policy."""
    agrees: bool | None
    """Whether Fleet would leave the bound clusters as they are. None if it has no answer."""
    bound: int
    adds: tuple[str, ...] = ()
    """Clusters that Fleet would add to those that are bound."""
    removes: tuple[str, ...] = ()
    """Bound clusters that Fleet would give up."""
    afresh_adds: tuple[str, ...] = ()
    """Clusters that Fleet would choose today, if nothing were bound, and that are not bound."""
    afresh_leaves_out: tuple[str, ...] = ()
    """Bound clusters that it would then not choose."""
    hidden: int = 0
    """How many clusters are missing from these lists because the caller may not read them."""
    summary: str


class WhyAnswer(Answer, frozen=True, kw_only=True, rename="camel"):
    """Why a placement is where it is."""

    queue: QueueModel | None
    """None in answers about an earlier attempt, and for a deleted placement."""
    recorded: DecisionModel | None
    """The record of the attempt; None if there is none."""
    history: tuple[PastAttempt, ...]
    """The newest attempts, newest first."""
    links: dict[str, str]
    evaluation: EvaluationModel | None = None
    """Where another scheduler decides."""
    gate: GateModel | None = None
    """Of a placement that is Gated."""
    waiting: WaitingModel | None = None
    """Of a placement that is Waiting or Binding: the chosen clusters, and who has to allow which."""
    denials: tuple[DenialModel, ...] = ()
    """Of the approvals that its rules need: who denied which cluster, and until when. Others may have been chosen."""
    preempting: PreemptingModel | None = None
    """Of a placement that is Preempting: where room is made, and at whose expense."""
    group: GroupModel | None = None
    """The group that the placement belongs to."""
