"""What a change of the fleet would mean for everybody on it: which placements would end up elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from fleet.explain.facts.placement_outcome import level_name
from fleet.explain.facts.redaction import Hidden
from fleet.explain.whatif.diff import Moved, Tally, moved, tally, unnamed_move, unnamed_tally
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.scenario import edited_frame
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.snapshot.frame import Frame


class Impact(msgspec.Struct, frozen=True, rename="camel"):
    placements: int
    """How many were decided."""
    same: int
    moved: tuple[Moved, ...]
    """In the order they were given."""
    summary: Tally
    truncated: bool = False
    """Whether time was up before all placements were decided."""
    redacted: int = 0
    """How many more would move that the one who asks may not read."""


def never() -> bool:
    return False


def impact(
    frame: Frame,
    questions: Iterable[DecisionInput],
    edits: Sequence[Edit],
    *,
    now: int,
    hidden: Hidden | None = None,
    expired: Callable[[], bool] = never,
) -> Impact:
    """Decide every placement on the fleet as it is and as it would be. Only clusters can be edited.

    What is `hidden` is not named in refusals; for the rest there is `unnamed_impact`."""
    after = edited_frame(frame, edits, now=now, hidden=hidden)
    found: list[Moved] = []
    outcomes: list[tuple[str, str]] = []
    truncated = False
    for question in questions:
        if expired():
            truncated = True
            break
        one = decide(replace(question, frame=frame, now=now))
        other = decide(replace(question, frame=after, now=now))
        outcomes.append((level_name(one), level_name(other)))
        movement = moved(question.request.key, one, other)
        found += [] if movement is None else [movement]
    return Impact(len(outcomes), len(outcomes) - len(found), tuple(found), tally(outcomes, found), truncated)


def unnamed_impact(
    found: Impact, *, hides_cluster: Callable[[str], bool], hides_placement: Callable[[str], bool]
) -> Impact:
    """With numbers in place of what the one who asks may not read."""
    shown = [one for one in found.moved if not hides_placement(one.key)]
    return msgspec.structs.replace(
        found,
        moved=tuple(unnamed_move(one, hides_cluster) for one in shown),
        summary=unnamed_tally(found.summary, hides_cluster),
        redacted=len(found.moved) - len(shown),
    )
