"""A document of kube-scheduler under the operator, as it is: broken, repaired, and packing by loads of a Prometheus.

Address and token of the Prometheus come from the environment. No object of the hub and no file has the token.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.operator.operands import CONFIG_MAPS, SECONDARY_SCHEDULERS
from tests.e2e.hub import Hub, soon
from tests.e2e.test_controller_load import place
from tests.e2e.test_foreign_document import CORES, DOCUMENT, ITEMS, LOADS, QUERY, pack
from tests.e2e.test_operator_local import PAUSE, Secondary, an_operator
from tests.e2e.world import EVENTS, world
from tests.prometheus import RunningPrometheus, a_prometheus

TOKEN: Final = "hush-hush-hush"
COMPAT: Final = DOCUMENT.replace("${PROM_URL}", "${PROM_URL}\n        token: ${PROM_TOKEN}")
BROKEN: Final = COMPAT.replace("targetUtilization", "targetUtilisation")


@pytest.mark.timeout(600, func_only=True)
def test_O_04_O_13_T_01_a_document_of_kube_scheduler_is_broken_repaired_and_packs(hub: Hub, tmp_path: Path) -> None:
    state = tmp_path / "state"

    async def story(prometheus: RunningPrometheus) -> None:
        variables = {"PROM_URL": prometheus.url, "PROM_TOKEN": TOKEN, "SSL_CERT_FILE": str(prometheus.authority)}
        async with world(hub) as fleet:
            for name in LOADS:
                await fleet.join(name)
                usage = {"resourceUsage": {"capacity": {"cpu": str(CORES)}}}
                await fleet.patch(MEMBER_CLUSTERS, name, {"status": usage}, subresource=STATUS)
            scheduler = Secondary(fleet, "second", state)
            await scheduler.declare(COMPAT)
            async with an_operator(hub, scheduler, variables=variables):
                await scheduler.soon_condition("ConfigValid", "False")
                await scheduler.edit(substitution={"fromEnv": list(variables)})
                await scheduler.soon_condition("Available", "True")
                running = scheduler.list_pids()
                await scheduler.configure(BROKEN)
                await scheduler.soon_condition("Degraded", "True")
                assert scheduler.list_pids() == running
                await scheduler.configure(COMPAT)
                await scheduler.soon_condition("Degraded", "False")
                async with asyncio.TaskGroup() as group:
                    for number in range(ITEMS):
                        group.create_task(place(fleet, f"web-{number}", "load-aware"))

                async def count() -> Counter[str]:
                    return Counter(each["spec"]["targetCluster"] for each in await fleet.all(CLUSTER_SCOPED.binding))

                async def is_placed() -> bool:
                    return (await count()).total() == ITEMS

                await soon(is_placed, pause=PAUSE)
                assert await count() == pack()
                shown = [await fleet.all(kind) for kind in (SECONDARY_SCHEDULERS, CONFIG_MAPS, EVENTS)]
                assert "${PROM_TOKEN}" in json.dumps(shown)
                assert TOKEN not in json.dumps(shown)
                files = [Path(folder, name) for folder, _, names in os.walk(state) for name in names]
                assert files
                assert not [file for file in files if TOKEN.encode() in file.read_bytes()]

    with a_prometheus(tmp_path, TOKEN) as prometheus:
        prometheus.vectors[QUERY] = LOADS
        asyncio.run(story(prometheus))
    assert set(prometheus.asked) == {QUERY}
