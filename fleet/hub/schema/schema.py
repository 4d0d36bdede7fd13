"""Schemas of custom resources: compiled once for defaulting, pruning and validation as in the API server.

Schemas are structural: they declare the type of every value, and compositions only narrow it. Metadata is validated in
`objects.metadata`, equally for all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from fleet.errors import SchemaError
from fleet.hub.schema.cel.library import IS_INSTALLED
from fleet.hub.schema.cel.rules import compile_rules
from fleet.hub.schema.defaulting import compile_defaulting
from fleet.hub.schema.embedded import compile_embedded_check
from fleet.hub.schema.equality import is_same
from fleet.hub.schema.field_errors import RULES_NOT_CHECKED, FieldError, Path, SchemaFinding
from fleet.hub.schema.lists import compile_list_check
from fleet.hub.schema.patterns import is_harmless
from fleet.hub.schema.pruning import compile_pruning
from fleet.hub.schema.ratcheting import is_unchanged
from fleet.hub.schema.structural import validate_definition
from fleet.hub.schema.values import Checks

__all__ = ["Schema", "compile_schema"]

JSONSchema = Mapping[str, Any]

_OF_EVERY_OBJECT: Final[JSONSchema] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}
_MAIN_FIELDS: Final = ("spec", "status")
_OF_SEVERAL_FIELDS: Final = ("allOf", "anyOf", "oneOf", "not", "x-kubernetes-validations")


def compile_schema(schema: JSONSchema) -> Schema:
    """Raises SchemaError with the field errors for which the API server would refuse the schema."""
    errors = validate_definition(schema)
    if errors:
        raise SchemaError("not a structural schema", causes=errors)
    return Schema(schema)


class Schema:
    """The compiled schema of one version of a kind. `source` is what it was compiled from."""

    def __init__(self, schema: JSONSchema) -> None:
        self.source: Final = schema
        properties: JSONSchema = schema.get("properties") or {}
        rooted = {**schema, "properties": {**_OF_EVERY_OBJECT, **properties}} if properties else schema
        self._default: Final = compile_defaulting(schema)
        self._prune: Final = compile_pruning(schema)
        self._rooted: Final = rooted
        self._checks: Final[dict[frozenset[str], Checks]] = {}
        status = properties.get("status")
        self._status_checks: Final = Checks(status) if status is not None else None
        self._check_embedded: Final = compile_embedded_check(schema)
        self._check_lists: Final = compile_list_check(schema)
        self._check_rules: Final = compile_rules(rooted)
        self.is_spec_apart: Final = schema.keys().isdisjoint(_OF_SEVERAL_FIELDS)
        """Whether nothing but its own part of the schema looks into a spec."""
        self.has_spec_rules: Final = compile_rules(properties.get("spec") or {}) is not None
        self.is_checked: Final = IS_INSTALLED or not _needs_cel(schema)
        """Whether objects are held to all of it."""

    def complete(self, document: dict[str, Any], settled: Iterable[str] = ()) -> list[str]:
        """Prunes and defaults in place, and returns the paths of removed fields. What it did to the fields that are
        settled need not be done again."""
        kept = {name: document[name] for name in settled}
        document.update(dict.fromkeys(kept, True))  # a value without fields
        dropped = self._prune(document)
        self._default(document)
        document.update(kept)
        return dropped

    def default(self, document: dict[str, Any]) -> dict[str, Any]:
        """Sets defaults in place, and returns the document."""
        self._default(document)
        return document

    def prune(self, document: dict[str, Any]) -> list[str]:
        """Removes unknown fields in place, and returns their paths."""
        return self._prune(document)

    def unknown_fields(self, document: dict[str, Any]) -> list[str]:
        return self._prune(deepcopy(document))

    def validate(
        self,
        document: dict[str, Any],
        old: dict[str, Any] | None = None,
        *,
        subresource: str = "",
        sound: Collection[str] = (),
    ) -> list[FieldError]:
        """All errors but those in values that are unchanged from `old`, of which `sound` fields are not looked at."""
        errors = self._value_errors(document, old, is_status=subresource == "status")
        if sound and old is not None:
            document, old = ({name: each[name] for name in each if name not in sound} for each in (document, old))
        errors += self._errors_of(self._check_embedded, document)
        lists = self._errors_of(self._check_lists, document)
        if lists and (old is None or not self._errors_of(self._check_lists, old)):
            errors += lists
        if self._check_rules is None:
            return errors
        if any(error.blocks_rules for error in errors):
            return [*errors, RULES_NOT_CHECKED]
        return errors + self._rule_errors(document, old)

    def _value_errors(
        self, document: dict[str, Any], old: dict[str, Any] | None, *, is_status: bool
    ) -> list[FieldError]:
        if not is_status:
            return _check_value(self._checks_of_changed(document, old), document, old, self.source, "")
        if self._status_checks is None or "status" not in document:
            return []
        old_status = (old or {}).get("status")
        return _check_value(
            self._status_checks, document["status"], old_status, self.source["properties"]["status"], "status"
        )

    def _checks_of_changed(self, document: dict[str, Any], old: dict[str, Any] | None) -> Checks:
        """Errors in values that are unchanged would be dropped, so large ones are not looked for."""
        same = frozenset(
            name for name in _MAIN_FIELDS if old and name in old and is_same(old[name], document.get(name))
        )
        checks = self._checks.get(same)
        if checks is None:
            properties = {**self._rooted.get("properties", {}), **{name: {} for name in same}}
            schema = {**self._rooted, "properties": properties} if same else self._rooted
            checks = self._checks[same] = Checks(schema)
        return checks

    @staticmethod
    def _errors_of(
        check: Callable[[Any, Path, list[SchemaFinding]], None] | None, document: dict[str, Any]
    ) -> list[FieldError]:
        findings: list[SchemaFinding] = []
        if check is not None:
            check(document, None, findings)
        return [finding.as_field_error() for finding in findings]

    def _rule_errors(self, document: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        findings: list[SchemaFinding] = []
        if self._check_rules is not None:
            self._check_rules(document, old, None, findings)
        return [
            finding.as_field_error()
            for finding in findings
            if finding.is_about_change or not is_unchanged(finding.owner, document, old, self.source)
        ]


def _check_value(checks: Checks, value: Any, old: Any, schema: JSONSchema, prefix: str) -> list[FieldError]:
    check = checks[type(value)]
    findings: list[SchemaFinding] = []
    if check is not None:
        check(value, None, findings)
    if not findings:
        return []
    new = (finding for finding in findings if not is_unchanged(finding.owner, value, old, schema))
    return list(_distinct(finding.as_field_error(prefix) for finding in new))


def _distinct(errors: Iterable[FieldError]) -> Iterator[FieldError]:
    """Drops duplicates: branches of a composition often report the same error."""
    seen = set()
    for error in errors:
        if str(error) not in seen:
            seen.add(str(error))
            yield error


def _needs_cel(part: Any) -> bool:
    """Whether a rule, or a pattern that only the CEL library can match, is anywhere in a schema."""
    if isinstance(part, list):
        return any(map(_needs_cel, part))
    if not isinstance(part, dict):
        return False
    pattern = part.get("pattern")
    is_hard = isinstance(pattern, str) and not is_harmless(pattern)
    return is_hard or "x-kubernetes-validations" in part or any(map(_needs_cel, part.values()))
