"""CustomResourceDefinitions: validation, defaulting, status, and the kinds they define."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from fleet.errors import SchemaError
from fleet.hub.kinds.builtin import AGE, COLUMN_TYPES, DEFINITIONS
from fleet.hub.kinds.kind import Document, Kind, TableColumn
from fleet.hub.kinds.registry import KindRegistry
from fleet.hub.names import DNS_1035_LABEL, DNS_1035_MESSAGE
from fleet.hub.objects.metadata import Clock, format_timestamp
from fleet.hub.schema import schema as structural
from fleet.hub.schema.field_errors import FieldError
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.storage.store import StoreChange
from fleet.hub.wire.bodies import decode_bytes, encode
from fleet.hub.wire.statuses import invalid_value, not_supported, required_value

_LOG: Final = logging.getLogger(__name__)
_SCHEMA_CACHE_SIZE: Final = 256
_BODY_CACHE_SIZE: Final = 64  # Fleet's own definitions, with which every hub begins, and some more
_SCOPES: Final = ("Cluster", "Namespaced")


class Definitions:
    """Keeps the registry of kinds in sync with the stored definitions."""

    def __init__(self, registry: KindRegistry, *, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._served: dict[str, tuple[Kind, ...]] = {}
        self._accepted: dict[str, tuple[str, Document]] = {}
        """The group and the accepted names of each stored definition."""

    def on_change(self, change: StoreChange) -> None:
        if change.resource != DEFINITIONS:
            return
        self.serve(change.entry.name, change.current)

    def load(self, entries: Iterable[StoredEntry]) -> None:
        """Registers the kinds of all that are stored already."""
        for entry in entries:
            self._served[entry.name] = self._accept(entry.name, entry)
        self._registry.replace((), itertools.chain.from_iterable(self._served.values()))

    def serve(self, name: str, entry: StoredEntry | None) -> None:
        """Registers the kinds of an established definition, or removes them."""
        before, kinds = self._served.pop(name, ()), self._accept(name, entry)
        self._registry.replace(before, kinds)
        if kinds:
            self._served[name] = kinds

    def _accept(self, name: str, entry: StoredEntry | None) -> tuple[Kind, ...]:
        if entry is None:
            self._accepted.pop(name, None)
            return ()
        document = _decode_definition(entry.body)
        self._accepted[name] = document["spec"]["group"], document.get("status", {}).get("acceptedNames", {})
        return self._build_kinds(name, entry.body) if _is_established(document) else ()

    def _build_kinds(self, name: str, body: bytes) -> tuple[Kind, ...]:
        """None for a stored definition that no longer compiles: the hub starts without the kind."""
        try:
            return _build_stored_kinds(body)
        except SchemaError as error:
            _LOG.error("%s is not served: %s", name, error)
        except Exception:
            _LOG.exception("%s is not served", name)
        return ()

    def complete(self, document: Document, old: Document | None) -> None:
        """Sets the defaults and the status: established at once, unless its names conflict with another definition."""
        spec = document.get("spec")
        if not isinstance(spec, dict):
            spec = document["spec"] = {}
        names = spec.get("names")
        if not isinstance(names, dict):
            names = spec["names"] = {}
        if names.get("kind") and isinstance(names["kind"], str):
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", f"{names['kind']}List")
        spec.setdefault("conversion", {"strategy": "None"})
        if not [*self.validate(document, old)]:
            document["status"] = self._build_status(document, (old or {}).get("status") or {})

    def validate(self, document: Document, old: Document | None) -> Iterable[FieldError]:
        yield from _validate(document)
        if old is not None:
            yield from _validate_immutable_fields(document, old)

    def _build_status(self, document: Document, old: Mapping[str, Any]) -> Document:
        spec = document["spec"]
        conflict = self._find_name_conflict(document)
        storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
        accepted = dict(old.get("acceptedNames") or {"kind": "", "plural": ""}) if conflict else dict(spec["names"])
        return {
            "conditions": [self._build_condition(old, condition) for condition in _build_conditions(conflict)],
            "acceptedNames": accepted,
            "storedVersions": list(dict.fromkeys([*(old.get("storedVersions") or ()), storage])),
        }

    def _build_condition(self, old: Mapping[str, Any], condition: Document) -> Document:
        before: Document = next(
            (known for known in old.get("conditions") or () if known["type"] == condition["type"]), {}
        )
        since = before.get("lastTransitionTime") if before.get("status") == condition["status"] else None
        return condition | {"lastTransitionTime": since or format_timestamp(self._clock())}

    def _find_name_conflict(self, document: Document) -> tuple[str, str] | None:
        """The reason and message if another definition of the group already uses one of the names."""
        spec = document["spec"]
        others = [
            accepted
            for name, (group, accepted) in self._accepted.items()
            if group == spec["group"] and name != document["metadata"].get("name")
        ]
        taken = {name for other in others for name in _resource_names(other)}
        kinds = {name for other in others for name in (other.get("kind"), other.get("listKind"))}
        names = spec["names"]
        for reason, requested, known in (
            ("PluralConflict", [names["plural"]], taken),
            ("SingularConflict", [names["singular"]], taken),
            ("ShortNamesConflict", names.get("shortNames") or [], taken),
            ("KindConflict", [names["kind"]], kinds),
            ("ListKindConflict", [names["listKind"]], kinds),
        ):
            for name in requested:
                if name in known:
                    return reason, f'"{name}" is already in use'
        return None


@lru_cache(maxsize=_BODY_CACHE_SIZE)
def _decode_definition(body: bytes) -> Document:
    """Not to be modified: all hubs of a process share it."""
    document: Document = decode_bytes(body)
    return document


@lru_cache(maxsize=_BODY_CACHE_SIZE)
def _build_stored_kinds(body: bytes) -> tuple[Kind, ...]:
    return tuple(build_kinds(_decode_definition(body)))


def build_kinds(document: Document) -> Iterator[Kind]:
    """Yields one kind per served version."""
    spec, names = document["spec"], document["spec"]["names"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        subresources = version.get("subresources") or {}
        yield Kind(
            spec["group"],
            version["name"],
            names["kind"],
            names["plural"],
            namespaced=spec["scope"] == "Namespaced",
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=("status",) if "status" in subresources else (),
            storage_version=storage,
            custom=True,
            counts_generations=True,
            columns=tuple(_build_columns(version)),
            schema=_compile_schema(encode(schema)),
            json_schema=schema,
            field_labels=tuple(field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()),
            deprecation=_deprecation_warning(version, spec["group"], names["kind"]),
        )


def _build_columns(version: Mapping[str, Any]) -> Iterator[TableColumn]:
    declared = version.get("additionalPrinterColumns")
    if not declared:
        yield AGE
        return
    for column in declared:
        yield TableColumn(
            column["name"],
            column["jsonPath"],
            column.get("type", "string"),
            column.get("format", ""),
            column.get("description", ""),
            column.get("priority", 0),
        )


def _deprecation_warning(version: Mapping[str, Any], group: str, kind: str) -> str:
    if not version.get("deprecated"):
        return ""
    return version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"


def _is_established(document: Document) -> bool:
    conditions = document.get("status", {}).get("conditions", ())
    return any(condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions)


def _build_conditions(conflict: tuple[str, str] | None) -> list[Document]:
    """The conditions without transition times, which depend on the old status."""
    if conflict:
        rows = [
            ("NamesAccepted", "False", *conflict),
            ("Established", "False", "NotAccepted", "not all names are accepted"),
        ]
    else:
        rows = [
            ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
        ]
    return [dict(zip(("type", "status", "reason", "message"), row, strict=True)) for row in rows]


def _resource_names(names: Mapping[str, Any]) -> set[str]:
    return {name for name in (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ())) if name}


def _validate(document: Document) -> Iterator[FieldError]:
    spec, names = document["spec"], document["spec"]["names"]
    group, plural = spec.get("group") or "", names.get("plural") or ""
    name = document["metadata"].get("name", "")
    if name and name != f"{plural}.{group}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required_value("spec.group")
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope")
    if not scope:
        yield required_value("spec.scope")
    elif scope not in _SCOPES:
        yield not_supported("spec.scope", scope, _SCOPES)
    yield from _validate_conversion(spec)
    versions = spec.get("versions")
    yield from _validate_versions(versions if isinstance(versions, list) else [])
    yield from _validate_names(names)


def _validate_conversion(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    strategy = (spec.get("conversion") or {}).get("strategy", "None")
    if strategy != "None":
        text = f'Unsupported value: "{strategy}": the embedded hub converts between versions with "None" only'
        yield FieldError("spec.conversion.strategy", "FieldValueNotSupported", text)


def _validate_versions(versions: Sequence[Any]) -> Iterator[FieldError]:
    named = [version for version in versions if isinstance(version, dict) and isinstance(version.get("name"), str)]
    for index, version in enumerate(versions):
        if version not in named:
            yield required_value(f"spec.versions[{index}].name")
        elif not DNS_1035_LABEL.match(version["name"]):
            yield invalid_value(f"spec.versions[{index}].name", version["name"], DNS_1035_MESSAGE)
    for path, schema in _per_version(named, _schema_of, "spec.validation.openAPIV3Schema", "schema.openAPIV3Schema"):
        yield from _validate_schema(schema, path)
    own = "additionalPrinterColumns"
    for path, columns in _per_version(named, lambda version: version.get(own), f"spec.{own}", own):
        yield from _validate_columns(columns or (), path)
    own = "selectableFields"
    for path, fields in _per_version(named, lambda version: version.get(own), f"spec.{own}", own):
        yield from (
            required_value(f"{path}[{index}].jsonPath")
            for index, field in enumerate(fields or ())
            if not field.get("jsonPath")
        )
    if sum(bool(version.get("storage")) for version in named) != 1:
        yield invalid_value("spec.versions", versions, "must have exactly one version marked as storage version")
    if len({version["name"] for version in named}) != len(named):
        yield invalid_value("spec.versions", versions, "must contain unique version names")


def _per_version(
    versions: Sequence[Document], get: Callable[[Document], Any], common: str, own: str
) -> Iterator[tuple[str, Any]]:
    """The value of each version, with its path. Equal values are validated once, at the top level of the spec."""
    values = [get(version) for version in versions]
    if values and values[0] is not None and all(value == values[0] for value in values):
        yield common, values[0]
        return
    for index, value in enumerate(values):
        yield f"spec.versions[{index}].{own}", value


def _schema_of(version: Document) -> Any:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _validate_columns(columns: Sequence[Any], path: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns):
        place = f"{path}[{index}]"
        if not column.get("name"):
            yield required_value(f"{place}.name")
        if column.get("type") not in COLUMN_TYPES:
            text = f"must be one of {','.join(COLUMN_TYPES)}"
            yield invalid_value(f"{place}.type", column.get("type", ""), text)
        if not column.get("jsonPath"):
            yield required_value(f"{place}.JSONPath")
        elif not column["jsonPath"].startswith("."):
            yield invalid_value(f"{place}.JSONPath", column["jsonPath"], "must be a simple json path starting with .")


def _validate_schema(schema: Any, path: str) -> Iterator[FieldError]:
    if schema is None:
        yield required_value(path)
        return
    if not schema.get("type"):
        yield required_value(f"{path}.type", "must not be empty at the root")
        return
    if schema["type"] != "object":
        yield invalid_value(f"{path}.type", schema["type"], "must be object at the root")
        return
    try:
        _compile_schema(encode(schema))
    except SchemaError as error:
        yield from _schema_errors(error, path)


@lru_cache(maxsize=_SCHEMA_CACHE_SIZE)
def _compile_schema(schema: bytes) -> structural.Schema:
    """Cached: every write of a definition compiles its schemas more than once, and versions often share one."""
    return structural.compile_schema(decode_bytes(schema))


def _schema_errors(error: SchemaError, path: str) -> Iterator[FieldError]:
    for cause in error.causes:
        if isinstance(cause, FieldError):
            yield FieldError(f"{path}.{cause.field}" if cause.field else path, cause.reason, cause.message)
        else:
            yield FieldError(path, "FieldValueInvalid", f"Invalid value: {cause}")


def _validate_names(names: Mapping[str, Any]) -> Iterator[FieldError]:
    for key in ("plural", "singular", "kind", "listKind"):
        value = names.get(key)
        path = f"spec.names.{key}"
        if not value or not isinstance(value, str):
            yield required_value(path)
        elif not DNS_1035_LABEL.match(value.lower()) or (key in ("plural", "singular") and value != value.lower()):
            yield invalid_value(path, value, DNS_1035_MESSAGE)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for index, value in enumerate(names.get("shortNames") or ()):
        if not isinstance(value, str) or not DNS_1035_LABEL.match(value):
            yield invalid_value(f"spec.names.shortNames[{index}]", value, DNS_1035_MESSAGE)


def _validate_immutable_fields(document: Document, old: Document) -> Iterator[FieldError]:
    new, before = document["spec"], old["spec"]
    for path, value, was in (
        ("spec.group", new.get("group"), before.get("group")),
        ("spec.scope", new.get("scope"), before.get("scope")),
        ("spec.names.kind", new["names"].get("kind"), before["names"].get("kind")),
        ("spec.names.plural", new["names"].get("plural"), before["names"].get("plural")),
    ):
        if value != was:
            yield invalid_value(path, value, "field is immutable")
    stored = (old.get("status") or {}).get("storedVersions") or ()
    served = {version.get("name") for version in new.get("versions") or () if isinstance(version, dict)}
    for index, version in enumerate(stored):
        if version not in served:
            text = (
                f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {version} and removes "
                f"{version} from status.storedVersions"
            )
            yield invalid_value(f"status.storedVersions[{index}]", version, text)
