"""`fleet apply`: server-side apply of files, each document checked first and told about on its own."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.cli.client.hub_access import HubOptions, connected
from fleet.cli.commands.why import FINE
from fleet.cli.input.documents import Parsed, parse
from fleet.cli.input.files import read_texts
from fleet.cli.input.objects import flattened, read_objects
from fleet.cli.input.problems import Findings
from fleet.errors import ApiError, Conflict, FleetError, NotFound, Unauthorized, Unreachable
from fleet.kube.api import WRITE_CLASS, Api, Method, Request
from fleet.kube.resource import Resource
from fleet.model.decoding import describe_document

APPLY_PATCH: Final = "application/apply-patch+yaml"
FIELD_MANAGER: Final = "fleet-apply"
BAD_INPUT: Final = 2
_REQUEST: Final = re.compile(r"^[A-Z]+ /\S*: ")
_FIRST: Final = ("Namespace", "CustomResourceDefinition")
"""What other documents need to be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """As they stand on the command line."""

    files: Sequence[str]
    namespace: str = "default"
    force: bool = False
    dry_run: bool = False
    hub: HubOptions = field(default_factory=HubOptions)


def run_apply(options: ApplyOptions) -> int:
    """The exit code. A document that is wrong in itself keeps all others from being applied, too."""
    findings = Findings()
    documents = _documents(options.files, findings)
    if not documents and not findings.problems:
        findings.complain("there is nothing to apply: the files hold no object")
    if findings.problems:
        _tell(findings)
        sys.stderr.write("nothing was applied\n")
        return BAD_INPUT
    asyncio.run(_apply_all(documents, options, findings))
    _tell(findings)
    return BAD_INPUT if findings.problems else FINE


def _documents(files: Sequence[str], findings: Findings) -> list[Parsed]:
    parsed = [one for text in read_texts(files, findings) for one in parse(text, findings)]
    read_objects(parsed, findings)  # Fleet's own kinds are checked against their models
    documents = [item for one in parsed for item in flattened(one, Findings())]
    for one in documents:
        _check_named(one, findings)
    return sorted(documents, key=_rank)


def _check_named(document: Parsed, findings: Findings) -> None:
    content = document.content
    metadata = content.get("metadata")
    if any(one.place == document.place for one in findings.problems):
        return
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        findings.wrong(document.place, "metadata.name: is required", subject=describe_document(content))


def _rank(document: Parsed) -> int:
    kind = document.content.get("kind")
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


# --- applying -------------------------------------------------------------------------------------------------------


async def _apply_all(documents: Iterable[Parsed], options: ApplyOptions, findings: Findings) -> None:
    async with connected(options.hub) as api:
        kinds = Kinds(api)
        for one in documents:
            try:
                key = await _apply(api, kinds, one, options)
            except (Unreachable, Unauthorized):
                raise  # it would be the same with every other
            except FleetError as error:
                findings.wrong(one.place, _told(error), subject=describe_document(one.content))
            else:
                done = "would be applied" if options.dry_run else "applied"
                sys.stdout.write(f"{one.content['kind']} {key} {done}\n")
                sys.stdout.flush()


async def _apply(api: Api, kinds: Kinds, document: Parsed, options: ApplyOptions) -> str:
    content: dict[str, Any] = document.content
    resource = await kinds.of(content["apiVersion"], content["kind"])
    metadata = content["metadata"]
    if resource.namespaced:
        metadata = {"namespace": options.namespace, **metadata}
    key = f"{metadata['namespace']}/{metadata['name']}" if resource.namespaced else str(metadata["name"])
    query = [("fieldManager", FIELD_MANAGER), ("force", str(options.force).lower()), ("fieldValidation", "Strict")]
    if options.dry_run:
        query.append(("dryRun", "All"))
    body = json.dumps({**content, "metadata": metadata}).encode()
    await api.call(
        Request(
            Method.PATCH,
            resource.item(key),
            query=tuple(query),
            body=body,
            content_type=APPLY_PATCH,
            call_class=WRITE_CLASS,
        )
    )
    return key


class Kinds:
    """Where the hub keeps which kind, as far as it was asked."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, dict[str, Resource]] = {}

    async def of(self, api_version: str, kind: str) -> Resource:
        if api_version not in self._known:
            self._known[api_version] = await self._read(api_version)
        found = self._known[api_version].get(kind)
        if found is None:
            del self._known[api_version]  # a definition applied next may bring it
            raise NotFound(f"the hub has no kind {kind} in {api_version}")
        return found

    async def _read(self, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        root = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            found = json.loads(await self._api.call(Request(Method.GET, root)))
        except NotFound:
            return {}
        return {
            one["kind"]: Resource(group, version, one["name"], one["kind"], namespaced=one["namespaced"])
            for one in found["resources"]
            if "/" not in one["name"]
        }


# --- telling --------------------------------------------------------------------------------------------------------


def _told(error: FleetError) -> str:
    """What the hub says, without the request; every cause of its own where it names them."""
    if not isinstance(error, ApiError) or not error.causes:
        return _REQUEST.sub("", str(error))
    causes = [f"{one.field}: {one.message}" if one.field else one.message for one in error.causes]
    if isinstance(error, Conflict):
        causes.append("--force-conflicts takes these fields over")
    return "; ".join(causes)


def _tell(findings: Findings) -> None:
    for problem in findings.in_order():
        sys.stderr.write(f"error: {problem}\n")
