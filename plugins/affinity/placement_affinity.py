"""Placements that belong together, or apart: clusters are chosen by the other placements that are on them or near them.

Clusters with the same value of a term's topology key are one domain; without a key every cluster is its own. A domain
has the placements of a term if any that the term selects is on one of its clusters, or about to be. What the placement
itself holds or has just picked counts, too, so with terms that select it clusters are picked one by one. Required terms
to keep away bind both sides: a placement is kept out of the domains of those that keep away from it.

A placement is not taken from the clusters it is on: they were right when it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from fleet.cached import cached_property
from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.explaining import (
    EVERY_LABEL,
    OTHER_PLACEMENT,
    ClusterEvent,
    ClusterEventKind,
    RejectedClusters,
    Suggestion,
)
from fleet.framework.handle import Handle
from fleet.framework.needs import read_needed
from fleet.framework.operations import Target
from fleet.framework.policy.placement_terms import build_selection, describe_placements, list_repelling, selects
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import min_max
from fleet.framework.state import CycleState, StateKey
from fleet.framework.status import Code, Status
from fleet.framework.types import Delta, Details, PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.views import PlacementPolicy, PlacementTerm
from fleet.snapshot.columns.bitset import BoolArray, Int64Array, Mask, Rows, from_bools, to_rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import ResidentGroup

REQUIRED: Final = StateKey("preFilter/PlacementAffinity")
PREFERRED: Final = StateKey("preScore/PlacementAffinity")

_UNMET, _CONFLICT = 1, 2
_EVENTS: Final = (ClusterEvent(ClusterEventKind.UPDATE_LABELS, (EVERY_LABEL,)),)


class PlacementAffinity(PluginTraits):
    READS = ("labels", "obsolete", "picks", "residents")
    READS_POLICY_ONLY = True
    RESERVE_REJECTS = False
    REASONS = ReasonTable(
        Reason(
            "AffinityUnmet",
            Code.UNSCHEDULABLE,
            "{lack}",
            short="without the placements it belongs with",
            lacks=lambda details: f"{details['placements']} {_place(details)}",
            lines=lambda *_: (),
        ),
        Reason(
            "Conflict",
            Code.UNSCHEDULABLE,
            "{side} a placement that is {where}",
            short="with a placement that it is kept apart from",
            lacks=lambda details: f"distance from {details[OTHER_PLACEMENT]} {_place(details)}",
            lines=lambda details, _: [f"placement {details[OTHER_PLACEMENT]}"],
        ),
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw
        self._handle = handle

    def name(self) -> str:
        return "PlacementAffinity"

    # --- deciding -----------------------------------------------------------------------------------------------

    def post_batch(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, desired: int
    ) -> tuple[int, Status | None]:
        """One by one if a pick counts for the next."""
        del ctx, state, frame, desired
        terms = (*req.affinity.required, *req.affinity.preferred)
        if any(selects(term, req.labels) and (term.topology_key or not term.anti) for term in terms):
            return 1, None
        return 0, Status.new(Code.SKIP)

    def pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]:
        own = [_count(ctx, req, frame, term) for term in req.affinity.required]
        counts = _Counts([*own, *_count_repelling(req, frame)], frame)
        state.write(REQUIRED, counts)
        return None, None if counts.terms else Status.new(Code.SKIP)

    def pre_filter_extensions(self) -> PlacementAffinity:
        return self

    def add(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, deltas: Sequence[Delta]
    ) -> Status | None:
        del ctx, frame
        _read(state, REQUIRED).correct(req, deltas)
        return None

    remove = add

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del alive
        terms = _read(state, REQUIRED).clone().terms
        reason = np.zeros(frame.size, dtype=np.uint16)
        for counted in reversed(terms):
            reason[counted.fails()] = _CONFLICT if counted.term.anti else _UNMET
            if not counted.is_theirs:
                reason[~counted.labelled] = _UNMET
        ok = from_bools(reason == 0) | ctx.active | ctx.obsolete
        return Verdict(ok=ok, reason=reason, explain=partial(_explain, terms, req, frame))

    def pre_score(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, feasible: Rows, verdicts: object
    ) -> Status | None:
        del feasible, verdicts
        if not req.affinity.preferred:
            return Status.new(Code.SKIP)
        state.write(PREFERRED, _Counts([_count(ctx, req, frame, term) for term in req.affinity.preferred], frame))
        return None

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        """The weights of what is near, less the weights of what is near and should not be."""
        del ctx
        points = np.zeros(frame.size, dtype=np.int64)
        for term, counted in zip(req.affinity.preferred, _read(state, PREFERRED).terms, strict=True):
            points[counted.has()] += -term.weight if term.anti else term.weight
        return points[rows]

    def normalize(self, ctx: HookContext, state: CycleState, req: PlacementRequest, raw: Int64Array) -> Int64Array:
        del ctx, state, req
        return min_max(raw)

    async def reserve(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None:
        """On the event loop, so that the next decision sees it."""
        del ctx, state
        if self._handle is not None:
            needed = read_needed(self._handle, placement, target.cluster)
            self._handle.reserve_room(target.cluster, placement.key, needed)
        return None

    async def unreserve(self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target) -> None:
        del ctx, state
        if self._handle is not None:
            self._handle.release_room(target.cluster, placement.key)

    # --- explaining ---------------------------------------------------------------------------------------------

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        """Terms are not part of the policy: any label may be the key of one."""
        return _EVENTS

    def suggest(self, rejected: RejectedClusters) -> Iterator[Suggestion]:
        """Without one of the required terms, or without all. Those of others are theirs."""
        edits = [
            {"op": "relaxPlacementAffinity", "term": term} for term in range(len(rejected.request.affinity.required))
        ]
        yield from (Suggestion([edit]) for edit in edits)
        if len(edits) > 1:
            yield Suggestion(edits[::-1])


# --- counts -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Counted:
    """A term, and how many of its placements are on each row."""

    term: PlacementTerm
    selects_own: bool
    """Whether the term is about the placement itself, too."""
    is_theirs: bool
    """Whether it is a term of those placements, which keep away from this one."""
    domains: Int64Array
    """Of each row; -1 without the label."""
    by_row: Int64Array
    concerns: Callable[[ResidentGroup], bool] = field(repr=False)

    @property
    def labelled(self) -> BoolArray:
        return self.domains >= 0

    def has(self) -> BoolArray:
        """The rows whose domain has any."""
        there = np.zeros(int(self.domains.max(initial=-1)) + 2, dtype=np.bool_)
        there[self.domains[self.by_row > 0]] = True
        there[-1] = False  # where rows without the label are counted
        return there[self.domains]

    def fails(self) -> BoolArray:
        """A placement that belongs with others like itself is the first of its kind where none is anywhere."""
        if self.term.anti:
            return self.has()
        if self.selects_own and not self.by_row.any():
            return ~self.labelled
        return ~self.has()


class _Counts:
    def __init__(
        self,
        terms: list[_Counted],
        frame: Frame,
        added: frozenset[tuple[int, str]] = frozenset(),
        uncounted: frozenset[tuple[int, str]] = frozenset(),
    ) -> None:
        self.terms, self._frame, self._added, self._uncounted = terms, frame, added, uncounted

    def clone(self) -> _Counts:
        terms = [replace(counted, by_row=counted.by_row.copy()) for counted in self.terms]
        return _Counts(terms, self._frame, self._added, self._uncounted)

    @cached_property
    def _groups(self) -> Mapping[str, ResidentGroup]:
        residents = self._frame.residents
        return {name: group for group, on in residents.items() for names in on.values() for name in names}

    def correct(self, req: PlacementRequest, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            group = None if delta.placement == req.key else self._find_group(delta)
            for counted in self.terms:
                is_own = delta.placement == req.key and counted.selects_own and not counted.is_theirs
                if is_own or (group is not None and counted.concerns(group)):
                    counted.by_row[delta.row] += delta.sign

    def _find_group(self, delta: Delta) -> ResidentGroup | None:
        """None for one that is taken from where it does not count, since it leaves that cluster, or put back there."""
        group, there = self._groups.get(delta.placement), {(delta.row, delta.placement)}
        if delta.sign > 0 and there <= self._uncounted:
            self._uncounted -= there
            return None
        if delta.sign > 0:
            self._added |= there
        elif there <= self._added:
            self._added -= there
        elif group is not None:
            on = self._frame.residents[group].get(self._frame.name(delta.row), frozenset())
            if delta.placement not in on:
                self._uncounted |= there
                return None
        return group


def _read(state: CycleState, key: StateKey) -> _Counts:
    counts = state.read(key)
    assert isinstance(counts, _Counts)
    return counts


def _count(ctx: HookContext, req: PlacementRequest, frame: Frame, term: PlacementTerm) -> _Counted:
    """For a term of the placement."""

    is_selected = build_selection(term)

    def concerns(group: ResidentGroup) -> bool:
        return group.namespace == req.namespace and is_selected(group)

    counted = _Counted(
        term=term,
        selects_own=selects(term, req.labels),
        is_theirs=False,
        domains=_read_domains(frame, term.topology_key),
        by_row=frame.resident_index().count(concerns, size=frame.size, beside=req.key),
        concerns=concerns,
    )
    if counted.selects_own:
        counted.by_row[to_rows(ctx.placed, frame.size)] += 1
    return counted


def _count_repelling(req: PlacementRequest, frame: Frame) -> Iterator[_Counted]:
    """For the terms by which others keep the placement away, one for each topology key. They count where no cluster of
    the frame has such a placement, too: hints look at one cluster alone."""
    own = tuple(sorted(req.labels.items()))
    near = [group for group in frame.residents if group.namespace == req.namespace]
    keys = {term.topology_key for group in near for term in list_repelling(group, own)}
    for key in sorted(keys):

        def concerns(group: ResidentGroup, key: str = key) -> bool:
            terms = list_repelling(group, own) if group.namespace == req.namespace else ()
            return any(term.topology_key == key for term in terms)

        yield _Counted(
            term=PlacementTerm(topology_key=key, anti=True),
            selects_own=False,
            is_theirs=True,
            domains=_read_domains(frame, key),
            by_row=frame.resident_index().count(concerns, size=frame.size, beside=req.key),
            concerns=concerns,
        )


def _read_domains(frame: Frame, key: str) -> Int64Array:
    if not key:
        return np.arange(frame.size, dtype=np.int64)
    return frame.labels(key).domains().of_row.astype(np.int64)


# --- words --------------------------------------------------------------------------------------------------------


def _place(details: Details) -> str:
    return f"in {details['topologyKey']}={details['domain']}" if details["topologyKey"] else "on it"


def _explain(terms: Sequence[_Counted], req: PlacementRequest, frame: Frame, row: int) -> Mapping[str, object]:
    """Details of the first term that a row fails."""
    for counted in terms:
        lacks_label = not (counted.is_theirs or counted.labelled[row])
        if not lacks_label and not counted.fails()[row]:
            continue
        term, key = counted.term, counted.term.topology_key
        value = frame.labels(key).value(row) if key else None
        where = f"in {key}={value}" if key else "on this cluster"
        details = {"topologyKey": key, "domain": value, "placements": describe_placements(term)}
        if lacks_label:
            return details | {"lack": f"the cluster has no label {key}, by which it is near to other placements or not"}
        if not term.anti:
            return details | {"lack": f"belongs with {details['placements']}, and no such placement is {where}"}
        return {
            "topologyKey": key,
            "domain": value,
            OTHER_PLACEMENT: _name_resident(counted, req, frame, row),
            "theirs": counted.is_theirs,
            "side": "is kept away by" if counted.is_theirs else "keeps away from",
            "where": where,
        }
    return {}


def _name_resident(counted: _Counted, req: PlacementRequest, frame: Frame, row: int) -> str:
    """The first by name of those that are in the domain of the row, the placement itself if no other is."""
    near = counted.domains == counted.domains[row]
    return min(frame.resident_index().list_placements(counted.concerns, among=near, beside=req.key), default=req.key)
