"""`fleet groups`: requests to the API, output and exit codes."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.names import PlacementName
from fleet.cli.client.requests import ApiRequest, build_mismatch, fetch_json, fetch_text
from fleet.cli.commands.why import SUCCESS, exit_code
from fleet.cli.output.console import TEXT, write_document, write_text

_PATH: Final = "/v1/groups"


def list_groups(connection: ApiConnection, *, form: str) -> int:
    question = ApiRequest(path=_PATH)
    if form == TEXT:
        write_text(fetch_text(connection, question).content)
    else:
        write_document(fetch_json(connection, question), form)
    return SUCCESS


def explain_group(connection: ApiConnection, group: PlacementName, *, form: str) -> int:
    question = ApiRequest(path=f"{_PATH}/{quote(group.namespace or '-', safe='')}/{quote(group.name, safe='')}/why")
    if form == TEXT:
        text = fetch_text(connection, question)
        write_text(text.content)
        return exit_code(text.state)
    answer = fetch_json(connection, question)
    try:
        state = answer["group"]["state"]
    except (KeyError, TypeError) as error:
        raise build_mismatch(connection, "its response has no group.state") from error
    write_document(answer, form)
    return exit_code(state)
