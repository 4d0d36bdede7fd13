"""Whether an earlier decision still describes the present: the same clusters, in the same use, judged alike."""

from __future__ import annotations

from typing import Any, NamedTuple

from fleet.explain.facts.outcomes import ClusterOutcomes
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.inspection import judge_unplaced
from fleet.snapshot.columns.bitset import to_bools
from fleet.snapshot.frame import Frame


class FleetJudgement(NamedTuple):
    """Everything in the order of cluster names, so that different frames can be compared."""

    names: tuple[str, ...]
    in_use: bytes
    judgements: tuple[tuple[str, bytes, bytes], ...]
    """By filter: the clusters it rejects by themselves, and the numbers of the reasons."""


def judge_fleet(decision: Decision, inp: DecisionInput) -> FleetJudgement:
    frame = decision.frame
    return FleetJudgement(
        tuple(frame.names.ordered),
        _in_name_order(frame, ClusterOutcomes(decision).in_use).tobytes(),
        tuple(
            (
                plugin,
                (rejected := _in_name_order(frame, rejection.rows)).tobytes(),
                _reasons(frame, rejection, rejected),
            )
            for plugin, rejection in judge_unplaced(inp)
        ),
    )


def _in_name_order(frame: Frame, rows: int) -> Any:
    return to_bools(rows, frame.size)[frame.names.order]


def _reasons(frame: Frame, rejection: Any, rejected: Any) -> bytes:
    reason = rejection.verdict.reason
    if isinstance(reason, int):
        return reason.to_bytes(2) if rejected.any() else b""
    numbers: bytes = (reason[frame.names.order] * rejected).tobytes()
    return numbers
