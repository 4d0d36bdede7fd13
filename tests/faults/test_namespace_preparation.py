"""A namespace on the hub is there before the binding: through a running controller, in virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.errors import ConfigurationError, Forbidden
from fleet.framework.arguments import RawArgs
from fleet.framework.status import Code
from fleet.kube.api import Request
from fleet.scheduler.attempt_record import AttemptResult
from plugins.acting.namespace_preparation import NamespacePreparation
from tests.e2e.world import NAMESPACES, World
from tests.fake_hub import Refused
from tests.faults.acting import Running, a_document, running
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import virtual

ALL: Final[dict[str, Any]] = {"placementType": "PickAll"}
PREPARED: Final = (
    a_document("    preBind: {enabled: [{name: NamespacePreparation}]}\n")
    + "  pluginConfig: [{name: NamespacePreparation, args: {name: 'side-{cluster}', labels: {team: platform}}}]\n"
)


async def a_fleet(*names: str) -> tuple[HubApi, World]:
    hub = a_hub()
    world = World(hub)
    for name in names:
        await world.join(name)
    return hub, world


def list_creates(hub: HubApi) -> list[str]:
    """Kinds, in order."""
    paths = [request.path for request in hub.requests if request.method == "POST"]
    return [path.rpartition("/")[2] for path in paths if path.endswith(("/namespaces", "bindings"))]


def prebinds(site: Running) -> list[tuple[str, Code]]:
    return [(each.target, each.status.code) for one in site.of("web") for each in one.effects if each.hook == "preBind"]


@virtual
async def test_F3_070_F3_085_namespaces_are_there_before_the_first_binding(tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub")
    await world.create(NAMESPACES, {"metadata": {"name": "side-dub"}})
    hub.requests.clear()
    async with running(hub, tmp_path / "fleet.yaml", PREPARED) as site:
        await world.place("web", ALL)
        await world.soon_on("web", "ams", "dub")
        await asyncio.sleep(1)
        assert prebinds(site) == [("ams", Code.SUCCESS), ("dub", Code.SKIP)]
        assert list_creates(hub) == ["namespaces", "clusterresourcebindings", "clusterresourcebindings"]
        assert (await world.get(NAMESPACES, "side-ams"))["metadata"]["labels"]["team"] == "platform"


@virtual
async def test_F3_070_a_namespace_that_cannot_be_created_binds_nothing_and_says_why(tmp_path: Path) -> None:
    hub, world = await a_fleet("ams")
    refusals = [Refused(Forbidden("namespaces is forbidden"))]

    def refuse(request: Request) -> Refused | None:
        return (
            refusals.pop() if request.method == "POST" and request.path.endswith("/namespaces") and refusals else None
        )

    async with running(hub, tmp_path / "fleet.yaml", PREPARED, fault=refuse) as site:
        await world.place("web", ALL)
        await world.soon_on("web", "ams")
        await asyncio.sleep(1)
        failed, bound = [one for one in site.of("web") if one.effects]
    assert (failed.result, failed.writes) == (AttemptResult.BIND_FAILED, [])
    why = "namespace side-ams could not be created: namespaces is forbidden"
    assert failed.failure == f"NamespacePreparation at preBind of cluster ams: {why}"
    assert bound.result is AttemptResult.DECIDED


def test_a_name_without_its_cluster_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'shared' should be lower-case letters, .* with \{cluster\} in it"):
        NamespacePreparation(RawArgs({"name": "shared"}))


@virtual
async def test_a_name_that_no_namespace_can_have_binds_nothing(tmp_path: Path) -> None:
    hub, world = await a_fleet("c" * 60)
    async with running(hub, tmp_path / "fleet.yaml", PREPARED) as site:
        await world.place("web", ALL)
        await asyncio.sleep(1)
        assert site.of("web")[-1].failure.endswith("cannot be the name of a namespace: use a shorter args.name")
        assert list_creates(hub) == []
