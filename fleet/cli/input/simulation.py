"""Simulations: the controller's decision function on objects from files, at a given moment."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from fleet.cli.input.quotas import QuotaUse
from fleet.cli.input.residents import find_residents, settle_decision
from fleet.cli.input.room import book_decision, build_table
from fleet.cli.input.simulation_inputs import PlacementInputs, SimulationInputs
from fleet.errors import InputError, TimestampError
from fleet.explain.answer.answer import Answer, build_answer
from fleet.external.extender_client import ExtenderClient
from fleet.external.feed_sources import read_clusters
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.informers.placed_feeds import PlacedLoad, build_columns, count_by_load, list_placed, select_new
from fleet.model.timestamps import parse_timestamp
from fleet.scheduler.load_requests import compute_excess, estimate_use
from fleet.scheduler.profiles.frameworks import CompiledProfiles
from fleet.settings.document.extenders import ExtenderDocument
from fleet.settings.document.feeds import FeedDocument
from fleet.snapshot.sidedata import PLACED_LIMITS, RECENT_PLACEMENTS, CpuUse, FeedSample
from fleet.snapshot.table import Table

WALL_CLOCK: Final = "now"


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of the decisions, and its source."""

    nanoseconds: int
    source: str


@dataclass(frozen=True, slots=True)
class SimulatedDecision:
    placement: PlacementInputs
    inp: DecisionInput
    decision: Decision

    def explain(self, *, cluster: str | None = None, everything: bool = False) -> Answer:
        """The answer that the API gives, with all rows. A name outside the fleet and the decision is an InputError."""
        return build_answer(self.inp, self.decision, cluster=cluster, everything=everything, limit=None)


@dataclass(frozen=True, slots=True)
class Simulation:
    moment: Moment
    clusters: tuple[str, ...]
    """Sorted."""
    results: tuple[SimulatedDecision, ...]

    @property
    def has_failed(self) -> bool:
        """Whether a decision failed for reasons outside the files."""
        decisions = [result.decision for result in self.results]
        return any(decision.error is not None or decision.pending_query is not None for decision in decisions)

    @property
    def has_invalid_policy(self) -> bool:
        """Whether a policy cannot be evaluated."""
        return any(result.decision.request.problems for result in self.results)

    @property
    def is_fulfilled(self) -> bool:
        """Whether every policy's condition is True."""
        return all(result.decision.fulfilled for result in self.results)


def read_moment(wanted: str | None, *, source: str = "--now") -> Moment | None:
    """The moment given by `--now` or a snapshot; None where there is none."""
    if wanted is None:
        return None
    if wanted == WALL_CLOCK:
        return Moment(time.time_ns(), "wall clock")
    try:
        return Moment(parse_timestamp(wanted), source)
    except TimestampError as error:
        raise InputError(f"{error.message}, nor the word now", field=source, value=wanted) from error


def moment_of(inputs: SimulationInputs) -> Moment:
    """Files describe the past: by default decisions are made at the newest heartbeat."""
    newest = inputs.newest_heartbeat()
    return Moment(time.time_ns(), "wall clock") if newest is None else Moment(newest, "newest heartbeat")


def simulate(
    inputs: SimulationInputs,
    profiles: CompiledProfiles,
    moment: Moment,
    *,
    feeds: Iterable[FeedDocument] = (),
    extenders: Iterable[ExtenderDocument] = (),
) -> Simulation:
    """One placement after the other: what one gets is not there for the next. Of the feeds, those count whose numbers
    are in the document. Nothing outside of the files is read, but for the answers of these extenders."""
    client = ExtenderClient(extenders)
    table = build_table(inputs)
    samples: dict[str, FeedSample] = {}
    for feed in feeds:
        if isinstance(feed.source, Mapping):
            columns = read_clusters(feed.source)
            times = {name: moment.nanoseconds for values in columns.values() for name in values}
            table.feed(feed.name, columns, sampled_at=times)
            samples[feed.name] = FeedSample(columns, moment.nanoseconds)
    reads_residents = any(profile.reads_residents for profile in profiles.by_name.values())
    if reads_residents:
        table.settle(find_residents(inputs.bound))
    loads = profiles.list_loads()
    placed = [
        each
        for placement in inputs.bound
        for each in list_placed(placement.bindings, partial(_estimate_use, placement, table))
    ]
    reads_limits = any(profile.reads_placed_limits for profile in profiles.by_name.values())
    excess: dict[str, Counter[str]] = defaultdict(Counter)
    for placement in inputs.bound if reads_limits else ():
        for binding in placement.bindings:
            excess[binding.spec.target_cluster].update(_compute_excess(placement, table, binding.spec.target_cluster))
    quotas = QuotaUse(inputs)
    results = []
    for placement in inputs.placements:
        if reads_limits:
            table.feed(PLACED_LIMITS, build_columns(excess), sampled_at={})
        if loads:
            table.feed(RECENT_PLACEMENTS, count_by_load(loads, placed, samples, table.get), sampled_at={})
        profile = profiles.choose(placement.request.scheduler_name)
        inp = DecisionInput(
            frame=table.freeze(),
            request=quotas.fill_request(placement, profile),
            bindings=placement.bindings,
            profile=profile,
            now=moment.nanoseconds,
            previous=placement.snapshot.status,
            nominated=placement.companion.list_hints(moment.nanoseconds),
        )
        decided = SimulatedDecision(placement, *decide_asking(inp, client))
        book_decision(table, placement, decided.decision)
        quotas.add_decision(placement, decided.decision)
        if reads_residents:
            settle_decision(table, placement, decided.decision)
        chosen = (target.cluster for target in decided.decision.newly_chosen)
        new = select_new(chosen, placement.bindings)
        for cluster in new if reads_limits else ():
            excess[cluster].update(_compute_excess(placement, table, cluster))
        placed += [PlacedLoad(cluster, moment.nanoseconds, _estimate_use(placement, table, cluster)) for cluster in new]
        results.append(decided)
    return Simulation(moment, tuple(table.freeze().names.ordered), tuple(results))


def _estimate_use(placement: PlacementInputs, table: Table, cluster: str) -> CpuUse:
    return estimate_use(placement.request.needs, placement.request.limits, table.get(cluster))


def _compute_excess(placement: PlacementInputs, table: Table, cluster: str) -> Mapping[str, int]:
    return compute_excess(placement.request.needs, placement.request.limits, table.get(cluster))


def decide_asking(inp: DecisionInput, extenders: ExtenderClient) -> tuple[DecisionInput, Decision]:
    """With the inputs of the decision: they have what the extenders answered."""
    decision = decide(inp)
    while (query := decision.pending_query) is not None and extenders.can_answer(query):
        inp = asyncio.run(extenders.answer(inp, query))
        decision = decide(inp)
    return inp, decision
