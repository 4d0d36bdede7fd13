"""The API as a part of the hub's own: the same endpoints below `/apis/explain.fleet`, for the aggregation layer.

The API server proxies that prefix, and asks for the list of resources to see whether this API is available. The list is
empty, because these are answers and not objects: nothing is to be listed, collected or deleted with a namespace.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fleet.kube.grants import EXPLAIN_GROUP

PREFIX: Final = f"/apis/{EXPLAIN_GROUP}"
_VERSION: Final = f"{PREFIX}/v1"
_RESOURCES: Final = msgspec.json.encode(
    {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": _VERSION.removeprefix("/apis/"),
        "resources": [],
    }
)
_NO_SCHEMA: Final = {
    "/openapi/v2": msgspec.json.encode({"swagger": "2.0", "info": {"title": "Fleet", "version": "v1"}, "paths": {}}),
    "/openapi/v3": msgspec.json.encode({"paths": {}}),
}
"""Without an answer the API server would go on asking, and log an error each time."""
_LONG_RUNNING: Final = "watch"
"""The parameter that keeps the API server from ending a stream after a minute."""
_DOCUMENTS: Final = {_VERSION: _RESOURCES, **_NO_SCHEMA}


class Aggregation:
    """Middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        document = _DOCUMENTS.get(scope["path"]) if scope["type"] == "http" else None
        if document is not None:
            await Response(document, media_type="application/json")(scope, receive, send)
        elif scope["type"] == "http" and scope["path"].startswith(f"{PREFIX}/"):
            await self._app(_strip(scope), receive, send)
        else:
            await self._app(scope, receive, send)


def _strip(scope: Scope) -> Scope:
    query = parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
    stripped = {
        "path": scope["path"].removeprefix(PREFIX),
        "raw_path": scope["raw_path"].removeprefix(PREFIX.encode()),
    }
    if any(name == _LONG_RUNNING for name, _ in query):
        left = [(name, value) for name, value in query if name != _LONG_RUNNING]
        stripped["query_string"] = urlencode(left).encode("ascii")
    return {**scope, **stripped}
