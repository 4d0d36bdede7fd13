"""A question to the scheduler together with the policy it came from, so that it can be asked again with changes.

A world is a value: applying edits gives another one. It is what simulations, fixes, replays and the impact on the whole
fleet are made of, and all of them end in the one decision function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from fleet.errors import InputError
from fleet.explain.facts.redaction import Hidden, Veil
from fleet.explain.whatif.cluster_edits import edit_fleet
from fleet.explain.whatif.edits import Edit, Evict, scope_of
from fleet.explain.whatif.policy_edits import edited
from fleet.framework.cycle.cycle import NEVER_PUBLISHED, DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest, compile_request
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.views import Binding, MemberCluster, PolicySnapshot, PolicySnapshotStatus
from fleet.snapshot.frame import Frame
from fleet.snapshot.table import Table


@dataclass(frozen=True, slots=True)
class World:
    question: DecisionInput
    snapshot: PolicySnapshot
    """What `question.request` was compiled from."""

    @classmethod
    def made_of(
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
    ) -> Self:
        """Without `previous`, the status in the snapshot counts as published before."""
        question = DecisionInput(
            frame=clusters if isinstance(clusters, Frame) else Table(clusters).freeze(),
            request=compile_request(snapshot, placement_uid=placement_uid),
            bindings=bindings,
            profile=profile,
            now=now,
            previous=snapshot.status if previous is None else previous,
            cursor=cursor,
        )
        return cls(question, snapshot)

    def decide(self) -> Decision:
        return decide(self.question)

    def apply(self, edits: Sequence[Edit], *, hidden: Hidden | None = None) -> World:
        """The world after the edits, one after the other. One that makes no sense is an InputError with its place,
        which names no hidden cluster that the edit does not name."""
        world, fleet = self, _Fleet(self.question.frame, now=self.question.now, hidden=hidden)
        for position, edit in enumerate(edits):
            place = f"edits[{position}]"
            if isinstance(edit, Evict):
                world = world._without_binding(edit, place)
            elif scope_of(edit) == "placement":
                world = world._with_policy(edit, place)
            else:
                fleet.edit(edit, place)
        return replace(world, question=replace(world.question, frame=fleet.frame()))

    def _with_policy(self, edit: Edit, place: str) -> World:
        taken = {one.spec.scheduling_policy_snapshot_name for one in self.question.bindings}
        after = edited(self.snapshot, edit, place=place, taken=taken)
        before = self.question.request
        request = replace(
            compile_request(after, placement_uid=before.uid),
            priority=before.priority,
            min_targets=before.min_targets,
            requests=before.requests,
            gates=before.gates,
        )
        is_new = after.metadata.name != self.snapshot.metadata.name
        previous = NEVER_PUBLISHED if is_new else self.question.previous
        return World(replace(self.question, request=request, previous=previous), after)

    def _without_binding(self, edit: Evict, place: str) -> World:
        kept = [one for one in self.question.bindings if not _is_meant(one, edit, self.question.request)]
        if len(kept) == len(self.question.bindings):
            what = f"binding {edit.binding!r}" if edit.binding else "binding"
            message = f"placement {self.question.request.key} has no {what} on cluster {edit.cluster!r}"
            raise InputError(f"{message}; there is nothing to evict", field=f"{place}.cluster", value=edit.cluster)
        return replace(self, question=replace(self.question, bindings=kept))


class _Fleet:
    """A frame under edit: it is copied when the first edit comes."""

    def __init__(self, frame: Frame, *, now: int, hidden: Hidden | None) -> None:
        self._before, self._now = frame, now
        self._veil = Veil(frame, hidden)
        self._table: Table | None = None

    def edit(self, edit: Edit, place: str) -> None:
        if self._table is None:
            self._table = Table.fork(self._before)
        edit_fleet(self._table, edit, now=self._now, place=place, veil=self._veil)

    def frame(self) -> Frame:
        return self._before if self._table is None else self._table.freeze()


def edited_frame(frame: Frame, edits: Sequence[Edit], *, now: int, hidden: Hidden | None = None) -> Frame:
    """The fleet after edits of clusters; any other edit is an InputError."""
    fleet = _Fleet(frame, now=now, hidden=hidden)
    for position, edit in enumerate(edits):
        if scope_of(edit) == "placement" or isinstance(edit, Evict):
            message = f"{edit.op} is about one placement; change clusters to see what it means for all of them"
            raise InputError(message, field=f"edits[{position}].op", value=edit.op)
        fleet.edit(edit, f"edits[{position}]")
    return fleet.frame()


def _is_meant(binding: Binding, edit: Evict, request: PlacementRequest) -> bool:
    return (
        binding.spec.target_cluster == edit.cluster
        and binding.metadata.namespace == request.namespace
        and binding.metadata.label(PARENT_PLACEMENT) == request.placement
        and edit.binding in ("", binding.metadata.name)
    )
