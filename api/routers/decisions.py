"""Decisions as they were made: of one placement, and all of them as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from api.auth.access import authenticated
from api.http.examples import answer_named
from api.http.limits import CountedStream
from api.http.problems import not_found, unprocessable
from api.http.request_context import Asked, AskedBy, preferred
from api.http.schema import KeyQuery, refusal_responses
from api.models import DecisionModel
from api.services.attempts import decision_line
from api.services.decision_stream import Selection, decisions
from fleet.framework.cycle.decision import Outcome
from fleet.kube.scopes import parse_key

router = APIRouter(tags=["decisions"])

LINES: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"
_LARGEST: Final = 2**63 - 1
_EACH: Final = "Each line is a DecisionModel; empty lines are signs of life."
_LINE: Final = msgspec.json.encode((answer_named("history") or {"items": [None]})["items"][0]).decode()
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

OutcomeName = Literal["Selected", "Partial", "Unschedulable", "Unchanged", "Shrink", "NeedsAnswer", "Error"]
assert set(OutcomeName.__args__) == {one.value for one in Outcome}  # type: ignore[attr-defined]

_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "One decision per line or event, until all is told, or for as long as it follows.",
        "content": {
            LINES: {"schema": {"type": "string", "description": _EACH}, "example": _LINE + "\n"},
            EVENTS: {"schema": {"type": "string"}, "example": f"id: 17\nevent: decision\ndata: {_LINE}\n\n"},
            TEXT: {"schema": {"type": "string"}},
        },
    },
    **refusal_responses(404),
}


@router.get("/v1/decisions", summary="Stream decisions", responses=_STREAM)
async def stream_decisions(
    asked: AskedBy,
    since: Annotated[
        int | None, Query(ge=0, le=_LARGEST, description="Only decisions with a greater `seq`. 0: all that are kept.")
    ] = None,
    placement: KeyQuery = None,
    outcome: Annotated[OutcomeName | None, Query(description="Only decisions with this outcome.")] = None,
    limit: Annotated[int | None, Query(ge=1, le=_LARGEST, description="Ends after so many.")] = None,
    follow: Annotated[bool | None, Query(description="Go on as decisions are made; events always do.")] = None,
    last_event_id: Annotated[
        str | None, Header(description="Sent by readers of events that resume; counts more than `since`.")
    ] = None,
) -> Response:
    """Of one placement for who may read it; of all for operators.

    As lines of JSON, or, if `text/event-stream` is accepted, as events whose `id` is the `seq`. Without `since`, what
    is kept is told from the beginning; who follows is told what comes next. A stream ends after ten minutes: resume it.
    """
    media_type = preferred(asked.request.headers.get("accept", ""), LINES, EVENTS, TEXT)
    follows = media_type == EVENTS if follow is None else follow

    async def check() -> None:
        await _require(asked, placement)

    await check()
    if placement is not None and not follows:
        await _require_seen(asked, placement)
    begin = await _begin(asked, since, last_event_id, follows=follows)
    selection = Selection(since=begin, key=placement, outcome=outcome, limit=limit, follow=follows)
    content = _written(decisions(asked, selection, asked.serving.pace, check=check), media_type)
    return CountedStream(asked.serving.streams, content, media_type=media_type, headers=_HEADERS)


async def _require(asked: Asked, placement: str | None) -> None:
    """Again and again while a stream is open: tokens end, and rights are taken away."""
    await authenticated(asked.serving.access, asked.request.headers.get("authorization"))
    if placement is None:
        await asked.require_operator()
    else:
        await asked.readable(*parse_key(placement))


async def _require_seen(asked: Asked, placement: str) -> None:
    """An empty answer to a misspelt name would pass for a quiet placement."""
    known = await asked.remembered(lambda history: history.attempts(placement, limit=1))
    if not known and not asked.live.unsynced() and asked.live.subject(placement) is None:
        raise not_found(f"placement {placement}", "GET /v1/placements lists those that are there")


async def _begin(asked: Asked, since: int | None, last_event_id: str | None, *, follows: bool) -> int:
    if last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdigit()) or int(last_event_id) > _LARGEST:
            raise unprocessable("Last-Event-ID", last_event_id, "this is no seq", "send the id of the last event read")
        return int(last_event_id)
    if since is not None:
        await asked.remembered(lambda history: history.last_seq())  # refused at once if there is no history
        return since
    newest: int = await asked.remembered(lambda history: history.last_seq())
    return newest if follows else 0


async def _written(found: AsyncIterator[DecisionModel | None], media_type: str) -> AsyncIterator[bytes]:
    async for one in found:
        yield _signs_of_life(media_type) if one is None else _one(one, media_type)


def _one(decision: DecisionModel, media_type: str) -> bytes:
    if media_type == TEXT:
        return decision_line(decision).encode()
    line = msgspec.json.encode(decision)
    if media_type == EVENTS:
        return b"id: %d\nevent: decision\ndata: %s\n\n" % (decision.seq, line)
    return line + b"\n"


def _signs_of_life(media_type: str) -> bytes:
    """What readers of the format pass over."""
    return b": \n\n" if media_type == EVENTS else b"\n"
