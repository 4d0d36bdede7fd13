"""A simulation: the controller's decision function on objects from files, at a moment the user chose."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from fleet.cli.input.simulation_inputs import PlacementInputs, SimulationInputs
from fleet.errors import InputError, TimestampError
from fleet.explain import Explainer
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import CompiledProfile
from fleet.model.timestamps import parse_timestamp
from fleet.snapshot.table import Table

WALL_CLOCK: Final = "now"


@dataclass(frozen=True, slots=True)
class Moment:
    """When the decisions are taken, and how that was settled."""

    nanoseconds: int
    source: str


@dataclass(frozen=True, slots=True)
class Decided:
    asked: PlacementInputs
    decision: Decision
    explainer: Explainer


@dataclass(frozen=True, slots=True)
class Simulation:
    moment: Moment
    clusters: tuple[str, ...]
    """Sorted."""
    results: tuple[Decided, ...]

    @property
    def has_failed(self) -> bool:
        """Whether something could not be decided at all, through no fault of the files."""
        return any(one.decision.error is not None or one.decision.pending_query is not None for one in self.results)

    @property
    def is_fulfilled(self) -> bool:
        """Whether every policy's condition is True."""
        return all(one.decision.fulfilled for one in self.results)


def read_moment(wanted: str | None, *, source: str = "--now") -> Moment | None:
    """What `--now` says, or a snapshot; None where it was not given."""
    if wanted is None:
        return None
    if wanted == WALL_CLOCK:
        return Moment(time.time_ns(), "wall clock")
    try:
        return Moment(parse_timestamp(wanted), source)
    except TimestampError as error:
        raise InputError(f"{error.message}, nor the word now", field=source, value=wanted) from error


def moment_of(inputs: SimulationInputs) -> Moment:
    """Files describe the past: unless told otherwise, decisions are taken when the last cluster was heard."""
    newest = inputs.newest_heartbeat()
    return Moment(time.time_ns(), "wall clock") if newest is None else Moment(newest, "newest heartbeat")


def simulate(inputs: SimulationInputs, profile: CompiledProfile, moment: Moment) -> Simulation:
    frame = Table(inputs.clusters).freeze()
    results = []
    for asked in inputs.asked:
        question = DecisionInput(
            frame=frame,
            request=asked.request,
            bindings=asked.bindings,
            profile=profile,
            now=moment.nanoseconds,
            previous=asked.snapshot.status,
        )
        decision = decide(question)
        results.append(Decided(asked, decision, Explainer(decision, question)))
    return Simulation(moment, tuple(frame.names.ordered), tuple(results))
