"""The rights of one caller: checks that refuse a request, and the clusters and placements that are visible to them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, Self

from api.auth.access import (
    AccessRequest,
    Caller,
    CallerAuthorizer,
    all_placements_access,
    cluster_access,
    clusters_access,
    placement_access,
)
from api.http.problems import refusal
from fleet.kube.grants import EDITOR, METRICS, OPERATOR, VIEWER, format_grant
from fleet.kube.scopes import parse_key

_CONCURRENT_REVIEWS: Final = 32
_FEW_NAMES: Final = 16
"""They are reviewed at once."""
_LONGEST_TOKEN: Final = 16_384
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="fleet"'}


@dataclass(frozen=True, slots=True)
class Visibility:
    """The clusters whose names a caller may see. None: all clusters."""

    names: frozenset[str] | None

    def hides(self, cluster: str) -> bool:
        return self.names is not None and cluster not in self.names

    @property
    def is_whole(self) -> bool:
        return self.names is None

    @property
    def digest(self) -> bytes:
        """Equal for equal clusters; empty for all."""
        if self.names is None:
            return b""
        return hashlib.blake2b("\n".join(sorted(self.names)).encode(), digest_size=16).digest()

    @property
    def redact(self) -> Callable[[str], bool] | None:
        """The form in which explanations take it."""
        return None if self.is_whole else self.hides


class Permissions:
    def __init__(
        self,
        authorizer: CallerAuthorizer,
        caller: Caller,
        authorization: str | None = None,
        *,
        holds: Callable[[], bool] | None = None,
    ) -> None:
        """`authorization` is the header that `renew` authenticates again; None: the hub authenticated the caller.
        `holds`: whether the caller is still signed in."""
        self._authorizer = authorizer
        self._authorization = authorization
        self._holds = holds
        self.caller = caller

    @classmethod
    async def authenticate(
        cls,
        authorizer: CallerAuthorizer,
        authorization: str | None,
        *,
        holds: Callable[[], bool] | None = None,
    ) -> Self:
        """Refuses a request without a valid bearer token."""
        return cls(authorizer, await _authenticate(authorizer, authorization), authorization or "", holds=holds)

    @classmethod
    def through_hub(cls, authorizer: CallerAuthorizer, caller: Caller | None) -> Self:
        """For a request that came through the hub's aggregation layer. Refuses one that names no caller."""
        if caller is None:
            raise refusal(
                401,
                "the client certificate is not that of the hub's front proxy, or the request names no user",
                next="leave the certificate out and send a bearer token, or ask through the hub's API server",
            )
        return cls(authorizer, caller)

    async def renew(self) -> None:
        """For streams: tokens expire while they are open. Callers of the hub are authenticated when they reconnect, as
        for its own watches."""
        if self._holds is not None and not self._holds():
            raise refusal(401, "the session has ended", field="Cookie", next="sign in again")
        if self._authorization is not None:
            self.caller = await _authenticate(self._authorizer, self._authorization)

    async def allow(self, request: AccessRequest) -> bool:
        return await self._authorizer.is_allowed(self.caller, request)

    async def require(self, request: AccessRequest) -> None:
        if not await self.allow(request):
            parts, role = (request.resource, request.namespace, request.name), _find_role(request)
            command = format_grant(role, self.caller.name, namespace=request.namespace)
            raise refusal(
                403,
                f"{self.caller.name} may not {request}",
                object=request.path or "/".join(filter(None, parts)),
                next=f"ask an administrator of the hub for the right to {request}; the chart's role {role} has it: "
                f"`{command}`",
            )

    async def see_all_clusters(self) -> bool:
        for verb in ("list", "get"):
            if await self.allow(clusters_access(verb)):
                return True
        return False

    async def require_all_clusters(self) -> None:
        if not await self.see_all_clusters():
            await self.require(clusters_access("list"))

    async def require_clusters(self, names: Iterable[str]) -> None:
        """The same refusal whether a cluster exists or not, also for names of clusters to be added: any difference
        would reveal which ones exist."""
        if await self.see_all_clusters():
            return
        for name in names:
            await self.require(cluster_access(name))

    async def require_all_placements(self) -> None:
        for namespaced in (False, True):
            await self.require(all_placements_access("list", namespaced=namespaced))

    async def load_visibility(self, *names: Iterable[str]) -> Visibility:
        """One review for callers who may read all clusters, else one for each cluster that a rule names, or for each.
        `names` are read only then."""
        if await self.see_all_clusters():
            return Visibility(None)
        return Visibility(await self._filter_clusters(set(chain(*names))))

    async def extend_visibility(
        self, visibility: Visibility, reviewed: Collection[str], *names: Iterable[str]
    ) -> Visibility:
        """With names that turned up after those that were `reviewed`."""
        if visibility.names is None:
            return visibility
        return Visibility(visibility.names | await self._filter_clusters(set(chain(*names)).difference(reviewed)))

    async def filter_placements(self, keys: Iterable[str]) -> frozenset[str]:
        """Those that the caller may read. One review where they may read all, or all of a namespace."""
        identities = {key: parse_key(key) for key in keys}
        namespaces = {namespace: placement_access("get", namespace) for namespace, _ in identities.values()}
        whole = await self._filter_allowed(namespaces)
        single = {
            key: placement_access("get", *identity) for key, identity in identities.items() if identity[0] not in whole
        }
        return frozenset(identities.keys() - single.keys()) | await self._filter_allowed(single)

    async def _filter_clusters(self, names: Collection[str]) -> frozenset[str]:
        """A rule decides only which names need no review (docs/adr/0027-reviews-of-the-names-in-rules.md)."""
        granted = None
        if len(names) > _FEW_NAMES and self._authorization:
            token = _read_token(self._authorization)
            granted = await self._authorizer.list_granted_names(self.caller, token, cluster_access(""))
        reviewed = names if granted is None else granted.intersection(names)
        return await self._filter_allowed({name: cluster_access(name) for name in reviewed})

    async def _filter_allowed(self, requests: Mapping[str, AccessRequest]) -> frozenset[str]:
        """The names of the requests that are granted. Raises if one cannot be reviewed."""
        slots = asyncio.Semaphore(_CONCURRENT_REVIEWS)

        async def review(request: AccessRequest) -> bool:
            async with slots:
                return await self.allow(request)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = {name: group.create_task(review(request)) for name, request in requests.items()}
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures  # they have one cause, and callers handle that error
        return frozenset(name for name, task in tasks.items() if task.result())


def _find_role(request: AccessRequest) -> str:
    """The role of the chart that has this right."""
    if request.path:
        return METRICS if request.path == "/metrics" else OPERATOR
    if request.verb == "approve":
        return OPERATOR
    return EDITOR if request.verb in ("create", "update") else VIEWER


def _read_token(authorization: str) -> str:
    """Empty without one."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _authenticate(authorizer: CallerAuthorizer, authorization: str | None) -> Caller:
    token = _read_token(authorization or "")
    if not token:
        raise refusal(
            401,
            "the request carries no bearer token",
            headers=_CHALLENGE,
            field="Authorization",
            next="send the header Authorization: Bearer TOKEN with a token the hub accepts",
        )
    caller = await authorizer.authenticate(token) if len(token) <= _LONGEST_TOKEN else None
    if caller is None:
        raise refusal(
            401,
            "the hub does not accept this token",
            headers=_CHALLENGE,
            field="Authorization",
            next="get a new token from an administrator of the hub",
        )
    return caller
