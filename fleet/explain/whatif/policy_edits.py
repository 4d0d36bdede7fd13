"""Effect of edits on a placement's policy, and on the policy snapshot that carries it.

A changed policy gets a new snapshot, as the placement controller would create it: clusters placed under the old one are
chosen again. A changed number of clusters keeps the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from fractions import Fraction
from typing import Any, Final, cast

import msgspec

from fleet.errors import InputError
from fleet.explain.whatif.edits import Edit, Patch, RelaxAffinity, RelaxSpread, SetCount, Tolerate
from fleet.framework.policy.terms import LabelTest, PropertyRef, PropertyTest, label_tests
from fleet.framework.request import SCHEDULE_ANYWAY
from fleet.model.decoding import drop_nulls
from fleet.model.keys import (
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PICK_FIXED,
    PICK_N,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
)
from fleet.model.views import (
    Affinity,
    ClusterSelector,
    ClusterSelectorTerm,
    LabelSelector,
    PlacementPolicy,
    PolicySnapshot,
    PolicySnapshotSpec,
    PolicySnapshotStatus,
    PropertyRequirement,
    PropertySelector,
    Toleration,
    TopologySpreadConstraint,
)
from fleet.name_lists import join_first
from fleet.snapshot.columns.numbers import Operator

Json = dict[str, Any]

_MOST_NAMED: Final = 20


def apply_to_policy(snapshot: PolicySnapshot, edit: Edit, *, place: str, taken: Set[str]) -> PolicySnapshot:
    """The snapshot after an edit of the policy. `taken` are names that the new one must not have."""
    before = _read_policy(snapshot)
    match edit:
        case Tolerate():
            after = _add_toleration(before, edit, place)
        case SetCount():
            after = _set_count(before, edit, place)
        case RelaxAffinity():
            after = _remove_expression(before, edit, place)
        case RelaxSpread():
            after = _set_skew(before, edit, place)
        case Patch():
            after = _apply_patch(before, edit, place)
        case _:
            raise InputError(f"{edit.op} does not change a policy", field=f"{place}.op", value=edit.op)
    return _build_snapshot(snapshot, before, after, taken)


def _read_policy(snapshot: PolicySnapshot) -> PlacementPolicy:
    """With the number of clusters, which a snapshot holds as an annotation."""
    policy = snapshot.spec.policy or PlacementPolicy()
    text = snapshot.metadata.annotation(NUMBER_OF_CLUSTERS) or ""
    if policy.placement_type != PICK_N or not (text.isascii() and text.isdigit()):
        return policy
    return msgspec.structs.replace(policy, number_of_clusters=int(text))


# --- single edits ---------------------------------------------------------------------------------------------------


def _add_toleration(policy: PlacementPolicy, edit: Tolerate, place: str) -> PlacementPolicy:
    if policy.placement_type == PICK_FIXED:
        raise InputError("PickFixed ignores taints; there is nothing to tolerate", field=f"{place}.op", value=edit.op)
    if edit.operator == "Exists" and edit.value:
        raise InputError("Exists compares no value; leave it out", field=f"{place}.value", value=edit.value)
    if edit.operator == "Equal" and not edit.key:
        raise InputError("Equal needs a key; use Exists for every taint", field=f"{place}.key", value=edit.key)
    if edit.effect not in ("", "NoSchedule"):
        message = f"{edit.effect!r} is no effect of a member cluster's taint; use NoSchedule, or leave it out"
        raise InputError(message, field=f"{place}.effect", value=edit.effect)
    added = Toleration(edit.key, edit.operator, edit.value, edit.effect)
    return msgspec.structs.replace(policy, tolerations=(*policy.tolerations, added))


def _set_count(policy: PlacementPolicy, edit: SetCount, place: str) -> PlacementPolicy:
    if policy.placement_type != PICK_N:
        message = f"{policy.placement_type} has no number of clusters; use patch to change the placement type"
        raise InputError(message, field=f"{place}.op", value=edit.op)
    if edit.value < 0:
        raise InputError(f"{edit.value} should be 0 or more", field=f"{place}.value", value=edit.value)
    return msgspec.structs.replace(policy, number_of_clusters=edit.value)


def _set_skew(policy: PlacementPolicy, edit: RelaxSpread, place: str) -> PlacementPolicy:
    if edit.max_skew is None and edit.when_unsatisfiable is None:
        raise InputError("give maxSkew, or whenUnsatisfiable ScheduleAnyway", field=f"{place}.maxSkew")
    constraints = policy.topology_spread_constraints
    known = [constraint.topology_key for constraint in constraints]
    if edit.key not in known:
        message = f"no spread constraint has the key {edit.key!r}; there is {_join_names(known)}"
        raise InputError(message, field=f"{place}.key", value=edit.key)
    if edit.max_skew is not None and edit.max_skew < 1:
        raise InputError(f"{edit.max_skew} should be 1 or more", field=f"{place}.maxSkew", value=edit.max_skew)
    named = [constraint for constraint in constraints if constraint.topology_key == edit.key]
    meant = [constraint for constraint in named if constraint.when_unsatisfiable != SCHEDULE_ANYWAY] or named
    lowest = min(constraint.max_skew for constraint in meant)
    changed = tuple(
        _relax(constraint, edit, lowest) if constraint in meant else constraint for constraint in constraints
    )
    return msgspec.structs.replace(policy, topology_spread_constraints=changed)


def _relax(constraint: TopologySpreadConstraint, edit: RelaxSpread, lowest: int) -> TopologySpreadConstraint:
    """Of several constraints with one key, those that are wider already keep their skew."""
    skew = constraint.max_skew if edit.max_skew is None else edit.max_skew
    return msgspec.structs.replace(
        constraint,
        max_skew=max(skew, constraint.max_skew) if skew >= lowest else skew,
        when_unsatisfiable=edit.when_unsatisfiable or constraint.when_unsatisfiable,
    )


def _remove_expression(policy: PlacementPolicy, edit: RelaxAffinity, place: str) -> PlacementPolicy:
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    terms = affinity.required.cluster_selector_terms if affinity and affinity.required else ()
    if affinity is None or not 0 <= edit.term < len(terms):
        message = f"there is no required term {edit.term}; the policy has {len(terms)}, counted from 0"
        raise InputError(message, field=f"{place}.term", value=edit.term)
    term = terms[edit.term]
    left = _take_out(term, _choose_expression(term, edit, place))
    relaxed = msgspec.structs.replace(
        affinity, required=ClusterSelector((*terms[: edit.term], left, *terms[edit.term + 1 :]))
    )
    return msgspec.structs.replace(policy, affinity=Affinity(relaxed))


def _choose_expression(term: ClusterSelectorTerm, edit: RelaxAffinity, place: str) -> LabelTest | PropertyTest:
    """It may be given with all its values, or as answers write it, if no other reads the same."""
    expressions = list(_list_expressions(term))
    for each in expressions:
        if each.is_written_in_full(edit.expression):
            return each
    meant = {each for each in expressions if str(each) == edit.expression}
    if len(meant) == 1:
        return meant.pop()
    if meant:
        message = f"{len(meant)} expressions of term {edit.term} read {edit.expression!r}; give one with all its values"
    else:
        names = _join_names([str(each) for each in expressions])
        message = f"term {edit.term} has no expression {edit.expression!r}; it has {names}"
    raise InputError(message, field=f"{place}.expression", value=edit.expression)


def _take_out(term: ClusterSelectorTerm, meant: LabelTest | PropertyTest) -> ClusterSelectorTerm:
    """Without the expression, wherever it stands in the term."""
    labels, properties = term.label_selector, term.property_selector
    if labels is not None:
        equal = (labels.match_labels or {}).items()
        pairs = {key: value for key, value in equal if LabelTest(key, "In", (value,)) != meant}
        others = tuple(
            each for each in labels.match_expressions if LabelTest(each.key, each.operator, each.values) != meant
        )
        labels = LabelSelector(pairs or None, others)
    if properties is not None:
        kept = tuple(each for each in properties.match_expressions if _read_property(each) != meant)
        properties = PropertySelector(kept)
    return msgspec.structs.replace(term, label_selector=labels, property_selector=properties)


def _list_expressions(term: ClusterSelectorTerm) -> Iterator[LabelTest | PropertyTest]:
    yield from label_tests(term.label_selector)
    if term.property_selector is not None:
        yield from map(_read_property, term.property_selector.match_expressions)


def _read_property(expression: PropertyRequirement) -> PropertyTest:
    """To be written only."""
    operator = cast(Operator, expression.operator)
    return PropertyTest(PropertyRef(expression.name), operator, Fraction(0), ", ".join(expression.values))


def _apply_patch(policy: PlacementPolicy, edit: Patch, place: str) -> PlacementPolicy:
    before: Json = msgspec.to_builtins(policy)
    after = merge_patch(before, edit.patch)
    known = {(problem.field, problem.message) for problem in find_policy_problems(before)}
    for problem in find_policy_problems(after):
        if (problem.field, problem.message) not in known:
            field = f"{place}.patch.{problem.field}".rstrip(".")
            raise InputError(problem.message, field=field, value=problem.value)
    return msgspec.convert(drop_nulls(after), PlacementPolicy)


def merge_patch(target: Any, patch: Any) -> Any:
    """JSON merge patch: null removes, objects are merged, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def find_policy_problems(document: Any) -> list[InputError]:
    """Errors that the API server would return for a policy in a placement."""
    from pydantic import ValidationError

    from fleet.model.kinds.policy import RequestedPolicy

    try:
        policy = RequestedPolicy.model_validate(document)
    except ValidationError as error:
        return [
            InputError(error_detail["msg"], field=_format_path(error_detail["loc"]), value=error_detail.get("input"))
            for error_detail in error.errors(include_url=False)
        ]
    return list(_find_unknown_fields(policy, ""))


