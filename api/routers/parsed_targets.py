"""A route whose parameters are parsed once for each target.

To read and check the parameters of a request costs several times what it takes to find an answer that is already in
bytes. They depend on nothing but path and query, so what they were parsed to is kept for the targets asked last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Final

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from api.routers.request_context import build_context

_MOST_TARGETS: Final = 2_048
_LONGEST_TARGET: Final = 512
"""Bytes."""

Endpoint = Callable[..., Awaitable[Response]]


class ParsedTargetRoute(APIRoute):
    """For endpoints whose parameters are all in path and query, but for their `context`."""

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        self._parsed: OrderedDict[tuple[str, bytes], dict[str, Any]] = OrderedDict()
        self._answer = endpoint

        @wraps(endpoint)
        async def keep_arguments(**arguments: Any) -> Response:
            scope = arguments["context"].request.scope
            target = scope["path"], scope["query_string"]
            if sum(map(len, target)) <= _LONGEST_TARGET:
                self._parsed[target] = {name: value for name, value in arguments.items() if name != "context"}
                if len(self._parsed) > _MOST_TARGETS:
                    self._parsed.popitem(last=False)
            return await endpoint(**arguments)

        super().__init__(path, keep_arguments, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        parse_and_answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            target = request.scope["path"], request.scope["query_string"]
            arguments = self._parsed.get(target)
            if arguments is None:
                return await parse_and_answer(request)
            self._parsed.move_to_end(target)
            return await self._answer(context=await build_context(request), **arguments)

        return handle
