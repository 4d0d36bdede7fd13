"""The status of a placement, as the placement controller left it, and what follows from it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fleet.framework.request import SELECTORS_FIELD, PolicyProblem
from fleet.kube.resource import key_of
from fleet.kube.scopes import find_scope
from fleet.model.views import Condition, Observed, Placement, View

INVALID_SELECTORS: Final = "InvalidResourceSelectors"


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


def find_selector_problems(placement: Observed[Placement]) -> tuple[PolicyProblem, ...]:
    """Why nothing is scheduled, where the placement controller refuses the placement."""
    condition = _find_scheduled(placement)
    if condition is None or (condition.status, condition.reason) != ("False", INVALID_SELECTORS):
        return ()
    return (PolicyProblem(SELECTORS_FIELD, list_selectors(placement), condition.message),)


def selects_nothing(placement: Observed[Placement]) -> bool:
    """Whether valid selectors match no object."""
    is_judged = _find_scheduled(placement) is not None and not find_selector_problems(placement)
    return is_judged and not _decode(placement.view.status, _Status).selected_resources


def list_selectors(placement: Observed[Placement]) -> list[str]:
    return [_describe_selector(selector) for selector in _decode(placement.view.spec, _Spec).resource_selectors]


def read_conditions(placement: Observed[Placement]) -> list[Condition]:
    """Those about the placement as it is."""
    conditions: tuple[Condition, ...] = _decode(placement.view.status, _Status).conditions
    return [
        condition for condition in conditions if condition.observed_generation == placement.view.metadata.generation
    ]


def _find_scheduled(placement: Observed[Placement]) -> Condition | None:
    kind = f"{find_scope(key_of(placement.view.metadata)).condition_prefix}Scheduled"
    return next((condition for condition in read_conditions(placement) if condition.type == kind), None)


def _decode(raw: msgspec.Raw, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError:
        return kind()


def _describe_selector(selector: _Selector) -> str:
    version = f"{selector.group}/{selector.version}" if selector.group else selector.version
    return f"{version} {selector.kind}" + (f" named {selector.name}" if selector.name else "")