def _find_unknown_fields(model: Any, path: str) -> Iterator[InputError]:
    """Kinds keep unknown fields, for newer releases; in an edit they are mistakes."""
    if isinstance(model, tuple):
        for position, item in enumerate(model):
            yield from _find_unknown_fields(item, f"{path}[{position}]")
        return
    fields = getattr(type(model), "model_fields", None)
    if fields is None:
        return
    for name, value in (model.model_extra or {}).items():
        allowed = ", ".join(field.alias or key for key, field in fields.items())
        yield InputError(f"there is no such field; use {allowed}", field=f"{path}.{name}".lstrip("."), value=value)
    for key, item in fields.items():
        yield from _find_unknown_fields(getattr(model, key), f"{path}.{item.alias or key}".lstrip("."))


def _format_path(steps: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def _join_names(names: list[str]) -> str:
    return join_first(list(dict.fromkeys(names)), _MOST_NAMED) or "none"


# --- snapshots ------------------------------------------------------------------------------------------------------


def _build_snapshot(
    snapshot: PolicySnapshot, before: PlacementPolicy, after: PlacementPolicy, taken: Set[str]
) -> PolicySnapshot:
    annotations = dict(snapshot.metadata.annotations or {})
    generation = annotations.get(PLACEMENT_GENERATION, "")
    if generation.isascii() and generation.isdigit():
        annotations[PLACEMENT_GENERATION] = str(int(generation) + 1)
    annotations.pop(NUMBER_OF_CLUSTERS, None)
    if after.placement_type == PICK_N and after.number_of_clusters is not None:
        annotations[NUMBER_OF_CLUSTERS] = str(after.number_of_clusters)
    metadata = msgspec.structs.replace(snapshot.metadata, annotations=annotations)
    carried = msgspec.structs.replace(snapshot, metadata=metadata, spec=PolicySnapshotSpec(after))
    return carried if _is_same_request(before, after) else _rename(carried, taken)


def _is_same_request(before: PlacementPolicy, after: PlacementPolicy) -> bool:
    return msgspec.structs.replace(before, number_of_clusters=after.number_of_clusters) == after


def _rename(snapshot: PolicySnapshot, taken: Set[str]) -> PolicySnapshot:
    metadata = snapshot.metadata
    index = _parse_index(metadata.label(POLICY_INDEX)) + 1
    while (name := f"{metadata.label(PARENT_PLACEMENT)}-{index}") in taken or name == metadata.name:
        index += 1
    labels = {**(metadata.labels or {}), POLICY_INDEX: str(index)}
    renamed = msgspec.structs.replace(metadata, name=name, uid="", generation=1, labels=labels)
    return msgspec.structs.replace(snapshot, metadata=renamed, status=PolicySnapshotStatus())


def _parse_index(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0
