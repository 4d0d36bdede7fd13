"""Lists: the revision that a list shows, pagination, and expired revisions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec

from fleet.errors import RequestRefused
from fleet.hub.kinds.kind import Kind
from fleet.hub.listwatch.selectors import ObjectSelector
from fleet.hub.storage.conversion import stored_resource
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.storage.store import Collection, HubStore, Key
from fleet.hub.wire.bodies import decode_bytes, encode
from fleet.hub.wire.options import ListOptions
from fleet.hub.wire.statuses import bad_request, resource_expired

_TOKEN_VERSION: Final = "meta.k8s.io/v1"
_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_TOO_OLD_TOKEN: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ObjectPage:
    entries: list[StoredEntry]
    metadata: dict[str, Any]


def list_page(store: HubStore, kind: Kind, selection: ObjectSelector, options: ListOptions) -> ObjectPage:
    collection = store.collection(stored_resource(kind))
    if options.token:
        if options.revision and options.revision != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
        revision, after = _decode_token(options.token)
        entries = _remaining_entries(store, collection, revision=revision, after=after)
        revision = revision or store.revision
    else:
        revision, entries = _select_state(store, collection, options, selection)
    return _paginate(selection, options, revision, entries)


def check_revision(store: HubStore, text: str) -> int:
    """The requested revision. A future one is refused with 504 and Retry-After."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        problem = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {problem}')
    revision = int(text)
    if revision > store.revision:
        message = f"Timeout: Too large resource version: {revision}, current: {store.revision}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        raise RequestRefused(504, "Timeout", message, details={"causes": [cause]}, retry_after=1)
    return revision


def _select_state(
    store: HubStore, collection: Collection, options: ListOptions, selection: ObjectSelector
) -> tuple[int, Iterable[StoredEntry]]:
    revision = check_revision(store, options.revision)
    exact = options.match == "Exact" or (options.limit and revision and options.match != "NotOlderThan")
    if not exact:
        return store.revision, collection.scan(selection.namespace)
    entries = collection.state_at(revision)
    if entries is None:
        raise resource_expired(_TOO_OLD)
    return revision, entries


def _remaining_entries(store: HubStore, collection: Collection, *, revision: int, after: Key) -> Iterable[StoredEntry]:
    if not revision:  # a token of the 410 response below: continue with the current state
        return collection.scan(after=after)
    entries = collection.state_at(revision)
    if entries is None or revision > store.revision:
        token = _encode_token(0, after)
        raise RequestRefused(410, "Expired", _TOO_OLD_TOKEN, metadata={"continue": token})
    return (entry for entry in entries if entry.key > after)


def _paginate(
    selection: ObjectSelector, options: ListOptions, revision: int, entries: Iterable[StoredEntry]
) -> ObjectPage:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    matching = iter(entries) if selection.is_everything else (entry for entry in entries if selection.matches(entry))
    if not options.limit:
        return ObjectPage(list(matching), metadata)
    chosen = list(islice(matching, options.limit))
    remaining = sum(1 for _ in matching)
    if remaining:
        metadata["continue"] = _encode_token(revision, chosen[-1].key)
        if not (selection.labels or selection.fields):
            metadata["remainingItemCount"] = remaining
    return ObjectPage(chosen, metadata)


def _encode_token(revision: int, after: Key) -> str:
    text = encode({"v": _TOKEN_VERSION, "rv": revision, "start": list(after)})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _decode_token(token: str) -> tuple[int, Key]:
    try:
        content = decode_bytes(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = content["start"]
        revision = content["rv"]
    except (binascii.Error, ValueError, msgspec.DecodeError, KeyError, TypeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if not (isinstance(revision, int) and isinstance(namespace, str) and isinstance(name, str)) or revision < 0:
        raise bad_request("invalid continue token: continue key is not valid: unexpected content")
    return revision, (namespace, name)
