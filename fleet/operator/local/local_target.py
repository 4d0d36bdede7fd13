"""Local target: the objects of a scheduler are files, and its Deployment is processes of this machine."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import structlog

from fleet.clock import Clock
from fleet.errors import ConfigurationError
from fleet.kube.resource import Resource
from fleet.operator.configuration import KEY
from fleet.operator.local.object_files import ObjectFiles
from fleet.operator.local.replica import Launcher, Revision
from fleet.operator.local.supervisor import Supervisor
from fleet.operator.operands import CONFIG_MAPS, DEPLOYMENTS, SERVICES, Json
from fleet.private_files import create_private_directory, create_private_file

log = structlog.get_logger(__name__)

_PROCESSES: Final = "processes"


@contextmanager
def lock_state(folder: Path) -> Iterator[None]:
    """Of one operator at a time."""
    path = folder / "lock"
    try:
        create_private_directory(folder)
        create_private_file(path)
    except OSError as error:
        raise ConfigurationError(f"--state: cannot write to {folder}: {error.strerror}") from error
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(f"--state: another operator uses {folder}; stop it, or name another") from error
        yield


class LocalTarget:
    """Processes run from the first reconcile on, and as long as it is open."""

    has_nodes = False

    def __init__(self, folder: Path, launcher: Launcher, *, clock: Clock) -> None:
        self._folder = folder
        self._files = ObjectFiles(folder / "objects")
        self._supervisor = Supervisor(folder / _PROCESSES, launcher, clock=clock, on_change=self._handle_change)
        self._on_change: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def open(self, on_change: Callable[[], None]) -> AsyncIterator[None]:
        self._on_change = on_change
        shutil.rmtree(self._folder / _PROCESSES, ignore_errors=True)
        try:
            yield
        finally:
            self._on_change = lambda: None
            await self._supervisor.close()

    def find(self, resource: Resource) -> Json | None:
        return self._files.find(resource)

    async def create(self, resource: Resource, document: Json) -> None:
        self._files.write(resource, document)
        if resource is DEPLOYMENTS:
            self._follow_deployment()

    async def apply(self, resource: Resource, document: Json) -> None:
        await self.create(resource, document)

    async def delete(self, resource: Resource) -> None:
        self._files.delete(resource)
        self._follow_deployment()

    async def collect(self, owner: str) -> None:
        for resource, document in self._files:
            if owner not in (reference["uid"] for reference in document["metadata"]["ownerReferences"]):
                self._files.delete(resource)
        self._follow_deployment()

    def _follow_deployment(self) -> None:
        deployment, copy = self._files.find(DEPLOYMENTS), self._files.find(CONFIG_MAPS)
        if deployment is None or copy is None:
            self._supervisor.set_wanted(None, 0)
        else:
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            revision = Revision(container["image"], tuple(container["args"]), copy["data"][KEY])
            self._supervisor.set_wanted(revision, deployment["spec"]["replicas"])
        self._handle_change()

    def _handle_change(self) -> None:
        try:
            self._write_statuses()
        except OSError as error:  # the processes are looked after all the same
            log.warning("the status of the local target was not written", error=str(error))

    def _write_statuses(self) -> None:
        deployment = self._files.find(DEPLOYMENTS)
        if deployment is None:
            return
        status = self._supervisor.build_status(deployment["metadata"]["generation"])
        addresses = self._supervisor.list_addresses()
        ingress = [{"ip": host, "ports": [{"port": port, "protocol": "TCP"}]} for host, port in addresses]
        self._files.write_status(SERVICES, {"loadBalancer": {"ingress": ingress}})
        if self._files.write_status(DEPLOYMENTS, status):
            asyncio.get_running_loop().call_soon(self._on_change)
