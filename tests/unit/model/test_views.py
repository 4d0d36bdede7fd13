"""Holds every view to its pydantic kind: names on the wire, types, defaults, all the way down."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from msgspec.structs import FieldInfo as ViewField
from msgspec.structs import fields as view_fields
from pydantic.fields import FieldInfo

from fleet.model import views
from fleet.model.kinds.binding import ClusterResourceBinding, ResourceBinding
from fleet.model.kinds.cluster import MemberCluster
from fleet.model.kinds.meta import Model
from fleet.model.kinds.placement import (
    ClusterPlacementSpec,
    ClusterResourcePlacement,
    ClusterResourcePlacementStatus,
    PlacementSpec,
    PlacementStatus,
    ResourcePlacement,
)
from fleet.model.kinds.placement_group import ClusterPlacementGroup
from fleet.model.kinds.quota import ClusterPlacementQuota
from fleet.model.kinds.reservation import ClusterReservation
from fleet.model.kinds.rollout.eviction import ClusterResourcePlacementDisruptionBudget
from fleet.model.kinds.rollout.stagedupdate import ClusterStagedUpdateRun, StagedUpdateRun
from fleet.model.kinds.scheduling import (
    ClusterPlacementApproval,
    ClusterPlacementOptions,
    PlacementApproval,
    PlacementOptions,
)
from fleet.model.kinds.snapshots import ClusterSchedulingPolicySnapshot, SchedulingPolicySnapshot

WITHOUT_KIND = {views.View, views.PriorityClass}
"""The second is an object of Kubernetes itself, whose definition Fleet does not make."""
PAIRS: list[tuple[type[views.View], type[Model]]] = [
    (views.MemberCluster, MemberCluster),
    (views.Placement, ClusterResourcePlacement),
    (views.Placement, ResourcePlacement),
    (views.PolicySnapshot, ClusterSchedulingPolicySnapshot),
    (views.PolicySnapshot, SchedulingPolicySnapshot),
    (views.Binding, ClusterResourceBinding),
    (views.Binding, ResourceBinding),
    (views.PlacementSpec, ClusterPlacementSpec),
    (views.PlacementSpec, PlacementSpec),
    (views.PlacementStatus, PlacementStatus),
    (views.ClusterResourcePlacementStatus, ClusterResourcePlacementStatus),
    (views.BindingReport, ClusterResourceBinding),
    (views.BindingReport, ResourceBinding),
    (views.StagedUpdateRun, ClusterStagedUpdateRun),
    (views.StagedUpdateRun, StagedUpdateRun),
    (views.PlacementOptions, PlacementOptions),
    (views.PlacementOptions, ClusterPlacementOptions),
    (views.PlacementApproval, PlacementApproval),
    (views.PlacementApproval, ClusterPlacementApproval),
    (views.PlacementQuota, ClusterPlacementQuota),
    (views.PlacementGroup, ClusterPlacementGroup),
    (views.ClusterReservation, ClusterReservation),
    (views.DisruptionBudget, ClusterResourcePlacementDisruptionBudget),
]


@dataclass(frozen=True)
class Match:
    """A field of a view beside the field of the kind that has its name on the wire."""

    path: str
    view: ViewField
    kind: FieldInfo | None


def matches(view: type[views.View], kind: type[Model], path: str = "") -> Iterator[Match]:
    by_name = {field.alias or name: field for name, field in kind.model_fields.items()}
    for field in view_fields(view):
        here = f"{path}.{field.encode_name}"
        of_kind = by_name.get(field.encode_name)
        yield Match(here, field, of_kind)
        inner_view, inner_kind = innermost(field.type), innermost(of_kind.annotation if of_kind else None)
        if is_a(inner_view, views.View) and is_a(inner_kind, Model):
            yield from matches(inner_view, inner_kind, here)


def options(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a type, without None, Unset and annotations."""
    if get_origin(annotation) is Annotated:
        return options(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(one for option in get_args(annotation) for one in options(option))
    return () if annotation in (NoneType, msgspec.UnsetType) else (annotation,)


def innermost(annotation: Any) -> Any:
    found = options(annotation)
    if len(found) != 1:
        return None
    origin, arguments = get_origin(found[0]), get_args(found[0])
    if origin is tuple:
        return innermost(arguments[0])
    return innermost(arguments[1]) if origin is dict else found[0]


def is_a(candidate: Any, base: type) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, base)


