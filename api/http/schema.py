"""How endpoints are described: their answers by the structs they are made of, their parameters by annotated types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from fastapi import Path, Query

from api.http.paging import DEFAULT_LIMIT, LARGEST_LIMIT
from api.http.problems import MEDIA_TYPE, TITLES, Problem

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

STATE: Final = "Fleet-State"
"""A header: the state of the placement that an answer is about, whichever form it has."""
EXAMPLE: Final = "x-example"
EXAMPLES: Final = "x-examples"
_COMPONENTS: Final = "#/components/schemas/"
_PUBLISHED: Final[Mapping[str, str]] = {
    "ClusterChange": "Number",
    "ClusterCounts": "Counts",
    "ClusterRejection": "Refusal",
    "DecisionComparison": "Comparison",
    "DiffSummary": "Tally",
    "FilterVerdict": "Rejection",
    "IneligibleCluster": "Invalid",
    "InputChange": "Change",
    "SkippedAttempt": "ReplaySkipped",
    "SkippedPlugin": "AnswerPartsSkipped",
}
"""Components that keep the name they were published with, by the name of their struct."""
_REFUSALS: Final = (401, 403, 422, 429, 500, 503)


def reference(model: type) -> dict[str, str]:
    MODELS[model.__name__] = model
    return {"$ref": f"{_COMPONENTS}{model.__name__}"}


def answers(
    model: type,
    *,
    example: Any = None,
    examples: Mapping[str, Any] | None = None,
    text: str | None = None,
    etag: bool = False,
    state: bool = False,
    refusals: tuple[int, ...] = (),
    description: str = "The answer.",
) -> dict[int | str, dict[str, Any]]:
    """The responses of an endpoint, for its decorator."""
    content: dict[str, Any] = {"application/json": {"schema": reference(model)}}
    if example is not None:
        content["application/json"][EXAMPLE] = _kept(example)
    if examples is not None:
        content["application/json"][EXAMPLES] = _kept({name: {"value": one} for name, one in examples.items()})
    if text:
        content["text/plain"] = {"schema": {"type": "string"}, "example": text}
    found: dict[int | str, dict[str, Any]] = {200: {"description": description, "content": content}}
    if etag:
        found[200]["headers"] = {"ETag": _header("Of this answer.")}
        found[304] = {"description": "Nothing changed since the answer with that ETag."}
    if state:
        found[200].setdefault("headers", {})[STATE] = _header("`verdict.state`, also where the answer is text.")
    return found | refusal_responses(*refusals)


def state_header(state: str) -> dict[str, str]:
    """What scripts go by is no part of a text."""
    return {STATE: state}


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def _kept(example: Any) -> str:
    """FastAPI would drop what is null in it."""
    return msgspec.json.encode(example).decode()


def with_examples(operation: dict[str, Any]) -> None:
    contents = [one.get("content", {}) for one in (*operation["responses"].values(), operation.get("requestBody", {}))]
    for content in contents:
        for media in content.values():
            for kept, own in ((EXAMPLE, "example"), (EXAMPLES, "examples")):
                if kept in media:
                    media[own] = msgspec.json.decode(media.pop(kept))


def refusal_responses(*more: int) -> dict[int | str, dict[str, Any]]:
    return {status: problem(status) for status in sorted({*_REFUSALS, *more})}


def problem(status: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": TITLES[status],
        "content": {MEDIA_TYPE: {"schema": reference(Problem)}},
    }
    if status in (429, 503):
        found["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
    return found


def takes(model: type, *, example: Any) -> dict[str, Any]:
    """The `openapi_extra` of an endpoint with a body."""
    content = {"application/json": {"schema": reference(model), EXAMPLE: _kept(example)}}
    return {"requestBody": {"required": True, "content": content}}


def components() -> dict[str, Any]:
    """The JSON schemas of all structs, and of those within them."""
    models = [MODELS[name] for name in sorted(MODELS)]
    _, found = msgspec.json.schema_components(models, ref_template=f"{_COMPONENTS}{{name}}")
    text = msgspec.json.encode(dict(sorted(found.items()))).decode()
    for name in sorted(found, key=len, reverse=True):
        text = text.replace(f'"{_COMPONENTS}{name}"', f'"{_COMPONENTS}{_short(name)}"')
    schemas: dict[str, Any] = msgspec.json.decode(text)
    published = {_short(name): schema for name, schema in schemas.items()}
    for name in _PUBLISHED.values():
        published[name]["title"] = name.removeprefix("AnswerParts").removeprefix("Replay")
    return dict(sorted(published.items()))


def _short(name: str) -> str:
    """Structs of one name are distinguished by their modules: api.models.Page is ModelsPage."""
    *modules, own = name.split(".")
    if own in _PUBLISHED:
        return _PUBLISHED[own]
    return "".join(part.capitalize() for part in modules[-1].split("_")) + own if modules else own
