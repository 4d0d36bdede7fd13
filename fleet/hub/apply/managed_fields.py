"""Who set which field: server-side apply with its conflicts, and the notes that all other writes leave.

All versions of a kind have the same fields here, as conversion only changes `apiVersion`, so that what a manager set
through one version counts for all. Reading and writing `metadata.managedFields` is in `managedfields_entries`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from fleet.errors import ApplyError
from fleet.hub.apply.empty_objects import empty_object
from fleet.hub.apply.entries import (
    APPLY,
    UPDATE,
    Entry,
    Managed,
    Manager,
    decode_managers,
    encode_managers,
    is_reset,
    merge_oldest,
)
from fleet.hub.apply.field_sets import (
    Set,
    Steps,
    difference,
    intersection,
    of_paths,
    paths,
    rendered,
    union,
    without_top,
)
from fleet.hub.apply.shapes import Shape, of_kind, of_schema
from fleet.hub.apply.values import (
    check,
    compare,
    fields_of,
    is_same,
    merge,
    remove,
    with_declared_fields,
)
from fleet.hub.schema.schema import Schema

__all__ = ["Applied", "Conflict", "apply", "conflict_message", "track_update"]

Document = dict[str, Any]

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_CLIENT_WITH_HISTORY: Final = "kubectl"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_NOBODY: Final = "unknown"
# What every object has, or the server sets: nobody manages it.
_UNMANAGED: Final = of_paths(
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
class Conflict:
    """A field that someone else set to another value. `message` and `field` are those of the Status cause."""

    manager: Manager
    path: Steps

    @property
    def field(self) -> str:
        return rendered(self.path)

    @property
    def message(self) -> str:
        return f"conflict with {self.manager}"


@dataclass(frozen=True, slots=True)
class Applied:
    """The object to store, or the conflicts because of which nothing may be stored."""

    object: Document
    conflicts: tuple[Conflict, ...] = ()

    @property
    def message(self) -> str:
        return conflict_message(self.conflicts)


def conflict_message(conflicts: tuple[Conflict, ...]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: {conflicts[0].message}: {conflicts[0].field}"
    lines: list[str] = []
    for manager in sorted({conflict.manager for conflict in conflicts}, key=Manager.rank):
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
) -> Applied:
    """Merges what a manager wants into the live object; raises ApplyError if it does not fit the schema.

    `ignored` are the fields at the top that this endpoint does not write, such as `status`.
    """
    shape = _shape(applied, schema)
    _check(applied, shape)
    bare, managed = _taken_apart(live, applied, shape, now)
    request = _Request(shape, Manager(manager or _NOBODY, APPLY, "", subresource), applied["apiVersion"], ignored)
    result = request.apply(bare, applied, managed, force=force)
    if result.conflicts and manager == _CLIENT_WITH_HISTORY:
        remaining = _not_from_client(result.conflicts, bare, shape)
        result = (
            request.apply(bare, applied, managed, force=True) if not remaining else _Outcome(bare, managed, remaining)
        )
    if result.conflicts:
        return Applied(live or {}, result.conflicts)
    is_changed = not is_same(bare, result.document)
    managers = dict(result.managed)
    if request.manager in managers:
        known = managed.get(request.manager)
        entry = managers[request.manager]
        time = now if is_changed else known.time if known else ""
        managers[request.manager] = Entry(entry.fields, entry.api_version, time)
    if manager == _CLIENT_WITH_HISTORY:
        _note_last_applied(result.document, applied)
    return Applied(_put_together(result.document, managers))


def _check(applied: Document, shape: Shape) -> None:
    try:
        check(applied, shape)
    except ApplyError as error:
        metadata, api_version = applied.get("metadata") or {}, applied["apiVersion"]
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        version = api_version if "/" in api_version else f"/{api_version}"
        text = f"failed to create typed patch object ({name}; {version}, Kind={applied['kind']}): {error.message}"
        raise ApplyError(text) from error


def _shape(document: Document, schema: Schema | None) -> Shape:
    return of_schema(schema) if schema is not None else of_kind(document["apiVersion"], document["kind"])


def _taken_apart(live: Document | None, applied: Document, shape: Shape, now: str) -> tuple[Document, Managed]:
    """The live object without notes, and the notes; if it was never applied, its fields belong to the past."""
    empty = _empty(applied, shape)
    if live is None:
        return empty, {}
    bare = _bare(live)
    managed = decode_managers(live.get("metadata", {}).get("managedFields"))
    if not managed:
        past = Manager(_BEFORE_FIRST_APPLY, UPDATE, applied["apiVersion"], "")
        managed = _updated(empty, bare, managed, past, shape, now)
    return bare, managed


def _empty(document: Document, shape: Shape) -> Document:
    names = {"apiVersion": document["apiVersion"], "kind": document["kind"]}
    return names | (empty_object(document["apiVersion"], document["kind"]) if shape.has_all_fields else {})


def _bare(document: Document) -> Document:
    """A copy without managedFields that shares everything else."""
    metadata = {name: value for name, value in document.get("metadata", {}).items() if name != "managedFields"}
    return {**document, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class _Outcome:
    document: Document
    managed: Managed
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class _Request:
    shape: Shape
    manager: Manager
    api_version: str
    ignored: frozenset[str]

    def apply(self, live: Document, applied: Document, managed: Managed, *, force: bool) -> _Outcome:
        merged = merge(live, applied, self.shape)
        wanted = without_top(fields_of(applied, self.shape), self.ignored)
        last = managed.get(self.manager)
        claims = {**managed, self.manager: Entry(wanted, self.api_version)}
        document = self._without_abandoned(merged, last.fields, claims) if last else merged
        return self._settled(live, document, claims, force=force)

    def _without_abandoned(self, merged: Document, last: Set, claims: Managed) -> Document:
        """Removes what the manager applied last time, does not apply now, and nobody else claims."""
        if not last:
            return merged

        def complete(fields: Set) -> Set:
            return with_declared_fields(fields, self.shape)

        everything, last = complete(fields_of(merged, self.shape)), complete(last)
        owned: Set = {}
        for entry in claims.values():
            owned = union(owned, entry.fields)
        pruned = self._removed(merged, last)
        kept = union(complete(fields_of(pruned, self.shape)), complete(owned))
        pruned = self._removed(merged, difference(everything, kept))
        gone = difference(everything, complete(fields_of(pruned, self.shape)))
        return self._removed(merged, intersection(gone, last))

    def _removed(self, document: Document, fields: Set) -> Document:
        rest: Document = remove(document, fields, self.shape)
        return rest

    def _settled(self, live: Document, document: Document, claims: Managed, *, force: bool) -> _Outcome:
        """Others lose what was taken from them, or nothing happens at all."""
        comparison = compare(live, document, self.shape)
        taken = without_top(union(comparison.modified, comparison.added), self.ignored)
        others = {manager: entry for manager, entry in claims.items() if manager != self.manager}
        fought = {manager: intersection(entry.fields, taken) for manager, entry in others.items()}
        conflicts = tuple(Conflict(manager, path) for manager, fields in fought.items() for path in paths(fields))
        if conflicts and not force:
            return _Outcome(live, claims, conflicts)
        lost = union(taken, without_top(comparison.removed, self.ignored))
        managed = _without(others, lost)
        own = difference(claims[self.manager].fields, _UNMANAGED)
        if own:
            managed[self.manager] = Entry(own, self.api_version)
        return _Outcome(document, managed)


def _without(managed: Managed, lost: Set) -> Managed:
    rest = {
        manager: Entry(difference(entry.fields, lost), entry.api_version, entry.time)
        for manager, entry in managed.items()
    }
    return {manager: entry for manager, entry in rest.items() if entry.fields}


# --- kubectl ----------------------------------------------------------------------------------------------------------


def _not_from_client(conflicts: tuple[Conflict, ...], live: Document, shape: Shape) -> tuple[Conflict, ...]:
    """Without conflicts about fields that kubectl's client-side apply set and that still have their values."""
    last = _last_applied(live)
    if last is None or last.get("apiVersion") != live.get("apiVersion"):
        return conflicts
    comparison = compare(last, live, shape)
    changed = union(union(comparison.added, comparison.modified), comparison.removed)
    allowed = set(paths(difference(fields_of(last, shape), changed)))
    return tuple(conflict for conflict in conflicts if conflict.path not in allowed)


