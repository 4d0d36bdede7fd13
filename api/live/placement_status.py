"""The status of a placement, as the placement controller left it, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fleet.explain.answer.parts import State, StatusNote
from fleet.framework.request import SELECTORS_FIELD, PolicyProblem
from fleet.kube.resource import key_of
from fleet.kube.scopes import find_scope
from fleet.model.keys import SCHEDULED_CONDITION
from fleet.model.views import Condition, Observed, Placement, PolicySnapshot, View

_INVALID_SELECTORS: Final = "InvalidResourceSelectors"
_UNFULFILLED: Final = "SchedulingPolicyUnfulfilled"
_SELECTS_NOTHING: Final = "SelectsNothing"


class _Selector(View, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""
    name: str = ""


class _Spec(View, frozen=True):
    resource_selectors: tuple[_Selector, ...] = ()


class _Status(View, frozen=True):
    conditions: tuple[Condition, ...] = ()
    selected_resources: tuple[dict[str, Any], ...] = ()


def list_status_notes(placement: Observed[Placement], *, shows_messages: bool) -> Iterator[StatusNote]:
    """The conditions that are False and not about the decision, and a selection without objects. Messages may name any
    cluster."""
    prefix, status = _find_prefix(placement), _read_status(placement)
    for condition in status.conditions:
        is_explained = condition.reason in (_UNFULFILLED, _INVALID_SELECTORS)
        if condition.status == "False" and not is_explained:
            name = condition.type.removeprefix(prefix)
            message = condition.message if shows_messages else ""
            yield StatusNote(condition=name, reason=condition.reason, message=message)
    if _selects_nothing(status, prefix):
        wanted = ", ".join(_list_selectors(placement))
        yield StatusNote(reason=_SELECTS_NOTHING, message=f"{SELECTORS_FIELD} selects nothing: there is no {wanted}")


def read_published_state(placement: Observed[Placement], snapshot: Observed[PolicySnapshot] | None) -> State | None:
    """As the hub shows it; None where no decision on the present policy is published."""
    if snapshot is None:
        return None
    status, metadata = snapshot.view.status, snapshot.view.metadata
    for condition in status.conditions:
        is_current = condition.observed_generation == metadata.generation
        if condition.type == SCHEDULED_CONDITION and is_current:
            if status.observed_crp_generation != placement.view.metadata.generation:
                return None
            if condition.status == "True":
                return "Scheduled"
            has_targets = any(target.selected for target in status.target_clusters)
            return "Partial" if has_targets else "Unschedulable"
    return None


def find_selector_problems(placement: Observed[Placement]) -> tuple[PolicyProblem, ...]:
    """Why nothing is scheduled, where the placement controller refuses the placement."""
    condition = _find_scheduled(_read_status(placement), _find_prefix(placement))
    if condition is None or not _refuses_selectors(condition):
        return ()
    return (PolicyProblem(SELECTORS_FIELD, _list_selectors(placement), condition.message),)


def _selects_nothing(status: _Status, prefix: str) -> bool:
    """Whether valid selectors match no object."""
    condition = _find_scheduled(status, prefix)
    return condition is not None and not _refuses_selectors(condition) and not status.selected_resources


def _refuses_selectors(condition: Condition) -> bool:
    return (condition.status, condition.reason) == ("False", _INVALID_SELECTORS)


def _list_selectors(placement: Observed[Placement]) -> list[str]:
    return [_describe_selector(selector) for selector in _decode(placement.view.spec, _Spec).resource_selectors]


def _read_status(placement: Observed[Placement]) -> _Status:
    """With the conditions about the placement as it is."""
    status: _Status = _decode(placement.view.status, _Status)
    generation = placement.view.metadata.generation
    return replace(
        status, conditions=tuple(each for each in status.conditions if each.observed_generation == generation)
    )


def _find_scheduled(status: _Status, prefix: str) -> Condition | None:
    return next((condition for condition in status.conditions if condition.type == f"{prefix}Scheduled"), None)


def _find_prefix(placement: Observed[Placement]) -> str:
    return find_scope(key_of(placement.view.metadata)).condition_prefix


def _decode(raw: msgspec.Raw, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError:
        return kind()


def _describe_selector(selector: _Selector) -> str:
    version = f"{selector.group}/{selector.version}" if selector.group else selector.version
    return f"{version} {selector.kind}" + (f" named {selector.name}" if selector.name else "")
