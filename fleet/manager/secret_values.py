"""Values of the Secrets that a configuration document names: read before anything else is started, and again later.

A Secret that cannot be read, or a value that is no text, is no failure here: it is described, without the value.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from fleet.clock import SystemClock
from fleet.errors import ApiError
from fleet.kube.api import Api, Method, Request
from fleet.manager.hub_connection import connect
from fleet.settings import Effective
from fleet.settings.document.substitution import SecretValues, qualify_key

_LONGEST_READ: Final = 10.0
"""Seconds."""


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


def read_first_secrets(
    effective: Effective, *, kubeconfig: Path | None = None, context: str | None = None
) -> SecretValues:
    """Not to be called while an event loop runs."""

    async def read() -> SecretValues:
        clock = SystemClock()
        async with await connect(effective.settings, kubeconfig=kubeconfig, context=context, clock=clock) as hub:
            return await read_secrets(hub, effective)

    return asyncio.run(read())


async def read_secrets(hub: Api, effective: Effective) -> SecretValues:
    """All that it names. Of Secrets with the same key the first counts, also while it cannot be read."""
    own = effective.settings.leader_election.resource_namespace
    names = [written if "/" in written else f"{own}/{written}" for written in effective.secret_names]
    read = await asyncio.gather(*(_read(hub, name) for name in names))
    named = list(zip(effective.secret_names, read, strict=True))
    shared = [secret for name, secret in named if name not in effective.token_secrets]
    return merge_secrets([*_withhold_doubtful(shared), *(_qualify(name, secret) for name, secret in named)])


def _withhold_doubtful(secrets: Sequence[SecretValues]) -> Iterator[SecretValues]:
    """A Secret that cannot be read may have the keys of all that follow."""
    unread = ""
    for secret in secrets:
        doubtful = {key: f"{unread}; it may hold {key}" for key in (*secret.values, *secret.unusable)} if unread else {}
        yield SecretValues(unusable=doubtful, unread=secret.unread) if doubtful else secret
        unread = unread or "; ".join(secret.unread)


def merge_secrets(secrets: Sequence[SecretValues]) -> SecretValues:
    values, unusable = dict[str, str](), dict[str, str]()
    for secret in secrets:
        known = values.keys() | unusable.keys()
        values |= {key: value for key, value in secret.values.items() if key not in known}
        unusable |= {key: problem for key, problem in secret.unusable.items() if key not in known}
    return SecretValues(
        values, unusable, tuple(dict.fromkeys(problem for secret in secrets for problem in secret.unread))
    )


def _qualify(name: str, secret: SecretValues) -> SecretValues:
    """With its keys as `tokenFrom` names them."""
    values, unusable = (
        {qualify_key(name, key): text for key, text in texts.items()} for texts in (secret.values, secret.unusable)
    )
    return SecretValues(values, unusable, secret.unread)


async def _read(hub: Api, name: str) -> SecretValues:
    namespace, _, own_name = name.partition("/")
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets/{quote(own_name, safe='')}"
    try:
        async with asyncio.timeout(_LONGEST_READ):
            secret = msgspec.json.decode(await hub.call(Request(Method.GET, path)), type=_Secret)
    except TimeoutError:
        return SecretValues(unread=(f"Secret {name} cannot be read: no answer in time",))
    except ApiError as error:
        return SecretValues(unread=(f"Secret {name} cannot be read: {error}",))
    except msgspec.DecodeError:
        return SecretValues(unread=(f"Secret {name} cannot be read: the answer is no Secret",))
    values, unusable = dict[str, str](), dict[str, str]()
    for key, encoded in (secret.data or {}).items():
        try:
            values[key] = base64.b64decode(encoded).decode()
        except ValueError:
            unusable[key] = f"key {key} of Secret {name} is not UTF-8 text: write it anew"
    return SecretValues(values, unusable)
