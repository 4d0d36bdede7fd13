"""Decoding of documents into the classes of their kinds, with all problems in one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleet.errors import DocumentError
from fleet.model.catalog import CATALOG, KindDefinition, find_kind
from fleet.model.decoding import describe_document, drop_nulls
from fleet.model.fields import FieldProblem, check_fields, locate_field, path_text
from fleet.model.keys import CLUSTER_GROUP, OPERATOR_GROUP, PLACEMENT_GROUP, SCHEDULING_GROUP
from fleet.model.kinds.meta import Document, Model
from fleet.model.labels import is_subdomain
from fleet.similarity import CLOSE, did_you_mean, nearest

_OUR_GROUPS: Final = (PLACEMENT_GROUP, CLUSTER_GROUP, SCHEDULING_GROUP, OPERATOR_GROUP)
_OWN_NAMES: Final = (
    "MemberCluster",
    "ClusterResourcePlacement",
    "ResourcePlacement",
    "ClusterSchedulingPolicySnapshot",
    "SchedulingPolicySnapshot",
)
"""Kinds whose names no other project uses: under another group they are mistakes."""
_MOST_PROBLEMS: Final = 20


def read_document(document: Mapping[str, Any]) -> Document:
    """The object in the class of its kind, with fields of newer releases; a DocumentError names everything that is
    wrong with it."""
    resource = _get_kind(document)
    try:
        return resource.model.model_validate(document)
    except ValidationError as error:
        raise _build_error(document, error) from error


def read_written_document(document: Mapping[str, Any]) -> Document:
    """What a user wrote: unknown fields and names that the hub would refuse are wrong as well."""
    problem = describe_kind_problem(document)
    if problem:
        raise DocumentError(problem, field="apiVersion", value=document.get("apiVersion"))
    resource, content = _get_kind(document), drop_nulls(document)
    written, problems = check_fields(content, resource.model, most=_MOST_PROBLEMS)
    problems = problems or check_names(content, resource)
    if written is None or problems:
        first = problems[0]
        problems.sort(key=lambda each: locate_field(content, each.path))
        message = f"{describe_document(document)} is invalid: {'; '.join(map(str, problems))}"
        raise DocumentError(message, field=path_text(first.path))
    return written


def _get_kind(document: Mapping[str, Any]) -> KindDefinition:
    api_version, kind = document.get("apiVersion"), document.get("kind")
    resource = find_kind(str(api_version), str(kind))
    if resource is None:
        raise DocumentError(f"kind {kind!r} of {api_version!r} is not one of Fleet's", field="kind", value=kind)
    return resource


def describe_kind_problem(document: Mapping[str, Any]) -> str:
    """Why a document has no kind, or one that resembles ours; empty for our kinds and those of others."""
    missing = [key for key in ("apiVersion", "kind") if not isinstance(document.get(key), str)]
    if missing:
        return f"{' and '.join(missing)} missing: every object needs both"
    api_version, kind = document["apiVersion"], document["kind"]
    return "" if find_kind(api_version, kind) is not None else _describe_unknown_kind(api_version, kind)


def _describe_unknown_kind(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    if group not in _OUR_GROUPS:
        meant = nearest(group, _OUR_GROUPS, cutoff=CLOSE) if group else None
        if meant:
            return f"apiVersion {api_version!r}: no such group; did you mean {meant}?"
        own = next((definition for definition in CATALOG if definition.kind == kind and kind in _OWN_NAMES), None)
        return f"apiVersion {api_version!r}: kind {kind} is in {own.api_version}; use that" if own else ""
    same_kind = [definition for definition in CATALOG if definition.kind == kind and definition.group in _OUR_GROUPS]
    if not same_kind:
        kinds = [definition.kind for definition in CATALOG if definition.group == group]
        return f"kind {kind!r} does not exist in {group}{did_you_mean(kind, kinds)}"
    (resource,) = same_kind
    if resource.group != group:
        return f"kind {kind} is in {resource.group}, not in {group}"
    return f"version {version!r} of {kind} does not exist; use {' or '.join(sorted(resource.versions))}"


def check_names(content: Mapping[str, Any], resource: KindDefinition) -> list[FieldProblem]:
    """Of an object whose fields are valid."""
    metadata = content.get("metadata") or {}
    name, problems = metadata.get("name", ""), []
    if not name:
        problems.append(FieldProblem(("metadata", "name"), "is required"))
    elif not is_subdomain(name):
        problems.append(
            FieldProblem(("metadata", "name"), f"{name!r} should be lower-case letters, digits, '-' and '.'")
        )
    if metadata.get("namespace") and not resource.is_namespaced:
        problems.append(FieldProblem(("metadata", "namespace"), f"a {resource.kind} has no namespace; leave it out"))
    return problems


def describe_forbidden_change(before: Mapping[str, Any], after: Document) -> str:
    """The rules about changes that the spec breaks; empty if there are none, or only the hub can tell."""
    try:
        old = getattr(read_document(before), "spec", None)
    except DocumentError:
        return ""
    new = getattr(after, "spec", None)
    rules = new.rules if isinstance(new, Model) else ()
    return "; ".join(rule.message for rule in rules if rule.holds_after is not None and not rule.holds_after(old, new))


def _build_error(document: Mapping[str, Any], error: ValidationError) -> DocumentError:
    errors = _drop_consequences(error.errors(include_url=False))
    problems = [f"{_format_path(item['loc'])}: {item['msg']}" for item in errors]
    message = f"{describe_document(document)} is invalid: {'; '.join(problems)}"
    return DocumentError(message, value=errors[0]["input"])


def _drop_consequences(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without the lists that pydantic calls too short only because an item, reported as well, is wrong."""
    wrong = {item["loc"][:depth] for item in errors for depth in range(len(item["loc"]))}
    return [item for item in errors if item["type"] != "too_short" or item["loc"] not in wrong]


def _format_path(location: tuple[int | str, ...]) -> str:
    """`spec.taints[0].key`, as kubectl writes paths."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).removeprefix(".") or "the object"
