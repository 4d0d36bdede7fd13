"""What the endpoints share, and what each request asks of it: the caller, their rights, and the form of the answer."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

import msgspec
from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from api.auth.access import (
    Access,
    Caller,
    Sight,
    Wish,
    as_operator,
    authenticated,
    on_all_placements,
    on_cluster,
    on_clusters,
    on_placement,
    placements_seen,
    require,
    sees_all_clusters,
    sight_of,
)
from api.http.limits import Budget, Evaluations, Pace
from api.http.problems import not_found, refused, unavailable, unprocessable
from api.live.evaluation import Recollections
from api.live.live import Live, Subject
from api.live.outage import Outage
from fleet.history import History
from fleet.kube.resource import join_key
from fleet.settings import Effective

T = TypeVar("T")

_NOT_CACHED: Final = {"Cache-Control": "private, no-cache", "Vary": "Accept, Authorization"}
NO_NAMESPACE: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Everything the application works with."""

    live: Live
    history: History | None
    access: Access
    effective: Effective
    evaluations: Evaluations
    recollections: Recollections
    streams: Budget
    pace: Pace
    outage: Outage = field(default_factory=Outage)


class Asked:
    """One request by somebody the hub knows."""

    def __init__(self, request: Request, serving: Serving, caller: Caller) -> None:
        self.request = request
        self.serving = serving
        self.caller = caller
        self.live = serving.live

    # --- rights -------------------------------------------------------------------------------------------------------

    async def may(self, wish: Wish) -> bool:
        return await self.serving.access.may(self.caller, wish)

    async def require(self, wish: Wish) -> None:
        await require(self.serving.access, self.caller, wish)

    async def require_operator(self) -> None:
        request = self.request
        await self.require(as_operator(request.method.lower(), request.url.path))

    async def sight(self, also: Iterable[str] = ()) -> Sight:
        """Of the clusters that are there, and of others that are named."""
        return await sight_of(self.serving.access, self.caller, self._clusters_and(also))

    def _clusters_and(self, also: Iterable[str]) -> Iterator[str]:
        """Made only for those who may not see all of them: there may be thousands."""
        yield from self.live.cluster_names()
        yield from also

    async def placements_seen(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of the placements that the caller may read."""
        return await placements_seen(self.serving.access, self.caller, keys)

    async def require_cluster(self, name: str) -> None:
        """Says the same whether the cluster exists or not."""
        if not await self.sees_all_clusters():
            await self.require(on_cluster(name))

    async def require_all_clusters(self) -> None:
        if not await self.sees_all_clusters():
            await self.require(on_clusters("list"))

    async def require_all_placements(self) -> None:
        for namespaced in (False, True):
            await self.require(on_all_placements("list", namespaced=namespaced))

    async def sees_all_clusters(self) -> bool:
        return await sees_all_clusters(self.serving.access, self.caller)

    # --- what is asked about ------------------------------------------------------------------------------------------

    async def readable(self, namespace: str, name: str) -> str:
        """The key of a placement that the caller may read."""
        await self.require(on_placement("get", namespace, name))
        return join_key(namespace, name)

    def subject(self, key: str) -> Subject:
        found = self.live.subject(key)
        if found is None:
            raise not_found(f"placement {key}", "GET /v1/placements lists those that are there")
        return found

    def require_synced(self) -> None:
        """Half of a fleet would give wrong answers."""
        missing = self.live.unsynced()
        if missing:
            raise unavailable(f"not everything was read from the hub yet: {', '.join(missing)}")

    async def remembered(self, ask: Callable[[History], T]) -> T:
        """From the history, which blocks: in a thread."""
        found = await asyncio.to_thread(ask, self.history())
        self.serving.outage.over()
        return found

    def history(self) -> History:
        if self.serving.history is None:
            raise refused(
                503,
                "this process has no history of decisions",
                field="history.url",
                next="start it with --set history.url=URL; what is true now can be asked without a history",
            )
        return self.serving.history

    # --- answering ----------------------------------------------------------------------------------------------------

    @property
    def wants_text(self) -> bool:
        return preferred(self.request.headers.get("accept", ""), "application/json", "text/plain") == "text/plain"

    def answer(
        self,
        value: Any,
        *,
        text: Callable[[], str] | None = None,
        tag: str = "",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Response:
        """`tag` names the state that was answered from; with the form of the answer it becomes the ETag."""
        if text is not None and self.wants_text:
            body, media_type = text().encode(), "text/plain"
        else:
            body, media_type = msgspec.json.encode(value), "application/json"
        headers = {**_NOT_CACHED, **headers}
        if tag:
            headers["ETag"] = etag = _etag(tag, body)
            if _matches(self.request.headers.get("if-none-match", ""), etag):
                return Response(status_code=304, headers=headers)
        return Response(body, media_type=media_type, headers=headers)


async def _asked(request: Request) -> Asked:
    serving: Serving = request.app.state.serving
    caller = await authenticated(serving.access, request.headers.get("authorization"))
    request.state.caller = caller.name
    _check_parameters(request)
    return Asked(request, serving, caller)


AskedBy = Annotated[Asked, Depends(_asked)]


def namespace_of(text: str) -> str:
    """Of a path, where a dash stands for none."""
    return "" if text == NO_NAMESPACE else text


def _check_parameters(request: Request) -> None:
    """A misspelt parameter that is passed over makes the answer a wrong one."""
    operation = request.app.openapi()["paths"][request.scope["route"].path_format][request.method.lower()]
    known = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            takes = f"this endpoint takes {', '.join(known)}" if known else "this endpoint takes none"
            value = request.query_params[name]
            raise unprocessable(name, value, f"there is no parameter {name!r} here", f"leave it out; {takes}")


def preferred(accept: str, *offered: str) -> str:
    """The media type to answer with; the first one where nothing fits, because an answer beats none."""
    best, found = 0.0, offered[0]
    for part in accept.split(","):
        media_range, *parameters = (one.strip() for one in part.split(";"))
        quality = _quality(parameters)
        for one in offered:
            if quality > best and media_range.lower() in (one, f"{one.partition('/')[0]}/*", "*/*"):
                best, found = quality, one
                break
    return found


def _quality(parameters: list[str]) -> float:
    for one in parameters:
        name, _, value = one.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _etag(tag: str, body: bytes) -> str:
    """Begins with the state; what the caller may see of it, and in which form, makes the rest."""
    shown = "".join(one for one in tag if one.isascii() and (one.isalnum() or one in "-._:"))
    return f'"{shown}-{hashlib.blake2b(body, digest_size=6).hexdigest()}"'


def _matches(header: str, etag: str) -> bool:
    tags = [one.strip().removeprefix("W/") for one in header.split(",")]
    return etag in tags or tags == ["*"]
