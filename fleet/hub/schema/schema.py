"""Schemas of custom resources: compiled once, then defaulting, pruning and validation of objects as in the API server.

A schema is "structural": it says the type of every value, and compositions only narrow it. Checks of names, labels and
other metadata are the same for all kinds and are left to the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from fleet.errors import SchemaError
from fleet.hub.schema.causes import RULES_NOT_CHECKED, Cause
from fleet.hub.schema.cel.rules import compile_rules
from fleet.hub.schema.defaulting import compile_defaulting
from fleet.hub.schema.embedded import compile_embedded_check
from fleet.hub.schema.findings import Finding, Path
from fleet.hub.schema.lists import compile_list_check
from fleet.hub.schema.pruning import compile_pruning
from fleet.hub.schema.ratcheting import is_unchanged
from fleet.hub.schema.structural import definition_problems
from fleet.hub.schema.values import Checks, compile_checks

__all__ = ["Cause", "Schema", "compile_schema"]

JSONSchema = Mapping[str, Any]

_OF_EVERY_OBJECT: Final[JSONSchema] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


def compile_schema(schema: JSONSchema) -> Schema:
    """Raises SchemaError with the causes for which the API server would refuse the schema."""
    causes = definition_problems(schema)
    if causes:
        raise SchemaError("not a structural schema", causes=causes)
    return Schema(schema)


class Schema:
    """The compiled schema of one version of a kind. `source` is what it was compiled from."""

    def __init__(self, schema: JSONSchema) -> None:
        self.source: Final = schema
        properties: JSONSchema = schema.get("properties") or {}
        rooted = {**schema, "properties": {**_OF_EVERY_OBJECT, **properties}} if properties else schema
        self._default: Final = compile_defaulting(schema)
        self._prune: Final = compile_pruning(schema)
        self._checks: Final = compile_checks(rooted)
        status = properties.get("status")
        self._status_checks: Final = compile_checks(status) if status is not None else None
        self._check_embedded: Final = compile_embedded_check(schema)
        self._check_lists: Final = compile_list_check(schema)
        self._check_rules: Final = compile_rules(rooted)

    def default(self, document: dict[str, Any]) -> dict[str, Any]:
        """Completes the document in place, and returns it."""
        self._default(document)
        return document

    def prune(self, document: dict[str, Any]) -> list[str]:
        """Removes unknown fields in place, and returns their paths."""
        return self._prune(document)

    def unknown_fields(self, document: dict[str, Any]) -> list[str]:
        return self._prune(deepcopy(document))

    def validate(
        self, document: dict[str, Any], old: dict[str, Any] | None = None, *, subresource: str = ""
    ) -> list[Cause]:
        """What is wrong. What `old` has in common with the document is not held against it."""
        causes = self._value_causes(document, old, is_status=subresource == "status")
        causes += self._causes_of(self._check_embedded, document)
        lists = self._causes_of(self._check_lists, document)
        if lists and (old is None or not self._causes_of(self._check_lists, old)):
            causes += lists
        if self._check_rules is None:
            return causes
        if any(found.blocks_rules for found in causes):
            return [*causes, RULES_NOT_CHECKED]
        return causes + self._rule_causes(document, old)

    def _value_causes(self, document: dict[str, Any], old: dict[str, Any] | None, *, is_status: bool) -> list[Cause]:
        if not is_status:
            return _checked(self._checks, document, old, self.source, "")
        if self._status_checks is None or "status" not in document:
            return []
        old_status = (old or {}).get("status")
        return _checked(
            self._status_checks, document["status"], old_status, self.source["properties"]["status"], "status"
        )

    @staticmethod
    def _causes_of(check: Callable[[Any, Path, list[Finding]], None] | None, document: dict[str, Any]) -> list[Cause]:
        found: list[Finding] = []
        if check is not None:
            check(document, None, found)
        return [finding.as_cause() for finding in found]

    def _rule_causes(self, document: dict[str, Any], old: dict[str, Any] | None) -> list[Cause]:
        found: list[Finding] = []
        if self._check_rules is not None:
            self._check_rules(document, old, None, found)
        return [
            finding.as_cause()
            for finding in found
            if finding.is_about_change or not is_unchanged(finding.owner, document, old, self.source)
        ]


def _checked(checks: Checks, value: Any, old: Any, schema: JSONSchema, prefix: str) -> list[Cause]:
    check = checks[type(value)]
    found: list[Finding] = []
    if check is not None:
        check(value, None, found)
    if not found:
        return []
    new = (finding for finding in found if not is_unchanged(finding.owner, value, old, schema))
    return list(_distinct(finding.as_cause(prefix) for finding in new))


def _distinct(causes: Iterable[Cause]) -> Iterator[Cause]:
    """Branches of a composition tend to say the same."""
    told = set()
    for found in causes:
        if str(found) not in told:
            told.add(str(found))
            yield found
