"""Changes to a fleet or to one placement's policy that can be tried out: what fixes propose and simulations take.

An edit is plain data under its operation's name. Parsing is strict, because ignoring a misspelt edit would make the
answer wrong. Edits are applied by `policy_edits`, `cluster_edits` and `scenario`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal, get_args

import msgspec

from fleet.errors import InputError

Scope = Literal["placement", "policy", "cluster"]


class BaseEdit(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    tag_field="op",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """Base of all edits."""

    @property
    def op(self) -> str:
        return str(type(self).__struct_config__.tag)


# --- of the placement -----------------------------------------------------------------------------------------------


class Tolerate(BaseEdit, frozen=True, tag="tolerate"):
    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: str = ""


class SetCount(BaseEdit, frozen=True, tag="setCount"):
    value: int


class RelaxAffinity(BaseEdit, frozen=True, tag="relaxAffinity"):
    """Take one expression out of a required term."""

    term: int
    """Position among the terms, from 0."""
    expression: str
    """As explanations write it: `tier In [gold, silver]`."""


class RelaxSpread(BaseEdit, frozen=True, tag="relaxSpread"):
    """Of the constraints that forbid, if there are any with the key; else of those that only rank. A wider skew, or
    only a preference, or both."""

    key: str
    max_skew: int | None = None
    when_unsatisfiable: Literal["ScheduleAnyway"] | None = None


class SetRequest(BaseEdit, frozen=True, tag="setRequest"):
    """What one cluster's copy needs of a resource."""

    resource: str
    value: str | None
    """None takes the request away."""


class SetMinTargets(BaseEdit, frozen=True, tag="setMinTargets"):
    """Of a PickN placement."""

    value: int | None
    """None takes it away."""


class RelaxPlacementAffinity(BaseEdit, frozen=True, tag="relaxPlacementAffinity"):
    """Of a required term about other placements: the placement without it."""

    term: int
    """Position among these terms, from 0."""


class Patch(BaseEdit, frozen=True, tag="patch"):
    """A JSON merge patch of the policy."""

    patch: dict[str, Any]


# --- of clusters ----------------------------------------------------------------------------------------------------


class LabelCluster(BaseEdit, frozen=True, tag="labelCluster"):
    cluster: str
    key: str
    value: str | None
    """None takes the label away."""


class AddTaint(BaseEdit, frozen=True, tag="addTaint"):
    cluster: str
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class RemoveTaint(BaseEdit, frozen=True, tag="removeTaint"):
    """Without an effect, or a value: any effect, or any value."""

    cluster: str
    key: str
    value: str | None = None
    effect: str | None = None


class SetReady(BaseEdit, frozen=True, tag="setReady"):
    """The member agent has joined, is healthy and sends heartbeats, or has long been unhealthy."""

    cluster: str
    value: bool


class SetProperty(BaseEdit, frozen=True, tag="setProperty"):
    cluster: str
    property: str
    value: str


class AddCapacity(BaseEdit, frozen=True, tag="addCapacity"):
    """The cluster has so much more of a resource, and all of that is free."""

    cluster: str
    resource: str
    value: str


class NewTaint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class AddCluster(BaseEdit, frozen=True, tag="addCluster"):
    """A cluster that may take work; or like another one, with these labels, properties and taints in addition, and
    with this much of each resource, all of it free."""

    name: str
    like: str = ""
    labels: dict[str, str] = {}
    properties: dict[str, str] = {}
    taints: tuple[NewTaint, ...] = ()
    capacity: dict[str, str] = {}


class RemoveCluster(BaseEdit, frozen=True, tag="removeCluster"):
    cluster: str


class Evict(BaseEdit, frozen=True, tag="evict"):
    """The placement's binding on the cluster is gone; with a name, only that one. `placement` is another placement
    than the simulated one: it counts for the impact."""

    cluster: str
    binding: str = ""
    placement: str = ""


PlacementEdit = (
    Tolerate | SetCount | RelaxAffinity | RelaxSpread | SetRequest | SetMinTargets | RelaxPlacementAffinity | Patch
)
FleetEdit = LabelCluster | AddTaint | RemoveTaint | SetReady | SetProperty | AddCapacity | AddCluster | RemoveCluster
Edit = PlacementEdit | FleetEdit | Evict

