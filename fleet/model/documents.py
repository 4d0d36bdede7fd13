"""Decoding of documents into the classes of their kinds, with all problems in one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleet.errors import DocumentError
from fleet.model.catalog import find_kind
from fleet.model.decoding import describe_document
from fleet.model.kinds.meta import Document, Model


def read_document(document: Mapping[str, Any]) -> Document:
    """The object in the class of its kind; a DocumentError names everything that is wrong with it."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    resource = find_kind(str(api_version), str(kind))
    if resource is None:
        raise DocumentError(f"kind {kind!r} of {api_version!r} is not one of Fleet's", field="kind", value=kind)
    try:
        return resource.model.model_validate(document)
    except ValidationError as error:
        raise _build_error(document, error) from error


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
