"""Kubernetes objects out of documents: lists taken apart, kinds looked up, each object checked, doubles refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from fleet.cli.input.documents import Parsed, Steps
from fleet.cli.input.fields import complaints
from fleet.cli.input.problems import Findings, did_you_mean, nearest
from fleet.errors import DocumentError
from fleet.kube.resource import join_key
from fleet.model.catalogue import CATALOGUE, KindDefinition, find_kind
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
"""By kind and part what is required of its objects and may be missing in an export."""
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
class Object:
    """One object of our kinds that is as its kind wants it."""

    resource: KindDefinition
    document: Document
    parsed: Parsed
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

    def wrong(self, findings: Findings, steps: Steps, message: str) -> None:
        findings.wrong(self.parsed.at(steps), message, subject=str(self))


def read_objects(documents: Iterable[Parsed], findings: Findings) -> list[Object]:
    """All objects of our kinds, each name once."""
    found: list[Object] = []
    places: dict[tuple[str, str, str], str] = {}
    foreign: Counter[str] = Counter()
    for parsed in documents:
        for item in flattened(parsed, findings):
            resource = _resource(item, foreign, findings)
            if resource is not None and (one := _object(item, resource, findings, places)) is not None:
                found.append(one)
    if foreign:
        listed = ", ".join(f"{count} {what}" for what, count in sorted(foreign.items()))
        findings.detail(f"not Fleet's own, left out: {listed}")
    return found


# --- lists and kinds ------------------------------------------------------------------------------------------------


def flattened(parsed: Parsed, findings: Findings) -> Iterator[Parsed]:
    """A document, or in place of a list its items, each with apiVersion and kind."""
    content = parsed.content
    if not isinstance(content, dict):
        found = "a list" if isinstance(content, list) else f"{content!r}"
        findings.wrong(parsed.place, f"should be an object with apiVersion and kind, not {found}")
        return
    kind = content.get("kind")
    if kind == SNAPSHOT:
        yield from _within(parsed)
        return
    if not (isinstance(kind, str) and kind.endswith("List") and "items" in content):
        yield parsed
        return
    items = content["items"] or []
    if not isinstance(items, list):
        findings.wrong(parsed.at(("items",)), f"{kind}: items should be a list")
        return
    for position, item in enumerate(items):
        inherited = {"apiVersion": content.get("apiVersion"), "kind": kind.removesuffix("List")}
        whole = {**inherited, **item} if kind != "List" and isinstance(item, dict) else item
        yield from flattened(parsed.part(("items", position), whole), findings)


def _within(snapshot: Parsed) -> Iterator[Parsed]:
    """The objects of an exported snapshot."""
    for part in SNAPSHOT_PARTS:
        items = snapshot.content.get(part)
        for position, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                yield snapshot.part((part, position), _completed(item))


def _completed(item: dict[str, Any]) -> dict[str, Any]:
    """An object is exported with what decisions read of it, and without what is empty: less than its kind requires."""
    found = dict(item)
    for part, required in _REQUIRED.get(str(item.get("kind")), {}).items():
        if isinstance(item.get(part), dict):
            found[part] = {**required, **item[part]}
    status = found.get("status")
    if isinstance(status, dict):
        found["status"] = _with_whole_conditions(status)
    return found


def _with_whole_conditions(part: dict[str, Any]) -> dict[str, Any]:
    """Conditions need a message, be it empty; those of agents are one level further down."""
    found = dict(part)
    if isinstance(conditions := part.get("conditions"), list):
        found["conditions"] = [{**_CONDITION, **one} if isinstance(one, dict) else one for one in conditions]
    if isinstance(agents := part.get("agentStatus"), list):
        found["agentStatus"] = [_with_whole_conditions(one) if isinstance(one, dict) else one for one in agents]
    return found


def _resource(parsed: Parsed, foreign: Counter[str], findings: Findings) -> KindDefinition | None:
    """The kind of a document; None when it is reported or none of ours."""
    missing = [key for key in ("apiVersion", "kind") if not isinstance(parsed.content.get(key), str)]
    if missing:
        subject = describe_document(parsed.content)
        findings.wrong(parsed.place, f"{' and '.join(missing)} missing: every object needs both", subject=subject)
        return None
    api_version, kind = parsed.content["apiVersion"], parsed.content["kind"]
    resource = find_kind(api_version, kind)
    if resource is None:
        problem = _unknown_kind(api_version, kind)
        if problem:
            findings.wrong(parsed.place, problem, subject=describe_document(parsed.content))
        else:
            foreign[f"{kind}.{api_version}"] += 1
    return resource


def _unknown_kind(api_version: str, kind: str) -> str:
    """What is wrong with a kind that only looks like one of ours; empty for one that does not."""
    group, _, version = api_version.rpartition("/")
    if group not in OUR_GROUPS:
        meant = nearest(group, OUR_GROUPS) if group else None
        return f"apiVersion {api_version!r}: no such group; did you mean {meant}?" if meant else ""
    same_kind = [one for one in CATALOGUE if one.kind == kind and one.group in OUR_GROUPS]
    if not same_kind:
        kinds = [one.kind for one in CATALOGUE if one.group == group]
        return f"kind {kind!r} does not exist in {group}{did_you_mean(kind, kinds)}"
    (resource,) = same_kind
    if resource.group != group:
        return f"kind {kind} is in {resource.group}, not in {group}"
    return f"version {version!r} of {kind} does not exist; use {' or '.join(sorted(resource.versions))}"


# --- one object -----------------------------------------------------------------------------------------------------


def _object(
    parsed: Parsed, resource: KindDefinition, findings: Findings, places: dict[tuple[str, str, str], str]
) -> Object | None:
    content = _without_nulls(parsed.content)
    cleaned = Parsed(parsed.place, content, parsed.node, parsed.offset)
    subject = describe_document(content)
    found = complaints(cleaned, resource.model)
    for one in found:
        findings.wrong(parsed.at(one.path), str(one), subject=subject)
    first = _is_first(cleaned, resource, findings, places)
    if found or not first:
        return None
    document = resource.model.model_validate(content)
    if not _is_named(document, cleaned, resource, findings):
        return None
    namespace = document.metadata.namespace
    if resource.is_namespaced and not namespace:
        namespace = DEFAULT_NAMESPACE
        content = {**content, "metadata": {**content["metadata"], "namespace": namespace}}
        findings.note(f"{parsed.place}: {subject} has no namespace: read as in namespace {namespace}")
    view = _view(content, cleaned, resource, findings)
    return Object(resource, document, cleaned, namespace, view)


def _is_first(
    parsed: Parsed, resource: KindDefinition, findings: Findings, places: dict[tuple[str, str, str], str]
) -> bool:
    """Whether nothing of this kind and name was read before, be it right or wrong."""
    metadata = parsed.content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        return True
    namespace = str(metadata.get("namespace") or DEFAULT_NAMESPACE) if resource.is_namespaced else ""
    before = places.setdefault((resource.full_name, namespace, name), str(parsed.place))
    if before == str(parsed.place):
        return True
    message = f"is also in {before}; keep one of the two"
    findings.wrong(parsed.at(("metadata", "name")), message, subject=describe_document(parsed.content))
    return False


def _is_named(document: Document, parsed: Parsed, resource: KindDefinition, findings: Findings) -> bool:
    name, namespace = document.metadata.name, document.metadata.namespace
    subject = describe_document(parsed.content)
    before = len(findings.problems)
    if not name:
        findings.wrong(parsed.at(("metadata",)), "metadata.name: is required", subject=subject)
    elif not is_subdomain(name):
        message = f"metadata.name: {name!r} should be lower-case letters, digits, '-' and '.'"
        findings.wrong(parsed.at(("metadata", "name")), message, subject=subject)
    if namespace and not resource.is_namespaced:
        message = f"metadata.namespace: a {resource.kind} belongs to no namespace; leave it out"
        findings.wrong(parsed.at(("metadata", "namespace")), message, subject=subject)
    return len(findings.problems) == before


def _view(content: dict[str, Any], parsed: Parsed, resource: KindDefinition, findings: Findings) -> View | None:
    """What the scheduler will see of the object, by the same decoder."""
    view_type = _VIEWS.get(resource.kind)
    if view_type is None:
        return None
    try:
        return decode(msgspec.json.encode(content), view_type).view
    except DocumentError as error:
        findings.wrong(parsed.place, str(error))
        return None


def _without_nulls(value: Any) -> Any:
    """The API server takes a null for a field that was not given."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
