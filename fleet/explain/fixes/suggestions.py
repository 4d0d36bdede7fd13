"""Suggestions that might let rejected clusters in, made by the rejecting plugins; they are verified elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from fleet.explain.fixes.candidates import Candidate, Dial, Edits, Proposal
from fleet.explain.whatif.edits import Patch, parse_edits
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.explaining import NumberSuggestion, RejectedClusters, Suggestion
from fleet.framework.request import PlacementRequest


def suggest_changes(question: DecisionInput, plugin: str, rejected: RejectedClusters) -> Iterator[Proposal]:
    """If a plugin fails here, only its own further suggestions are lost; of several, one that cannot be read is."""
    judge = next((judge for judge in question.profile.judges if judge.name == plugin), None)
    suggest = getattr(judge and judge.plugin, "suggest", None)
    if suggest is None:
        return
    for suggestion in _iterate_safely(suggest, rejected):
        try:
            proposal = _build_proposal(plugin, suggestion)
        except Exception:
            continue
        yield proposal


def _iterate_safely(suggest: Callable[[RejectedClusters], Iterable[Any]], rejected: RejectedClusters) -> Iterator[Any]:
    """Up to the first failure."""
    try:
        yield from suggest(rejected)
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
                build_edits=partial(_parse_number_edits, suggestion),
            )
        case Suggestion():
            return Candidate(parse_edits(list(suggestion.edits)), plugin)
        case _:
            return Candidate(parse_edits([suggestion]), plugin)


def _parse_number_edits(suggestion: NumberSuggestion, value: int) -> Edits:
    return parse_edits(list(suggestion.edits(value)))


# --- the placement as a whole ---------------------------------------------------------------------------------------


def drop_names(request: PlacementRequest, dropped: Sequence[str]) -> Candidate:
    """PickFixed without some of its names."""
    kept = [name for name in request.cluster_names if name not in set(dropped)]
    return Candidate(
        (Patch({"clusterNames": kept}),), "", size=float(len(dropped)), title=_describe_names(dropped, "without")
    )


def add_name(request: PlacementRequest, name: str) -> Candidate:
    return Candidate(
        (Patch({"clusterNames": [*request.cluster_names, name]}),), "", title=_describe_names([name], "with")
    )


def _describe_names(names: Sequence[str], word: str) -> str:
    return f"cluster names {word} {', '.join(names)}"


def propose_weights(question: DecisionInput, policy: msgspec.Struct, row: int, other: int) -> Iterator[Dial]:
    """Other weights for preferences that distinguish a cluster from the one picked instead."""
    document: dict[str, Any] = msgspec.to_builtins(policy)
    affinity = document.get("affinity", {}).get("clusterAffinity", {})
    preferred = affinity.get(_PREFERRED, [])
    weighed = [position for position, preference in enumerate(preferred) if preference.get("weight")]
    for position, preference in zip(weighed, question.request.preferred, strict=True):
        if preference.labels is None and preference.sorter is None:
            continue
        rows = preference.label_rows(question.frame)
        mine, theirs = rows >> row & 1, rows >> other & 1
        ends = (100, -100) if preference.sorter is not None and mine == theirs else (100 if mine else -100,)
        if mine or theirs:
            yield from (
                _build_weight_dial(preferred, position, preference.weight, end)
                for end in ends
                if end != preference.weight
            )


_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _build_weight_dial(preferred: Sequence[Any], position: int, weight: int, end: int) -> Dial:
    def set_weight(value: int) -> Edits:
        changed = [
            {**preference, "weight": value} if at == position else preference for at, preference in enumerate(preferred)
        ]
        return (Patch({"affinity": {"clusterAffinity": {_PREFERRED: changed}}}),)

    field = f"weight of preference {position + 1}"
    return Dial(plugin="ClusterAffinity", field=field, start=weight, limit=end, build_edits=set_weight)
