"""`fleet operator` with the local target: schedulers are processes of this machine, on a hub without pods for them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sysconfig
import venv
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import pytest
import yaml

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import SCHEDULER_NAME
from fleet.operator.local.replica import GRACE, SILENT
from fleet.operator.operands import CONFIG_MAPS, DEPLOYMENTS, NAME, SECONDARY_SCHEDULERS
from tests.control_plane.waiting import SECONDS_TO_HAPPEN
from tests.e2e.hub import Hub, soon
from tests.e2e.test_controller_document import FLEET
from tests.e2e.world import ANYTHING, NAMESPACES, World, world
from tests.faults.configured import HEAD
from tests.installed import write_package

pytestmark = pytest.mark.early

IMAGE: Final = "registry.example/fleet/scheduler:v0.1.6"
CUSTOM: Final = "registry.example/acme/scheduler:v0.1.7"
PAUSE: Final = 0.2
"""Seconds between two looks, which leave the processor to the processes."""
LEASE: Final = "leaderElection: {leaseDuration: 20s, renewDeadline: 16s, retryPeriod: 1s}\n"
BROKEN: Final = f"{HEAD}profiles:\n- schedulerName: packed\n  plugins: {{filter: {{enabled: [{{name: Nonesuch}}]}}}}\n"
PLUGIN: Final = """
from fleet.framework.types import PluginTraits


class Acme(PluginTraits):
    ROW_LOCAL = True

    def __init__(self, raw=None, handle=None):
        pass

    def name(self):
        return "Acme"

    def score(self, ctx, state, req, frame, rows):
        return rows * 0
"""


def write_document(*names: str, **plugins: str) -> str:
    profiles = "".join(f"- schedulerName: {name}\n" for name in names)
    enabled = "".join(f"  plugins: {{{hook}: {{enabled: [{{name: {name}}}]}}}}\n" for hook, name in plugins.items())
    return f"{HEAD}{LEASE}profiles:\n{profiles}{enabled}"


@dataclass
class Secondary:
    """The SecondaryScheduler of a namespace, and the folder of its operator."""

    world: World
    place: str
    folder: Path

    def list_documents(self, document: str) -> list[dict[str, Any]]:
        """As its users write them."""
        named = {"name": "packing", "namespace": self.place}
        spec = {"schedulerConfig": "packing", "schedulerImage": IMAGE}
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.place}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"config.yaml": document}},
            {
                "apiVersion": SECONDARY_SCHEDULERS.api_version,
                "kind": SECONDARY_SCHEDULERS.kind,
                "metadata": {**named, "name": "cluster"},
                "spec": spec,
            },
        ]

    async def declare(self, document: str) -> None:
        for resource, each in zip(
            (NAMESPACES, CONFIG_MAPS, SECONDARY_SCHEDULERS), self.list_documents(document), strict=True
        ):
            if resource is not NAMESPACES or await self.world.find(NAMESPACES, self.place) is None:
                await self.world.create(resource, each)

    async def configure(self, document: str) -> None:
        await self.world.patch(CONFIG_MAPS, f"{self.place}/packing", {"data": {"config.yaml": document}})

    async def edit(self, **spec: Any) -> None:
        await self.world.patch(SECONDARY_SCHEDULERS, f"{self.place}/cluster", {"spec": spec})

    async def soon_condition(self, type: str, status: str) -> None:
        async def look() -> bool:
            owner = await self.world.find(SECONDARY_SCHEDULERS, f"{self.place}/cluster") or {}
            conditions = owner.get("status", {}).get("conditions") or ()
            return any(each["type"] == type and each["status"] == status for each in conditions)

        await soon(look, pause=PAUSE)

    def list_pids(self) -> list[int]:
        """Of processes that run."""
        pids = map(read_pid, (self.folder / "processes").glob("*/pid"))
        return sorted(pid for pid in pids if pid and is_running(pid))

    async def soon_profile(self, name: str) -> dict[str, Any]:
        """As the scheduler describes it."""

        async def look() -> dict[str, Any] | None:
            for address in self.list_addresses():
                with suppress(aiohttp.ClientError):  # it may be about to end
                    async with (
                        aiohttp.ClientSession() as session,
                        session.get(f"{address}/v1/profiles/{name}", ssl=False) as answer,
                    ):
                        if answer.status == 200:
                            return dict(await answer.json())
            return None

        profile: dict[str, Any] = await soon(look, pause=PAUSE)
        return profile

    def list_addresses(self) -> list[str]:
        file = self.folder / "objects" / "service.json"
        service = msgspec.json.decode(file.read_bytes()) if file.exists() else {}
        ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", ())
        return [f"https://{each['ip']}:{each['ports'][0]['port']}" for each in ingress]

    async def clear(self) -> None:
        """The hub is shared."""
        for resource, name in ((SECONDARY_SCHEDULERS, "cluster"), (CONFIG_MAPS, "packing")):
            if await self.world.find(resource, f"{self.place}/{name}") is not None:
                await self.world.delete(resource, f"{self.place}/{name}")


def read_pid(file: Path) -> int:
    """0 if it is being written or removed."""
    try:
        return int(file.read_text("utf-8") or 0)
    except FileNotFoundError:
        return 0


def is_running(pid: int) -> bool:
    """An orphan that has ended may wait to be reaped."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@asynccontextmanager
