"""`fleet apply`: server-side apply of files. Each document is validated first and reported separately."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.cli.client.hub_access import HubOptions, connect_to_hub
from fleet.cli.commands.apply_remarks import PLACEMENTS, list_apply_remarks
from fleet.cli.commands.why import SUCCESS
from fleet.cli.input.documents import ParsedDocument, parse_documents
from fleet.cli.input.files import read_texts
from fleet.cli.input.objects import InputObject, expand_lists, read_objects
from fleet.cli.input.problems import Findings
from fleet.cli.output.failures import strip_request
from fleet.errors import ApiError, Conflict, FleetError, NotFound, Unauthorized, Unreachable
from fleet.kube.api import WRITE_CLASS, Api, Method, Request
from fleet.kube.resource import Resource
from fleet.model.decoding import describe_document

APPLY_PATCH: Final = "application/apply-patch+yaml"
FIELD_MANAGER: Final = "fleet-apply"
BAD_INPUT: Final = 2
_FIRST: Final = ("Namespace", "CustomResourceDefinition")
"""Kinds that other documents depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """The options of the command line."""

    files: Sequence[str]
    namespace: str = "default"
    force: bool = False
    dry_run: bool = False
    hub: HubOptions = field(default_factory=HubOptions)


def run_apply(options: ApplyOptions) -> int:
    """Returns the exit code. One invalid document prevents all others from being applied."""
    findings = Findings()
    documents, placements = _load_documents(options.files, findings)
    if not documents and not findings.problems:
        findings.add("nothing to apply: the files contain no object")
    if findings.problems:
        _print_problems(findings)
        sys.stderr.write("nothing was applied\n")
        return BAD_INPUT
    asyncio.run(_apply_all(documents, placements, options, findings))
    _print_problems(findings)
    return BAD_INPUT if findings.problems else SUCCESS


def _load_documents(files: Sequence[str], findings: Findings) -> tuple[list[ParsedDocument], list[InputObject]]:
    """All documents, and the placements among them."""
    parsed = [document for text in read_texts(files, findings) for document in parse_documents(text, findings)]
    own = read_objects(parsed, findings)  # Fleet's own kinds are checked against their models
    documents = [item for document in parsed for item in expand_lists(document, Findings())]
    for document in documents:
        _check_named(document, findings)
    return sorted(documents, key=_rank), [item for item in own if item.kind in PLACEMENTS]


def _check_named(document: ParsedDocument, findings: Findings) -> None:
    content = document.content
    metadata = content.get("metadata")
    if any(problem.place == document.place for problem in findings.problems):
        return
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        findings.report(document.place, "metadata.name: is required", subject=describe_document(content))


def _rank(document: ParsedDocument) -> int:
    kind = document.content.get("kind")
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


# --- applying -------------------------------------------------------------------------------------------------------


async def _apply_all(
    documents: Sequence[ParsedDocument], placements: Sequence[InputObject], options: ApplyOptions, findings: Findings
) -> None:
    async with connect_to_hub(options.hub) as api:
        kinds = KindResolver(api)
        for document in documents:
            try:
                key = await apply_document(api, kinds, document, options)
            except (Unreachable, Unauthorized):
                raise  # every other document would fail alike
            except FleetError as error:
                findings.report(document.place, _describe_failure(error), subject=describe_document(document.content))
            else:
                done = "would be applied" if options.dry_run else "applied"
                sys.stdout.write(f"{document.content['kind']} {key} {done}\n")
                sys.stdout.flush()
        applied = {(document.content["kind"], document.content["metadata"]["name"]) for document in documents}
        for line in await list_apply_remarks(api, kinds.find, placements, applied):
            sys.stderr.write(f"note: {line}\n")


async def apply_document(api: Api, kinds: KindResolver, document: ParsedDocument, options: ApplyOptions) -> str:
    """Returns the key of the object."""
    content: dict[str, Any] = document.content
    resource = await kinds.find(content["apiVersion"], content["kind"])
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


class KindResolver:
    """Resources of the hub by kind, discovered on demand."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, dict[str, Resource]] = {}

    async def find(self, api_version: str, kind: str) -> Resource:
        if api_version not in self._known:
            self._known[api_version] = await self._discover(api_version)
        resource = self._known[api_version].get(kind)
        if resource is None:
            del self._known[api_version]  # the next document may be its definition
            raise NotFound(f"the hub has no kind {kind} in {api_version}")
        return resource

    async def _discover(self, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        root = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            resources = json.loads(await self._api.call(Request(Method.GET, root)))
        except NotFound:
            return {}
        return {
            item["kind"]: Resource(group, version, item["name"], item["kind"], namespaced=item["namespaced"])
            for item in resources["resources"]
            if "/" not in item["name"]
        }


# --- errors ---------------------------------------------------------------------------------------------------------


def _describe_failure(error: FleetError) -> str:
    """The error message of the hub without the request; all causes, if it lists them."""
    if not isinstance(error, ApiError) or not error.causes:
        return strip_request(str(error))
    causes = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes]
    if isinstance(error, Conflict):
        causes.append("use --force-conflicts to take over these fields")
    return "; ".join(causes)


def _print_problems(findings: Findings) -> None:
    for problem in findings.in_order():
        sys.stderr.write(f"error: {problem}\n")
