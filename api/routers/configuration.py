"""How this process is set up: profiles and effective settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from api.http.examples import answer_named
from api.http.request_context import AskedBy
from api.http.schema import answers
from api.models import PluginModel, ProfileModel, ProfilePage, SettingModel, SettingPage
from api.text.tables import render_profiles, render_settings
from fleet.framework.runtime.framework import Framework
from fleet.settings import Effective
from fleet.settings.names import known_settings
from fleet.settings.secrets import redact

router = APIRouter(tags=["configuration"])


@router.get(
    "/v1/profiles",
    summary="Profiles and their plugins",
    responses=answers(
        ProfilePage,
        example=answer_named("profiles"),
        text="PROFILE         HOOK    PLUGIN           FORM    WEIGHT\n"
        "DefaultProfile  filter  ClusterAffinity  vector\n",
        etag=True,
    ),
)
async def list_profiles(asked: AskedBy) -> Response:
    """By hook the plugins, in the order they run. Every caller the hub knows may ask."""
    found = ProfilePage(items=(_profile(asked.live.framework),))
    return asked.answer(found, text=lambda: render_profiles(found), tag=found.items[0].config_hash)


@router.get(
    "/v1/config",
    summary="Effective settings",
    responses=answers(
        SettingPage,
        example={
            "items": [
                {
                    "name": "queue.maxDelay",
                    "value": "30s",
                    "origin": "--set",
                    "meaning": "Longest wait after a failure.",
                }
            ]
        },
        text="SETTING         VALUE  ORIGIN\nqueue.maxDelay  30s    --set\n",
        etag=True,
    ),
)
async def get_config(asked: AskedBy) -> Response:
    """Every setting with its value and whose word it is. For operators. Secrets are not shown."""
    await asked.require_operator()
    found = SettingPage(items=tuple(settings_of(asked.serving.effective)))
    return asked.answer(found, text=lambda: render_settings(found), tag="config")


def settings_of(effective: Effective) -> Iterator[SettingModel]:
    tree = effective.settings.model_dump(mode="json", by_alias=True)
    for name, known in known_settings().items():
        value = redact(name, _value(tree, name))
        yield SettingModel(name=name, value=value, origin=effective.origins.get(name, "default"), meaning=known.meaning)


def _value(tree: dict[str, Any], name: str) -> Any:
    found: Any = tree
    for part in name.split("."):
        found = found[part]
    return found


def _profile(framework: Framework) -> ProfileModel:
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
            hook: tuple(PluginModel(name=one.name, form=one.form, weight=one.weight) for one in plugins)
            for hook, plugins in hooks.items()
            if plugins
        },
        warnings=tuple(profile.warnings),
    )
