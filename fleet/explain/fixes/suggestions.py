"""Suggestions that might let rejected clusters in, made by the rejecting plugins; they are verified elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from fleet.explain.fixes.candidates import Candidate, Dial, Edits, Proposal
from fleet.explain.whatif.edits import Patch, parse_edits
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.explaining import (
    MOST_CHANGES,
    NumberSuggestion,
    OutrankedCluster,
    RejectedClusters,
    Suggestion,
)
from fleet.framework.request import PlacementRequest
from fleet.model.views import PlacementPolicy

T = TypeVar("T")


def suggest_changes(question: DecisionInput, plugin: str, rejected: RejectedClusters) -> Iterator[Proposal]:
    """If a plugin fails here, only its own further suggestions are lost; of several, one that cannot be read is."""
    judge = next((judge for judge in question.profile.judges if judge.name == plugin), None)
    suggest = getattr(judge and judge.plugin, "suggest", None)
    if suggest is not None:
        yield from _propose(plugin, suggest, rejected)


def suggest_rank(question: DecisionInput, policy: PlacementPolicy, row: int, picked: int) -> Iterator[Proposal]:
    """Changes that may bring a cluster before the one picked instead, from the plugins that score."""
    request, frame = question.request, question.frame
    outranked = OutrankedCluster(request=request, policy=policy, frame=frame, row=row, picked=picked)
    for entry in question.profile.scores:
        suggest = getattr(entry.plugin, "suggest_rank", None)
        if suggest is not None:
            yield from _propose(entry.name, suggest, outranked)


def _propose(plugin: str, suggest: Callable[[T], Iterable[Any]], subject: T) -> Iterator[Proposal]:
    for suggestion in _iterate_safely(suggest, subject):
        try:
            proposal = _build_proposal(plugin, suggestion)
        except Exception:
            continue
        yield proposal


def _iterate_safely(suggest: Callable[[T], Iterable[Any]], subject: T) -> Iterator[Any]:
    """Up to the first failure."""
    try:
        yield from suggest(subject)
    except Exception:
        return


def _build_proposal(plugin: str, suggestion: Suggestion | NumberSuggestion | Mapping[str, Any]) -> Proposal:
    match suggestion:
        case NumberSuggestion():
            return Dial(
                plugin=plugin,
                field=suggestion.field,
                start=suggestion.start,
                limit=suggestion.limit,
                guess=suggestion.guess,
                find_least=suggestion.find_least,
                bound=parse_edits(list(suggestion.bound)),
                build_edits=partial(_parse_number_edits, suggestion),
            )
        case Suggestion():
            return Candidate(parse_edits(list(suggestion.edits[: MOST_CHANGES + 1])), plugin)
        case _:
            return Candidate(parse_edits([suggestion]), plugin)


def _parse_number_edits(suggestion: NumberSuggestion, value: int) -> Edits:
    return parse_edits(list(suggestion.edits(value)))


# --- the placement as a whole ---------------------------------------------------------------------------------------


def drop_names(request: PlacementRequest, dropped: Sequence[str]) -> Candidate:
    """PickFixed without some of its names."""
    kept = [name for name in request.cluster_names if name not in set(dropped)]
    title = _describe_names(dropped, "without")
    return Candidate((Patch({"clusterNames": kept}),), "", size=float(len(dropped)), title=title, settles=True)


def add_name(request: PlacementRequest, name: str) -> Candidate:
    return Candidate(
        (Patch({"clusterNames": [*request.cluster_names, name]}),), "", title=_describe_names([name], "with")
    )


def _describe_names(names: Sequence[str], word: str) -> str:
    return f"cluster names {word} {', '.join(names)}"
