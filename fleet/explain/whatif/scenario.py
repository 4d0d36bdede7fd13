"""Scenario: a decision input with the policy it was compiled from, so that it can be decided again with edits.

A scenario is a value: applying edits gives another one. Simulations, fixes, replays and impacts are made of scenarios,
and all of them end in the one decision function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import msgspec

from fleet.checkpoint import check
from fleet.errors import InputError
from fleet.explain.facts.redaction import Hidden, Redaction
from fleet.explain.whatif.cluster_edits import apply_to_fleet
from fleet.explain.whatif.edits import Edit, Evict, RelaxPlacementAffinity, SetMinTargets, SetRequest, scope_of
from fleet.explain.whatif.policy_edits import apply_to_policy
from fleet.framework.context import NO_QUERY_RESULTS
from fleet.framework.cycle.cycle import NEVER_PUBLISHED, DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.policy.resource_requests import NO_NEEDS, find_request_problems, read_requests
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest, compile_request, write_annotations
from fleet.framework.types import ExternalResult
from fleet.model.keys import MIN_TARGETS, PARENT_PLACEMENT, PICK_N
from fleet.model.views import Binding, MemberCluster, PolicySnapshot, PolicySnapshotStatus
from fleet.snapshot.frame import Frame
from fleet.snapshot.table import Table


@dataclass(frozen=True, slots=True)
class Scenario:
    question: DecisionInput
    snapshot: PolicySnapshot
    """What `question.request` was compiled from."""

    @classmethod
    def build(
        cls,
        *,
        clusters: Iterable[MemberCluster] | Frame,
        snapshot: PolicySnapshot,
        bindings: Sequence[Binding],
        profile: CompiledProfile,
        now: int,
        placement_uid: str = "",
        previous: PolicySnapshotStatus | None = None,
        cursor: int = 0,
        query_results: Mapping[str, ExternalResult] = NO_QUERY_RESULTS,
        nominated: tuple[str, ...] = (),
        set_aside: Iterable[str] = (),
    ) -> Self:
        """Without `previous`, the status in the snapshot counts as published before."""
        frame = clusters if isinstance(clusters, Frame) else Table(clusters).freeze()
        rows = [row for row in map(frame.row_of, set_aside) if row is not None]
        question = DecisionInput(
            frame=frame.exclude(rows) if rows else frame,
            request=compile_request(snapshot, placement_uid=placement_uid),
            bindings=bindings,
            profile=profile,
            now=now,
            previous=snapshot.status if previous is None else previous,
            cursor=cursor,
            query_results=query_results,
            nominated=nominated,
        )
        return cls(question, snapshot)

    def decide(self) -> Decision:
        return decide(self.question)

    def answer(self, results: Mapping[str, ExternalResult]) -> Scenario:
        """The same scenario with answers of extenders."""
        return replace(self, question=replace(self.question, query_results=results)) if results else self

    def apply(self, edits: Sequence[Edit], *, hidden: Hidden | None = None) -> Scenario:
        """The scenario after the edits, in order. One that does not apply is an InputError with its place,
        which names no hidden cluster that the edit does not name."""
        scenario, fleet = self, _EditedFleet(self.question.frame, now=self.question.now, hidden=hidden)
        for position, edit in enumerate(edits):
            check()
            place = f"edits[{position}]"
            if isinstance(edit, Evict):
                if edit.placement in ("", self.question.request.key):
                    scenario = scenario._remove_binding(edit, place)
            elif isinstance(edit, SetRequest):
                scenario = scenario._set_request(edit, place)
            elif isinstance(edit, RelaxPlacementAffinity):
                scenario = scenario._relax_placement_affinity(edit, place)
            elif isinstance(edit, SetMinTargets):
                scenario = scenario._set_min_targets(edit, place)
            elif scope_of(edit) == "placement":
                scenario = scenario._edit_policy(edit, place)
            else:
                fleet.edit(edit, place)
        return replace(scenario, question=replace(scenario.question, frame=fleet.freeze()))

    def _edit_policy(self, edit: Edit, place: str) -> Scenario:
        taken = {binding.spec.scheduling_policy_snapshot_name for binding in self.question.bindings}
        after = apply_to_policy(self.snapshot, edit, place=place, taken=taken)
        request = self._compile(after, write_annotations(self.question.request))
        is_new = after.metadata.name != self.snapshot.metadata.name
        previous = NEVER_PUBLISHED if is_new else self.question.previous
        return Scenario(replace(self.question, request=request, previous=previous), after)

    def _compile(self, snapshot: PolicySnapshot, annotations: Mapping[str, str]) -> PlacementRequest:
        """With what the placement says beside them."""
        before = self.question.request
        request = compile_request(
            snapshot,
            placement_uid=before.uid,
            scheduler_name=before.scheduler_name,
            placement_annotations=annotations,
        )
        return replace(
            request.add_problems(before.list_lasting_problems()), priority=before.priority, gates=before.gates
        )

    def _set_min_targets(self, edit: SetMinTargets, place: str) -> Scenario:
        if self.question.request.placement_type != PICK_N:
            message = "minTargets has an effect with PickN only"
            raise InputError(message, field=f"{place}.value", value=edit.value)
        if edit.value is not None and edit.value < 1:
            raise InputError(f"{edit.value} is less than 1", field=f"{place}.value", value=edit.value)
        said = {**write_annotations(self.question.request), MIN_TARGETS: str(edit.value)}
        if edit.value is None:
            del said[MIN_TARGETS]
        return replace(self, question=replace(self.question, request=self._compile(self.snapshot, said)))

    def _set_request(self, edit: SetRequest, place: str) -> Scenario:
        for _, message in find_request_problems({edit.resource: "0" if edit.value is None else edit.value}):
            raise InputError(message, field=f"{place}.value", value=edit.value)
        needs = self.question.request.needs.without(edit.resource)
        added = {} if edit.value is None else read_requests({edit.resource: edit.value})
        request = replace(
            self.question.request,
            requests={**needs.fixed, **added},
            node_requests=needs.per_node,
            overridden_requests=needs.overridden,
            limits=NO_NEEDS,
        )
        return replace(self, question=replace(self.question, request=request))

    def _relax_placement_affinity(self, edit: RelaxPlacementAffinity, place: str) -> Scenario:
        request = self.question.request
        terms = list(request.affinity.required)
        if not 0 <= edit.term < len(terms):
            message = f"the placement has {len(terms)} required terms about other placements; they are counted from 0"
            raise InputError(message, field=f"{place}.term", value=edit.term)
        del terms[edit.term]
        affinity = msgspec.structs.replace(request.affinity, required=tuple(terms))
        return replace(self, question=replace(self.question, request=replace(request, affinity=affinity)))

    def _remove_binding(self, edit: Evict, place: str) -> Scenario:
        kept = [binding for binding in self.question.bindings if not _matches(binding, edit, self.question.request)]
        if len(kept) == len(self.question.bindings):
            what = f"binding {edit.binding!r}" if edit.binding else "binding"
            message = f"placement {self.question.request.key} has no {what} on cluster {edit.cluster!r}"
            raise InputError(f"{message}; there is nothing to evict", field=f"{place}.cluster", value=edit.cluster)
        return replace(self, question=replace(self.question, bindings=kept))


class _EditedFleet:
    """A frame under edit: it is copied at the first edit."""

    def __init__(self, frame: Frame, *, now: int, hidden: Hidden | None) -> None:
        self._before, self._now = frame, now
        self._redaction = Redaction(frame, hidden)
        self._table: Table | None = None

    def edit(self, edit: Edit, place: str) -> None:
        if self._table is None:
            self._table = Table.fork(self._before)
        apply_to_fleet(self._table, edit, now=self._now, place=place, redaction=self._redaction)

    def freeze(self) -> Frame:
        return self._before if self._table is None else self._table.freeze()


def apply_to_frame(frame: Frame, edits: Sequence[Edit], *, now: int, hidden: Hidden | None = None) -> Frame:
    """The fleet after edits of clusters; any other edit is an InputError, but for evictions that name a placement."""
    fleet = _EditedFleet(frame, now=now, hidden=hidden)
    for position, edit in enumerate(edits):
        check()
        if isinstance(edit, Evict) and edit.placement:
            continue
        if scope_of(edit) == "placement" or isinstance(edit, Evict):
            message = f"{edit.op} is about one placement; change clusters to see what it means for all of them"
            raise InputError(message, field=f"edits[{position}].op", value=edit.op)
        fleet.edit(edit, f"edits[{position}]")
    return fleet.freeze()


def remove_evicted(question: DecisionInput, edits: Sequence[Edit]) -> DecisionInput:
    """Without the bindings that evictions take from this placement, which they name."""
    own = [edit for edit in edits if isinstance(edit, Evict) and edit.placement == question.request.key]
    kept = [
        binding for binding in question.bindings if not any(_matches(binding, edit, question.request) for edit in own)
    ]
    return replace(question, bindings=kept) if own else question


def _matches(binding: Binding, edit: Evict, request: PlacementRequest) -> bool:
    return (
        binding.spec.target_cluster == edit.cluster
        and binding.metadata.namespace == request.namespace
        and binding.metadata.label(PARENT_PLACEMENT) == request.placement
        and edit.binding in ("", binding.metadata.name)
    )
