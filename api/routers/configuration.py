"""The configuration of this process: profiles and effective settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from api.http.examples import get_example
from api.http.schema import describe_answers
from api.models import PluginModel, ProfileModel, ProfilePage, SettingModel, SettingPage
from api.routers.request_context import CurrentRequest
from api.text.tables import render_profiles, render_settings
from fleet.framework.runtime.framework import Framework
from fleet.settings import Effective
from fleet.settings.names import NO_EFFECT, known_settings
from fleet.settings.secrets import redact

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
    page = ProfilePage(items=(_build_profile(context.backend.live.framework),))
    return context.answer(page, text=lambda: render_profiles(page), tag=page.items[0].config_hash)


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
    """Every setting with its value and its origin. For operators. Secrets are not shown."""
    await context.require_operator()
    page = SettingPage(items=tuple(list_settings(context.backend.effective)))
    return context.answer(page, text=lambda: render_settings(page), tag="config")


def list_settings(effective: Effective) -> Iterator[SettingModel]:
    tree = effective.settings.model_dump(mode="json", by_alias=True)
    for name, setting in known_settings().items():
        value = redact(name, _get_value(tree, name))
        origin = effective.origins.get(name, "default")
        note = NO_EFFECT if setting.is_inert or setting.is_planned else ""
        yield SettingModel(name=name, value=value, origin=origin, meaning=setting.meaning, note=note)


def _get_value(tree: dict[str, Any], name: str) -> Any:
    value: Any = tree
    for part in name.split("."):
        value = value[part]
    return value


def _build_profile(framework: Framework) -> ProfileModel:
    profile = framework.profile
    hooks = framework.list_plugins()
    return ProfileModel(
        scheduler_name=profile.scheduler_name,
        config_hash=profile.config_hash,
        ranking=profile.ranking,
        tie_break=profile.tie_break,
        unselected_budget=profile.limits.unselected_budget,
        max_decisions=profile.limits.max_decisions,
        plugins={
            hook: tuple(PluginModel(name=plugin.name, form=plugin.form, weight=plugin.weight) for plugin in plugins)
            for hook, plugins in hooks.items()
            if plugins
        },
        warnings=tuple(profile.warnings),
    )
