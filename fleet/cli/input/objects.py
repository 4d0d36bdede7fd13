"""Kubernetes objects from documents: expands lists, finds kinds, validates objects and rejects duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from fleet.cli.input.documents import ParsedDocument, Steps
from fleet.cli.input.fields import check_fields
from fleet.cli.input.problems import Findings, did_you_mean, nearest
from fleet.errors import DocumentError
from fleet.kube.resource import join_key
from fleet.model.catalog import CATALOG, KindDefinition, find_kind
from fleet.model.decoding import decode, describe_document
from fleet.model.keys import CLUSTER_GROUP, PLACEMENT_GROUP
from fleet.model.kinds.meta import Document
from fleet.model.labels import is_subdomain
from fleet.model.views import Binding, MemberCluster, PolicySnapshot, View

OUR_GROUPS: Final = (PLACEMENT_GROUP, CLUSTER_GROUP)
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
SNAPSHOT_PARTS: Final = ("clusters", "placements", "policySnapshots", "bindings")
V = TypeVar("V", bound=View)

_VIEWS: Final[dict[str, type[View]]] = {
    "MemberCluster": MemberCluster,
    "ClusterSchedulingPolicySnapshot": PolicySnapshot,
    "SchedulingPolicySnapshot": PolicySnapshot,
    "ClusterResourceBinding": Binding,
    "ResourceBinding": Binding,
}


@dataclass(frozen=True, slots=True)
class InputObject:
    """A valid object of one of our kinds."""

    resource: KindDefinition
    document: Document
    parsed: ParsedDocument
    namespace: str
    view: View | None = None

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def name(self) -> str:
        return self.document.metadata.name

    @property
    def key(self) -> str:
        return join_key(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    def report(self, findings: Findings, steps: Steps, message: str) -> None:
        findings.report(self.parsed.at(steps), message, subject=str(self))


def read_objects(documents: Iterable[ParsedDocument], findings: Findings) -> list[InputObject]:
    """All objects of our kinds, without duplicates."""
    objects: list[InputObject] = []
    places: dict[tuple[str, str, str], str] = {}
    foreign: Counter[str] = Counter()
    for parsed in documents:
        for item in expand_lists(parsed, findings):
            resource = _find_kind(item, foreign, findings)
            if resource is not None and (item_object := _build_object(item, resource, findings, places)) is not None:
                objects.append(item_object)
    if foreign:
        listed = ", ".join(f"{count} {what}" for what, count in sorted(foreign.items()))
        findings.detail(f"ignored, not Fleet's own: {listed}")
    return objects


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
    missing = [key for key in ("apiVersion", "kind") if not isinstance(parsed.content.get(key), str)]
    if missing:
        subject = describe_document(parsed.content)
        findings.report(parsed.place, f"{' and '.join(missing)} missing: every object needs both", subject=subject)
        return None
    api_version, kind = parsed.content["apiVersion"], parsed.content["kind"]
    resource = find_kind(api_version, kind)
    if resource is None:
        problem = _unknown_kind(api_version, kind)
        if problem:
            findings.report(parsed.place, problem, subject=describe_document(parsed.content))
        else:
            foreign[f"{kind}.{api_version}"] += 1
    return resource


def _unknown_kind(api_version: str, kind: str) -> str:
    """The problem of a kind that resembles one of ours; empty for any other kind."""
    group, _, version = api_version.rpartition("/")
    if group not in OUR_GROUPS:
        meant = nearest(group, OUR_GROUPS) if group else None
        return f"apiVersion {api_version!r}: no such group; did you mean {meant}?" if meant else ""
    same_kind = [definition for definition in CATALOG if definition.kind == kind and definition.group in OUR_GROUPS]
    if not same_kind:
        kinds = [definition.kind for definition in CATALOG if definition.group == group]
        return f"kind {kind!r} does not exist in {group}{did_you_mean(kind, kinds)}"
    (resource,) = same_kind
    if resource.group != group:
        return f"kind {kind} is in {resource.group}, not in {group}"
    return f"version {version!r} of {kind} does not exist; use {' or '.join(sorted(resource.versions))}"


# --- one object -----------------------------------------------------------------------------------------------------


def _build_object(
    parsed: ParsedDocument, resource: KindDefinition, findings: Findings, places: dict[tuple[str, str, str], str]
) -> InputObject | None:
    content = _without_nulls(parsed.content)
    cleaned = ParsedDocument(parsed.place, content, parsed.node, parsed.offset)
    subject = describe_document(content)
    problems = check_fields(cleaned, resource.model)
    for problem in problems:
        findings.report(parsed.at(problem.path), str(problem), subject=subject)
    first = _is_unique(cleaned, resource, findings, places)
    if problems or not first:
        return None
    document = resource.model.model_validate(content)
    if not _has_valid_name(document, cleaned, resource, findings):
        return None
    namespace = document.metadata.namespace
    if resource.is_namespaced and not namespace:
        namespace = DEFAULT_NAMESPACE
        content = {**content, "metadata": {**content["metadata"], "namespace": namespace}}
        findings.note(f"{parsed.place}: {subject} has no namespace: using {namespace}")
    view = _build_view(content, cleaned, resource, findings)
    return InputObject(resource, document, cleaned, namespace, view)


def _is_unique(
    parsed: ParsedDocument, resource: KindDefinition, findings: Findings, places: dict[tuple[str, str, str], str]
) -> bool:
    """Whether no other object, valid or not, has this kind and name."""
    metadata = parsed.content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        return True
    namespace = str(metadata.get("namespace") or DEFAULT_NAMESPACE) if resource.is_namespaced else ""
    before = places.setdefault((resource.full_name, namespace, name), str(parsed.place))
    if before == str(parsed.place):
        return True
    message = f"is also in {before}; keep one of the two"
    findings.report(parsed.at(("metadata", "name")), message, subject=describe_document(parsed.content))
    return False


def _has_valid_name(document: Document, parsed: ParsedDocument, resource: KindDefinition, findings: Findings) -> bool:
    name, namespace = document.metadata.name, document.metadata.namespace
    subject = describe_document(parsed.content)
    before = len(findings.problems)
    if not name:
        findings.report(parsed.at(("metadata",)), "metadata.name: is required", subject=subject)
    elif not is_subdomain(name):
        message = f"metadata.name: {name!r} should be lower-case letters, digits, '-' and '.'"
        findings.report(parsed.at(("metadata", "name")), message, subject=subject)
    if namespace and not resource.is_namespaced:
        message = f"metadata.namespace: a {resource.kind} has no namespace; leave it out"
        findings.report(parsed.at(("metadata", "namespace")), message, subject=subject)
    return len(findings.problems) == before


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


def _without_nulls(value: Any) -> Any:
    """Drop nulls, as the API server does."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
