"""`fleet operator run` as a process: a scheduler is rolled out, and the operator ends when asked."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from typing import Any, Final

from fleet.operator.operands import CONFIG_MAPS, DEPLOYMENTS, MANAGED, NAME, SECONDARY_SCHEDULERS, get_operand_name
from tests.e2e.hub import Hub, soon
from tests.e2e.test_controller_document import FLEET
from tests.e2e.world import NAMESPACES, World
from tests.faults.configured import HEAD

PLACE: Final = "second"
IMAGE: Final = "registry.example/fleet/scheduler:v0.1.6"
QUIET: Final = ("--set=metrics.address=off", "--set=health.address=off")


def test_O_01_the_process_rolls_out_what_the_resource_names(hub: Hub) -> None:
    async def story() -> str:
        async with hub.connected() as transport:
            world = World(transport)
            if await world.find(NAMESPACES, PLACE) is None:
                await world.create(NAMESPACES, {"metadata": {"name": PLACE}})
            data = {"config.yaml": f"{HEAD}profiles:\n- schedulerName: packed\n"}
            named = {"name": "load-aware", "namespace": PLACE}
            await world.create(CONFIG_MAPS, {"metadata": named, "data": data})
            spec = {"schedulerConfig": "load-aware", "schedulerImage": IMAGE}
            owner = {"name": "cluster", "namespace": PLACE}
            await world.create(SECONDARY_SCHEDULERS, {"metadata": owner, "spec": spec})
            command = [*FLEET, "operator", "run", f"--namespace={PLACE}", f"--kubeconfig={hub.access.kubeconfig}"]
            with subprocess.Popen([*command, *QUIET], stderr=subprocess.PIPE, text=True) as process:
                try:
                    deployment = await soon(lambda: world.find(DEPLOYMENTS, f"{PLACE}/{NAME}"))
                    await soon(lambda: find_condition(world, "ConfigValid"))
                finally:
                    process.send_signal(signal.SIGTERM)
                    _, written = await asyncio.to_thread(process.communicate, timeout=90)
                    await clear(world)
            assert process.returncode == 0, written
            return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])

    assert asyncio.run(story()) == IMAGE


async def find_condition(world: World, type: str) -> dict[str, Any] | None:
    owner = await world.get(SECONDARY_SCHEDULERS, f"{PLACE}/cluster")
    conditions = owner.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == type and each["status"] == "True"), None)


async def clear(world: World) -> None:
    """The hub is shared, and one without controllers leaves what belonged to the resource."""
    keys = [(SECONDARY_SCHEDULERS, "cluster"), (CONFIG_MAPS, "load-aware")]
    for resource, name in [*keys, *((item, get_operand_name(item)) for item in MANAGED)]:
        if await world.find(resource, f"{PLACE}/{name}") is not None:
            await world.delete(resource, f"{PLACE}/{name}")
