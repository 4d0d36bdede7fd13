"""The lifecycle of objects: create, update, patch, delete.

Between reading the head of an object and handing the new state to the store, a write never yields to the event loop:
writes of one object cannot overtake each other. Only after that does a request wait for durability. Writes of large
objects are prepared by a thread, in a transaction that has the same effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from fleet.errors import RequestRefused
from fleet.hub.apply import managed_fields as managedfields
from fleet.hub.kinds.builtin import DEFINITIONS, NAMESPACES
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.objects import admission, metadata
from fleet.hub.objects.field_types import check_field_types
from fleet.hub.objects.update_rules import (
    check_custom_type,
    check_patched_identity,
    compute_finalizers,
    count_generation,
    decode_before,
    has_content,
    has_settled_spec,
    is_unchanged,
    list_completed,
    list_settled_texts,
    restrict_to_subresource,
    settle_fields,
    strict_decoding_error,
    untracked_fields,
    validate_schema,
)
from fleet.hub.schema.cel.library import NOT_CHECKED
from fleet.hub.schema.field_errors import FieldError
from fleet.hub.storage.conversion import stored_resource, to_stored_document, versioned_body, versioned_document
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.storage.store import Key
from fleet.hub.wire import statuses
from fleet.hub.wire.bodies import encode
from fleet.hub.wire.options import DeletionOptions, WriteOptions

_NOTHING: Final[frozenset[str]] = frozenset()
_NAME_ATTEMPTS: Final = 8
_NO_NAMESPACE: Final[Kind] = Kind("", "v1", "Namespace", "namespaces", namespaced=False)


@dataclass(frozen=True, slots=True)
class AcceptedWrite:
    """The result of a write. The response has to wait until the store has settled."""

    code: int
    body: bytes
    durable: asyncio.Future[None] | None = None
    warnings: tuple[str, ...] = ()
    entry: StoredEntry | None = None


class DefinitionRules(Protocol):
    """Defaulting and validation of CustomResourceDefinitions; implemented in `definitions`."""

    def complete(self, document: Document, old: Document | None) -> None: ...

    def validate(self, document: Document, old: Document | None) -> Iterable[FieldError]: ...


class WritableStore(Protocol):
    """The store, or a transaction of it."""

    def find_head(self, resource: str, key: Key) -> StoredEntry | None: ...

    def put(self, resource: str, document: Document) -> tuple[StoredEntry, asyncio.Future[None] | None]: ...

    def remove(self, resource: str, entry: StoredEntry) -> tuple[int, asyncio.Future[None] | None]: ...


class ObjectLifecycle:
    def __init__(
        self,
        store: WritableStore,
        *,
        clock: metadata.Clock,
        definitions: DefinitionRules,
        new_uid: Callable[[], str],
    ) -> None:
        self._store = store
        self._clock = clock
        self._new_uid = new_uid
        self._definitions = definitions

    def head(self, kind: Kind, key: Key) -> StoredEntry | None:
        return self._store.find_head(stored_resource(kind), key)

    def list_settled_texts(self, kind: Kind, key: Key) -> Mapping[str, msgspec.Raw]:
        """What a document for `update` may have in place of decoded fields."""
        return list_settled_texts(kind, self.head(kind, key))

    # --- creating -----------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str, document: Document, options: WriteOptions) -> AcceptedWrite:
        return self._create(kind, namespace, document, options, is_tracked=False)

    def _create(
        self, kind: Kind, namespace: str, document: Document, options: WriteOptions, *, is_tracked: bool
    ) -> AcceptedWrite:
        warnings = self._check_request(kind, namespace, document, options)
        self._check_namespace(kind, namespace, document["metadata"].get("name", ""))
        if document["metadata"].get("resourceVersion"):
            raise statuses.bad_request("resourceVersion should not be set on objects to be created")
        if kind.has_status and kind.custom:
            document.pop("status", None)
        key = self._assign_name(kind, namespace, document)
        self._complete_new(kind, namespace, document)
        if not is_tracked:
            document = self._track_managed_fields(kind, None, document, options, "")
        self._validate(kind, document, None)
        if self.head(kind, key) is not None:
            raise statuses.already_exists(kind, key[1])
        return self._store_object(kind, document, options, code=201, warnings=warnings, completed=frozenset(document))

    def _assign_name(self, kind: Kind, namespace: str, document: Document) -> Key:
        """Sets the name of the object; a generated name that is in use is replaced."""
        given = document["metadata"].get("name")
        for _ in range(_NAME_ATTEMPTS):
            metadata.generate_name(document)
            key = (namespace if kind.namespaced else "", document["metadata"].get("name", ""))
            if given or self.head(kind, key) is None:
                return key
            del document["metadata"]["name"]
        raise RequestRefused(
            409, "AlreadyExists", f"the server was not able to generate a unique name for {kind.resource}"
        )

    def _complete_new(self, kind: Kind, namespace: str, document: Document) -> None:
        metadata.initialize(kind, document, namespace=namespace, now=self._clock(), uid=self._new_uid())
        admission.prepare_new(kind, document)
        if kind.resource == DEFINITIONS:
            self._definitions.complete(document, None)

    def _check_request(
        self,
        kind: Kind,
        namespace: str,
        document: Document,
        options: WriteOptions,
        old: StoredEntry | None = None,
        before: Document | None = None,
    ) -> tuple[str, ...]:
        """Checks type, namespace and field types, then prunes and defaults. Returns warnings."""
        self._check_type(kind, document)
        unknown = metadata.unknown_metadata_fields(document) if options.validation != "Ignore" else []
        metadata.check_types(kind, document)
        check_field_types(kind, document)
        sent = document["metadata"].get("namespace", "")
        if sent and sent != namespace and kind.namespaced:
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise statuses.bad_request(text)
        return (
            *self._prune_and_default(kind, document, options, unknown, settle_fields(kind, document, old, before)),
            *metadata.collect_warnings(kind, document["metadata"]),
            *(() if kind.schema is None or kind.schema.is_checked else (NOT_CHECKED,)),
        )

    def _prune_and_default(
        self, kind: Kind, document: Document, options: WriteOptions, unknown: list[str], settled: list[str]
    ) -> tuple[str, ...]:
        """Drops unknown fields and sets defaults. Returns warnings for unknown fields."""
        if kind.schema is not None:
            dropped = kind.schema.complete(document, settled)
        else:
            dropped = admission.unknown_fields(kind, document)
            admission.drop_unknown(kind, document)
        texts = [f'unknown field "{path}"' for path in sorted({*dropped, *unknown})]
        if options.validation == "Ignore":
            return ()
        if texts and options.validation == "Strict":
            raise strict_decoding_error(kind, texts)
        return tuple(texts)

    def _check_type(self, kind: Kind, document: Document) -> None:
        sent_version, sent_kind = document.get("apiVersion"), document.get("kind")
        if kind.custom:
            check_custom_type(kind, document)
        elif sent_kind is not None and sent_kind != kind.kind:
            text = (
                f"converting ({sent_version}.{sent_kind}) to ({kind.group or 'core'}.{kind.kind}): unknown conversion"
            )
            raise statuses.bad_request(
                f'{sent_kind} in version "{sent_version}" cannot be handled as a {kind.kind}: {text}'
            )
        elif sent_version is not None and sent_version != kind.api_version:
            text = f'no kind "{sent_kind}" is registered for version "{sent_version}"'
            raise statuses.bad_request(
                f'{sent_kind} in version "{sent_version}" cannot be handled as a {kind.kind}: {text}'
            )
        document["apiVersion"], document["kind"] = kind.api_version, kind.kind

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        home = self._store.find_head(NAMESPACES, ("", namespace))
        if home is None:
            raise statuses.not_found(_NO_NAMESPACE, namespace)
        if home.terminating:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise statuses.forbidden(kind, name, text, causes=[cause])

    # --- updating -----------------------------------------------------------------------------------------------------

    def update(
        self, kind: Kind, key: Key, document: Document, options: WriteOptions, subresource: str = ""
    ) -> AcceptedWrite:
        """PUT: replaces the whole object. Of `list_settled_texts`, the document may have some."""
        old = self.head(kind, key)
        before = None if old is None else decode_before(kind, old, document, subresource)
        warnings = self._check_request(kind, key[0], document, options, old, before)
        sent = document["metadata"].get("name", "")
        if sent and sent != key[1]:
            text = f"the name of the object ({sent}) does not match the name on the URL ({key[1]})"
            raise statuses.bad_request(text)
        document["metadata"]["name"] = key[1]
        if old is None or before is None:
            raise statuses.not_found(kind, key[1])
        if kind.custom and not document["metadata"].get("resourceVersion"):
            text = "must be specified for an update"
            raise statuses.invalid_resource(kind, key[1], [statuses.invalid_value("metadata.resourceVersion", 0, text)])
        return self._replace(kind, old, before, document, options, subresource=subresource, warnings=warnings)

    def replace(
        self, kind: Kind, old: StoredEntry, document: Document, options: WriteOptions, *, subresource: str = ""
    ) -> AcceptedWrite:
        """Replaces an object by a document of the hub itself, which no request has sent."""
        before = versioned_document(kind, old.body)
        return self._replace(kind, old, before, document, options, subresource=subresource, is_completed=False)

    def _replace(
        self,
        kind: Kind,
        old: StoredEntry,
        before: Document,
        document: Document,
        options: WriteOptions,
        *,
        subresource: str = "",
        warnings: tuple[str, ...] = (),
        is_tracked: bool = False,
        is_completed: bool = True,
    ) -> AcceptedWrite:
        """Common path of all updates: `document` is the new state, `old` the head that it replaces, `before` its
        content."""
        self._check_revision(kind, old, document)
        metadata.preserve_server_fields(document, before)
        document = restrict_to_subresource(kind, document, before, subresource)
        if not subresource:
            admission.prepare_update(kind, document, before)
        if kind.resource == DEFINITIONS:
            self._definitions.complete(document, before)
        count_generation(kind, document, before)
        if not is_tracked:
            document = self._track_managed_fields(kind, before, document, options, subresource)
        self._validate(kind, document, before, subresource, is_spec_sound=old.is_spec_sound)
        if is_unchanged(document, before):
            return AcceptedWrite(200, versioned_body(kind, old.body), warnings=warnings, entry=old)
        if old.terminating and not document["metadata"].get("finalizers") and not has_content(document):
            return self._finish_removal(kind, old, document, options)
        completed = list_completed(kind, document, old, before) if is_completed else frozenset()
        return self._store_object(kind, document, options, code=200, warnings=warnings, old=old, completed=completed)

    def replace_patched(
        self,
        kind: Kind,
        old: StoredEntry,
        document: Document,
        options: WriteOptions,
        *,
        subresource: str = "",
        is_tracked: bool = False,
    ) -> AcceptedWrite:
        """Replaces an object by the result of a patch, with the checks of a PUT."""
        check_patched_identity(kind, old, document.get("metadata"))
        before = versioned_document(kind, old.body)
        warnings = self._check_request(kind, old.namespace, document, options, old, before)
        return self._replace(
            kind, old, before, document, options, subresource=subresource, warnings=warnings, is_tracked=is_tracked
        )

    def create_applied(self, kind: Kind, namespace: str, document: Document, options: WriteOptions) -> AcceptedWrite:
        """Creates an object by server-side apply: its managers are already tracked."""
        uid = document["metadata"].get("uid")
        if uid:
            text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise statuses.conflict(kind, document["metadata"]["name"], text)
        document["metadata"].pop("resourceVersion", None)
        return self._create(kind, namespace, document, options, is_tracked=True)

    def _check_revision(self, kind: Kind, old: StoredEntry, document: Document) -> None:
        sent = document["metadata"].get("resourceVersion", "")
        if sent and not sent.isdigit():
            text = f'strconv.ParseUint: parsing "{sent}": invalid syntax'
            raise statuses.invalid(kind, old.name, [statuses.invalid_value("metadata.resourceVersion", sent, text)])
        if sent and sent != "0" and int(sent) != old.revision:
            raise statuses.stale_revision(kind, old.name)
        uid = document["metadata"].get("uid", "")
        if uid and uid != old.uid:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.uid}"
            raise statuses.conflict(kind, old.name, text)

    def _finish_removal(self, kind: Kind, old: StoredEntry, document: Document, options: WriteOptions) -> AcceptedWrite:
        """Removes a terminating object whose last finalizer was removed by this update."""
        if options.dry_run:
            return AcceptedWrite(200, encode(document), entry=old)
        revision, durable = self._store.remove(stored_resource(kind), old)
        document["metadata"]["resourceVersion"] = str(revision)
        return AcceptedWrite(200, encode(document), durable, entry=old)

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete(self, kind: Kind, key: Key, options: DeletionOptions) -> AcceptedWrite:
        entry = self.head(kind, key)
        if entry is None:
            raise statuses.not_found(kind, key[1])
        self._check_preconditions(kind, entry, options)
        if kind.resource == NAMESPACES:
            self._check_deletable_namespace(kind, entry)
        finalizers = compute_finalizers(kind, entry, options)
        if not finalizers and kind.resource != NAMESPACES:
            return self.remove(kind, entry, dry_run=options.dry_run)
        return self._mark_terminating(kind, entry, finalizers, options)

    def remove(self, kind: Kind, entry: StoredEntry, *, dry_run: bool = False) -> AcceptedWrite:
        """At once: nothing has to be done before."""
        body = encode(statuses.build_success(kind, entry.name, entry.uid))
        if dry_run:
            return AcceptedWrite(200, body, entry=entry)
        _, durable = self._store.remove(stored_resource(kind), entry)
        return AcceptedWrite(200, body, durable, entry=entry)

    def _mark_terminating(
        self, kind: Kind, entry: StoredEntry, finalizers: list[str], options: DeletionOptions
    ) -> AcceptedWrite:
        """Sets the deletion timestamp of an object that has finalizers; it is removed later."""
        document = entry.document() if kind.resource == NAMESPACES else entry.document_around_content()
        meta = document["metadata"]
        before = dict(meta)
        if finalizers:
            meta["finalizers"] = finalizers
        if not entry.terminating:
            meta["deletionTimestamp"] = metadata.format_timestamp(self._clock())
            if kind.resource == NAMESPACES:
                document["status"] = {**document.get("status", {}), "phase": "Terminating"}
            elif kind.resource != DEFINITIONS:
                meta["deletionGracePeriodSeconds"] = 0
            if "generation" in meta and kind.resource != DEFINITIONS:
                meta["generation"] += 1
        if meta == before:
            return AcceptedWrite(200, versioned_body(kind, entry.body), entry=entry)
        if options.dry_run:
            return AcceptedWrite(200, encode(document), entry=entry)
        written, durable = self._store.put(stored_resource(kind), document)
        written.take_completion(entry)
        return AcceptedWrite(200, versioned_body(kind, written.body), durable, entry=written)

    def _check_preconditions(self, kind: Kind, entry: StoredEntry, options: DeletionOptions) -> None:
        if options.uid is not None and options.uid != entry.uid:
            text = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({entry.uid}). "
                "The object might have been deleted and then recreated"
            )
            raise statuses.precondition_failed(kind, entry.name, text)
        if options.revision is not None and options.revision != str(entry.revision):
            text = (
                f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion in "
                f"record ({entry.revision}). The object might have been modified"
            )
            raise statuses.precondition_failed(kind, entry.name, text)

    def _check_deletable_namespace(self, kind: Kind, entry: StoredEntry) -> None:
        if entry.name in ("default", "kube-system", "kube-public"):
            raise statuses.forbidden(kind, entry.name, "this namespace may not be deleted")

    # --- common steps -------------------------------------------------------------------------------------------------

    def _track_managed_fields(
        self, kind: Kind, old: Document | None, new: Document, options: WriteOptions, subresource: str
    ) -> Document:
        """Updates managedFields for the fields that the write changed."""
        return managedfields.track_update(
            old,
            new,
            manager=options.manager,
            schema=kind.schema,
            now=metadata.format_timestamp(self._clock()),
            subresource=subresource,
            ignored=_NOTHING if subresource else untracked_fields(kind),
        )

    def _validate(
        self,
        kind: Kind,
        document: Document,
        old: Document | None,
        subresource: str = "",
        *,
        is_spec_sound: bool = False,
    ) -> None:
        errors: list[FieldError] = metadata.validate(kind, document)
        if old is not None:
            errors += metadata.validate_update(document, old)
        if kind.resource == DEFINITIONS:
            errors += self._definitions.validate(document, old)
        if kind.schema is not None:
            errors += validate_schema(kind, document, old, subresource=subresource, is_spec_sound=is_spec_sound)
        elif not subresource:
            errors += admission.validate(kind, document, old)
        if errors:
            raise statuses.invalid(kind, document["metadata"].get("name", ""), errors)

    def _store_object(
        self,
        kind: Kind,
        document: Document,
        options: WriteOptions,
        *,
        code: int,
        warnings: tuple[str, ...],
        completed: frozenset[str],
        old: StoredEntry | None = None,
    ) -> AcceptedWrite:
        if options.dry_run:
            document["metadata"].pop("resourceVersion", None)
            if old is not None:
                document["metadata"]["resourceVersion"] = str(old.revision)
            return AcceptedWrite(code, encode(document), warnings=warnings, entry=old)
        entry, durable = self._store.put(stored_resource(kind), to_stored_document(kind, document))
        entry.completed, entry.completed_by = completed, kind.schema
        entry.is_spec_sound = has_settled_spec(document)
        return AcceptedWrite(code, versioned_body(kind, entry.body), durable, warnings, entry)