def accepts(view: Any, kind: Any) -> bool:
    """Whether every value of the kind's type can be read by the view's."""
    return all(any(accepts_one(wide, narrow) for wide in options(view)) for narrow in options(kind))


def accepts_one(view: Any, kind: Any) -> bool:
    if view is msgspec.Raw:
        return True
    if get_origin(kind) is Literal:
        return view is str
    if get_origin(kind) in (tuple, dict) and get_origin(kind) is get_origin(view):
        wide, narrow = get_args(view), get_args(kind)
        return all(accepts(one, other) for one, other in zip(wide, narrow, strict=True) if one is not Ellipsis)
    if is_a(kind, Model):
        return is_a(view, views.View)
    return view is kind


def meaning(value: Any) -> Any:
    """A default, with everything that stands for an absent value as None."""
    if isinstance(value, views.View | Model | msgspec.Raw) or value is msgspec.UNSET:
        return None  # the defaults of what is inside are compared on their own
    return value or None


def default_of_view(field: ViewField) -> Any:
    return field.default_factory() if field.default is msgspec.NODEFAULT else field.default


@pytest.mark.parametrize("view, kind", PAIRS, ids=lambda each: each.__name__)
def test_every_field_of_a_view_exists_in_its_kind_with_type_and_default(
    view: type[views.View], kind: type[Model]
) -> None:
    for match in matches(view, kind):
        assert match.kind is not None, f"{match.path}: the kind has no field of this name"
        assert accepts(match.view.type, match.kind.annotation), match.path
        assert not match.view.required, f"{match.path}: a view must read documents that lack the field"
        default = None if match.kind.is_required() else match.kind.get_default(call_default_factory=True)
        assert meaning(default_of_view(match.view)) == meaning(default), match.path


def test_every_view_is_compared_with_a_kind() -> None:
    compared = {view for view, _ in PAIRS}
    compared |= {innermost(match.view.type) for view, kind in PAIRS for match in matches(view, kind)}
    declared = {item for item in vars(views).values() if is_a(item, views.View)} - WITHOUT_KIND
    assert declared - compared == set()


@pytest.mark.parametrize(
    "view, kind",
    [
        (str, Literal["a"]),
        (str | int | float, int | str),
        (dict[str, str], dict[str, str] | None),
        (tuple[views.Taint, ...], tuple[MemberCluster, ...]),
    ],
    ids=str,
)
def test_the_comparison_accepts_a_type_as_wide_as_the_kind_s(view: Any, kind: Any) -> None:
    assert accepts(view, kind)


@pytest.mark.parametrize(
    "view, kind",
    [
        (str, int),
        (tuple[str, ...], tuple[int, ...]),
        (str, int | str),
        (dict[str, int], dict[str, str]),
        (str, MemberCluster),
    ],
    ids=str,
)
def test_the_comparison_refuses_a_narrower_type(view: Any, kind: Any) -> None:
    assert not accepts(view, kind)


def test_the_collector_leaves_out_what_is_decoded_of_a_policy() -> None:
    """A large one is tens of thousands of objects, and no view can be part of a cycle."""
    term = b'{"labelSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}}'
    policy = msgspec.json.decode(
        b'{"affinity":{"clusterAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":'
        b'{"clusterSelectorTerms":[%b]}}}}' % term,
        type=views.PlacementPolicy,
    )

    assert policy.affinity is not None
    affinity = policy.affinity.cluster_affinity
    assert affinity is not None
    assert affinity.required is not None
    (found,) = affinity.required.cluster_selector_terms
    assert found.label_selector is not None
    assert not any(map(gc.is_tracked, (policy, affinity, found, *found.label_selector.match_expressions)))