async def an_operator(
    hub: Hub, scheduler: Secondary, *options: str, variables: Mapping[str, str] | None = None
) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Ended by SIGTERM, and its schedulers with it."""
    verb = "apply" if any(each.startswith("--filename") for each in options) else "run"
    command = [*FLEET, "operator", verb, f"--namespace={scheduler.place}", "--target=local", *options]
    command += [f"--state={scheduler.folder}", f"--kubeconfig={hub.access.kubeconfig}"]
    with subprocess.Popen(command, env=os.environ | dict(variables or {})) as process:
        try:
            yield process
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, timeout=90)
            await scheduler.clear()
            assert scheduler.list_pids() == []


async def place(fleet: World, name: str, scheduler: str) -> None:
    metadata = {"name": name, "annotations": {SCHEDULER_NAME: scheduler}}
    await fleet.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": {"resourceSelectors": [ANYTHING]}})


@pytest.mark.servers  # processes start and end for a minute or more
@pytest.mark.timeout(600, func_only=True)
def test_O_13_two_schedulers_are_processes_edited_broken_killed_and_deleted_apart(hub: Hub, tmp_path: Path) -> None:
    async def story() -> None:
        async with world(hub) as fleet:
            await fleet.join("ams")
            first, second = (Secondary(fleet, place, tmp_path / place) for place in ("second", "third"))
            file = tmp_path / "second.yaml"
            file.write_text(yaml.safe_dump_all(first.list_documents(write_document("packed"))), encoding="utf-8")
            await second.declare(write_document("spread"))
            async with (
                an_operator(hub, first, f"--filename={file}") as operator,
                an_operator(hub, second) as other,
            ):
                for scheduler in (first, second):
                    await scheduler.soon_condition("Available", "True")
                    assert await fleet.find(DEPLOYMENTS, f"{scheduler.place}/{NAME}") is None
                await place(fleet, "web", "packed")
                await place(fleet, "shop", "spread")
                await fleet.soon_on("web", "ams")
                await fleet.soon_on("shop", "ams")

                (before,), (others,) = first.list_pids(), second.list_pids()
                await first.configure(write_document("packed", "tight"))
                await first.soon_profile("tight")
                await soon(lambda: asyncio.sleep(0, not is_running(before)), pause=PAUSE)
                await place(fleet, "later", "tight")
                await fleet.soon_on("later", "ams")

                (edited,) = first.list_pids()
                await first.configure(BROKEN)
                await first.soon_condition("Degraded", "True")
                await place(fleet, "meanwhile", "tight")
                await fleet.soon_on("meanwhile", "ams")
                assert first.list_pids() == [edited]

                os.kill(edited, signal.SIGKILL)
                await soon(lambda: asyncio.sleep(0, first.list_pids() not in ([], [edited])), pause=PAUSE)
                await place(fleet, "again", "tight")
                await fleet.soon_on("again", "ams")
                await first.soon_condition("Available", "True")

                await first.clear()
                objects = first.folder / "objects"
                await soon(lambda: asyncio.sleep(0, not first.list_pids() and not list(objects.iterdir())), pause=PAUSE)
                assert second.list_pids() == [others]
                assert operator.poll() is None

                other.kill()
                await soon(lambda: asyncio.sleep(0, not is_running(others)), pause=PAUSE)

    asyncio.run(story())


@pytest.mark.long
@pytest.mark.timeout(600, func_only=True)
def test_O_13_a_process_that_hangs_is_killed_and_another_one_decides(hub: Hub, tmp_path: Path) -> None:
    async def story() -> None:
        async with world(hub) as fleet:
            await fleet.join("ams")
            scheduler = Secondary(fleet, "second", tmp_path / "second")
            await scheduler.declare(write_document("packed"))
            async with an_operator(hub, scheduler):
                await scheduler.soon_condition("Available", "True")
                (hanging,) = scheduler.list_pids()
                os.kill(hanging, signal.SIGSTOP)
                await scheduler.soon_condition("Available", "False")
                within = SILENT + GRACE + SECONDS_TO_HAPPEN
                await soon(lambda: asyncio.sleep(0, not is_running(hanging)), pause=PAUSE, within=within)
                await place(fleet, "web", "packed")
                await fleet.soon_on("web", "ams")
                await scheduler.soon_condition("Available", "True")

    asyncio.run(story())


@pytest.mark.servers
@pytest.mark.timeout(600, func_only=True)
def test_O_14_another_image_alone_brings_its_own_plugin_to_the_profile(hub: Hub, tmp_path: Path) -> None:
    ours, theirs, environment = (tmp_path / name for name in ("acme", "other/acme", "environment"))
    for folder, version in ((ours, "1.0"), (theirs, "2.0")):
        folder.mkdir(parents=True)
        write_package(folder, PLUGIN, {"Acme": "Acme"}, version=version)
    install_environment(environment, theirs)

    async def story() -> None:
        async with hub.connected() as transport:
            scheduler = Secondary(World(transport), "second", tmp_path / "state")
            await scheduler.declare(write_document("packed", score="Acme"))
            options = {"PYTHONPATH": str(ours)}
            async with an_operator(hub, scheduler, f"--image={CUSTOM}={environment}", variables=options):
                assert (await scheduler.soon_profile("packed"))["packages"] == {"Acme": "plugins_of_acme 1.0"}
                await scheduler.edit(schedulerImage=CUSTOM)

                async def look() -> bool:
                    profile = await scheduler.soon_profile("packed")
                    plugins = [plugin["name"] for plugin in profile["plugins"]["score"]]
                    return "Acme" in plugins and profile["packages"] == {"Acme": "plugins_of_acme 2.0"}

                await soon(look, pause=PAUSE)
                await scheduler.soon_condition("Available", "True")

    asyncio.run(story())


def install_environment(folder: Path, package: Path) -> None:
    """With Fleet of the environment of the tests, and a package of its own."""
    venv.create(folder, symlinks=True)
    installed = sysconfig.get_path("purelib")
    packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    lines = [str(package), f"import site; site.addsitedir({installed!r})"]
    Path(packages, "environment.pth").write_text("\n".join([*lines, ""]), encoding="utf-8")
