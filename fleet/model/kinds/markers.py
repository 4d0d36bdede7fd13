"""Markers of kinds beyond Python types: limits, merge behavior, versions and rules.

Kinds carry markers in `Annotated`; `fleet.model.crd_generator` turns them into OpenAPI. Pydantic ignores the markers it
does not know, except `CheckedKeywords`, which also checks the value, so that a broken limit is reported with its rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from pydantic import AfterValidator, GetCoreSchemaHandler, Strict
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

V1: Final = "v1"
V1ALPHA1: Final = "v1alpha1"
V1BETA1: Final = "v1beta1"


@dataclass(frozen=True, kw_only=True)
class ValidationRule:
    """A condition on an object: CEL for the API server and, where it makes sense without a server, Python.

    `id` is the rule's name in messages. `holds` is left out where the old object is needed, and `holds_after` gets the
    old and the new one. `expression` is CEL for a
    message that names values; the API server falls back to `text` when it cannot be evaluated.
    """

    text: str
    cel: str
    id: str = ""
    holds: Callable[[Any], bool] | None = None
    holds_after: Callable[[Any, Any], bool] | None = None
    expression: str = ""
    versions: frozenset[str] | None = None

    @property
    def message(self) -> str:
        return f"{self.id}: {self.text}" if self.id else self.text

    def applies_to(self, version: str) -> bool:
        return self.versions is None or version in self.versions


# Compared by identity: typing hashes what stands in Annotated, and the keywords are mappings.
@dataclass(frozen=True, eq=False)
class Keywords:
    """OpenAPI keywords that only the API server checks."""

    values: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class CheckedKeywords:
    """OpenAPI keywords that are validated here as well, with a better message."""

    values: Mapping[str, Any]
    holds: Callable[[Any], bool]
    message: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._validate, handler(source))

    def _validate(self, value: Any) -> Any:
        if value is not None and not self.holds(value):
            raise PydanticCustomError("rule", "{message}", {"message": self.message})
        return value


@dataclass(frozen=True)
class OnlyIn:
    """The field exists in these versions only."""

    versions: frozenset[str]


@dataclass(frozen=True)
class RequiredIn:
    """The field is optional, but required in these versions."""

    versions: frozenset[str]


@dataclass(frozen=True)
class DiffersIn:
    """In this version the field accepts these values only, and has no default."""

    version: str
    enum: tuple[str, ...]


def only_in(*versions: str) -> OnlyIn:
    return OnlyIn(frozenset(versions))


def required_in(*versions: str) -> RequiredIn:
    return RequiredIn(frozenset(versions))


def list_map(*keys: str) -> Keywords:
    """A list whose items are merged by key."""
    return Keywords({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


ATOMIC_LIST: Final = Keywords({"x-kubernetes-list-type": "atomic"})

_NUMBER_OR_TEXT: Final[Mapping[str, Any]] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}


@dataclass(frozen=True)
class FieldRule:
    """A rule on the value of one field."""

    rule: ValidationRule


def count_or_percentage(*, pattern: str, at_least: int, message: str) -> tuple[CheckedKeywords, FieldRule]:
    """Marks for `int | str`: a whole number from `at_least` on, or a text of that pattern."""
    accepted = re.compile(pattern)

    def holds(value: int | str) -> bool:
        return value >= at_least if isinstance(value, int) else accepted.fullmatch(value) is not None

    keywords = CheckedKeywords({**_NUMBER_OR_TEXT, "pattern": pattern}, holds, message)
    return keywords, FieldRule(ValidationRule(text=message, cel=f"type(self) != int || self >= {at_least}"))


def _check_range(value: int, *, bits: int) -> int:
    """The API server refuses numbers that their format cannot hold."""
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise PydanticCustomError(
            "number_too_large", "{value} should be a number of {bits} bits", {"value": value, "bits": bits}
        )
    return value


Int = Annotated[int, Strict()]
Int32 = Annotated[int, Strict(), Keywords({"format": "int32"}), AfterValidator(partial(_check_range, bits=32))]
Int64 = Annotated[int, Strict(), Keywords({"format": "int64"}), AfterValidator(partial(_check_range, bits=64))]
Bool = Annotated[bool, Strict()]
Timestamp = Annotated[str, Keywords({"format": "date-time"})]
"""Kept as text, so that it is written as it was read."""

Base64 = Annotated[str, Keywords({"format": "byte"})]
Quantity = Annotated[
    int | str,
    Keywords(
        {
            **_NUMBER_OR_TEXT,
            "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
        }
    ),
]
Quantities = dict[str, Quantity]
EmbeddedObject = Annotated[
    dict[str, Any], Keywords({"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True})
]
"""A complete Kubernetes object of any kind."""

AnyJSON = Annotated[Any, Keywords({"x-kubernetes-preserve-unknown-fields": True})]
