"""The application: endpoints, what goes around every request, and its OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from starlette.responses import Response

from api.auth.access import Access
from api.http.audit import Audit
from api.http.limits import STREAMS, Budget, Deadlines, Evaluations, Pace
from api.http.problems import handle_problems
from api.http.request_context import Serving
from api.http.schema import components, with_examples
from api.live.evaluation import Recollections
from api.live.live import Live
from api.routers import bindings, clusters, configuration, decisions, groups, health, history, placements, simulate, why
from fleet import __version__
from fleet.history import History
from fleet.scheduler.profiles import build_compiled_profile
from fleet.settings import Effective

_ROUTERS: Final = (why, groups, simulate, history, decisions, placements, clusters, bindings, configuration, health)


def create_app(
    live: Live,
    history: History | None,
    access: Access,
    effective: Effective,
    *,
    shares_loop: bool = False,
    pace: Pace | None = None,
) -> FastAPI:
    """With `shares_loop`, the scheduler is on the same loop: while it has something to do, evaluations hold back."""
    app, pace = bare_app(), pace or Pace()
    app.state.serving = Serving(
        live=live,
        history=history,
        access=access,
        effective=effective,
        evaluations=Evaluations(live.clock, gives_way_to=live.is_scheduling if shares_loop else None),
        recollections=Recollections(build_compiled_profile(effective.settings)),
        streams=Budget(STREAMS, "streams", live.clock, stay=pace.longest),
        pace=pace,
    )
    app.add_middleware(Deadlines)
    app.add_middleware(Audit, clock=live.clock, registry=live.registry)
    return app


def bare_app() -> FastAPI:
    """The endpoints without anything to work with: enough to describe them."""
    app = FastAPI(
        title="Fleet",
        version=__version__,
        summary="Where placements run, and why.",
        description=(
            "Every request but the probes carries a bearer token that the hub accepts, and is answered as far as the "
            "hub's rules let its owner read. Nothing here changes anything."
        ),
        docs_url=None,
        redoc_url=None,
        default_response_class=Response,
        generate_unique_id_function=lambda route: route.name,
        redirect_slashes=False,
    )
    for one in _ROUTERS:
        app.include_router(one.router)
    handle_problems(app)
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    make = app.openapi
    made: list[dict[str, Any]] = []

    def openapi() -> dict[str, Any]:
        if not made:
            made.append(_completed(make()))
        return made[0]

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    """With the schemas of the answers, and how to authenticate."""
    document.setdefault("components", {})
    document["components"]["schemas"] = components()
    document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for operations in document["paths"].values():
        for operation in operations.values():
            with_examples(operation)
            if "401" in operation["responses"]:
                operation["security"] = [{"bearer": []}]
    return document
