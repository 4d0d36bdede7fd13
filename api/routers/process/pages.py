"""The pages for browsers: the decision explorer under `/ui/`, and the description of the API at `/docs`.

Files need no authentication: they are the same for every caller, and what they show is asked for with the caller's own
rights.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from api.http.page_files import INDEX, SECURITY_HEADERS, PageFiles
from api.http.problems import refusal

router = APIRouter(include_in_schema=False)

UI: Final = "/ui/"
_DOCS: Final = "docs.html"
_PAGES: Final = frozenset({"clusters", "fleet", "groups", "placements", "signin", "why"})
"""First parts of paths that the explorer itself reads: all of them are served its one page."""
_GET: Final = ["GET", "HEAD"]
_FILES: Final = PageFiles.load()


@router.api_route("/", methods=_GET)
async def lead_to_explorer(request: Request) -> Response:
    """For browsers only: other clients are better served by a 404."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(UI, status_code=307, headers=SECURITY_HEADERS)
    raise _not_found(request)


@router.api_route("/ui", methods=_GET)
async def add_slash() -> Response:
    return RedirectResponse(UI, status_code=308, headers=SECURITY_HEADERS)


@router.api_route("/docs", methods=_GET)
async def get_docs(request: Request) -> Response:
    return respond(request, _DOCS)


@router.api_route("/ui/{path:path}", methods=_GET)
async def get_page_file(request: Request, path: str) -> Response:
    is_page = not path or (path not in _FILES and path.partition("/")[0] in _PAGES)
    return respond(request, INDEX if is_page else path)


def respond(request: Request, path: str) -> Response:
    response = _FILES.respond(path, if_none_match=request.headers.get("if-none-match", ""))
    if response is None:
        raise _not_found(request)
    return response


def _not_found(request: Request) -> Exception:
    path = request.url.path
    return refusal(404, f"Not Found: {request.method} {path}", object=path, next="the explorer is at /ui/")
