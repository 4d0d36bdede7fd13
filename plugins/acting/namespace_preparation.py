"""A namespace on the hub is there before the binding: for what is to lie beside the work of a cluster.

Written as a plugin of a package of one's own would be: it uses the handle, the API client and nothing else of Fleet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fleet.errors import AlreadyExists, ApiError, ConfigurationError, NotFound
from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.operations import Target
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.framework.types import PluginTraits
from fleet.kube.api import Method, Request

NAME: Final = "NamespacePreparation"
_PATH: Final = "/api/v1/namespaces"
_TEMPLATE: Final = re.compile(r"[a-z0-9-]*\{cluster\}[a-z0-9-]*")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class NamespacePreparationArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "prepared-{cluster}"
    labels: Mapping[str, str] = MappingProxyType({})


class NamespacePreparation(PluginTraits):
    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        args = decode_into(raw, NamespacePreparationArgs)
        if not _TEMPLATE.fullmatch(args.name):
            raise ConfigurationError(
                f"{NAME}: name: {args.name!r} should be lower-case letters, digits and dashes, with {{cluster}} in it"
            )
        self._args, self._handle = args, handle

    def name(self) -> str:
        return NAME

    async def pre_bind_preflight(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None:
        """Where it is there already, there is nothing to do, and the attempt is not slower for it."""
        try:
            await self._call(Request(Method.GET, f"{_PATH}/{self._name_for(target)}"))
        except NotFound:
            return None
        return Status.new(Code.SKIP)

    async def pre_bind(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None:
        name = self._name_for(target)
        if not _NAMESPACE.fullmatch(name):
            return Status.new(Code.UNSCHEDULABLE, f"{name} cannot be the name of a namespace: use a shorter args.name")
        document = {"metadata": {"name": name, "labels": dict(self._args.labels)}}
        try:
            await self._call(Request(Method.POST, _PATH, body=msgspec.json.encode(document)))
        except AlreadyExists:
            return None
        except ApiError as error:
            return Status.new(Code.UNSCHEDULABLE, f"namespace {name} could not be created: {error}")
        return None

    def _name_for(self, target: Target) -> str:
        return self._args.name.format(cluster=target.cluster)

    async def _call(self, request: Request) -> Any:
        assert self._handle is not None, "hooks that act run with a handle"
        return await self._handle.hub().call(request)
