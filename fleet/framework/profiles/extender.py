"""Extender: an HTTP service outside the process that filters, scores and binds, as a plugin of a profile.

The plugin does no I/O. It asks for the opinion of the service with a query, which ends this run of the decision, and
reads the answer in the next one. An answer holds for the clusters that were asked about, so a later round asks about
further clusters only. Bind comes after the decision: there the scheduler asks at once, and the binding is written if
the service agrees.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
import numpy as np

from fleet.errors import ExtenderUnavailable
from fleet.framework.context import EXTENDER_IGNORED
from fleet.framework.policy.resource_requests import format_amount, parse_needs
from fleet.framework.status import Code, Status
from fleet.framework.types import ExternalQuery, ExternalResult, PluginTraits, Reason, ReasonTable, Verdict
from fleet.snapshot.columns.bitset import Int64Array, Rows, from_rows, to_rows

if TYPE_CHECKING:
    from fleet.framework.context import HookContext
    from fleet.framework.operations import Target
    from fleet.framework.request import PlacementRequest
    from fleet.framework.state import CycleState
    from fleet.snapshot.frame import Frame

FILTER: Final = "filter"
PRIORITIZE: Final = "prioritize"
BIND: Final = "bind"
GREATEST_PRIORITY: Final = 10
_SCORE_OF_A_PRIORITY: Final = 10
ACCEPTED, REJECTED, REJECTED_FOR_GOOD = 0, 1, 2
"""Judgements of a filter. The others are reasons."""
REFUSAL: Final = "refusal"
"""Of an answer to bind: why not; empty if it agrees."""

Answers = Mapping[str, Any]
"""By cluster, as `_identify` names it: of a filter a judgement and a message, of prioritize a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderRef:
    """What decisions depend on. Address and time-out are not among it: they lead to an answer, which is an input."""

    name: str
    filters: bool = False
    prioritizes: bool = False
    weight: int = 1
    ignorable: bool = False
    names_only: bool = False
    """Whether it gets names of clusters instead of labels and taints, too."""
    binds: bool = False
    managed_resources: tuple[str, ...] = ()
    """It is asked only about placements that request one of them; without any, about all."""

    def list_fields(self) -> dict[str, Any]:
        """Of its hash: those that came later only where they are given, so that earlier hashes stay."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        later = ("binds", "managed_resources")
        return {name: value for name, value in fields.items() if value or name not in later}


class Extender(PluginTraits):
    READS = ("labels", "taints")
    REASONS: ClassVar[ReasonTable] = ReasonTable(
        Reason("Rejected", Code.UNSCHEDULABLE, "{message}", short="rejected by an extender"),
        Reason(
            "RejectedForGood",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "{message}",
            short="rejected for good by an extender",
        ),
    )

    def __init__(self, ref: ExtenderRef) -> None:
        self._ref = ref

    def name(self) -> str:
        return self._ref.name

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del state
        rows = to_rows(alive & frame.valid, frame.size)
        if not len(rows) or not self._is_interested_in(req):
            return Verdict(ok=alive)
        answers = self._find_answers(ctx, FILTER, req, frame, rows)
        reason = np.zeros(frame.size, dtype=np.uint16)
        messages: dict[int, str] = {}
        for row in rows.tolist():
            judgement, message = answers.get(self._identify(frame, row), (ACCEPTED, ""))
            if judgement != ACCEPTED:
                reason[row], messages[row] = judgement, message
        name = self._ref.name
        return Verdict(
            ok=alive & ~from_rows(messages),
            reason=reason,
            explain=lambda row: {"name": name, "message": messages[row]},
        )

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        """Where scores count as they are, the weight is part of them."""
        del state
        if not self._is_interested_in(req):
            return np.zeros(len(rows), dtype=np.int64)
        factor = _SCORE_OF_A_PRIORITY * (self._ref.weight if ctx.ranking == "lexicographic" else 1)
        answers = self._find_answers(ctx, PRIORITIZE, req, frame, rows)
        priorities = [answers.get(self._identify(frame, row), 0) for row in rows.tolist()]
        return np.array(priorities, dtype=np.int64) * factor

    async def bind(self, ctx: HookContext, state: CycleState, req: PlacementRequest, target: Target) -> Status | None:
        """A refusal keeps the binding from being written. Without an answer the next binder comes, if the extender may
        be ignored."""
        del state
        if target.operation is None or not self._is_interested_in(req):
            return Status.new(Code.SKIP)
        subject = {"name": req.placement, "namespace": req.namespace, "uid": req.uid, "cluster": target.cluster}
        asked = {"extender": self._ref.name, "verb": BIND, **subject}
        result = await ctx.ask(ExternalQuery(f"{self._ref.name}/{BIND}/{target.cluster}", asked))
        if result.error:
            return Status.new(Code.SKIP if self._ref.ignorable else Code.ERROR, result.error)
        if result.value.get(REFUSAL):
            return Status.new(Code.ERROR, result.value[REFUSAL])
        return await ctx.write(target.operation)

    def _is_interested_in(self, req: PlacementRequest) -> bool:
        managed = self._ref.managed_resources
        overridden = (parse_needs(text) for each in req.overridden_requests for text in each.needs)
        asked = {name for needs in (req.needs, *overridden) for name in (*needs.fixed, *needs.per_node)}
        return not managed or not asked.isdisjoint(managed)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _find_answers(self, ctx: HookContext, verb: str, req: PlacementRequest, frame: Frame, rows: Rows) -> Answers:
        """For all rows; without those that an extender which may be ignored did not give."""
        subject = describe_placement(req)
        key = f"{self._ref.name}/{verb}/{_hash(subject)}"
        result = ctx.find_result(key) or ExternalResult({})
        answers: Answers = result.value or {}
        missing = [row for row in rows.tolist() if self._identify(frame, row) not in answers]
        if not missing or not ctx.asks:
            return answers
        if not result.error:
            ctx.query_more(ExternalQuery(key, self._describe_query(verb, subject, frame, missing)))
        if not self._ref.ignorable:
            raise ExtenderUnavailable(result.error)
        ctx.warn(EXTENDER_IGNORED, f"{self._ref.name} at {verb}: {result.error}", from_rows(missing))
        return answers

    def _describe_query(self, verb: str, subject: object, frame: Frame, rows: Sequence[int]) -> dict[str, Any]:
        """Clusters in the order of their names: that of rows has no meaning."""
        ordered = sorted(rows, key=frame.name)
        asked: dict[str, Any] = {"extender": self._ref.name, "verb": verb, "placement": subject}
        asked["clusters"] = {self._identify(frame, row): frame.name(row) for row in ordered}
        if not self._ref.names_only:
            asked["documents"] = [_describe_cluster(frame, row) for row in ordered]
        return asked

    def _identify(self, frame: Frame, row: int) -> str:
        """Equal only for clusters that the extender cannot tell apart."""
        name = frame.name(row)
        return name if self._ref.names_only else f"{name}@{_hash(_describe_cluster(frame, row))}"


def describe_placement(req: PlacementRequest) -> dict[str, Any]:
    """What an extender gets to know of a placement."""
    metadata: dict[str, Any] = {"name": req.placement}
    metadata |= {"namespace": req.namespace} if req.namespace else {}
    metadata |= {"uid": req.uid} if req.uid else {}
    metadata |= {"generation": req.generation} if req.generation is not None else {}
    policy: dict[str, Any] = {} if req.policy is None else msgspec.to_builtins(req.policy)
    policy |= {} if req.wanted is None else {"numberOfClusters": req.wanted}
    spec: dict[str, Any] = {"schedulerName": req.scheduler_name, "policy": policy}
    for field, amounts in (("requests", req.requests), ("requestsPerNode", req.node_requests)):
        if amounts:
            spec[field] = {resource: format_amount(resource, amount) for resource, amount in amounts.items()}
    return {"metadata": metadata, "spec": spec}


def _describe_cluster(frame: Frame, row: int) -> dict[str, Any]:
    cluster = frame.cluster(row)
    metadata = {"name": cluster.metadata.name, "labels": dict(cluster.metadata.labels or {})}
    return {"metadata": metadata, "spec": {"taints": msgspec.to_builtins(cluster.spec.taints or ())}}


def _hash(document: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(document, order="sorted"), digest_size=8).hexdigest()
