"""The FastAPI application: endpoints, middleware, and the OpenAPI document."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from starlette.responses import Response
from starlette.routing import BaseRoute

from api.auth.access import CallerAuthorizer
from api.auth.browser import BrowserSessions
from api.auth.front_proxy import FrontProxy
from api.auth.sealing import Sealer
from api.http.limits import STREAMS, STREAMS_OF_A_CALLER, ConcurrencyLimit, EvaluationLimiter, StreamTiming
from api.http.middleware import Aggregation, Audit, Deadlines, Preceding
from api.http.problems import handle_problems
from api.http.schema import build_components, restore_examples
from api.live.answer_cache import AnswerCache, FleetChanges
from api.live.backend import Backend
from api.live.evaluation import DecisionEvaluator
from api.live.history_reader import HistoryReader
from api.live.live import LiveState
from api.live.warnings import WarningEvents
from api.routers import decisions, history, simulate, waiting, why
from api.routers.objects import bindings, clusters, groups, matrix, placements, status
from api.routers.process import configuration, health, pages, session, version
from api.routers.request_context import AppState
from fleet import __version__
from fleet.external.extender_client import ExtenderClient
from fleet.history import History
from fleet.scheduler.profiles.frameworks import build_compiled_profiles
from fleet.settings import Effective

_ROUTERS: Final = (
    why,
    matrix,
    status,
    groups,
    simulate,
    history,
    decisions,
    placements,
    waiting,
    clusters,
    bindings,
    configuration,
    version,
    session,
    health,
    pages,
)


def create_app(
    live: LiveState,
    history: History | None,
    authorizer: CallerAuthorizer,
    effective: Effective,
    *,
    shares_loop: bool = False,
    stream_timing: StreamTiming | None = None,
    front_proxy: FrontProxy | None = None,
    sealer: Sealer | None = None,
    explains_other: bool = False,
) -> FastAPI:
    """With `shares_loop`, a scheduler runs on the same event loop and has priority over evaluations. `front_proxy` is
    for requests that come through the hub's aggregation layer, `sealer` for sessions that other replicas take. With
    `explains_other`, another scheduler decides."""
    app, stream_timing, reader = create_bare_app(), stream_timing or StreamTiming(), HistoryReader(history)
    limiter = EvaluationLimiter(live.clock, yields_to=live.is_scheduling if shares_loop else None)
    profiles, extenders = build_compiled_profiles(effective.settings), ExtenderClient(effective.settings.extenders)
    evaluator = DecisionEvaluator(live, reader, limiter, profiles, extenders)
    app.state.shared = AppState(
        backend=Backend(
            live=live,
            history=reader,
            evaluator=evaluator,
            effective=effective,
            answers=AnswerCache(),
            fleet=FleetChanges(live.caches.clusters, live.frameworks.list_signal_rules, live.clock),
            warnings=WarningEvents(live.hub, clock=live.clock),
            explains_other=explains_other,
        ),
        authorizer=authorizer,
        streams=ConcurrencyLimit(
            STREAMS, "streams", live.clock, estimate=stream_timing.longest, of_a_caller=STREAMS_OF_A_CALLER
        ),
        stream_timing=stream_timing,
        sessions=BrowserSessions(live.clock, sealer),
        front_proxy=front_proxy,
    )
    app.add_middleware(Deadlines)
    app.add_middleware(Audit, clock=live.clock, registry=live.registry)
    app.add_middleware(Aggregation)
    app.add_middleware(Preceding, precedence=evaluator.precedence)
    return app


def reload_app(app: FastAPI, effective: Effective) -> None:
    """Answer with the profiles of these settings from now on. Raises ConfigurationError, and has changed nothing
    then."""
    shared: AppState = app.state.shared
    backend = shared.backend
    prepared = backend.live.frameworks.prepare(effective.settings)
    profiles = build_compiled_profiles(effective.settings)
    prepared.install()
    backend.live.note_profiles()
    backend.evaluator.profiles = profiles
    backend.evaluator.extenders.reload(effective.settings.extenders)
    if backend.live.feeds is not None:
        backend.live.feeds.reload(effective.settings.feeds)
    app.state.shared = replace(shared, backend=replace(backend, effective=effective, answers=AnswerCache()))


def create_bare_app() -> FastAPI:
    """The endpoints without a backend: enough for the OpenAPI document."""
    app = FastAPI(
        title="Fleet",
        version=__version__,
        summary="Where placements run, and why.",
        description=(
            "Every request but the probes carries a bearer token that the hub accepts, or the cookie of a session that "
            "was opened with one, and is answered as far as the hub's rules let its owner read. Only approvals, "
            "denials and cleared gates change anything on the hub."
        ),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.router.routes.extend(_build_endpoints())
    handle_problems(app)
    app.openapi = build_document  # type: ignore[method-assign]
    return app


@functools.cache
def _build_endpoints() -> tuple[BaseRoute, ...]:
    """All apps have the same, which FastAPI takes apart again where a router is included in each of them."""
    router = APIRouter(default_response_class=Response, generate_unique_id_function=lambda route: route.name)
    for module in _ROUTERS:
        router.include_router(module.router)
    return tuple(router.routes)


@functools.cache
def build_document() -> dict[str, Any]:
    """The OpenAPI document. All apps have the same endpoints, so that one document does for them."""
    document = FastAPI.openapi(create_bare_app())
    _complete(document)
    return document


def _complete(document: dict[str, Any]) -> None:
    """Adds the schemas of the answers, and the authentication."""
    document.setdefault("components", {})
    document["components"]["schemas"] = build_components()
    document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for operations in document["paths"].values():
        for operation in operations.values():
            restore_examples(operation)
            if "401" in operation["responses"]:
                operation["security"] = [{"bearer": []}]