def _last_applied(document: Document) -> Document | None:
    text = (document.get("metadata", {}).get("annotations") or {}).get(_LAST_APPLIED)
    try:
        parsed = json.loads(text) if isinstance(text, str) and text else None
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _note_last_applied(document: Document, applied: Document) -> None:
    """Keeps the annotation up to date, so that going back to client-side apply works."""
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
    """The new object with notes on what the manager changed in it. An empty list in the new object erases all notes."""
    shape = _shape(new, schema)
    managed = _given_managers(old, new, is_subresource=bool(subresource))
    bare = _bare(new)
    if old is not None and not managed:
        return _put_together(bare, managed)
    before = _bare(old) if old is not None else _empty(new, shape)
    writer = Manager(manager or _NOBODY, operation, new["apiVersion"], subresource)
    managed = _updated(before, bare, managed, writer, shape, now, ignored)
    return _put_together(bare, merge_oldest(managed))


def _given_managers(old: Document | None, new: Document, *, is_subresource: bool) -> Managed:
    """Notes in the request count, so that clients can edit them; who sends none keeps those that are stored."""
    known = (old or {}).get("metadata", {}).get("managedFields")
    if is_subresource:
        return decode_managers(known)
    given = new.get("metadata", {}).get("managedFields")
    if is_reset(given):
        return {}
    return decode_managers(given) or decode_managers(known)


def _updated(
    old: Document,
    new: Document,
    managed: Managed,
    writer: Manager,
    shape: Shape,
    now: str,
    ignored: frozenset[str] = frozenset(),
) -> Managed:
    comparison = compare(old, new, shape)
    changed = without_top(union(comparison.modified, comparison.added), ignored)
    removed = without_top(comparison.removed, ignored)
    result = _without(managed, union(changed, removed))
    own = difference(changed, _UNMANAGED)
    if own:
        previous = result.get(writer)
        fields = union(previous.fields, own) if previous else own
        result[writer] = Entry(fields, writer.api_version, now)
    return result


def _put_together(document: Document, managed: Managed) -> Document:
    metadata = dict(document.get("metadata") or {})
    if managed:
        metadata["managedFields"] = encode_managers(managed)
    else:
        metadata.pop("managedFields", None)
    return {**document, "metadata": metadata}
