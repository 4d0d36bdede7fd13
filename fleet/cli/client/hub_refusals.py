"""Errors of the hub's API server, where it did not pass a question on to the API."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from typing import Any, Final

from fleet.cli.client.connection import ApiConnection
from fleet.kube.grants import ASK, format_grant

_USER: Final = re.compile(r'User "([^"]+)" cannot')
_API_SERVICE: Final = "kubectl get apiservice v1.explain.fleet -o yaml"


def describe_missing_api(connection: ApiConnection) -> str:
    steps = (
        "install the chart with api.aggregation.enabled, choose another hub with --context or --kubeconfig, or name "
        "the API with --api"
    )
    return f"the hub has no Fleet API: {connection.source}\n{connection.other_up or f'next: {steps}'}"


def describe_hub_refusal(connection: ApiConnection, status: int, body: bytes, document: object) -> str:
    message = _read_message(body, document)
    if status == http.client.UNAUTHORIZED:
        return (
            f"the hub does not accept the credentials of {connection.source}\n"
            "next: log in again; `kubectl auth whoami` fails in the same way until then"
        )
    if status == http.client.FORBIDDEN:
        user = _USER.search(message)
        command = format_grant(ASK, user.group(1) if user else "USER")
        return f"{message}\nnext: an administrator of the hub can allow it with the chart's role {ASK}: `{command}`"
    if status in (http.client.BAD_GATEWAY, http.client.SERVICE_UNAVAILABLE, http.client.GATEWAY_TIMEOUT):
        return f"the hub cannot reach the Fleet API: {message}\nnext: `{_API_SERVICE}` has the reason"
    return f"the hub answered {status}: {message}\nnext: check {connection.source}"


def describe_hub_unreachable(connection: ApiConnection, text: str) -> str:
    steps = f"check {connection.source}; `kubectl cluster-info` fails in the same way"
    return f"{text}\n{connection.other_up or f'next: {steps}'}"


def _read_message(body: bytes, document: object) -> str:
    if isinstance(document, Mapping) and document.get("message"):
        return str(_strip(document["message"]))
    return _strip(body.decode(errors="replace")) or "no reason is given"


def _strip(text: Any) -> str:
    return " ".join(str(text).split())[:500]
