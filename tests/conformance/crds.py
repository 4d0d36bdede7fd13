"""Fleet's kinds on a hub that does not know them yet."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import yaml

from tests.control_plane.access import Access
from tests.control_plane.cache import locked
from tests.control_plane.failures import NeverReady
from tests.control_plane.http_client import HttpClient
from tests.control_plane.sharing import ROOT

FOLDER: Final = ROOT / "charts" / "fleet" / "files" / "crds"
PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECONDS_TO_SERVE: Final = 90.0
SECONDS_BETWEEN_REFRESHES: Final = 0.05
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""In C it takes a tenth of the time, which is seconds for all definitions."""


def parse_crd(text: str) -> dict[str, Any]:
    crd: dict[str, Any] = yaml.load(text, Loader=_LOADER)
    return crd


def read_crds() -> list[dict[str, Any]]:
    return [parse_crd(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.yaml"))]


def install_crds(access: Access) -> None:
    """Returns when all of them are served, documentation included; several workers may ask at once."""
    with locked(Path(access.kubeconfig).with_name("crds.lock")):
        client = HttpClient(access)
        wanted = read_crds()
        installed = {crd["metadata"]["name"] for crd in client.get(PATH).ok()["items"]}
        for crd in wanted:
            if crd["metadata"]["name"] not in installed:
                client.post(PATH, crd).ok()
        _wait_until_served(client, wanted)


def is_established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()  # null at first
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def _wait_until_served(client: HttpClient, wanted: list[dict[str, Any]]) -> None:
    deadline, unlisted = time.monotonic() + SECONDS_TO_SERVE, _served(wanted)
    while not (_all_listed(client, unlisted) and _all_documented(client, wanted)):
        if time.monotonic() > deadline:
            raise NeverReady(f"Fleet's kinds are not served after {SECONDS_TO_SERVE:.0f} s")
        time.sleep(SECONDS_BETWEEN_REFRESHES)


def _all_documented(client: HttpClient, wanted: list[dict[str, Any]]) -> bool:
    """A server writes of one kind after the other: the first one of a version says nothing of the rest."""
    paths, kinds = client.get("/openapi/v3").ok()["paths"], defaultdict[str, set[str]](set)
    for crd in wanted:
        for version in crd["spec"]["versions"]:
            kinds[f"apis/{crd['spec']['group']}/{version['name']}"].add(crd["spec"]["names"]["kind"])
    return all(path in paths and names <= _described(client, paths[path]) for path, names in kinds.items())


def _described(client: HttpClient, document: dict[str, Any]) -> set[str]:
    """The kinds in a document; none where there is a newer one by now."""
    answer = client.get(document["serverRelativeURL"])
    schemas = answer.json["components"]["schemas"].values() if answer.status == 200 else ()
    return {one["kind"] for schema in schemas for one in schema.get("x-kubernetes-group-version-kind", ())}


def _all_listed(client: HttpClient, unlisted: set[tuple[str, str]]) -> bool:
    """A server may need a moment for each version of each kind before it takes requests. Those it takes are removed."""
    while unlisted and client.get("/{}/{}".format(*min(unlisted))).status == 200:
        unlisted.remove(min(unlisted))
    return not unlisted


def _served(crds: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """The path of each group and version, and the plural of each kind in it."""
    return {
        (f"apis/{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["plural"])
        for crd in crds
        for version in crd["spec"]["versions"]
    }
