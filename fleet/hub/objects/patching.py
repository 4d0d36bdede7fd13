"""PATCH requests of all four patch types, and writes through the scale subresource."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

import msgspec

from fleet.errors import ApplyError, PatchError, RequestRefused
from fleet.hub.apply import managed_fields as managedfields
from fleet.hub.apply import patches
from fleet.hub.kinds.builtin import SCALE
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.objects import admission, metadata
from fleet.hub.objects.field_types import check_field_types
from fleet.hub.objects.objects import AcceptedWrite, ObjectLifecycle
from fleet.hub.objects.scale import apply_scale, build_scale
from fleet.hub.objects.update_rules import untracked_fields
from fleet.hub.storage.conversion import versioned_document
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.storage.store import Key
from fleet.hub.wire import statuses
from fleet.hub.wire.bodies import check_depth, decode_bytes, parse_yaml
from fleet.hub.wire.options import WriteOptions

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_UNPROCESSABLE: Final = "the server rejected our request due to an error in our request"


class Patcher:
    def __init__(self, objects: ObjectLifecycle, *, clock: metadata.Clock) -> None:
        self._objects = objects
        self._clock = clock

    def patch(
        self, kind: Kind, key: Key, media_type: str, body: bytes, options: WriteOptions, subresource: str = ""
    ) -> AcceptedWrite:
        check_media_type(kind, media_type)
        if media_type == APPLY_PATCH:
            return self._apply(kind, key, _parse_yaml(body), options, subresource)
        patch = _parse_json(body)
        old = self._objects.head(kind, key)
        if old is None:
            raise statuses.not_found(kind, key[1])
        document = _apply_patch(kind, versioned_document(kind, old.body), media_type, patch)
        return self._objects.replace_patched(kind, old, document, options, subresource=subresource)

    def scale(
        self, kind: Kind, key: Key, media_type: str, body: bytes, options: WriteOptions, sent: Document | None
    ) -> AcceptedWrite:
        """Writes an object through its Scale: by the Scale in `sent`, or else by a patch of it."""
        old = self._objects.head(kind, key)
        if old is None:
            raise statuses.not_found(kind, key[1])
        if sent is None:
            if media_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
                raise RequestRefused(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
            sent = _apply_patch(SCALE, build_scale(old.document()), media_type, _parse_json(body))
        return self._objects.replace_patched(kind, old, apply_scale(old, sent), options)

    def _apply(self, kind: Kind, key: Key, applied: Any, options: WriteOptions, subresource: str) -> AcceptedWrite:
        document = self._check_applied(kind, key, applied)
        old = self._objects.head(kind, key)
        if old is None and subresource:
            raise statuses.not_found(kind, key[1])
        result = self._merge_applied(kind, old, document, options, subresource)
        if result.conflicts:
            raise _apply_conflict(result)
        if old is None:
            return self._objects.create_applied(kind, key[0], result.object, options)
        return self._objects.replace_patched(
            kind, old, result.object, options, subresource=subresource, is_tracked=True
        )

    def _merge_applied(
        self, kind: Kind, old: StoredEntry | None, document: Document, options: WriteOptions, subresource: str
    ) -> managedfields.ApplyResult:
        ignored = frozenset(document) - {subresource} if subresource else untracked_fields(kind)
        try:
            return managedfields.apply(
                versioned_document(kind, old.body) if old is not None else None,
                document,
                manager=options.manager,
                force=options.force,
                schema=kind.schema,
                now=metadata.format_timestamp(self._clock()),
                subresource=subresource,
                ignored=ignored,
            )
        except ApplyError as error:
            raise statuses.bad_request(error.message) from error

    def _check_applied(self, kind: Kind, key: Key, applied: Any) -> Document:
        if not isinstance(applied, dict):
            raise statuses.bad_request("error decoding YAML: the patch is not an object")
        version, name = applied.get("apiVersion"), applied.get("kind")
        if version != kind.api_version or name != kind.kind:
            group_version = f"{version or '/'}"
            raise statuses.bad_request(f"invalid object type: {group_version}, Kind={name or ''}")
        check_field_types(kind, deepcopy(applied))  # the check drops empty maps, which must be applied
        for field in admission.unknown_fields(kind, applied):
            place = f"/; /{kind.api_version}, Kind={kind.kind}"
            text = f"failed to create typed patch object ({place}): .{field}: field not declared in schema"
            raise statuses.bad_request(text)
        given = applied.get("metadata") or {}
        if not isinstance(given, dict):
            raise statuses.bad_request("metadata is not an object")
        if given.get("managedFields") is not None:
            raise statuses.bad_request("metadata.managedFields must be nil")
        meta = {**given, "name": given.get("name") or key[1]}
        if kind.namespaced:
            meta.setdefault("namespace", key[0])
        return applied | {"metadata": meta}


def check_media_type(kind: Kind, media_type: str) -> None:
    known = (
        (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
        if kind.custom
        else (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
    )
    if media_type not in (*known, STRATEGIC_PATCH):
        raise RequestRefused(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    if media_type not in known:
        text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(known)}"
        raise RequestRefused(415, "UnsupportedMediaType", text)


def _apply_conflict(applied: managedfields.ApplyResult) -> RequestRefused:
    causes = [
        {"reason": "FieldManagerConflict", "message": conflict.message, "field": conflict.field}
        for conflict in applied.conflicts
    ]
    return RequestRefused(409, "Conflict", applied.message, details={"causes": causes})


def _apply_patch(kind: Kind, document: Document, media_type: str, patch: Any) -> Document:
    try:
        if media_type == JSON_PATCH:
            _check_length(patch)
            patched = patches.json_patch(document, patch)
        elif media_type == STRATEGIC_PATCH:
            patched = patches.strategic_merge_patch(document, patch, kind.kind)
        else:
            patched = patches.merge_patch(document, patch)
    except PatchError as error:
        if error.is_unprocessable:
            raise RequestRefused(422, "Invalid", _UNPROCESSABLE, details={}) from error
        raise statuses.bad_request(str(error)) from error
    if not isinstance(patched, dict):
        raise RequestRefused(422, "Invalid", _UNPROCESSABLE, details={})
    check_depth(patched)
    return patched


def _check_length(patch: Any) -> None:
    if isinstance(patch, list) and len(patch) > patches.MOST_OPERATIONS:
        most = patches.MOST_OPERATIONS
        text = f"The allowed maximum operations in a JSON patch is {most}, got {len(patch)}"
        raise RequestRefused(413, "RequestEntityTooLarge", text)


def _parse_json(body: bytes) -> Any:
    try:
        parsed = decode_bytes(body)
    except (msgspec.DecodeError, RecursionError) as error:
        text = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise statuses.bad_request(f"error decoding patch: {text}") from error
    check_depth([parsed])
    return parsed


def _parse_yaml(body: bytes) -> Any:
    """Tries JSON first: applied configurations may be YAML, but usually are JSON, which parses 100 times faster."""
    try:
        parsed = decode_bytes(body)
    except RecursionError as error:
        raise statuses.bad_request("error decoding YAML: nested too deeply") from error
    except msgspec.DecodeError:
        return parse_yaml(body)
    check_depth([parsed])
    return parsed
