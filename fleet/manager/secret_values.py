"""Values of the Secrets that a configuration document names, read once, before anything else is started."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from fleet.clock import SystemClock
from fleet.errors import ApiError, ConfigurationError
from fleet.kube.api import Api, Method, Request
from fleet.manager.hub_connection import connect
from fleet.settings import Effective


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


def read_secret_values(
    effective: Effective, *, kubeconfig: Path | None = None, context: str | None = None
) -> Mapping[str, str]:
    """By key; of Secrets with the same key the first counts. Not to be called while an event loop runs."""
    return asyncio.run(_read_all(effective, kubeconfig, context))


async def _read_all(effective: Effective, kubeconfig: Path | None, context: str | None) -> Mapping[str, str]:
    values: dict[str, str] = {}
    own = effective.settings.leader_election.resource_namespace
    async with await connect(effective.settings, kubeconfig=kubeconfig, context=context, clock=SystemClock()) as hub:
        for written in effective.secret_names:
            namespace, _, name = written.rpartition("/")
            values = {**await _read(hub, namespace or own, name), **values}
    return values


async def _read(hub: Api, namespace: str, name: str) -> Mapping[str, str]:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets/{quote(name, safe='')}"
    try:
        secret = msgspec.json.decode(await hub.call(Request(Method.GET, path)), type=_Secret)
        return {key: base64.b64decode(text).decode() for key, text in secret.data.items()}
    except ApiError as error:
        message = f"substitution.fromSecret: Secret {namespace}/{name} cannot be read: {error}"
        raise ConfigurationError(message) from error
    except (msgspec.DecodeError, ValueError):
        message = f"substitution.fromSecret: Secret {namespace}/{name} has values that are no text"
        raise ConfigurationError(message) from None