_KINDS: Final[tuple[type[BaseEdit], ...]] = (
    Tolerate,
    SetCount,
    RelaxAffinity,
    RelaxSpread,
    SetRequest,
    SetMinTargets,
    RelaxPlacementAffinity,
    Patch,
    LabelCluster,
    AddTaint,
    RemoveTaint,
    SetReady,
    SetProperty,
    AddCapacity,
    AddCluster,
    RemoveCluster,
    Evict,
)
OPERATIONS: Final[Mapping[str, type[BaseEdit]]] = {str(kind.__struct_config__.tag): kind for kind in _KINDS}
EXAMPLES: Final[Mapping[str, str]] = {
    "tolerate": "tolerate key=dedicated value=batch effect=NoSchedule",
    "setCount": "setCount value=4",
    "relaxAffinity": "relaxAffinity term=0 expression='tier In [gold, silver]'",
    "relaxSpread": "relaxSpread key=region maxSkew=2",
    "setRequest": "setRequest resource=cpu value=500m",
    "setMinTargets": "setMinTargets value=2",
    "relaxPlacementAffinity": "relaxPlacementAffinity term=0",
    "patch": '{"op": "patch", "patch": {"numberOfClusters": 4}}',
    "labelCluster": "labelCluster cluster=ams-1 key=env value=prod",
    "addTaint": "addTaint cluster=ams-1 key=down effect=NoSchedule",
    "removeTaint": "removeTaint cluster=ams-1 key=down",
    "setReady": "setReady cluster=ams-1 value=false",
    "setProperty": "setProperty cluster=ams-1 property=kubernetes-fleet.io/node-count value=12",
    "addCapacity": "addCapacity cluster=ams-1 resource=cpu value=4",
    "addCluster": "addCluster name=ams-9 like=ams-1",
    "removeCluster": "removeCluster cluster=ams-1",
    "evict": "evict cluster=ams-1",
}
"""One of each operation, in the words of the command line."""
MEANINGS: Final[Mapping[str, str]] = {
    "tolerate": "one more toleration",
    "setCount": "the number of clusters of a PickN policy",
    "relaxAffinity": "a required term, counted from 0, without one expression",
    "relaxSpread": "a wider skew, or only a preference (`whenUnsatisfiable=ScheduleAnyway`)",
    "setRequest": "what one cluster's copy needs of a resource; `null`, in JSON, takes the request away",
    "setMinTargets": "without that many clusters nothing is taken; `null`, in JSON, takes it away",
    "relaxPlacementAffinity": "without a required term about other placements, counted from 0",
    "patch": "a JSON merge patch of the policy",
    "labelCluster": "a label of a cluster; `null`, in JSON, takes it away",
    "addTaint": "a taint of a cluster",
    "removeTaint": "without value or effect: with any",
    "setReady": "its agent is healthy, or has long been unhealthy",
    "setProperty": "a property, which is a quantity",
    "addCapacity": "more of a resource on a cluster, all of it free",
    "addCluster": "a cluster that may take work, or one like another; as words, taints are `key=value:effect`",
    "removeCluster": "the cluster leaves the fleet",
    "evict": "the placement's binding there is gone; `placement` is another one, for the impact",
}
NOT_YET: Final = (
    "setPriority",
    "clearGate",
    "setSchedulerName",
    "raiseQuota",
    "setWeight",
    "setPluginArgs",
    "useConfig",
    "approve",
    "setFeed",
)
"""Of things that no policy, cluster or profile has today."""

_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_PLACEMENT_KINDS: Final = get_args(PlacementEdit)


def scope_of(edit: Edit) -> Scope:
    return "placement" if isinstance(edit, _PLACEMENT_KINDS) else "cluster"


def parse_edits(given: object) -> tuple[Edit, ...]:
    """The edits of a list of plain objects. The first that cannot be read is an InputError with its place."""
    if not isinstance(given, list | tuple):
        raise InputError(f"should be a list of edits, not {_name_type(given)}", field="edits", value=given)
    return tuple(_parse(document, f"edits[{position}]") for position, document in enumerate(given))


def to_documents(edits: Sequence[Edit]) -> list[dict[str, Any]]:
    """What `parse_edits` reads."""
    documents: list[dict[str, Any]] = msgspec.to_builtins(list(edits))
    return documents


def _parse(document: object, place: str) -> Edit:
    if not isinstance(document, Mapping):
        raise InputError('should be an object such as {"op": "setCount", "value": 3}', field=place, value=document)
    op = document.get("op")
    if not isinstance(op, str) or op not in OPERATIONS:
        raise InputError(_describe_unknown(op), field=f"{place}.op", value=op)
    try:
        edit: Edit = msgspec.convert(dict(document), OPERATIONS[op])  # type: ignore[assignment]
        return edit
    except msgspec.ValidationError as error:
        raise _build_error(error, op, document, place) from error


def _describe_unknown(op: object) -> str:
    ways = ", ".join(OPERATIONS)
    if op is None:
        return f"the operation is missing; use one of {ways}"
    if op in NOT_YET:
        return f"{op} changes something that this release does not schedule by; use one of {ways}"
    near = get_close_matches(str(op).lower(), (name.lower() for name in OPERATIONS), n=1)
    match = next((name for name in OPERATIONS if [name.lower()] == near), None)
    return f"{op!r} is not an operation; {f'did you mean {match}?' if match else f'use one of {ways}'}"


