"""Simulation of changes, replay of recorded attempts, and the export of all inputs of decisions."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from api.auth.access import placement_access
from api.http.bodies import convert_body, read_json_object
from api.http.examples import REPLAY, SIMULATE, get_example, get_example_text
from api.http.problems import unprocessable
from api.http.schema import describe_answers, describe_body
from api.live.evaluation import is_large_document
from api.models import (
    ReplayReport,
    ReplayRequest,
    ScenarioAnswer,
    ScenarioRequest,
    SimulateAnswer,
    SimulateRequest,
    SnapshotDocument,
)
from api.routers.request_context import CurrentRequest, RequestContext
from api.services.decisions.replay import replay_attempts
from api.services.export import build_snapshot_document
from api.services.scenario import play_scenario, require_rights
from api.services.simulation import check_document, is_about_existing, is_scenario, parse_subject, simulate_placement
from api.text.tables import render_replay
from fleet.eventloop import free_later
from fleet.explain.answer.rendering import render_simulated
from fleet.explain.answer.simulate import Simulated
from fleet.explain.whatif.edits import parse_edits
from fleet.kube.resource import join_key

router = APIRouter(tags=["what if"])

_REPLAY_TEXT: Final = "100 attempts: 100 the same, 0 skipped\n"


@router.post(
    "/v1/simulate",
    summary="Simulate a change",
    responses=describe_answers(
        SimulateAnswer,
        ScenarioAnswer,
        example=get_example("simulate"),
        text=get_example_text("simulate"),
        state=True,
        refusals=(404, 410, 413, 415),
    ),
    openapi_extra=describe_body(SimulateRequest, ScenarioRequest, example=SIMULATE),
)
async def simulate(context: CurrentRequest) -> Response:
    """For callers who may create placements in that scope, and read the placement if it exists. Nothing is reserved,
    written or requeued.

    With `steps`, for operators who may list all clusters and placements, and create the placements of the steps: the
    present fleet is played from an empty hub on, by a controller in virtual time, until the end, for 2000 attempts or
    for 22 seconds; `cut` tells why it ended before."""
    document = await read_json_object(context.request, context.backend.evaluator.bodies, check=check_document)
    try:
        if is_scenario(document):
            return await _simulate_steps(context, convert_body(document, ScenarioRequest))
        return await _simulate_edits(context, convert_body(document, SimulateRequest))
    finally:
        if is_large_document(document):
            free_later(document)


async def _simulate_edits(context: RequestContext, request: SimulateRequest) -> Response:
    namespace, name = parse_subject(request)
    await context.permissions.require(placement_access("create", namespace))
    key = join_key(namespace, name)
    if is_about_existing(context.backend, key, request):
        await context.permissions.require(placement_access("get", namespace, name))
    if request.impact:
        await context.require_operator()
    simulated = await simulate_placement(context.backend, context.permissions, key, request)
    return await context.answer_large(
        simulated,
        text=lambda: render_simulated(
            Simulated(simulated.answer, simulated.compare, simulated.would_run), simulated.impact
        ),
        state=simulated.answer.verdict.state,
    )


async def _simulate_steps(context: RequestContext, request: ScenarioRequest) -> Response:
    await context.require_operator()
    await require_rights(context.permissions, request)
    answer, text = await play_scenario(context.backend, context.permissions, request)
    return await context.answer_large(answer, text=lambda: text)


@router.post(
    "/v1/replay",
    summary="Replay recorded attempts",
    responses=describe_answers(ReplayReport, example=get_example("replay"), text=_REPLAY_TEXT, refusals=(413, 415)),
    openapi_extra=describe_body(ReplayRequest, example=REPLAY),
)
async def replay(context: CurrentRequest) -> Response:
    """For operators. Without `change`, every attempt has to give the recorded result. With it: what would be different.

    A report covers the attempts that could be replayed within 20 seconds; `next` is where to continue."""
    await context.require_operator()
    document = await read_json_object(context.request, context.backend.evaluator.bodies)
    change = document.get("change")
    if isinstance(change, dict):
        parse_edits(change.get("edits", []))
    elif change is not None:
        raise unprocessable("change", change, "change should be an object", 'send {"edits": […]} or leave it out')
    report = await replay_attempts(context.backend, context.permissions, convert_body(document, ReplayRequest))
    return await context.answer_large(report, text=lambda: render_replay(report))


@router.get(
    "/v1/snapshot",
    summary="Export the inputs of decisions",
    responses=describe_answers(SnapshotDocument, example=get_example("snapshot"), etag=False),
)
async def snapshot(context: CurrentRequest) -> Response:
    """Clusters, placements, policies, bindings and settings, for operators who may list clusters and placements."""
    await context.require_operator()
    await context.permissions.require_all_clusters()
    await context.permissions.require_all_placements()
    context.backend.live.require_synced()
    backend = context.backend
    lane = backend.evaluator.lane(is_large=True)  # of all objects
    async with backend.evaluator.admit(context.permissions.caller.name), lane.turn():
        document = await build_snapshot_document(backend.live, backend.effective.settings, lane.thread)
    return await context.answer_large(document)
