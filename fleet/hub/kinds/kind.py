"""What a served kind is. Where the kinds come from is the business of `builtin` and `definitions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fleet.hub.schema.schema import Schema

Document = dict[str, Any]

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SUBRESOURCE_VERBS: Final = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`. Priority 0 is always shown, the others with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Kind:
    """One kind in one version, as discovery tells it and as requests find it."""

    group: str
    version: str
    kind: str
    plural: str
    _: KW_ONLY
    namespaced: bool
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    storage_version: str = ""
    custom: bool = False
    counts_generations: bool = False
    names_are_paths: bool = False
    columns: tuple[PrinterColumn, ...] = ()
    schema: Schema | None = None
    json_schema: Mapping[str, Any] | None = None
    field_labels: tuple[str, ...] = ()
    deprecation: str = ""

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def storage_api_version(self) -> str:
        version = self.storage_version or self.version
        return f"{self.group}/{version}" if self.group else version

    @cached_property
    def resource(self) -> str:
        """The name that is the same in every version: where objects are kept, and what messages say."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def qualified(self) -> str:
        """The kind's name as validation messages begin with it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @cached_property
    def list_name(self) -> str:
        return self.list_kind or f"{self.kind}List"

    @cached_property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()

    @cached_property
    def is_stored_form(self) -> bool:
        return self.api_version == self.storage_api_version

    @cached_property
    def head(self) -> bytes:
        """How every stored body of this kind begins; lists of built-in kinds leave it out."""
        return f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}",'.encode()

    @cached_property
    def has_rules(self) -> bool:
        """Whether expressions judge objects of this kind."""
        return "x-kubernetes-validations" in repr(self.json_schema)

    @cached_property
    def has_status(self) -> bool:
        return "status" in self.subresources