def _build_error(error: msgspec.ValidationError, op: str, document: Mapping[Any, Any], place: str) -> InputError:
    match = _AT.fullmatch(str(error))
    assert match is not None
    path = match["path"] or ""
    field = f"{place}.{path}" if path else place
    value = document.get(path) if path else dict(document)
    return InputError(f"{match['what']}; {op} takes {_describe_parameters(OPERATIONS[op])}", field=field, value=value)


def list_operations() -> list[tuple[str, str, str, str]]:
    """Each operation with its parameters, its meaning, and an example."""
    return [(op, _describe_parameters(kind), MEANINGS[op], EXAMPLES[op]) for op, kind in OPERATIONS.items()]


def _describe_parameters(kind: type[BaseEdit]) -> str:
    """`key?, operator?, value?`: a question mark where it may be left out."""
    fields = msgspec.structs.fields(kind)
    return ", ".join(f"{field.encode_name}{'' if field.required else '?'}" for field in fields)


def _name_type(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


# --- words ----------------------------------------------------------------------------------------------------------


def describe(edit: Edit) -> str:
    """An edit in a few words, as it is listed for people."""
    match edit:
        case Tolerate():
            return f"tolerate {edit.key or 'every taint'}{_format_value(edit.value)}{_format_effect(edit.effect)}"
        case SetCount():
            return f"count {edit.value}"
        case RelaxAffinity():
            return f"affinity term [{edit.term}] without {edit.expression}"
        case RelaxSpread():
            wider = [] if edit.max_skew is None else [f"max skew of {edit.key} {edit.max_skew}"]
            preferred = [] if edit.when_unsatisfiable is None else [f"spread over {edit.key} {edit.when_unsatisfiable}"]
            return ", ".join([*wider, *preferred])
        case SetRequest(value=None):
            return f"no request of {edit.resource}"
        case SetRequest():
            return f"request {edit.resource} {edit.value}"
        case SetMinTargets(value=None):
            return "no minTargets"
        case SetMinTargets():
            return f"minTargets {edit.value}"
        case RelaxPlacementAffinity():
            return f"without required term [{edit.term}] about other placements"
        case Patch():
            return f"policy {msgspec.json.encode(edit.patch).decode()}"
        case LabelCluster(value=None):
            return f"{edit.cluster}: remove label {edit.key}"
        case LabelCluster():
            return f"{edit.cluster}: label {edit.key}={edit.value}"
        case AddTaint():
            return f"{edit.cluster}: taint {edit.key}{_format_value(edit.value)}{_format_effect(edit.effect)}"
        case RemoveTaint():
            return f"{edit.cluster}: remove taint {edit.key}{_format_value(edit.value)}{_format_effect(edit.effect)}"
        case SetReady():
            return f"{edit.cluster}: bring its agent back" if edit.value else f"{edit.cluster}: not ready"
        case SetProperty():
            return f"{edit.cluster}: {edit.property} {edit.value}"
        case AddCapacity():
            return f"{edit.cluster}: {edit.value} more {edit.resource}"
        case AddCluster():
            return _describe_new_cluster(edit)
        case RemoveCluster():
            return f"{edit.cluster}: leaves the fleet"
        case Evict():
            return f"{edit.cluster}: evict {edit.binding or edit.placement or 'the placement'}"


def _describe_new_cluster(edit: AddCluster) -> str:
    has = [f"{key}={value}" for key, value in edit.labels.items()]
    has += [f"{name} {value}" for name, value in edit.properties.items()]
    has += [f"{quantity} {resource} free" for resource, quantity in edit.capacity.items()]
    has += [f"taint {taint.key}{_format_value(taint.value)}:{taint.effect}" for taint in edit.taints]
    listed = f" with {', '.join(has)}" if has else ""
    return f"new cluster {edit.name} like {edit.like}{listed}" if edit.like else f"one more eligible cluster{listed}"


def changes_facts(edit: Edit) -> bool:
    """Whether it changes how a cluster is described, and not what is done with it."""
    return isinstance(edit, LabelCluster | SetProperty)


def list_clusters(edit: Edit) -> tuple[str, ...]:
    """The clusters an edit names."""
    if isinstance(edit, Patch):
        listed = edit.patch.get("clusterNames")
        return tuple(map(str, listed)) if isinstance(listed, list | tuple) else ()
    names = (getattr(edit, field, "") for field in ("cluster", "name", "like"))
    return tuple(name for name in names if name)


def _format_value(value: str | None) -> str:
    return f"={value}" if value else ""


def _format_effect(effect: str | None) -> str:
    return f":{effect}" if effect else ""
