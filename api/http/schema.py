"""The OpenAPI description: schemas of answers from their structs, parameters from annotated types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from fastapi import Path, Query

from api.http.paging import DEFAULT_LIMIT, LARGEST_LIMIT
from api.http.problems import MEDIA_TYPE, TITLES, ProblemDetails
from fleet.model.json_schema import strip_indentation

_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_NAMESPACE: Final = r"^(-|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$"
_KEY: Final = r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"

NamespacePath = Annotated[
    str, Path(pattern=_NAMESPACE, max_length=63, description="Of a ResourcePlacement, or `-`.", examples=["-"])
]
NamePath = Annotated[str, Path(pattern=_NAME, description="Of the placement.", examples=["storefront"])]
ClusterPath = Annotated[str, Path(pattern=_NAME, description="Of the member cluster.", examples=["ams-1"])]
KeyQuery = Annotated[
    str | None, Query(pattern=_KEY, description="A placement: `name` or `namespace/name`.", examples=["storefront"])
]
Limit = Annotated[int, Query(ge=1, le=LARGEST_LIMIT, description="How many at most.")]
Cursor = Annotated[
    str | None, Query(min_length=1, max_length=2048, description="The `next` of the page before this one.")
]

DEFAULT_PAGE: Final = DEFAULT_LIMIT
MODELS: Final[dict[str, type]] = {}
"""Every struct that an endpoint takes or gives, by name."""
PUBLISHED_NAMES: Final[Mapping[str, str]] = {
    "ClusterChange": "Number",
    "ClusterCounts": "Counts",
    "ClusterRejection": "Refusal",
    "DecisionComparison": "Comparison",
    "DiffSummary": "Tally",
    "FilterVerdict": "Rejection",
    "IneligibleCluster": "Invalid",
    "InputChange": "Change",
    "ProblemDetails": "Problem",
    "SkippedAttempt": "ReplaySkipped",
    "SkippedPlugin": "AnswerPartsSkipped",
    "WhyAnswer": "Why",
}
"""Component names of structs whose classes have another name: clients are generated from these names."""
_TITLES: Final[Mapping[str, str]] = {"AnswerPartsSkipped": "Skipped", "ReplaySkipped": "Skipped"}
"""Components whose title is not their name."""

STATE: Final = "Fleet-State"
"""A header: the state of the placement that an answer is about, whichever form it has."""
EXAMPLE: Final = "x-example"
EXAMPLES: Final = "x-examples"
_COMPONENTS: Final = "#/components/schemas/"
_REFUSALS: Final = (401, 403, 422, 429, 500, 503)


def schema_ref(model: type) -> dict[str, str]:
    """Registers the struct as a component and refers to it."""
    MODELS[model.__name__] = model
    return {"$ref": f"{_COMPONENTS}{_component_name(model.__name__)}"}


def _any_schema(models: tuple[type, ...]) -> dict[str, Any]:
    references = [schema_ref(model) for model in models]
    return references[0] if len(references) == 1 else {"anyOf": references}


def describe_answers(
    *models: type,
    example: Any = None,
    examples: Mapping[str, Any] | None = None,
    text: str | None = None,
    etag: bool = False,
    state: bool = False,
    refusals: tuple[int, ...] = (),
    description: str = "The answer.",
) -> dict[int | str, dict[str, Any]]:
    """The responses of an endpoint, for its decorator."""
    content: dict[str, Any] = {"application/json": {"schema": _any_schema(models)}}
    if example is not None:
        content["application/json"][EXAMPLE] = _encode_example(example)
    if examples is not None:
        named = {name: {"value": value} for name, value in examples.items()}
        content["application/json"][EXAMPLES] = _encode_example(named)
    if text:
        content["text/plain"] = {"schema": {"type": "string"}, "example": text}
    responses: dict[int | str, dict[str, Any]] = {200: {"description": description, "content": content}}
    if etag:
        responses[200]["headers"] = {"ETag": _header("Of this answer.")}
        responses[304] = {"description": "Nothing changed since the answer with that ETag."}
    if state:
        responses[200].setdefault("headers", {})[STATE] = _header("The state in the answer, also where it is text.")
    return responses | describe_refusals(*refusals)


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def _encode_example(example: Any) -> str:
    """FastAPI drops nulls from examples, so it gets them as a string that `restore_examples` decodes."""
    return msgspec.json.encode(example).decode()


def restore_examples(operation: dict[str, Any]) -> None:
    parts = (*operation["responses"].values(), operation.get("requestBody", {}))
    for media in (media for part in parts for media in part.get("content", {}).values()):
        for placeholder, published in ((EXAMPLE, "example"), (EXAMPLES, "examples")):
            if placeholder in media:
                media[published] = msgspec.json.decode(media.pop(placeholder))


def describe_refusals(*more: int) -> dict[int | str, dict[str, Any]]:
    return {status: _describe_problem(status) for status in sorted({*_REFUSALS, *more})}


def _describe_problem(status: int) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": TITLES[status],
        "content": {MEDIA_TYPE: {"schema": schema_ref(ProblemDetails)}},
    }
    if status in (429, 503):
        response["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
    return response


def describe_body(*models: type, example: Any) -> dict[str, Any]:
    """The `openapi_extra` of an endpoint with a body."""
    content = {"application/json": {"schema": _any_schema(models), EXAMPLE: _encode_example(example)}}
    return {"requestBody": {"required": True, "content": content}}


def build_components() -> dict[str, Any]:
    """The JSON schemas of all structs, and of those within them."""
    models = [MODELS[name] for name in sorted(MODELS, key=_component_name)]
    _, schemas = msgspec.json.schema_components(models, ref_template=f"{_COMPONENTS}{{name}}")
    text = msgspec.json.encode(strip_indentation(schemas)).decode()
    for name in sorted(schemas, key=len, reverse=True):
        text = text.replace(f'"{_COMPONENTS}{name}"', f'"{_COMPONENTS}{_component_name(name)}"')
    components = {_component_name(name): schema for name, schema in msgspec.json.decode(text).items()}
    return {name: _with_title(components[name], _TITLES.get(name, name)) for name in sorted(components)}


def _component_name(name: str) -> str:
    """Structs of the same name are distinguished by their modules: api.models.Page is ModelsPage."""
    *modules, own = name.split(".")
    prefix = "".join(part.capitalize() for part in modules[-1].split("_")) if modules else ""
    return PUBLISHED_NAMES.get(own, prefix + own)


def _with_title(schema: dict[str, Any], title: str) -> dict[str, Any]:
    return schema | {"title": title} if "title" in schema else schema
