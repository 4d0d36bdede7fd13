"""What if, what then, and everything it takes to ask elsewhere."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from api.http.bodies import document_of, shaped
from api.http.examples import REPLAY, SIMULATE, answer_named, text_named
from api.http.problems import unprocessable
from api.http.request_context import AskedBy
from api.http.schema import answers, state_header, takes
from api.models import ReplayReport, ReplayRequest, SimulateAnswer, SimulateRequest, SnapshotDocument
from api.services.export import snapshot_document
from api.services.replay import replayed
from api.services.simulation import checked, simulated
from api.text.tables import render_replay
from fleet.explain.answer.rendering import render_simulated
from fleet.explain.answer.simulate import Simulated
from fleet.explain.whatif.edits import parse_edits

router = APIRouter(tags=["what if"])

_REPLAY_TEXT: Final = "100 attempts: 100 the same, 0 skipped\n"


@router.post(
    "/v1/simulate",
    summary="Ask what would happen",
    responses=answers(
        SimulateAnswer,
        example=answer_named("simulate"),
        text=text_named("simulate"),
        state=True,
        refusals=(404, 410, 413, 415),
    ),
    openapi_extra=takes(SimulateRequest, example=SIMULATE),
)
async def simulate(asked: AskedBy) -> Response:
    """For who may create placements in that scope. Nothing is reserved, written or woken."""
    document = await document_of(asked.request)
    checked(document)
    found = await simulated(asked, shaped(document, SimulateRequest))
    return asked.answer(
        found,
        text=lambda: render_simulated(Simulated(found.answer, found.compare, found.would_run), found.impact),
        headers=state_header(found.answer.verdict.state),
    )


@router.post(
    "/v1/replay",
    summary="Decide recorded attempts again",
    responses=answers(ReplayReport, example=answer_named("replay"), text=_REPLAY_TEXT, refusals=(413, 415)),
    openapi_extra=takes(ReplayRequest, example=REPLAY),
)
async def replay(asked: AskedBy) -> Response:
    """For operators. Without `change`, every attempt has to come out as recorded. With it: what would be different.

    A report covers what could be decided within 20 seconds; `next` says where to go on."""
    await asked.require_operator()
    document = await document_of(asked.request)
    change = document.get("change")
    if isinstance(change, dict):
        parse_edits(change.get("edits", []))
    elif change is not None:
        raise unprocessable("change", change, "change should be an object", 'send {"edits": […]} or leave it out')
    found = await replayed(asked, shaped(document, ReplayRequest))
    return asked.answer(found, text=lambda: render_replay(found))


@router.get(
    "/v1/snapshot",
    summary="Export what decisions are made of",
    responses=answers(SnapshotDocument, example=answer_named("snapshot"), etag=False),
)
async def snapshot(asked: AskedBy) -> Response:
    """For operators who may list clusters and placements. Clusters, placements, policies, bindings and settings."""
    await asked.require_operator()
    await asked.require_all_clusters()
    await asked.require_all_placements()
    asked.require_synced()
    async with asked.serving.evaluations.one(), asked.serving.evaluations.turn():
        found = snapshot_document(asked.live, asked.serving.effective.settings)
    return asked.answer(found)
