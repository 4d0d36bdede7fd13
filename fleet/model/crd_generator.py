"""Writes the CustomResourceDefinitions from the kinds: `python -m fleet.model.crd_generator [DIRECTORY]`.

No library covers list-map keys, int-or-string, defaults, CEL rules and printer columns together, so this walks the
pydantic fields itself. The API server accepts only "structural" schemas: no references, no composition beside
int-or-string, a type at every level.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic.fields import FieldInfo

from fleet.errors import ConfigurationError
from fleet.model.catalog import CATALOG, KindDefinition, PrinterColumn
from fleet.model.kinds.markers import (
    CheckedKeywords,
    DiffersIn,
    FieldRule,
    Keywords,
    OnlyIn,
    RequiredIn,
    ValidationRule,
)
from fleet.model.kinds.meta import Document, Model

DIRECTORY: Final = Path("charts/fleet/files/crds")
HEADER: Final = "# Generated from fleet/model by `make gen`; do not edit.\n"

Schema = dict[str, Any]

_SCALARS: Final[dict[object, str]] = {str: "string", int: "integer", bool: "boolean"}
_WIDEST_LINE: Final = 120
_OF_EVERY_OBJECT: Final[Schema] = {
    "apiVersion": {"type": "string", "description": "Group and version of the kind."},
    "kind": {"type": "string", "description": "The kind of the object."},
    "metadata": {"type": "object"},
}


def build_crd(resource: KindDefinition) -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.full_name},
        "spec": {
            "group": resource.group,
            "names": _build_names(resource),
            "scope": resource.scope,
            "versions": [_build_version(resource, version) for version in resource.versions],
        },
    }


def render(resource: KindDefinition) -> str:
    """The CRD as the text of its file."""
    definition = build_crd(resource)
    body = yaml.dump(definition, Dumper=PlainDumper, sort_keys=False, allow_unicode=True, width=_WIDEST_LINE)
    return HEADER + str(body)


def file_name(resource: KindDefinition) -> str:
    return f"{resource.group}_{resource.plural}.yaml"


def write_all(directory: Path) -> None:
    """Writes every CRD and removes files of kinds that no longer exist."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = {directory / file_name(resource): render(resource) for resource in CATALOG}
    for path in set(directory.glob("*.yaml")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")


class PlainDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML without anchors, so that every part can be read on its own."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _build_names(resource: KindDefinition) -> Schema:
    names: Schema = {
        "categories": list(resource.categories),
        "kind": resource.kind,
        "listKind": resource.list_kind,
        "plural": resource.plural,
        "shortNames": list(resource.short_names),
        "singular": resource.singular,
    }
    return {key: value for key, value in names.items() if value}


def _build_version(resource: KindDefinition, version: str) -> Schema:
    described: Schema = {"name": version, "served": True, "storage": version == resource.storage}
    if resource.columns:
        described["additionalPrinterColumns"] = [_build_column(column) for column in resource.columns]
    described["schema"] = {"openAPIV3Schema": _VersionSchemas(version).of_kind(resource.model)}
    if resource.has_status:
        described["subresources"] = {"status": {}}
    return described


def _build_column(column: PrinterColumn) -> Schema:
    priority = {"priority": 1} if column.wide else {}
    return {"name": column.name, "type": column.type, "jsonPath": column.path, **priority}


class _VersionSchemas:
    """Schemas of one version of the API."""

    def __init__(self, version: str) -> None:
        self.version = version

    def of_kind(self, model: type[Document]) -> Schema:
        schema = self.of_model(model)
        schema["properties"] = {**_OF_EVERY_OBJECT, **schema["properties"]}
        return schema

    def of_model(self, model: type[Model]) -> Schema:
        fields = [item for item in _list_fields(model) if self._has(item[1])]
        required = [_wire_name(name, field) for name, field in fields if self._requires(field)]
        schema: Schema = {"type": "object", "description": _read_first_paragraph(model)}
        schema["properties"] = {_wire_name(name, field): self.of_field(field) for name, field in fields}
        if required:
            schema["required"] = required
        if model.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        return self._with_rules(schema, model.rules)

    def of_field(self, field: FieldInfo) -> Schema:
        schema = self.of_type(field.annotation)
        if field.description:
            schema["description"] = field.description
        self._add_marks(schema, field.metadata)
        if _has_default(field.default) and not self._differences(field):
            schema["default"] = field.default
        return self._with_rules(schema, [mark.rule for mark in field.metadata if isinstance(mark, FieldRule)])

    def of_type(self, annotation: Any) -> Schema:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            schema = self.of_type(arguments[0])
            self._add_marks(schema, arguments[1:])
            return schema
        if origin in (Union, UnionType):
            return self._of_union([option for option in arguments if option is not NoneType])
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if origin is tuple:
            return {"type": "array", "items": self.of_type(arguments[0])}
        if origin is dict:
            values = {} if arguments[1] is Any else {"additionalProperties": self.of_type(arguments[1])}
            return {"type": "object", **values}
        return self._of_class(annotation)

    def _of_union(self, options: list[Any]) -> Schema:
        """Apart from None only `int | str` is a union, and its mark brings the keywords."""
        if set(options) == {int, str}:
            return {}
        (option,) = options
        return self.of_type(option)

    def _of_class(self, annotation: Any) -> Schema:
        if annotation is Any:
            return {}
        if annotation in _SCALARS:
            return {"type": _SCALARS[annotation]}
        if isinstance(annotation, type) and issubclass(annotation, Model):
            return self.of_model(annotation)
        raise ConfigurationError(f"{annotation!r} has no schema; use a Model, a scalar, a tuple or a dict")

    def _add_marks(self, schema: Schema, marks: Iterable[Any]) -> None:
        for mark in marks:
            schema.update(self._build_keywords(mark, schema))

    def _build_keywords(self, mark: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        match mark:
            case Keywords() | CheckedKeywords():
                return mark.values
            case DiffersIn() if mark.version == self.version:
                return {"enum": list(mark.enum)}
            case Ge():
                return {"minimum": mark.ge}
            case Le():
                return {"maximum": mark.le}
            case MinLen():
                return {_length_keyword("min", schema): mark.min_length}
            case MaxLen():
                return {_length_keyword("max", schema): mark.max_length}
            case FieldInfo():
                return self._of_nested_field(mark, schema)
        pattern = getattr(mark, "pattern", None)
        return {"pattern": pattern} if pattern else {}

    def _of_nested_field(self, field: FieldInfo, schema: Mapping[str, Any]) -> Schema:
        """The `Field(…)` inside a named annotated type, which pydantic leaves where it stands."""
        keywords: Schema = {"description": field.description} if field.description else {}
        for mark in field.metadata:
            keywords.update(self._build_keywords(mark, schema))
        return keywords

    def _with_rules(self, schema: Schema, rules: Iterable[ValidationRule]) -> Schema:
        applying = [_build_validation(rule) for rule in rules if rule.applies_to(self.version)]
        if applying:
            schema["x-kubernetes-validations"] = applying
        return schema

    def _has(self, field: FieldInfo) -> bool:
        return all(self.version in mark.versions for mark in field.metadata if isinstance(mark, OnlyIn))

    def _requires(self, field: FieldInfo) -> bool:
        marks = [mark for mark in field.metadata if isinstance(mark, RequiredIn)]
        return field.is_required() or any(self.version in mark.versions for mark in marks)

    def _differences(self, field: FieldInfo) -> list[DiffersIn]:
        return [mark for mark in field.metadata if isinstance(mark, DiffersIn) and mark.version == self.version]


def _list_fields(model: type[Model]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if name not in Document.model_fields or not issubclass(model, Document):
            yield name, field


def _wire_name(name: str, field: FieldInfo) -> str:
    return field.alias or name


def _has_default(default: Any) -> bool:
    """Empty values stand for absent ones, as in Go; they are no defaults for the API server to fill in."""
    return isinstance(default, str | int) and bool(default)


def _length_keyword(end: str, schema: Mapping[str, Any]) -> str:
    suffix = {"array": "Items", "object": "Properties"}.get(str(schema.get("type")), "Length")
    return f"{end}{suffix}"


def _build_validation(rule: ValidationRule) -> Schema:
    expression = {"messageExpression": rule.expression} if rule.expression else {}
    return {"rule": rule.cel, "message": rule.message, **expression}


def _read_first_paragraph(model: type[Model]) -> str:
    paragraph = cleandoc(model.__doc__ or "").split("\n\n")[0]
    return " ".join(paragraph.split())


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else DIRECTORY)
