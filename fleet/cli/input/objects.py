"""Kubernetes objects from documents: expands lists, finds kinds, validates objects and rejects duplicates.

Documents come in layers: a document of a later layer is applied to the object of an earlier one. Within a layer an
object may be there once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec
from pydantic import ValidationError

from fleet.cli.input.documents import ParsedDocument, Steps
from fleet.cli.input.object_merge import FIELD_MANAGER, merge_document
from fleet.cli.input.problems import Findings
from fleet.errors import DocumentError
from fleet.kube.resource import join_key
from fleet.model.catalog import KindDefinition, find_kind
from fleet.model.decoding import decode, describe_document, drop_nulls
from fleet.model.documents import check_names, describe_forbidden_change, describe_kind_problem
from fleet.model.fields import FieldProblem, check_fields
from fleet.model.kinds.meta import Document, Model
from fleet.model.views import (
    Binding,
    MemberCluster,
    Metadata,
    PlacementOptions,
    PlacementQuota,
    PolicySnapshot,
    View,
)

DEFAULT_NAMESPACE: Final = "default"
_NOT_EXPORTED: Final = {"kind": "User", "name": "not-exported"}
_CONDITION: Final = {"reason": "", "message": ""}
_POLICY: Final[dict[str, dict[str, Any]]] = {"spec": {"policyHash": ""}, "status": {"observedCRPGeneration": 0}}
_BOUND: Final = {"spec": {"resourceSnapshotName": ""}}
_REQUIRED: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "MemberCluster": {"spec": {"identity": _NOT_EXPORTED}},
    "ClusterSchedulingPolicySnapshot": _POLICY,
    "SchedulingPolicySnapshot": _POLICY,
    "ClusterResourceBinding": _BOUND,
    "ResourceBinding": _BOUND,
}
"""By kind and part: required fields that an export may omit."""
SNAPSHOT: Final = "FleetSnapshot"
SNAPSHOT_PARTS: Final = ("clusters", "placements", "options", "quotas", "policySnapshots", "bindings")
_OTHER_PROJECTS: Final = {"karmada.io": "Karmada", "open-cluster-management.io": "Open Cluster Management"}
"""By the end of the group."""
V = TypeVar("V", bound=View)

_VIEWS: Final[dict[str, type[View]]] = {
    "MemberCluster": MemberCluster,
    "ClusterSchedulingPolicySnapshot": PolicySnapshot,
    "SchedulingPolicySnapshot": PolicySnapshot,
    "ClusterResourceBinding": Binding,
    "ResourceBinding": Binding,
    "ClusterPlacementOptions": PlacementOptions,
    "PlacementOptions": PlacementOptions,
    "ClusterPlacementQuota": PlacementQuota,
    "PlacementQuota": PlacementQuota,
}


ObjectId = tuple[str, str, str]
"""The full name of the kind, the namespace and the name."""


@dataclass(frozen=True, slots=True)
class InputObject:
    """A valid object of one of our kinds."""

    resource: KindDefinition
    document: Document | None
    """None for an object of the hub that this release would not accept."""
    parsed: ParsedDocument
    """Of an object in several layers the last one, with the content of all."""
    metadata: Metadata
    namespace: str
    view: View | None = None
    layer: int = 0
    given: Mapping[str, Any] = field(default_factory=dict)
    """The content in the last layer."""

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def key(self) -> str:
        return join_key(self.namespace, self.name)

    @property
    def id(self) -> ObjectId:
        return (self.resource.full_name, self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    def report(self, findings: Findings, steps: Steps, message: str) -> None:
        findings.report(self.parsed.at(steps), message, subject=str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Documents that are applied to the objects of earlier layers."""

    number: int = 0
    base: Mapping[ObjectId, InputObject] = field(default_factory=dict)
    manager: str = FIELD_MANAGER
    keeps_status: bool = False
    """An apply does not change the status. Files that describe a hub do."""
    is_checked: bool = True
    """False for objects of a hub, which has accepted them."""


_ONLY_LAYER: Final = Layer()


def read_layers(
    layers: Iterable[Iterable[ParsedDocument]], findings: Findings, *, start: Layer = _ONLY_LAYER
) -> list[InputObject]:
    """All objects of our kinds after the last layer, `start` being the first one."""
    known = dict(start.base)
    for position, documents in enumerate(layers):
        layer = replace(start, number=start.number + position, base=known)
        known = known | {item.id: item for item in read_objects(documents, findings, layer=layer)}
    return list(known.values())


