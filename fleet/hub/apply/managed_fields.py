"""Field ownership: server-side apply with its conflicts, and the `managedFields` tracking of all other writes.

All versions of a kind have the same fields here, because conversion only changes `apiVersion`: fields set through one
version are owned in all versions. `managers` encodes and decodes `metadata.managedFields`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from fleet.errors import ApplyError
from fleet.hub.apply.field_sets import (
    FieldSet,
    Steps,
    difference,
    format_path,
    from_paths,
    intersection,
    paths,
    union,
    without_top_level,
)
from fleet.hub.apply.managers import (
    APPLY,
    UPDATE,
    FieldManager,
    ManagedFields,
    ManagedFieldsEntry,
    decode_managers,
    encode_managers,
    is_reset,
    merge_oldest,
)
from fleet.hub.apply.shapes import Shape, empty_object, shape_of_kind, shape_of_schema
from fleet.hub.apply.values import (
    check,
    collect_fields,
    compare,
    complete_declared_fields,
    merge,
    remove,
)
from fleet.hub.schema.equality import is_same
from fleet.hub.schema.schema import Schema

__all__ = ["ApplyResult", "FieldManagerConflict", "apply", "format_conflicts", "track_update"]

Document = dict[str, Any]

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL: Final = "kubectl"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_UNKNOWN_MANAGER: Final = "unknown"
# Fields that every object has or the server sets. They have no manager.
_UNMANAGED: Final = from_paths(
    iter(
        [
            ("f:apiVersion",),
            ("f:kind",),
            ("f:metadata",),
            *(
                ("f:metadata", f"f:{name}")
                for name in ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName")
            ),
            *(("f:metadata", f"f:{name}") for name in ("generation", "managedFields", "resourceVersion")),
        ]
    )
)


@dataclass(frozen=True, slots=True)
class FieldManagerConflict:
    """A field that another manager set to another value. `message` and `field` are those of the Status cause."""

    manager: FieldManager
    path: Steps

    @property
    def field(self) -> str:
        return format_path(self.path)

    @property
    def message(self) -> str:
        return f"conflict with {self.manager}"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The object to store, or the conflicts that prevent the write."""

    object: Document
    conflicts: tuple[FieldManagerConflict, ...] = ()

    @property
    def message(self) -> str:
        return format_conflicts(self.conflicts)


