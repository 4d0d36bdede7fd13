"""A whole cluster that only pretends to run pods: for tests of what people install, and of who may do what.

Beside the control plane there are the controllers that fill in what Kubernetes does for everybody (service accounts,
deployments, garbage, volumes), a scheduler, and one node whose pods become ready without anything being started. What
pods say and do is left to the tests: they start the programs themselves if they want them.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from tests.control_plane.access import Access
from tests.control_plane.certificates import ClientAuthorities
from tests.control_plane.failures import NeverReady
from tests.control_plane.http_client import HttpClient
from tests.control_plane.instance import LOOPBACK, SECONDS_BETWEEN_REFRESHES, SECONDS_TO_START, ControlPlane, Entry
from tests.control_plane.process import ServerProcess, Startable
from tests.control_plane.waiting import soon

PROGRAMS: Final = ("kube-controller-manager", "kube-scheduler", "kwok", "helm")
"""What a cluster, and what is installed into one, needs beside the usual programs."""

NODE: Final = "pretending"
_NODE: Final = {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}}}
SECONDS_TO_ANSWER: Final = 30
"""After which the API server ends an ordinary request. Half of the usual, for a test that waits for longer."""
_STAGES: Final = Path(__file__).with_name("stages.yaml")
_CONTROLLERS: Final = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)
_AGGREGATED: Final = ("admin", "edit", "view")
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_MADE: Final = [
    f"/api/v1/namespaces/{namespace}/{name}"
    for namespace in _NAMESPACES
    for name in ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
]
SECONDS_TO_CLEAR: Final = 30.0
LOOKS: Final = 20
"""At which nothing may have come back: controllers that have not heard yet make again what they miss."""
_AUDITED: Final = "system:serviceaccounts"
"""The group of all service accounts; everybody else's requests are nobody's business."""


class Cluster(Startable):
    """Owned by whoever started it: `with Cluster(folder, programs=assets(*PROGRAMS)) as cluster: …`."""

    def __init__(self, folder: Path, *, programs: Path) -> None:
        self._folder = folder
        self.audit_log = folder / "audit.log"
        self.authorities = ClientAuthorities(folder / "authorities")
        self.control_plane = ControlPlane(folder, programs=programs, flags=self._api_server_flags())
        self.helpers = [
            ServerProcess(command, log=folder / f"{Path(command[0]).name}.log")
            for command in (self._controller_manager(), self._scheduler(), self._kwok())
        ]
        self._at_start: dict[str, Entry] = {}
        self._kinds_at_start: object = None

    @property
    def access(self) -> Access:
        return self.control_plane.access

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.authorities.write()
        self._audit_policy.write_text(json.dumps(_audit_policy()), encoding="utf-8")
        self.control_plane.start()
        for helper in self.helpers:
            helper.start()
        HttpClient(self.access).post("/api/v1/nodes", _NODE).ok()
        self._wait_until_ready()
        self._at_start, self._kinds_at_start = self.control_plane.stored(), self._kinds()

    def clear(self) -> None:
        """As it was when it started: whatever came is gone, finalizers or not, and what was changed is as it was."""
        for helper in self.helpers:
            assert helper.is_running, helper.last_words()
        quiet = 0

        def is_cleared() -> bool:
            nonlocal quiet
            is_same = self.control_plane.restore(self._at_start) and self._kinds() == self._kinds_at_start
            quiet = quiet + 1 if is_same else 0
            return quiet == LOOKS

        soon(is_cleared, within=SECONDS_TO_CLEAR)
        os.truncate(self.audit_log, 0)  # the API server appends to it

    def stop(self) -> None:
        for helper in self.helpers:
            helper.kill()  # they keep nothing
        self.control_plane.stop()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._is_ready():
            for helper in self.helpers:
                if not helper.is_running:
                    raise NeverReady(f"{helper.name} ended:\n{helper.last_words()}")
            if time.monotonic() > deadline:
                words = "\n".join(f"{helper.name}:\n{helper.last_words()}" for helper in self.helpers)
                raise NeverReady(f"the cluster is not ready after {SECONDS_TO_START:.0f} s:\n{words}")
            time.sleep(SECONDS_BETWEEN_REFRESHES)

    def _kinds(self) -> object:
        """What the API server says it serves."""
        return HttpClient(self.access).get("/apis", Accept=_DISCOVERY).ok()

    def _is_ready(self) -> bool:
        client = HttpClient(self.access)
        node = client.get(f"/api/v1/nodes/{NODE}").ok()
        ready = {one["type"]: one["status"] for one in node.get("status", {}).get("conditions", ())}.get("Ready")
        return (
            ready == "True"
            and all(client.get(path).status == 200 for path in _MADE)
            and all(client.get(f"{_ROLES}/{name}").ok()["rules"] for name in _AGGREGATED)
        )

    @property
    def _audit_policy(self) -> Path:
        return self._folder / "audit-policy.json"

    def _api_server_flags(self) -> list[str]:
        return [
            f"--audit-policy-file={self._audit_policy}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=10000",  # megabytes: its parts would have other names
            f"--request-timeout={SECONDS_TO_ANSWER}s",
            "--disable-admission-plugins=TaintNodesByCondition",  # nobody would take the taint of a new node away
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",  # as some distributions do
            *self.authorities.flags(),
        ]

    def _controller_manager(self) -> list[str | Path]:
        return [
            self.access.program("kube-controller-manager"),
            *self._alone(),
            f"--controllers={','.join(_CONTROLLERS)}",
            f"--root-ca-file={self.access.ca_file}",
            f"--service-account-private-key-file={self.control_plane.signing_key}",
        ]

    def _scheduler(self) -> list[str | Path]:
        return [self.access.program("kube-scheduler"), *self._alone()]

    def _alone(self) -> list[str]:
        """Nobody competes with it, and no questions it anything."""
        return [
            f"--kubeconfig={self.access.kubeconfig}",
            f"--bind-address={LOOPBACK}",
            "--secure-port=0",
            "--leader-elect=false",
        ]

    def _kwok(self) -> list[str | Path]:
        return [
            self.access.program("kwok"),
            f"--kubeconfig={self.access.kubeconfig}",
            f"--config={_STAGES}",
            "--manage-all-nodes",
            "--node-lease-duration-seconds=0",  # nobody looks whether the node is still there
        ]


class ClearedCluster:
    """One cluster for many tests in a row."""

    def __init__(self, new: Callable[[], Cluster]) -> None:
        self._new = new
        self._running: Cluster | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._running:
            self._running.stop()

    def cleared(self) -> Cluster:
        """The cluster with nothing in it, or another if it cannot be cleared any more."""
        running, self._running = self._running, None
        if running:
            try:
                running.clear()
                self._running = running
            except (AssertionError, OSError, http.client.HTTPException) as failure:
                sys.stderr.write(f"a cluster that was not cleared is replaced: {failure!r}\n")
                running.stop()
        if not self._running:
            self._running = self._new().__enter__()
        return self._running


def _audit_policy() -> Mapping[str, object]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "userGroups": [_AUDITED]}, {"level": "None"}],
    }
