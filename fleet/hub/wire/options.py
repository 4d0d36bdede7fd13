"""Request options from the query and from DeleteOptions, validated as in the API server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.hub.schema.field_errors import FieldError
from fleet.hub.wire.statuses import (
    bad_request,
    forbidden_field,
    invalid_options,
    invalid_value,
    not_supported,
    required_value,
)

Query = Mapping[str, Sequence[str]]

_LEVELS: Final = ("Ignore", "Strict", "Warn")
_MATCHES: Final = ("Exact", "NotOlderThan")
_POLICIES: Final = ("Foreground", "Background", "Orphan")
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False", "")
_LONGEST_MANAGER: Final = 128
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_INT64: Final = range(-(2**63), 2**63)
_MOST_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class WriteOptions:
    manager: str
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeletionOptions:
    dry_run: bool = False
    policy: str = ""
    uid: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class ListOptions:
    label_selector: str = ""
    field_selector: str = ""
    revision: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool = False
    timeout: float = 0.0


def first_value(query: Query, name: str) -> str:
    values = query.get(name)
    return values[0] if values else ""


def parse_flag(query: Query, name: str) -> bool:
    """A query parameter without a value is true, as in apimachinery."""
    if name not in query:
        return False
    value = first_value(query, name)
    if value in _TRUE or value == "":
        return True
    if value in _FALSE:
        return False
    raise bad_request(f'strconv.ParseBool: parsing "{value}": invalid syntax')


def parse_integer(query: Query, name: str) -> int:
    """Parses a 64-bit integer of plain digits: Python accepts more forms than the API server."""
    text = first_value(query, name)
    if not text:
        return 0
    if not _INTEGER.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    digits = text.lstrip("+-0") or "0"
    signed = f"-{digits}" if text.startswith("-") else digits
    if len(digits) > _MOST_DIGITS or (number := int(signed)) not in _INT64:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def parse_write_options(query: Query, *, what: str, agent: str, apply: bool = False) -> WriteOptions:
    """`what` is the kind of the options; `agent` is the user agent, whose first word is the default field manager."""
    validation = first_value(query, "fieldValidation") or "Warn"
    if validation not in _LEVELS:
        raise invalid_options(what, not_supported("fieldValidation", validation, ("", *_LEVELS)))
    manager = first_value(query, "fieldManager")
    if apply and not manager:
        raise invalid_options(what, required_value("fieldManager", "is required for apply patch"))
    if len(manager) > _LONGEST_MANAGER:
        text = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
        raise invalid_options(what, FieldError("fieldManager", "FieldValueTooLong", text))
    force = parse_flag(query, "force")
    if force and not apply:
        raise invalid_options(what, forbidden_field("force", "may not be specified for non-apply patch"))
    return WriteOptions(
        manager=manager or agent.split("/")[0][:_LONGEST_MANAGER] or "unknown",
        dry_run=_parse_dry_run(query.get("dryRun") or (), what),
        validation=validation,
        force=force,
    )


def _parse_dry_run(values: Sequence[str], what: str) -> bool:
    if any(value != "All" for value in values):
        raise invalid_options(what, not_supported("dryRun", list(values), ("All",)))
    return bool(values)


def parse_delete_options(query: Query, body: Mapping[str, Any]) -> DeletionOptions:
    """The body takes precedence over the query, as in the API server."""
    dry_run = body.get("dryRun") or query.get("dryRun") or ()
    policy = body.get("propagationPolicy") or first_value(query, "propagationPolicy")
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = parse_flag(query, "orphanDependents")
    preconditions = body.get("preconditions") or {}
    if not isinstance(dry_run, (list, tuple)) or not isinstance(preconditions, dict):
        raise bad_request("json: cannot unmarshal the body into Go value of type v1.DeleteOptions")
    if policy and policy not in _POLICIES:
        raise invalid_options("DeleteOptions", not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    if policy and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options("DeleteOptions", invalid_value("propagationPolicy", policy, text))
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return DeletionOptions(
        dry_run=_parse_dry_run([str(value) for value in dry_run], "DeleteOptions"),
        policy=policy,
        uid=preconditions.get("uid"),
        revision=preconditions.get("resourceVersion"),
    )


def parse_list_options(query: Query) -> ListOptions:
    options = ListOptions(
        label_selector=first_value(query, "labelSelector"),
        field_selector=first_value(query, "fieldSelector"),
        revision=first_value(query, "resourceVersion"),
        match=first_value(query, "resourceVersionMatch"),
        limit=max(parse_integer(query, "limit"), 0),
        token=first_value(query, "continue"),
        watch=parse_flag(query, "watch"),
        bookmarks=parse_flag(query, "allowWatchBookmarks"),
        initial_events=parse_flag(query, "sendInitialEvents"),
        timeout=float(parse_integer(query, "timeoutSeconds")),
    )
    error = _check_watch(options, "sendInitialEvents" in query) if options.watch else _check_list(options, query)
    if error is not None:
        raise invalid_options("ListOptions", error)
    return options


def _check_list(options: ListOptions, query: Query) -> FieldError | None:
    field = "resourceVersionMatch"
    if options.match:
        if not options.revision:
            return forbidden_field(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
        if options.token:
            return forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided")
        if options.match not in _MATCHES:
            return not_supported(field, options.match, (*_MATCHES, ""))
        if options.match == "Exact" and options.revision == "0":
            return forbidden_field(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if "sendInitialEvents" in query:
        return forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
    return None


def _check_watch(options: ListOptions, sends_initial_events: bool) -> FieldError | None:  # noqa: FBT001 - absent is not the same as false
    field = "resourceVersionMatch"
    if sends_initial_events and options.match != "NotOlderThan":
        return forbidden_field(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if options.match and not sends_initial_events:
        return forbidden_field(
            field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
    if options.initial_events and not options.bookmarks:
        return forbidden_field(
            "sendInitialEvents", "sendInitialEvents is forbidden unless allowWatchBookmarks is provided"
        )
    return None