def format_conflicts(conflicts: tuple[FieldManagerConflict, ...]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: {conflicts[0].message}: {conflicts[0].field}"
    lines: list[str] = []
    for manager in sorted({conflict.manager for conflict in conflicts}, key=FieldManager.sort_key):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {conflict.field}" for conflict in conflicts if conflict.manager == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


# --- apply ------------------------------------------------------------------------------------------------------------


def apply(
    live: Document | None,
    applied: Document,
    *,
    manager: str,
    force: bool,
    schema: Schema | None,
    now: str,
    subresource: str = "",
    ignored: frozenset[str] = frozenset(),
) -> ApplyResult:
    """Merges an applied configuration into the live object. Raises ApplyError if it does not fit the schema.

    `ignored` are the top-level fields that this endpoint does not write, such as `status`.
    """
    shape = _shape_of(applied, schema)
    _check(applied, shape)
    bare, managed = _split_live(live, applied, shape, now)
    request = _ApplyRequest(
        shape, FieldManager(manager or _UNKNOWN_MANAGER, APPLY, "", subresource), applied["apiVersion"], ignored
    )
    result = request.apply(bare, applied, managed, force=force)
    if result.conflicts and manager == _KUBECTL:
        remaining = _exclude_kubectl_fields(result.conflicts, bare, shape)
        result = (
            request.apply(bare, applied, managed, force=True)
            if not remaining
            else _MergeOutcome(bare, managed, remaining)
        )
    if result.conflicts:
        return ApplyResult(live or {}, result.conflicts)
    is_changed = not is_same(bare, result.document)
    managers = dict(result.managed)
    if request.manager in managers:
        known = managed.get(request.manager)
        entry = managers[request.manager]
        time = now if is_changed else known.time if known else ""
        managers[request.manager] = ManagedFieldsEntry(entry.fields, entry.api_version, time)
    if manager == _KUBECTL:
        _update_last_applied(result.document, applied)
    return ApplyResult(_attach_managers(result.document, managers))


def _check(applied: Document, shape: Shape) -> None:
    try:
        check(applied, shape)
    except ApplyError as error:
        metadata, api_version = applied.get("metadata") or {}, applied["apiVersion"]
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        version = api_version if "/" in api_version else f"/{api_version}"
        text = f"failed to create typed patch object ({name}; {version}, Kind={applied['kind']}): {error.message}"
        raise ApplyError(text) from error


def _shape_of(document: Document, schema: Schema | None) -> Shape:
    return shape_of_schema(schema) if schema is not None else shape_of_kind(document["apiVersion"], document["kind"])


def _split_live(live: Document | None, applied: Document, shape: Shape, now: str) -> tuple[Document, ManagedFields]:
    """The live object and its managers. If it was never tracked, a `before-first-apply` manager owns its fields."""
    empty = _empty_object(applied, shape)
    if live is None:
        return empty, {}
    bare = _without_managed_fields(live)
    managed = decode_managers(live.get("metadata", {}).get("managedFields"))
    if not managed:
        past = FieldManager(_BEFORE_FIRST_APPLY, UPDATE, applied["apiVersion"], "")
        managed = _record_update(empty, bare, managed, past, shape, now)
    return bare, managed


def _empty_object(document: Document, shape: Shape) -> Document:
    names = {"apiVersion": document["apiVersion"], "kind": document["kind"]}
    return names | (empty_object(document["apiVersion"], document["kind"]) if shape.has_all_fields else {})


def _without_managed_fields(document: Document) -> Document:
    """A shallow copy without managedFields."""
    metadata = {name: value for name, value in document.get("metadata", {}).items() if name != "managedFields"}
    return {**document, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class _MergeOutcome:
    document: Document
    managed: ManagedFields
    conflicts: tuple[FieldManagerConflict, ...] = ()


@dataclass(frozen=True, slots=True)
class _ApplyRequest:
    shape: Shape
    manager: FieldManager
    api_version: str
    ignored: frozenset[str]

    def apply(self, live: Document, applied: Document, managed: ManagedFields, *, force: bool) -> _MergeOutcome:
        merged = merge(live, applied, self.shape)
        fields = without_top_level(collect_fields(applied, self.shape), self.ignored)
        last = managed.get(self.manager)
        claims = {**managed, self.manager: ManagedFieldsEntry(fields, self.api_version)}
        document = self._remove_abandoned(merged, last.fields, claims) if last else merged
        return self._resolve_ownership(live, document, claims, force=force)

    def _remove_abandoned(self, merged: Document, last: FieldSet, claims: ManagedFields) -> Document:
        """Removes fields that the manager applied last time, does not apply now, and that no other manager owns."""
        if not last:
            return merged

        def complete(fields: FieldSet) -> FieldSet:
            return complete_declared_fields(fields, self.shape)

        everything, last = complete(collect_fields(merged, self.shape)), complete(last)
        owned: FieldSet = {}
        for entry in claims.values():
            owned = union(owned, entry.fields)
        pruned = self._remove(merged, last)
        kept = union(complete(collect_fields(pruned, self.shape)), complete(owned))
        pruned = self._remove(merged, difference(everything, kept))
        removed = difference(everything, complete(collect_fields(pruned, self.shape)))
        return self._remove(merged, intersection(removed, last))

    def _remove(self, document: Document, fields: FieldSet) -> Document:
        rest: Document = remove(document, fields, self.shape)
        return rest

    def _resolve_ownership(
        self, live: Document, document: Document, claims: ManagedFields, *, force: bool
    ) -> _MergeOutcome:
        """Takes changed fields from the other managers if forced; otherwise returns the conflicts."""
        comparison = compare(live, document, self.shape)
        taken = without_top_level(union(comparison.modified, comparison.added), self.ignored)
        others = {manager: entry for manager, entry in claims.items() if manager != self.manager}
        contested = {manager: intersection(entry.fields, taken) for manager, entry in others.items()}
        conflicts = tuple(
            FieldManagerConflict(manager, path) for manager, fields in contested.items() for path in paths(fields)
        )
        if conflicts and not force:
            return _MergeOutcome(live, claims, conflicts)
        lost = union(taken, without_top_level(comparison.removed, self.ignored))
        managed = _drop_fields(others, lost)
        own = difference(claims[self.manager].fields, _UNMANAGED)
        if own:
            managed[self.manager] = ManagedFieldsEntry(own, self.api_version)
        return _MergeOutcome(document, managed)


def _drop_fields(managed: ManagedFields, lost: FieldSet) -> ManagedFields:
    rest = {
        manager: ManagedFieldsEntry(difference(entry.fields, lost), entry.api_version, entry.time)
        for manager, entry in managed.items()
    }
    return {manager: entry for manager, entry in rest.items() if entry.fields}


# --- kubectl ----------------------------------------------------------------------------------------------------------


def _exclude_kubectl_fields(
    conflicts: tuple[FieldManagerConflict, ...], live: Document, shape: Shape
) -> tuple[FieldManagerConflict, ...]:
    """Drops conflicts on fields that kubectl's client-side apply set and that still have those values."""
    last = _load_last_applied(live)
    if last is None or last.get("apiVersion") != live.get("apiVersion"):
        return conflicts
    comparison = compare(last, live, shape)
    changed = union(union(comparison.added, comparison.modified), comparison.removed)
    allowed = set(paths(difference(collect_fields(last, shape), changed)))
    return tuple(conflict for conflict in conflicts if conflict.path not in allowed)


def _load_last_applied(document: Document) -> Document | None:
    text = (document.get("metadata", {}).get("annotations") or {}).get(_LAST_APPLIED)
    try:
        parsed = json.loads(text) if isinstance(text, str) and text else None
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _update_last_applied(document: Document, applied: Document) -> None:
    """Keeps the annotation up to date, so that switching back to client-side apply works."""
    metadata = document["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    if _LAST_APPLIED not in annotations:
        return
    config = deepcopy(applied)
    (config["metadata"].get("annotations") or {}).pop(_LAST_APPLIED, None)
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    document["metadata"] = {**metadata, "annotations": {**annotations, _LAST_APPLIED: text}}


# --- every other write ------------------------------------------------------------------------------------------------


def track_update(
    old: Document | None,
    new: Document,
    *,
    manager: str,
    operation: str = UPDATE,
    schema: Schema | None,
    now: str,
    subresource: str = "",
    ignored: frozenset[str] = frozenset(),
) -> Document:
    """The new object with its changed fields owned by the manager. An empty `managedFields` resets all ownership."""
    shape = _shape_of(new, schema)
    managed = _current_managers(old, new, is_subresource=bool(subresource))
    bare = _without_managed_fields(new)
    if old is not None and not managed:
        return _attach_managers(bare, managed)
    before = _without_managed_fields(old) if old is not None else _empty_object(new, shape)
    writer = FieldManager(manager or _UNKNOWN_MANAGER, operation, new["apiVersion"], subresource)
    managed = _record_update(before, bare, managed, writer, shape, now, ignored)
    return _attach_managers(bare, merge_oldest(managed))


def _current_managers(old: Document | None, new: Document, *, is_subresource: bool) -> ManagedFields:
    """`managedFields` of the request replace the stored ones; a request without any keeps those that are stored."""
    known = (old or {}).get("metadata", {}).get("managedFields")
    if is_subresource:
        return decode_managers(known)
    sent = new.get("metadata", {}).get("managedFields")
    if is_reset(sent):
        return {}
    return decode_managers(sent) or decode_managers(known)


def _record_update(
    old: Document,
    new: Document,
    managed: ManagedFields,
    writer: FieldManager,
    shape: Shape,
    now: str,
    ignored: frozenset[str] = frozenset(),
) -> ManagedFields:
    comparison = compare(old, new, shape)
    changed = without_top_level(union(comparison.modified, comparison.added), ignored)
    removed = without_top_level(comparison.removed, ignored)
    result = _drop_fields(managed, union(changed, removed))
    own = difference(changed, _UNMANAGED)
    if own:
        previous = result.get(writer)
        fields = union(previous.fields, own) if previous else own
        result[writer] = ManagedFieldsEntry(fields, writer.api_version, now)
    return result


def _attach_managers(document: Document, managed: ManagedFields) -> Document:
    metadata = dict(document.get("metadata") or {})
    if managed:
        metadata["managedFields"] = encode_managers(managed)
    else:
        metadata.pop("managedFields", None)
    return {**document, "metadata": metadata}
