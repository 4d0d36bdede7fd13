"""Common parts of all kinds: the base of all models, object metadata, conditions and selectors.

The pydantic kinds serve the edges (CRDs, command line, REST), where completeness and good messages count. The watch
path reads the narrow views of `fleet.model.views` instead. Unknown fields are kept, so that an object of a newer
release survives being read and written.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from fleet.model.kinds.markers import ATOMIC_LIST, Bool, Int64, Keywords, Timestamp, ValidationRule, list_map


class Model(BaseModel):
    """An immutable object, camelCase on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True, defer_build=True
    )
    rules: ClassVar[tuple[ValidationRule, ...]] = ()
    atomic: ClassVar[bool] = False
    """Whether server-side apply treats the object as one value."""

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        broken = [rule.message for rule in self.rules if rule.holds is not None and not rule.holds(self)]
        if broken:
            raise PydanticCustomError("rule", "{message}", {"message": "; ".join(broken)})
        return self

    def to_document(self) -> dict[str, Any]:
        """Plain data with exactly the fields that were given, under their names on the wire."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class OwnerReference(Model):
    """Points at the object that owns this one."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: Bool | None = None
    block_owner_deletion: Bool | None = None


class ObjectMeta(Model):
    """Kubernetes' own part of every object. It is no part of the CRDs: the API server brings its schema."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    deletion_grace_period_seconds: Int64 | None = None
    managed_fields: tuple[dict[str, Any], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        """Serializers written in Go leave `creationTimestamp: null` behind, which the API server accepts."""
        if not isinstance(value, dict):
            return value
        return {key: item for key, item in value.items() if item is not None}


class Document(Model):
    """A Kubernetes object: the base of all kinds. Items of a list come without apiVersion and kind."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


def limit_name(longest: int, *, id: str, text: str, versions: frozenset[str] | None = None) -> ValidationRule:
    """Names end up as label values, which are shorter than what Kubernetes allows for names."""

    def holds(document: Document) -> bool:
        return len(document.metadata.name) <= longest

    return ValidationRule(
        id=id, text=text, cel=f"size(self.metadata.name) <= {longest}", holds=holds, versions=versions
    )


class Condition(Model):
    """One aspect of the observed state, in the form all Kubernetes objects share."""

    type: Annotated[
        str,
        Field(description="The aspect, in CamelCase, optionally after a DNS prefix and a slash."),
        Keywords(
            {
                "maxLength": 316,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            }
        ),
    ]
    status: Annotated[Literal["True", "False", "Unknown"], Field(description="Whether the aspect holds.")]
    observed_generation: Annotated[
        Int64, Field(description="The generation of the object that this is about."), Keywords({"minimum": 0})
    ] = 0
    last_transition_time: Annotated[Timestamp, Field(description="When the status last changed.")]
    reason: Annotated[
        str,
        Field(description="Why, as one word for programs."),
        Keywords({"minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}),
    ]
    message: Annotated[str, Field(description="Why, in words for people."), Keywords({"maxLength": 32768})]


Conditions = Annotated[tuple[Condition, ...], list_map("type")]


class LabelSelectorRequirement(Model):
    """Compares one label with a list of values."""

    key: Annotated[str, Field(description="The label.")]
    operator: Annotated[str, Field(description="In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[
        tuple[str, ...], Field(description="At least one with In and NotIn, none with the others."), ATOMIC_LIST
    ] = ()


class LabelSelector(Model):
    """Selects objects by their labels; every part must match, and an empty selector matches everything."""

    atomic = True

    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], Field(description="Requirements that must all hold."), ATOMIC_LIST
    ] = ()
    match_labels: Annotated[dict[str, str] | None, Field(description="Labels that must have these values.")] = None


class NamespacedName(Model):
    """Names an object in a namespace."""

    name: Annotated[str, Field(description="Name of the object.")]
    namespace: Annotated[str, Field(description="Its namespace.")]