def read_objects(
    documents: Iterable[ParsedDocument], findings: Findings, *, layer: Layer = _ONLY_LAYER
) -> list[InputObject]:
    """All objects of our kinds in one layer, without duplicates."""
    objects: list[InputObject] = []
    places: dict[ObjectId, str] = {}
    foreign: Counter[str] = Counter()
    for parsed in documents:
        for item in expand_lists(parsed, findings):
            resource = _find_kind(item, foreign, findings)
            if resource is not None and (built := _build_object(item, resource, findings, places, layer)) is not None:
                objects.append(built)
    _note_other_projects(foreign, findings)
    if foreign:
        listed = ", ".join(f"{count} {what}" for what, count in sorted(foreign.items()))
        findings.detail(f"ignored, not Fleet's own: {listed}")
    return objects


def _note_other_projects(foreign: Counter[str], findings: Findings) -> None:
    for domain, project in _OTHER_PROJECTS.items():
        kinds = sorted(what.partition(".")[0] for what in foreign if _is_within(_group_of(what), domain))
        if kinds:
            listed = ", ".join(dict.fromkeys(kinds))
            findings.note(
                f"left out, because they are {project}'s: {listed}; docs/simulate.md has the kinds to write instead"
            )


def _group_of(what: str) -> str:
    """Of `Cluster.cluster.karmada.io/v1alpha1`."""
    return what.partition(".")[2].partition("/")[0]


def _is_within(group: str, domain: str) -> bool:
    return group == domain or group.endswith(f".{domain}")


# --- lists and kinds ------------------------------------------------------------------------------------------------


def expand_lists(parsed: ParsedDocument, findings: Findings) -> Iterator[ParsedDocument]:
    """A document, or the items of a list, each with apiVersion and kind."""
    content = parsed.content
    if not isinstance(content, dict):
        actual = "a list" if isinstance(content, list) else f"{content!r}"
        findings.report(parsed.place, f"should be an object with apiVersion and kind, not {actual}")
        return
    kind = content.get("kind")
    if kind == SNAPSHOT:
        yield from _expand_snapshot(parsed)
        return
    if not (isinstance(kind, str) and kind.endswith("List") and "items" in content):
        yield parsed
        return
    items = content["items"] or []
    if not isinstance(items, list):
        findings.report(parsed.at(("items",)), f"{kind}: items should be a list")
        return
    for position, item in enumerate(items):
        inherited = {"apiVersion": content.get("apiVersion"), "kind": kind.removesuffix("List")}
        whole = {**inherited, **item} if kind != "List" and isinstance(item, dict) else item
        yield from expand_lists(parsed.part(("items", position), whole), findings)


def _expand_snapshot(snapshot: ParsedDocument) -> Iterator[ParsedDocument]:
    """The objects of an exported snapshot."""
    for part in SNAPSHOT_PARTS:
        items = snapshot.content.get(part)
        for position, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                yield snapshot.part((part, position), _fill_required(item))


def _fill_required(item: dict[str, Any]) -> dict[str, Any]:
    """Add required fields: an export contains only non-empty fields that decisions read."""
    filled = dict(item)
    for part, required in _REQUIRED.get(str(item.get("kind")), {}).items():
        if isinstance(item.get(part), dict):
            filled[part] = {**required, **item[part]}
    status = filled.get("status")
    if isinstance(status, dict):
        filled["status"] = _fill_conditions(status)
    return filled


def _fill_conditions(part: dict[str, Any]) -> dict[str, Any]:
    """Add empty messages to conditions, also to those of agents."""
    filled = dict(part)
    if isinstance(conditions := part.get("conditions"), list):
        filled["conditions"] = [
            {**_CONDITION, **condition} if isinstance(condition, dict) else condition for condition in conditions
        ]
    if isinstance(agents := part.get("agentStatus"), list):
        filled["agentStatus"] = [_fill_conditions(agent) if isinstance(agent, dict) else agent for agent in agents]
    return filled


def _find_kind(parsed: ParsedDocument, foreign: Counter[str], findings: Findings) -> KindDefinition | None:
    """The kind of a document; None if it is invalid or not ours."""
    problem = describe_kind_problem(parsed.content)
    if problem:
        findings.report(parsed.place, problem, subject=describe_document(parsed.content))
        return None
    api_version, kind = parsed.content["apiVersion"], parsed.content["kind"]
    resource = find_kind(api_version, kind)
    if resource is None:
        foreign[f"{kind}.{api_version}"] += 1
    return resource


# --- one object -----------------------------------------------------------------------------------------------------


