"""Placements that another scheduler decides, such as KubeFleet's: what Fleet would do, compared with what is bound.

Fleet's decision starts from the bindings that are there, as it would after a switch of schedulers. A second one starts
from none, and shows what both would choose today.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from api.auth.permissions import Visibility
from api.live.backend import Backend
from api.live.evaluation import EvaluatedDecision
from api.live.live import LivePlacement
from api.why_models import EvaluationModel
from fleet.explain.answer.sentences import join_names
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.operations import Action
from fleet.model.keys import UNSCHEDULED
from fleet.model.views import Binding

_ADDS = frozenset({Action.CREATE, Action.REVIVE})
_UNDECIDED = frozenset({Outcome.ERROR, Outcome.NEEDS_ANSWER})
_MARK = "Evaluated by Fleet on the present fleet; another scheduler decides here."


async def compare_with_bound(
    backend: Backend, placement: LivePlacement, evaluated: EvaluatedDecision, visibility: Visibility
) -> EvaluationModel:
    """`evaluated` is Fleet's decision with the bindings that are there."""
    decision = evaluated.decision
    bound = frozenset(filter(None, map(_cluster_in_use, placement.bindings)))
    if decision.outcome in _UNDECIDED:
        return EvaluationModel(
            decided=placement.has_decision,
            agrees=None,
            bound=len(bound),
            summary=f"{_MARK} Fleet has no answer to compare with what is bound.",
        )
    adds, removes = _diff(bound, _apply(decision, bound))
    afresh = await backend.evaluator.evaluate_live(replace(placement, bindings=()))
    gains, losses = _diff(bound, frozenset(target.cluster for target in afresh.decision.targets))
    shown = [_select_visible(names, visibility) for names in (adds, removes, gains, losses)]
    return EvaluationModel(
        decided=placement.has_decision,
        agrees=not (adds or removes),
        bound=len(bound),
        adds=shown[0],
        removes=shown[1],
        afresh_adds=shown[2],
        afresh_leaves_out=shown[3],
        hidden=len({*adds, *removes, *gains, *losses}.difference(*shown)),
        summary=" ".join(
            [
                _MARK,
                *([] if placement.has_decision else ["That one has not decided on the present policy yet."]),
                _describe_next(len(bound), adds, removes, visibility),
                _describe_afresh(gains, losses, visibility),
            ]
        ).strip(),
    )


def _cluster_in_use(binding: Binding) -> str:
    is_leaving = binding.metadata.deletion_timestamp or binding.spec.state == UNSCHEDULED
    return "" if is_leaving else binding.spec.target_cluster


def _apply(decision: Decision, bound: frozenset[str]) -> frozenset[str]:
    """The clusters in use once the decision is carried out."""
    given_up = {each.cluster for each in decision.operations if each.action is Action.UNSCHEDULE}
    added = {each.cluster for each in decision.operations if each.action in _ADDS}
    return (bound - given_up) | added


def _diff(before: frozenset[str], after: frozenset[str]) -> tuple[list[str], list[str]]:
    return sorted(after - before), sorted(before - after)


def _select_visible(names: Iterable[str], visibility: Visibility) -> tuple[str, ...]:
    return tuple(name for name in names if not visibility.hides(name))


def _describe_next(bound: int, adds: list[str], removes: list[str], visibility: Visibility) -> str:
    if not (adds or removes):
        kept = f"the {bound} clusters that are bound" if bound > 1 else "what is bound" if bound else "none, as now"
        return f"Fleet agrees with it: it would keep {kept}."
    changes = [f"{verb} {_name(names, visibility)}" for verb, names in (("add", adds), ("give up", removes)) if names]
    return f"Fleet disagrees with what is bound: it would {' and '.join(changes)}."


def _describe_afresh(gains: list[str], losses: list[str], visibility: Visibility) -> str:
    """Nothing where it would choose the same."""
    if not (gains or losses):
        return ""
    if not losses:
        return f"Without any binding it would also choose {_name(gains, visibility)} today."
    if not gains:
        return f"Without any binding it would not choose {_name(losses, visibility)} today."
    return f"Without any binding it would choose {_name(gains, visibility)} today, not {_name(losses, visibility)}."


def _name(names: list[str], visibility: Visibility) -> str:
    visible = _select_visible(names, visibility)
    hidden = len(names) - len(visible)
    parts = [join_names(visible)] if visible else []
    parts += [f"{hidden} that you may not read"] if hidden else []
    return " and ".join(parts)
