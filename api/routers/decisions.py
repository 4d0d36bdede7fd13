"""The stream of recorded decisions, of one placement or all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from api.auth.access import AccessRequest, operator_access, placement_access
from api.http.examples import get_example
from api.http.limits import CountedStream
from api.http.problems import unprocessable
from api.http.schema import KeyQuery, describe_refusals
from api.live.backend import Backend
from api.models import DecisionModel
from api.routers.request_context import CurrentRequest, RequestContext, negotiate_media_type
from api.services.decisions.decision_stream import StreamFilter, stream_decisions
from api.services.decisions.history import require_known
from api.text.decisions import render_decision_line
from fleet.framework.cycle.decision import Outcome
from fleet.kube.scopes import parse_key

router = APIRouter(tags=["decisions"])

LINES: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"
_LARGEST: Final = 2**63 - 1
_EACH: Final = "Each line is a DecisionModel; empty lines are heartbeats."
_LINE: Final = msgspec.json.encode((get_example("history") or {"items": [None]})["items"][0]).decode()
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}

OutcomeName = Literal["Selected", "Partial", "Unschedulable", "Unchanged", "Shrink", "NeedsAnswer", "Error"]
assert set(OutcomeName.__args__) == {outcome.value for outcome in Outcome}  # type: ignore[attr-defined]

_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "One decision per line or event, until the last one, or for as long as it follows.",
        "content": {
            LINES: {"schema": {"type": "string", "description": _EACH}, "example": _LINE + "\n"},
            EVENTS: {"schema": {"type": "string"}, "example": f"id: 17\nevent: decision\ndata: {_LINE}\n\n"},
            TEXT: {"schema": {"type": "string"}},
        },
    },
    **describe_refusals(404),
}


@router.get("/v1/decisions", summary="Stream decisions", name="stream_decisions", responses=_STREAM)
async def get_decisions(
    context: CurrentRequest,
    since: Annotated[
        int | None, Query(ge=0, le=_LARGEST, description="Only decisions with a greater `seq`. 0: all that are kept.")
    ] = None,
    placement: KeyQuery = None,
    outcome: Annotated[OutcomeName | None, Query(description="Only decisions with this outcome.")] = None,
    limit: Annotated[int | None, Query(ge=1, le=_LARGEST, description="Stop after this many decisions.")] = None,
    follow: Annotated[bool | None, Query(description="Continue with new decisions; events always do.")] = None,
    last_event_id: Annotated[
        str | None, Header(description="Sent by event readers that resume; overrides `since`.")
    ] = None,
) -> Response:
    """Of one placement for callers who may read it; of all for operators.

    As lines of JSON, or, if `text/event-stream` is accepted, as events whose `id` is the `seq`. Without `since`, it
    begins with the oldest decision that is kept or, if it follows, with the next one; events then begin with one of
    type `start`, whose `id` is the `seq` of the last decision before. A stream ends after ten minutes: resume it.
    """
    media_type = negotiate_media_type(context.request.headers.get("accept", ""), LINES, EVENTS, TEXT)
    follows = media_type == EVENTS if follow is None else follow
    right = _get_right(context, placement)
    await context.permissions.require(right)
    if placement is not None and not follows:
        await _require_known(context.backend, placement)
    is_known = since is not None or bool(last_event_id) or not follows
    start = await _find_start(context.backend, since, last_event_id, follows=follows)
    selected = StreamFilter(since=start, right=right, key=placement, outcome=outcome, limit=limit, follow=follows)
    models = stream_decisions(context.backend, context.permissions, selected, context.state.stream_timing)
    return CountedStream(
        context.state.streams,
        _encode_stream(models, media_type, opening=b"" if is_known else _encode_start(start, media_type)),
        media_type=media_type,
        headers=_HEADERS,
        caller=context.permissions.caller.name,
    )


def _get_right(context: RequestContext, placement: str | None) -> AccessRequest:
    if placement is None:
        return operator_access(context.request.method.lower(), context.request.scope["path"])
    return placement_access("get", *parse_key(placement))


async def _require_known(backend: Backend, placement: str) -> None:
    """An empty answer to a misspelt name would suggest that nothing was decided yet."""
    if not await backend.history.call(backend.history.require().attempts, placement, limit=1):
        require_known(backend, placement)


async def _find_start(backend: Backend, since: int | None, last_event_id: str | None, *, follows: bool) -> int:
    if last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdigit()) or int(last_event_id) > _LARGEST:
            raise unprocessable(
                "Last-Event-ID", last_event_id, "this is not a sequence number", "send the id of the last event read"
            )
        return int(last_event_id)
    newest = await backend.history.call(backend.history.require().last_seq)  # also refuses if there is no history
    if since is not None:
        return since
    return newest if follows else 0


async def _encode_stream(
    models: AsyncIterator[DecisionModel | None], media_type: str, *, opening: bytes
) -> AsyncIterator[bytes]:
    if opening:
        yield opening
    async for decision in models:
        yield _heartbeat(media_type) if decision is None else _encode(decision, media_type)


def _encode_start(seq: int, media_type: str) -> bytes:
    """Where to resume before the first decision has come; only events have room for it."""
    return b'id: %d\nevent: start\ndata: {"seq": %d}\n\n' % (seq, seq) if media_type == EVENTS else b""


def _encode(decision: DecisionModel, media_type: str) -> bytes:
    if media_type == TEXT:
        return render_decision_line(decision).encode()
    line = msgspec.json.encode(decision)
    if media_type == EVENTS:
        return b"id: %d\nevent: decision\ndata: %s\n\n" % (decision.seq, line)
    return line + b"\n"


def _heartbeat(media_type: str) -> bytes:
    """Content that readers of the format skip."""
    return b": \n\n" if media_type == EVENTS else b"\n"
