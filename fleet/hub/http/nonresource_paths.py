"""Non-resource paths: health, version, discovery and OpenAPI."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

from fleet.hub.discovery import api_groups
from fleet.hub.discovery.openapi import EMPTY_OPENAPI_V2, OpenAPI
from fleet.hub.http.requests import HubRequest
from fleet.hub.http.responses import TEXT, Response, json_response, negotiate, page_not_found
from fleet.hub.kinds.registry import KindRegistry
from fleet.hub.wire import statuses
from fleet.hub.wire.bodies import encode

_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_LISTS: Final = ("APIGroupDiscoveryList",)


class NonResourcePaths:
    def __init__(self, registry: KindRegistry, documents: OpenAPI, *, address: str) -> None:
        self._registry = registry
        self._openapi_documents = documents
        self._address = address

    def handle(self, request: HubRequest) -> Response:
        path = request.path.rstrip("/") or "/"
        if request.method not in ("GET", "HEAD"):
            raise statuses.method_not_allowed()
        if path.startswith(_HEALTH):
            return Response(b"ok", media_type=TEXT)
        parts = path.strip("/").split("/")
        match parts:
            case [""]:
                return json_response(api_groups.build_root_paths(self._registry))
            case ["version"]:
                return json_response(api_groups.VERSION)
            case ["openapi", "v3", *rest]:
                return _with_etag(self._openapi(rest), request.headers.get(b"if-none-match", ""))
            case ["openapi", "v2"] if "protobuf" in request.accept:
                return Response(EMPTY_OPENAPI_V2, media_type=b"application/octet-stream")
            case ["api" | "apis", *_]:
                return self._discover(parts, request.accept)
        return page_not_found()

    def _discover(self, parts: list[str], accept: str) -> Response:
        registry = self._registry
        match parts:
            case ["api" | "apis"]:
                representation = negotiate(accept)
                if representation.form in _LISTS and representation.version in ("v2", "v2beta1"):
                    groups = api_groups.build_aggregated_discovery(
                        registry, core=parts[0] == "api", api=representation.version
                    )
                    media = (
                        f"application/json;g=apidiscovery.k8s.io;v={representation.version};as=APIGroupDiscoveryList"
                    )
                    return Response(encode(groups), media_type=media.encode())
                if parts[0] == "apis":
                    return json_response(api_groups.build_group_list(registry))
                return json_response(api_groups.build_core_versions(self._address))
            case ["api", version] if registry.serves_version("", version):
                return json_response(api_groups.build_resource_list(registry, "", version))
            case ["apis", group]:
                document = api_groups.build_group(registry, group)
                return page_not_found() if document is None else json_response(document)
            case ["apis", group, version] if registry.serves_version(group, version):
                return json_response(api_groups.build_resource_list(registry, group, version))
        return page_not_found()

    def _openapi(self, rest: list[str]) -> Response:
        match rest:
            case []:
                return json_response(self._openapi_documents.index())
            case ["api", version] if self._registry.serves_version("", version):
                return Response(self._openapi_documents.document("", version))
            case ["apis", group, version] if self._registry.serves_version(group, version):
                return Response(self._openapi_documents.document(group, version))
        return page_not_found()


def _with_etag(response: Response, known_tag: str) -> Response:
    """Documents are long and change rarely: a client that has the current one gets 304."""
    if response.code != 200:
        return response
    tag = f'"{hashlib.sha256(response.body).hexdigest()}"'
    headers = [(b"etag", tag.encode())]
    return Response(b"", 304, headers=headers) if known_tag == tag else replace(response, headers=headers)
