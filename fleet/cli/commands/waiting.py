"""`fleet waiting`, `approve`, `deny` and `gates clear`: requests to the API, output and exit codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.names import PlacementName
from fleet.cli.client.requests import ApiRequest, build_mismatch, fetch_json, fetch_text
from fleet.cli.output.console import TEXT, print_text, write_document, write_text
from fleet.errors import InputError

SUCCESS: Final = 0
_PATH: Final = "/v1/waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOptions:
    """An answer to a waiting placement."""

    plugin: str
    message: str
    cluster: str | None
    rule: str | None


def show_waiting(
    connection: ApiConnection, *, cluster: str | None, plugin: str | None, profile: str | None, form: str
) -> int:
    question = ApiRequest(path=_PATH, query={"cluster": cluster, "plugin": plugin, "profile": profile})
    if form == TEXT:
        write_text(fetch_text(connection, question).content)
    else:
        write_document(fetch_json(connection, question), form)
    return SUCCESS


def approve(connection: ApiConnection, waiting: str, reply: ReplyOptions) -> int:
    uid = _find_uid(connection, waiting)
    body = {"plugin": reply.plugin, "reason": reply.message, **_choose(reply)}
    answer = _send(connection, ApiRequest(path=f"{_PATH}/{quote(uid, safe='')}/allow", body=body))
    remaining = [f"{entry['cluster']} ({entry['rule']})" for entry in answer.get("remaining", ())]
    left = f"; still waiting for {', '.join(remaining)}" if remaining else ""
    print_text(f"{waiting} approved{left}")
    return SUCCESS


def deny(connection: ApiConnection, waiting: str, reply: ReplyOptions) -> int:
    if not reply.message:
        raise InputError("say why, for the owner of the placement: -m TEXT", field="--message")
    uid = _find_uid(connection, waiting)
    body = {"plugin": reply.plugin, "message": reply.message, **_choose(reply)}
    _send(connection, ApiRequest(path=f"{_PATH}/{quote(uid, safe='')}/reject", body=body))
    print_text(f"{waiting} denied")
    return SUCCESS


def clear_gate(connection: ApiConnection, placement: PlacementName, gate: str) -> int:
    answer = _send(connection, ApiRequest(path=f"{placement.path}/gates/{quote(gate, safe='')}/clear", body={}))
    remaining = answer.get("remaining", ())
    left = f"; it still waits for {', '.join(remaining)}" if remaining else ""
    print_text(f"gate {gate} of {placement.key} cleared{left}")
    return SUCCESS


def _find_uid(connection: ApiConnection, waiting: str) -> str:
    """Of a placement that waits, given by its name; anything else is taken for a UID."""
    items = _send(connection, ApiRequest(path=_PATH)).get("items", ())
    return next((item["uid"] for item in items if item["key"] == waiting), waiting)


def _choose(reply: ReplyOptions) -> dict[str, str]:
    chosen = {"target": reply.cluster, "rule": reply.rule}
    return {name: value for name, value in chosen.items() if value is not None}


def _send(connection: ApiConnection, request: ApiRequest) -> dict[str, Any]:
    answer = fetch_json(connection, request)
    if not isinstance(answer, dict):
        raise build_mismatch(connection, f"{request.path} did not return an object")
    return answer
