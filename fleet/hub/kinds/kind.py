"""A served kind. Kinds come from the built-in table and from CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.cached import cached_property

if TYPE_CHECKING:
    from fleet.hub.schema.schema import Schema

Document = dict[str, Any]

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SUBRESOURCE_VERBS: Final = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of `kubectl get`. Columns of priority 0 are always shown, others with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Kind:
    """One kind in one version, with everything that discovery and request handling need."""

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
    columns: tuple[TableColumn, ...] = ()
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
        """The group resource, equal in all versions: the storage key, and the name in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def qualified(self) -> str:
        """The group kind with which validation messages begin."""
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
        """The prefix of every stored body of this kind; lists of built-in kinds omit it."""
        return f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}",'.encode()

    @cached_property
    def has_rules(self) -> bool:
        """Whether the schema has CEL rules."""
        return "x-kubernetes-validations" in repr(self.json_schema)

    @cached_property
    def has_status(self) -> bool:
        return "status" in self.subresources
