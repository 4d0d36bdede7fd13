"""The configuration of this process: profiles and effective settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from api.http.examples import get_example
from api.http.problems import refusal
from api.http.schema import describe_answers
from api.live.live import LiveState
from api.models import SettingModel, SettingPage
from api.routers.request_context import CurrentRequest
from api.text.tables import render_profiles, render_settings
from fleet.external.feed_collector import FeedState
from fleet.scheduler.profiles.description import ProfileModel, ProfilePage, describe_profile
from fleet.settings import Effective
from fleet.settings.names import NO_EFFECT, known_settings
from fleet.settings.secrets import redact

_SECOND: Final = 1_000_000_000

router = APIRouter(tags=["configuration"])


@router.get(
    "/v1/profiles",
    summary="Profiles and their plugins",
    responses=describe_answers(
        ProfilePage,
        example=get_example("profiles"),
        text="PROFILE         HOOK    PLUGIN           FORM    WEIGHT\n"
        "DefaultProfile  filter  ClusterAffinity  vector\n",
        etag=True,
    ),
)
async def list_profiles(context: CurrentRequest) -> Response:
    """By hook the plugins, in the order they run. For every authenticated caller."""
    page = ProfilePage(items=tuple(map(describe_profile, context.backend.live.frameworks)))
    return context.answer(page, text=lambda: render_profiles(page), tag=_build_tag(page))


@router.get(
    "/v1/profiles/{name}",
    summary="One profile",
    responses=describe_answers(
        ProfileModel,
        example=get_example("profiles")["items"][0],
        text="PROFILE         HOOK    PLUGIN           FORM    WEIGHT\n"
        "DefaultProfile  filter  ClusterAffinity  vector\n",
        etag=True,
        refusals=(404,),
    ),
)
async def get_profile(context: CurrentRequest, name: str) -> Response:
    """By hook the plugins, in the order they run, with the weight of their scores. For every authenticated caller."""
    frameworks = context.backend.live.frameworks
    framework = frameworks.find(name)
    if framework is None:
        raise refusal(
            404,
            f"there is no profile {name} here",
            object=f"profile {name}",
            next=f"GET /v1/profiles lists {', '.join(frameworks.names)}",
        )
    page = ProfilePage(items=(describe_profile(framework),))
    return context.answer(page.items[0], text=lambda: render_profiles(page), tag=_build_tag(page))


def _build_tag(page: ProfilePage) -> str:
    return " ".join(profile.config_hash for profile in page.items)


@router.get(
    "/v1/config",
    summary="Effective settings",
    responses=describe_answers(
        SettingPage,
        example={
            "items": [
                {
                    "name": "queue.maxDelay",
                    "value": "30s",
                    "origin": "--set",
                    "meaning": "Longest wait after a failure.",
                    "note": "",
                }
            ]
        },
        text="SETTING         VALUE  ORIGIN  NOTE\nqueue.maxDelay  30s    --set\n",
        etag=True,
    ),
)
async def get_config(context: CurrentRequest) -> Response:
    """Every setting, and every value of the profiles, with its origin. For operators. Secrets are not shown."""
    await context.require_operator()
    live = context.backend.live
    items = (*list_settings(context.backend.effective), *list_samples(context.backend.effective, live))
    page = SettingPage(items=items)
    return context.answer(page, text=lambda: render_settings(page), tag="config")


def list_settings(effective: Effective) -> Iterator[SettingModel]:
    tree = effective.settings.model_dump(mode="json", by_alias=True)
    for name, setting in known_settings().items():
        value = redact(name, _get_value(tree, name))
        origin = effective.origins.get(name, "default")
        note = NO_EFFECT if setting.is_planned else ""
        yield SettingModel(name=name, value=value, origin=origin, meaning=setting.meaning, note=note)
    for path, value, origin in effective.settings.list_document_values():
        yield SettingModel(name=path, value=redact(path, value), origin=origin, meaning="", note="")


def list_samples(effective: Effective, live: LiveState) -> Iterator[SettingModel]:
    """What the feeds of the document say at present."""
    for feed in effective.settings.feeds:
        state = FeedState() if live.feeds is None else live.feeds.states.get(feed.name, FeedState())
        value: dict[str, Any] = {}
        if state.sample is not None:
            age = live.now() - state.sample.sampled_at
            value = {"ageSeconds": age // _SECOND, "stale": age > state.sample.max_age, "columns": state.sample.columns}
        note = state.error if state.error or value else "not sampled yet"
        yield SettingModel(name=f"{feed.path}.sample", value=value, origin="feed", meaning="", note=note)


def _get_value(tree: dict[str, Any], name: str) -> Any:
    value: Any = tree
    for part in name.split("."):
        value = value[part]
    return value
