"""Placements that wait for approval: what waits, and the answers of those who may approve."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Header, Path, Query
from starlette.responses import Response

from api.http.bodies import convert_body, read_json_object
from api.http.schema import NamePath, NamespacePath, describe_answers, describe_body
from api.routers.request_context import CurrentRequest, RequestContext, parse_namespace
from api.services.held import waiting, waiting_answers
from api.services.held.gates import clear_gate
from api.services.held.waiting_answers import APPROVED, Reply
from api.text.waiting import render_waiting
from api.waiting_models import (
    AllowAnswer,
    AllowRequest,
    ClearedGate,
    RejectAnswer,
    RejectRequest,
    WaitingList,
    WaitingModel,
)
from fleet.framework.approvals import DENIED

router = APIRouter(tags=["waiting"])

UID: Final = "0d4c7e1a-53cf-4a52-9d8e-6b1f0c2a7e11"
UidPath = Annotated[str, Path(max_length=63, description="UID of the placement.", examples=[UID])]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=255,
        description="A name for this request: sent again, it gets the same answer and changes nothing.",
    ),
]
_TARGET: Final = {
    "cluster": "ams-1",
    "plugin": "PlacementApproval",
    "rule": "owners",
    "since": "2026-01-05T10:00:00Z",
    "deadline": None,
    "remainingSeconds": None,
    "users": ["ann"],
    "groups": [],
    "count": 1,
    "approvedBy": [],
    "mayAnswer": True,
}
_ITEM: Final = {
    "uid": UID,
    "key": "storefront",
    "profile": "approved",
    "message": "waits for PlacementApproval on ams-1",
    "targets": ["ams-1"],
    "waiting": [_TARGET],
    "redacted": 0,
    "redactedTargets": 0,
}
_TEXT: Final = "PLACEMENT   CLUSTER  RULE    WAITS FOR  SINCE                 UNTIL\n"


@router.get(
    "/v1/waiting",
    summary="List what waits for approval",
    responses=describe_answers(WaitingList, example={"items": [_ITEM]}, text=_TEXT),
)
async def list_waiting(
    context: CurrentRequest,
    profile: Annotated[str | None, Query(max_length=63, description="Only placements of this profile.")] = None,
    plugin: Annotated[str | None, Query(max_length=253, description="Only what this plugin waits for.")] = None,
    cluster: Annotated[str | None, Query(max_length=253, description="Only this cluster.")] = None,
) -> Response:
    """Of the placements that the caller may read."""
    context.backend.live.require_synced()
    answer = await waiting.list_waiting(
        context.backend, context.permissions, profile=profile, plugin=plugin, cluster=cluster
    )
    return context.answer(answer, text=lambda: render_waiting(answer))


@router.get(
    "/v1/waiting/{uid}",
    summary="One placement that waits",
    responses=describe_answers(WaitingModel, example=_ITEM, refusals=(404, 410)),
)
async def load_waiting(context: CurrentRequest, uid: UidPath) -> Response:
    """410 with the outcome if it was decided within the last hour."""
    context.backend.live.require_synced()
    return context.answer(await waiting.load_waiting(context.backend, context.permissions, uid))


@router.post(
    "/v1/waiting/{uid}/allow",
    summary="Approve",
    responses=describe_answers(
        AllowAnswer, example={"dealtWith": True, "remaining": []}, refusals=(404, 409, 410, 413, 415)
    ),
    openapi_extra=describe_body(AllowRequest, example={"plugin": "PlacementApproval", "target": "ams-1"}),
)
async def allow(context: CurrentRequest, uid: UidPath, idempotency_key: IdempotencyKey = None) -> Response:
    """For callers with the right `approve` on `placementapprovals`, named by the rule, whom the rule counts. The answer
    is an object on the hub. 410 if it was answered already."""
    body = convert_body(await read_json_object(context.request, context.backend.evaluator.bodies), AllowRequest)
    reply = _build_reply(context, body, decision=APPROVED, message=body.reason, key=idempotency_key)
    return context.answer(await waiting_answers.allow(context.backend, context.permissions, uid, reply))


@router.post(
    "/v1/waiting/{uid}/reject",
    summary="Deny",
    responses=describe_answers(RejectAnswer, example={"delivered": True}, refusals=(404, 409, 410, 413, 415)),
    openapi_extra=describe_body(
        RejectRequest, example={"plugin": "PlacementApproval", "message": "not before the release"}
    ),
)
async def reject(context: CurrentRequest, uid: UidPath, idempotency_key: IdempotencyKey = None) -> Response:
    """As `allow`. The owner of the placement sees the message."""
    body = convert_body(await read_json_object(context.request, context.backend.evaluator.bodies), RejectRequest)
    reply = _build_reply(context, body, decision=DENIED, message=body.message, key=idempotency_key)
    return context.answer(await waiting_answers.reject(context.backend, context.permissions, uid, reply))


@router.post(
    "/v1/placements/{ns}/{name}/gates/{gate}/clear",
    summary="Clear a gate",
    responses=describe_answers(ClearedGate, example={"remaining": []}, refusals=(404, 409)),
)
async def clear(
    context: CurrentRequest,
    ns: NamespacePath,
    name: NamePath,
    gate: Annotated[str, Path(max_length=63, description="Name of the gate.", examples=["review"])],
) -> Response:
    """For callers who may update the placement's options. The placement is scheduled when no gate is left."""
    key = await context.require_placement(parse_namespace(ns), name)
    context.backend.live.require_synced()
    return context.answer(await clear_gate(context.backend, context.permissions, key, gate))


def _build_reply(
    context: RequestContext, body: AllowRequest | RejectRequest, *, decision: str, message: str, key: str | None
) -> Reply:
    """An Idempotency-Key names one request: the same key at another path is another one."""
    context.backend.live.require_synced()
    request = f"{context.request.url.path} {key}" if key else ""
    return Reply(
        plugin=body.plugin, decision=decision, message=message, target=body.target, rule=body.rule, request=request
    )
