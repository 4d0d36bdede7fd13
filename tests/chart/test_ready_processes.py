"""What `helm test` runs tells the truth: its command, carried out against both roles as processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from tests.chart.pods import Container, Machine
from tests.chart.release import Release, install_definitions, make_restricted, provide_volume
from tests.control_plane.cluster import Cluster
from tests.control_plane.http_client import HttpClient
from tests.control_plane.waiting import soon

CONTROLLER: Final = "https://fleet-controller.fleet-system.svc"
API: Final = "fleet-api.fleet-system.svc:443"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/fleet-system/leases"
LEASE: Final = "136224848560.hub.fleet.azure.com"
CLUSTERS: Final = "/apis/cluster.kubernetes-fleet.io/v1/memberclusters"
READY: Final = "all components are ready, and one of the controllers is the leader\n"

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Trial:
    """The container of the test, with the addresses of processes where it has those of Services."""

    release: Release
    controller: Container
    api: Container
    authority: Path

    def run(self, *, within: int) -> subprocess.CompletedProcess[str]:
        (pod,) = (one for one in self.release.hooks() if one["kind"] == "Pod")
        (container,) = pod["spec"]["containers"]
        program, *options = container["args"]
        here = [self._here(one) for one in options if not one.startswith("--within=")]
        command = [sys.executable, *container["command"][1:], program, f"--within={within}", *here]
        return subprocess.run(command, env={}, capture_output=True, text=True, timeout=120, check=False)

    def _here(self, option: str) -> str:
        addresses = {
            f"{CONTROLLER}:8081": f"https://{self.controller.url('health')}",
            f"{CONTROLLER}:8080": f"https://{self.controller.url('metrics')}",
            API: self.api.url("api"),
            "/etc/fleet-tls/ca.crt": str(self.authority),
        }
        for name, address in addresses.items():
            option = option.replace(name, address)
        return option


LONG_LEASE: Final = (
    "--set=settings.leaderElection.leaseDuration=60s",
    "--set=settings.leaderElection.renewDeadline=45s",
)
"""A machine that is busy must not lose it."""


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    release = Release(cluster.access, tmp_path_factory.mktemp("helm"))
    make_restricted(release.hub, release.namespace)
    provide_volume(release.hub, "history")
    install_definitions(release)
    release.install("--set=crds.install=false", "--set=settings.tls.enabled=true", *LONG_LEASE)
    machine = Machine(release, tmp_path_factory.mktemp("machine"))
    migrated = machine.container_of("fleet-controller", name="migrate").run_to_its_end()
    assert migrated.returncode == 0, migrated.stderr
    return machine


@pytest.fixture
def trial(installed: Machine) -> Trial:
    """Nobody runs yet, and nobody has the lease."""
    installed.release.hub.delete(f"{LEASES}/{LEASE}")
    controller, api = (installed.container_of(f"fleet-{part}") for part in ("controller", "api"))
    return Trial(installed.release, controller, api, authority=api.file("/etc/fleet-tls/ca.crt"))


def test_both_roles_are_found_ready(trial: Trial) -> None:
    with trial.controller.running(), trial.api.running():
        done = trial.run(within=60)
    assert (done.returncode, done.stdout) == (0, READY), done.stderr


def test_it_tells_who_is_not_there_and_that_nobody_works(trial: Trial) -> None:
    """The controller itself is ready: it stands by, because somebody else has the lease."""
    spec = {"holderIdentity": "hub-agent", "leaseDurationSeconds": 3600}
    trial.release.hub.post(LEASES, {"metadata": {"name": LEASE}, "spec": spec}).ok()

    with trial.controller.running():
        done = trial.run(within=5)

    idle, absent = sorted(done.stderr.splitlines())
    assert done.returncode == 1
    assert idle.startswith("no controller is the leader: none at https://localhost")
    assert absent.startswith("not ready: https://localhost")


def test_a_certificate_of_somebody_else_is_told(trial: Trial) -> None:
    """The first line of all: the hub's own authority did not sign the certificate of the chart."""
    wrong = replace(trial, authority=trial.release.access.ca_file)

    with trial.controller.running(), trial.api.running():
        done = wrong.run(within=5)

    assert done.returncode == 1
    assert "certificate verify failed" in done.stderr


def test_a_role_that_is_not_ready_says_itself_what_is_missing(trial: Trial) -> None:
    """With the rights of nobody, the controller reads nothing."""
    role = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/fleet-controller"
    binding = trial.release.hub.get(role).ok()
    token = trial.controller.machine.token_of("fleet-controller")
    account = HttpClient(trial.release.access.known_as("fleet-controller", token), user="fleet-controller")
    trial.release.hub.delete(role).ok()
    try:
        soon(lambda: account.get(CLUSTERS).status == 403)  # the hub hears of roles a moment later
        trial.controller.process.start()
        soon(lambda: listens(trial.controller.url("health")))
        done = trial.run(within=5)
    finally:
        trial.controller.process.stop()
        del binding["metadata"]["resourceVersion"], binding["metadata"]["uid"]
        trial.release.hub.post(role.rpartition("/")[0], binding).ok()

    assert done.returncode == 1
    assert "503 [-]caches failed: " in done.stderr


def listens(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=30).close()
    except OSError:
        return False
    return True