def _build_object(
    parsed: ParsedDocument,
    resource: KindDefinition,
    findings: Findings,
    places: dict[ObjectId, str],
    layer: Layer,
) -> InputObject | None:
    given = drop_nulls(parsed.content)
    identity = _find_identity(given, resource)
    base = layer.base.get(identity) if identity else None
    content = _apply(given, base, layer)
    if not layer.is_checked:
        return _build_unchecked(parsed, content, resource, findings)
    cleaned = ParsedDocument(parsed.place, content, parsed.node, parsed.offset)
    subject = describe_document(content)
    document, problems = _check(cleaned, resource, base)
    for problem in problems:
        findings.report(parsed.at(problem.path), str(problem), subject=subject)
    first = _is_unique(cleaned, resource, findings, places)
    if problems or not first:
        return None
    forbidden = describe_forbidden_change(base.parsed.content, document) if base and document else ""
    if forbidden:
        findings.report(parsed.at(("spec",)), f"spec: {forbidden}", subject=subject)
        return None
    wrong_names = check_names(content, resource)
    for problem in wrong_names:
        findings.report(parsed.at(problem.path), str(problem), subject=subject)
    if wrong_names:
        return None
    if base is not None and read_spec(resource, content) != read_spec(resource, base.parsed.content):
        content = {**content, "metadata": _count_generation(content["metadata"])}
        cleaned = replace(cleaned, content=content)
    namespace = content["metadata"].get("namespace") or ""
    if resource.is_namespaced and not namespace:
        namespace = DEFAULT_NAMESPACE
        content = {**content, "metadata": {**content["metadata"], "namespace": namespace}}
        findings.note(f"{parsed.place}: {subject} has no namespace: using {namespace}")
    view = _build_view(content, cleaned, resource, findings)
    metadata = msgspec.convert(content["metadata"], Metadata)
    return InputObject(resource, document, cleaned, metadata, namespace, view, layer.number, given)


def _find_identity(content: Mapping[str, Any], resource: KindDefinition) -> ObjectId | None:
    metadata = content.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(name := metadata.get("name"), str) or not name:
        return None
    namespace = str(metadata.get("namespace") or DEFAULT_NAMESPACE) if resource.is_namespaced else ""
    return (resource.full_name, namespace, name)


def _apply(given: dict[str, Any], base: InputObject | None, layer: Layer) -> dict[str, Any]:
    if layer.keeps_status:
        given = {name: value for name, value in given.items() if name != "status"}
    if base is None or not isinstance(given.get("spec", {}), dict):
        return given
    return merge_document(base.parsed.content, given, manager=layer.manager)


def read_spec(resource: KindDefinition, content: Mapping[str, Any]) -> Any:
    """The spec with the API server's defaults, so that two of them can be compared; as it is, if it is not valid."""
    try:
        spec = getattr(resource.model.model_validate(content), "spec", None)
    except ValidationError:
        return content.get("spec")
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True) if isinstance(spec, Model) else spec


def _count_generation(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A changed spec has the next generation."""
    generation = metadata.get("generation")
    return {**metadata, "generation": generation + 1} if isinstance(generation, int) else dict(metadata)


def _check(
    parsed: ParsedDocument, resource: KindDefinition, base: InputObject | None
) -> tuple[Document | None, list[FieldProblem]]:
    """The object and the problems of its document; without the object where the hub has accepted other problems
    before."""
    document, problems = _check_fields(parsed, resource)
    if not problems or base is None or base.document is not None:
        return document, problems
    accepted = set(_check_fields(base.parsed, resource)[1])
    return None, [problem for problem in problems if problem not in accepted]


def _check_fields(parsed: ParsedDocument, resource: KindDefinition) -> tuple[Document | None, list[FieldProblem]]:
    """From top to bottom."""
    document, problems = check_fields(parsed.content, resource.model, read_source=parsed.source_text)
    return document, sorted(problems, key=lambda problem: parsed.line_of(problem.path))


def _build_unchecked(
    parsed: ParsedDocument, content: dict[str, Any], resource: KindDefinition, findings: Findings
) -> InputObject:
    cleaned = ParsedDocument(parsed.place, content, parsed.node, parsed.offset)
    metadata = msgspec.convert(content["metadata"], Metadata)
    view = _build_view(content, cleaned, resource, findings)
    return InputObject(resource, None, cleaned, metadata, metadata.namespace, view)


def _is_unique(
    parsed: ParsedDocument, resource: KindDefinition, findings: Findings, places: dict[ObjectId, str]
) -> bool:
    """Whether no other object of the layer, valid or not, has this kind and name."""
    identity = _find_identity(parsed.content, resource)
    if identity is None:
        return True
    before = places.setdefault(identity, str(parsed.place))
    if before == str(parsed.place):
        return True
    message = f"is also in {before}; keep one of the two"
    findings.report(parsed.at(("metadata", "name")), message, subject=describe_document(parsed.content))
    return False


def _build_view(
    content: dict[str, Any], parsed: ParsedDocument, resource: KindDefinition, findings: Findings
) -> View | None:
    """The scheduler's view of the object, by the scheduler's decoder."""
    view_type = _VIEWS.get(resource.kind)
    if view_type is None:
        return None
    try:
        return decode(msgspec.json.encode(content), view_type).view
    except DocumentError as error:
        findings.report(parsed.place, str(error))
        return None
