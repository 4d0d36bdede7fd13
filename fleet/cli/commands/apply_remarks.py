"""Remarks of `fleet apply` about placements: names that no cluster has, and selected objects that the hub lacks.

They are a courtesy: a caller who may not list clusters or objects applies without them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Any, Final

import msgspec

from fleet.cli.client.hub_objects import list_documents
from fleet.cli.input.objects import InputObject
from fleet.cli.input.problems import Findings
from fleet.cli.input.simulation_inputs import CLUSTER_PLACEMENT, NAMESPACED_PLACEMENT, build_inputs
from fleet.errors import ApiError, DocumentError, NotFound
from fleet.explain.remarks.remarks import describe_unknown_object, find_remarks
from fleet.kube.api import Api
from fleet.kube.resource import Resource
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.decoding import decode
from fleet.model.views import MemberCluster
from fleet.snapshot.frame import Frame
from fleet.snapshot.table import Table
from plugins.default_profile import compile_default

FindKind = Callable[[str, str], Awaitable[Resource]]
PLACEMENTS: Final = (CLUSTER_PLACEMENT, NAMESPACED_PLACEMENT)


async def list_apply_remarks(
    api: Api, find_kind: FindKind, placements: Collection[InputObject], applied: Collection[tuple[str, str]]
) -> list[str]:
    """One line each. `applied` are kind and name of what comes with the placements, and may not be there yet."""
    try:
        frame = await _load_fleet(api) if placements else None
    except (ApiError, DocumentError):
        frame = None
    lines = []
    for placement in placements:
        messages = [] if frame is None else list(_remark_policy(placement, frame))
        messages += await _remark_selectors(api, find_kind, placement, applied)
        lines += [f"{placement}: {message}" for message in messages]
    return lines


async def _load_fleet(api: Api) -> Frame:
    documents = await list_documents(api, MEMBER_CLUSTERS)
    return Table([decode(msgspec.json.encode(document), MemberCluster).view for document in documents]).freeze()


def _remark_policy(placement: InputObject, frame: Frame) -> Iterator[str]:
    profile = compile_default()
    for inputs in build_inputs([placement], Findings()).placements:
        yield from (remark.message for remark in find_remarks(inputs.request, frame, profile))


async def _remark_selectors(
    api: Api, find_kind: FindKind, placement: InputObject, applied: Collection[tuple[str, str]]
) -> list[str]:
    messages = []
    for position, term in enumerate(placement.parsed.content["spec"].get("resourceSelectors") or ()):
        if (term["kind"], term.get("name")) not in applied:
            try:
                message = await _remark_selector(api, find_kind, placement, term, position)
            except ApiError:
                continue
            messages += [message] if message else []
    return messages


async def _remark_selector(
    api: Api, find_kind: FindKind, placement: InputObject, term: dict[str, Any], position: int
) -> str:
    api_version = f"{term['group']}/{term['version']}" if term["group"] else term["version"]
    try:
        resource = await find_kind(api_version, term["kind"])
    except NotFound as error:
        return f"spec.resourceSelectors[{position}]: {error}"
    if not term.get("name") or (resource.namespaced and not placement.namespace):
        return ""
    documents = await list_documents(api, resource, namespace=placement.namespace if resource.namespaced else "")
    names = {document["metadata"]["name"] for document in documents}
    field = f"spec.resourceSelectors[{position}]"
    return "" if term["name"] in names else describe_unknown_object(field, term["kind"], term["name"], names).message
