"""The build of this process."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.http.examples import get_example
from api.http.schema import describe_answers
from api.models import VersionModel
from api.routers.request_context import CurrentRequest
from fleet.release.build_info import BuildInfo, load_build_info

router = APIRouter(tags=["configuration"])


@router.get(
    "/v1/version",
    summary="What this process was built from",
    responses=describe_answers(
        VersionModel,
        example=get_example("version"),
        text="v0.20.1002: branch fix 2 on upstream 0.20.10, built 2021-11-01, bridge registry\n",
        etag=True,
    ),
)
async def get_version(context: CurrentRequest) -> Response:
    """The release tag and its kind, the revision and the time. For every authenticated caller."""
    model = _build_model(load_build_info())
    return context.answer(model, text=lambda: f"{model.version}: {model.description}\n", tag=model.version)


def _build_model(build: BuildInfo) -> VersionModel:
    return VersionModel(
        version=build.name,
        tag=build.tag.text,
        kind=build.tag.kind.value,
        description=build.description,
        revision=build.revision,
        created=build.created,
    )
