"""The local target of the operator, with scripted processes and under virtual time."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from fleet.errors import ConfigurationError
from fleet.kube.lease import LEASES
from fleet.operator.local.local_target import LocalTarget, lock_state
from fleet.operator.local.python_launcher import render_arguments
from fleet.operator.local.replica import GRACE, SILENT, STARTING, Process, Revision
from fleet.operator.operands import DEPLOYMENTS, NAME, SECONDARY_SCHEDULERS
from tests.faults.test_operator import BROKEN, GOOD, IMAGE, OTHER, OWNER, PLACE, SCHEDULER_KEY, SETTLED, Scene, a_scene
from tests.faults.virtual import VirtualClock, virtual

NEWER: Final = "registry.example/fleet/scheduler:v0.1.7"
BAD: Final = "registry.example/fleet/scheduler:v0.1.8"
"""An image that is never ready."""


class ScriptedProcess:
    def __init__(self, revision: Revision, config: Path, number: int) -> None:
        self.image, self.arguments, self.document = revision.image, revision.arguments, config.read_text("utf-8")
        self.address = ("127.0.0.1", 9000 + number)
        self.signals: list[str] = []
        self.is_stubborn = False
        self.is_waiting = revision.image == BAD
        self.hangs = False
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def runs(self) -> bool:
        return not self._exit.done()

    def end(self, code: int) -> None:
        if self.runs:
            self._exit.set_result(code)

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)

    async def is_ready(self) -> bool:
        return self.runs and not (self.is_waiting or self.hangs)

    async def is_live(self) -> bool:
        return self.runs and not self.hangs

    def terminate(self) -> None:
        self.signals.append("TERM")
        if not self.is_stubborn:
            self.end(0)

    def kill(self) -> None:
        self.signals.append("KILL")
        self.end(-9)


@dataclass
class Machine:
    """Starts processes, and has all that ever ran."""

    processes: list[ScriptedProcess] = field(default_factory=list)
    lacks: str = ""
    """An image that cannot be started."""
    hang_from_the_start: bool = False

    async def start(self, revision: Revision, config: Path) -> Process:
        if revision.image == self.lacks:
            raise FileNotFoundError(2, "No such file or directory", "python")
        self.processes.append(ScriptedProcess(revision, config, len(self.processes)))
        self.processes[-1].hangs = self.hang_from_the_start
        return self.processes[-1]

    @property
    def running(self) -> list[ScriptedProcess]:
        return [process for process in self.processes if process.runs]

    def list_documents(self) -> list[str]:
        return [process.document for process in self.running]


@asynccontextmanager
async def a_local_scene(folder: Path, machine: Machine, document: str = GOOD) -> AsyncIterator[Scene]:
    async with a_scene(target=lambda clock: LocalTarget(folder, machine, clock=clock)) as scene:
        await scene.configure(document)
        await scene.declare()
        yield scene


async def lead(scene: Scene, holder: str = "host_fleet-1") -> None:
    lease = {"metadata": {"name": NAME, "namespace": PLACE}, "spec": {"holderIdentity": holder}}
    await scene.world.create(LEASES, lease)
    await asyncio.sleep(SETTLED)


def read_file(folder: Path, kind: str) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode((folder / "objects" / f"{kind}.json").read_bytes())
    return document


@virtual
async def test_O_13_the_resource_runs_a_process_and_its_status_is_that_of_a_deployment(tmp_path: Path) -> None:
    machine = Machine()
    async with a_scene() as deployed:
        await deployed.configure(GOOD)
        await deployed.declare()
        await deployed.roll_out()
        await lead(deployed)
        expected = await deployed.status()
    async with a_local_scene(tmp_path, machine) as scene:
        (process,) = machine.running
        assert (process.image, process.document) == (IMAGE, GOOD)
        await lead(scene)
        status = await scene.status()
        assert await scene.world.find(DEPLOYMENTS, SCHEDULER_KEY) is None, "the hub has no pods to run"
        assert read_file(tmp_path, "service")["status"]["loadBalancer"]["ingress"][0]["ports"][0]["port"] == 9000
    for each in (*expected["conditions"], *status["conditions"]):
        del each["lastTransitionTime"]
    assert status == expected
    assert machine.running == [], "processes end with the operator"
    assert process.signals == ["TERM"]


@virtual
async def test_O_13_an_edit_starts_a_new_process_and_ends_the_old_one_when_that_is_ready(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine) as scene:
        (old,) = machine.running
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"schedulerImage": BAD}})
        await asyncio.sleep(60)
        assert [process.image for process in machine.running] == [IMAGE, BAD]
        assert (await scene.condition("Progressing"))[:2] == ("True", "RollingOut")
        assert (await scene.status())["readyReplicas"] == 1
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"schedulerImage": NEWER}})
        assert [process.image for process in machine.running] == [NEWER]
        assert old.signals == ["TERM"]
        await scene.edit_config(OTHER)
        assert machine.list_documents() == [OTHER]
        assert (await scene.condition("Progressing"))[0] == "False"


@virtual
async def test_O_13_an_invalid_document_ends_no_process_not_even_when_the_operator_starts_again(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine) as scene:
        await scene.edit_config(BROKEN)
        assert machine.list_documents() == [GOOD]
        assert (await scene.condition("Degraded"))[1] == "InvalidConfiguration"
        owner = await scene.world.get(SECONDARY_SCHEDULERS, OWNER)
        resumed = LocalTarget(tmp_path, machine, clock=scene.clock)
        async with resumed.open(lambda: None):
            await resumed.collect(owner["metadata"]["uid"])
            await asyncio.sleep(SETTLED)
            assert machine.list_documents() == [GOOD, GOOD]
        await scene.edit_config(OTHER)
        assert machine.list_documents() == [OTHER]


@virtual
async def test_O_13_a_process_that_ends_is_started_again_ever_later(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine) as scene:
        begun, loop = [], asyncio.get_running_loop()
        for _ in range(5):
            count, at = len(machine.processes), loop.time()
            machine.running[0].end(-9)
            while len(machine.processes) == count:
                await asyncio.sleep(0.1)
            begun.append(round(loop.time() - at))
        assert begun == [0, 10, 20, 40, 80]
        await asyncio.sleep(SETTLED)
        assert (await scene.status())["readyReplicas"] == 1
        await asyncio.sleep(600)
        machine.running[0].end(1)
        await asyncio.sleep(1)
        assert len(machine.running) == 1, "it ran for long"


@virtual
async def test_O_13_a_process_that_does_not_answer_is_not_ready(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine) as scene:
        await lead(scene)
        assert (await scene.condition("Available"))[0] == "True"
        machine.running[0].is_waiting = True
        await asyncio.sleep(1)
        assert (await scene.condition("Available"))[0] == "True", "one failure says little"
        await asyncio.sleep(SETTLED)
        assert (await scene.condition("Available"))[:2] == ("False", "NoReadyReplica")


@virtual
async def test_O_13_a_process_that_hangs_is_started_anew_ever_later_and_one_that_waits_is_left_alone(
    tmp_path: Path,
) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine) as scene:
        machine.running[0].is_waiting = True
        await asyncio.sleep(600)
        begun, loop = [], asyncio.get_running_loop()
        for _ in range(3):
            (process,) = machine.running
            process.is_stubborn = process.hangs = True
            count, at = len(machine.processes), loop.time()
            while len(machine.processes) == count:
                await asyncio.sleep(0.1)
            assert process.signals == ["TERM", "KILL"]
            begun.append(round(loop.time() - at - SILENT - GRACE, -1))
            await asyncio.sleep(SETTLED)
        assert begun == [0, 10, 20]
        assert (await scene.status())["readyReplicas"] == 1


@virtual
async def test_O_13_a_process_that_never_answers_is_started_anew(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine):
        machine.hang_from_the_start = True
        machine.running[0].end(1)
        await asyncio.sleep(STARTING - 10)
        assert len(machine.processes) == 2
        await asyncio.sleep(20)
        assert machine.processes[1].signals == ["TERM"]


@virtual
async def test_O_13_a_process_is_started_again_where_its_status_cannot_be_written(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path / "state", machine) as scene:
        await lead(scene)
        objects = tmp_path / "state" / "objects"
        shutil.rmtree(objects)
        machine.running[0].end(1)
        await asyncio.sleep(60)
        assert len(machine.running) == 1
        objects.mkdir()
        machine.running[0].end(1)
        await asyncio.sleep(60)
        assert (objects / "deployment.json").exists()


@virtual
async def test_O_13_processes_end_with_the_resource_and_are_killed_after_the_grace_period(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine) as scene:
        (process,) = machine.running
        process.is_stubborn = True
        await scene.world.delete(SECONDARY_SCHEDULERS, OWNER)
        await asyncio.sleep(GRACE - 1)
        assert process.signals == ["TERM"]
        await asyncio.sleep(2)
        assert process.signals == ["TERM", "KILL"]
        assert list((tmp_path / "objects").iterdir()) == []
        assert list((tmp_path / "processes").iterdir()) == []


@virtual
async def test_O_13_a_resource_deleted_while_no_operator_ran_leaves_nothing(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine):
        pass
    started = len(machine.processes)
    async with a_scene(target=lambda clock: LocalTarget(tmp_path, machine, clock=clock)):
        await asyncio.sleep(SETTLED)
        assert list((tmp_path / "objects").iterdir()) == []
    assert len(machine.processes) == started


@virtual
async def test_O_13_states_are_followed(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine) as scene:
        await scene.set_state("Unmanaged")
        await scene.edit_config(OTHER)
        machine.running[0].end(-9)
        await asyncio.sleep(SETTLED)
        assert machine.list_documents() == [GOOD], "as the controller of Deployments would start it again"
        await scene.set_state("Removed")
        assert machine.running == []
        assert (await scene.condition("Available"))[1] == "Removed"
        await scene.set_state("Managed")
        assert machine.list_documents() == [OTHER]


@virtual
async def test_O_13_a_highly_available_scheduler_has_as_many_processes_as_it_may(tmp_path: Path) -> None:
    machine = Machine()
    async with a_local_scene(tmp_path, machine) as scene:
        topology: dict[str, Any] = {"mode": "HighlyAvailable", "highlyAvailableTopology": {"maxReplicas": 2}}
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"topology": topology}})
        assert len(machine.running) == 2
        assert (await scene.status())["readyReplicas"] == 2
        single = {"mode": "SingleReplica", "highlyAvailableTopology": None}
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"topology": single}})
        assert len(machine.running) == 1


@virtual
async def test_O_13_an_image_that_cannot_be_started_leaves_the_old_one(tmp_path: Path) -> None:
    machine = Machine(lacks=NEWER)
    async with a_local_scene(tmp_path, machine) as scene:
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"schedulerImage": NEWER}})
        await asyncio.sleep(700)
        assert [process.image for process in machine.running] == [IMAGE]
        assert (await scene.condition("Degraded"))[1] == "ProgressDeadline"


def test_O_13_the_arguments_are_those_of_a_pod_with_the_file_and_the_address_of_the_process() -> None:
    given = ["controller", "-v=2", "--config=/etc/fleet/config.yaml", "--set=health.address=:8081"]
    rendered = render_arguments([*given, "--set=metrics.address=:8080", "--set=a.b=c"], Path("/x/y.yaml"), "h:1")
    assert list(rendered) == [
        *("controller", "-v=2", "--config=/x/y.yaml"),
        *("--set=health.address=h:1", "--set=metrics.address=h:1", "--set=a.b=c"),
    ]


def test_a_state_folder_has_one_operator(tmp_path: Path) -> None:
    with lock_state(tmp_path), pytest.raises(ConfigurationError) as refusal, lock_state(tmp_path):
        pass
    assert str(refusal.value) == f"--state: another operator uses {tmp_path}; stop it, or name another"
    with lock_state(tmp_path):
        pass


def test_a_file_that_is_no_object_is_named(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "service.json").write_text("{", "utf-8")
    with pytest.raises(ConfigurationError, match=r"service\.json is no JSON object"):
        LocalTarget(tmp_path, Machine(), clock=VirtualClock())
