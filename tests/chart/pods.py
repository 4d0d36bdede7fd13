"""What a Deployment or Job of the chart would run, as a process on this machine.

The cluster of the tests only pretends to run pods. Here one of their containers is started for real: with its
arguments, its environment and nothing else, its volumes as folders, and a token that the API server issued for its
service account. Only what cannot be the same is different: paths are below a folder of the test, ports are free ones on
the loopback interface, and the API server is named by a kubeconfig instead of what a kubelet puts into pods.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from tests.chart.release import Release
from tests.control_plane.access import Access, kubeconfig
from tests.control_plane.instance import LOOPBACK, free_port
from tests.control_plane.process import ServerProcess

Json = dict[str, Any]

_FLEET: Final = (sys.executable, "-m", "fleet.cli")
"""What the image starts."""
_EVERYWHERE: Final = re.compile(r"=:(\d+)$")
"""The end of an option that names a port on all interfaces."""
_SECONDS: Final = 120
_UNVERIFIED: Final = ssl._create_unverified_context()


@dataclass(frozen=True)
class Machine:
    """Where containers of a release run, and what they share: volumes that are claimed by name."""

    release: Release
    folder: Path

    def container_of(self, deployment: str, *, name: str = "", replica: int = 0) -> Container:
        """The container of this name, or the only one that stays."""
        path = f"/apis/apps/v1/namespaces/{self.release.namespace}/deployments/{deployment}"
        return self.container(self.release.hub.get(path).ok(), name=name, replica=replica)

    def container(self, workload: Json, *, name: str = "", replica: int = 0) -> Container:
        pod = workload["spec"]["template"]["spec"]
        found = [one for one in _containers(pod) if one["name"] == name] if name else pod["containers"]
        (container,) = found
        root = self.folder / f"{workload['metadata']['name']}-{replica}"
        return Container(self, pod=pod, spec=container, root=root)

    def volume(self, claim: str) -> Path:
        return self.folder / "claims" / claim

    def token_of(self, account: str) -> str:
        path = f"/api/v1/namespaces/{self.release.namespace}/serviceaccounts/{account}/token"
        token: str = self.release.hub.post(path, {"spec": {}}).ok()["status"]["token"]
        return token

    def content(self, kind: str, name: str, *, is_optional: bool = False) -> Mapping[str, str]:
        """Of a ConfigMap or Secret."""
        answer = self.release.hub.get(f"/api/v1/namespaces/{self.release.namespace}/{kind}/{name}")
        if is_optional and answer.status == 404:
            return {}
        found: Mapping[str, str] = answer.ok()["data"]
        if kind == "configmaps":
            return found
        return {key: base64.b64decode(value).decode() for key, value in found.items()}


@dataclass
class Container:
    """One container of a pod, and the process that stands for it."""

    machine: Machine
    pod: Json
    spec: Json
    root: Path
    ports: dict[int, int] = field(default_factory=dict)
    """By what the container listens on, what its process does."""

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.ports = {one["containerPort"]: free_port() for one in self.spec.get("ports", ())}
        self._folders = {one["mountPath"]: self._mounted(one) for one in self.spec["volumeMounts"]}

    @cached_property
    def process(self) -> ServerProcess:
        log = self.root.with_suffix(".log")
        return ServerProcess([*_FLEET, *self.arguments()], log=log, environment=self.environment())

    def keep_running(self) -> None:
        """As a kubelet does."""
        if not self.process.is_running:
            self.process.start()

    def run_to_its_end(self) -> subprocess.CompletedProcess[str]:
        command = [*_FLEET, *self.arguments()]
        environment = self.environment()
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)

    def url(self, port: str) -> str:
        """Of a port by its name, without the scheme. The certificates of services are for `localhost`, too."""
        (found,) = [one["containerPort"] for one in self.spec["ports"] if one["name"] == port]
        return f"localhost:{self.ports[found]}"

    def api(self) -> Access:
        """What answers here, with a certificate of the chart, for the users of the hub."""
        authority = self.file("/etc/fleet-tls/ca.crt")
        return replace(self.machine.release.access, url=f"https://{self.url('api')}", ca_file=authority)

    def is_ready(self) -> bool:
        """What its readiness probe says. Like a kubelet, it does not look at certificates."""
        asked = self.spec["readinessProbe"]["httpGet"]
        url = f"{asked.get('scheme', 'HTTP').lower()}://{self.url(asked['port'])}{asked['path']}"
        try:
            with urllib.request.urlopen(url, timeout=30, context=_UNVERIFIED):
                return True
        except OSError:
            return False

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Its process, from when it is ready."""
        self.process.start()
        try:
            deadline = time.monotonic() + _SECONDS
            while not self.is_ready():
                assert self.process.is_running, self.process.last_words()
                assert time.monotonic() < deadline, self.process.last_words()
                time.sleep(0.1)
            yield self
        finally:
            self.process.stop()

    def arguments(self) -> list[str]:
        return [_EVERYWHERE.sub(self._local, self._here(one)) for one in self.spec["args"]]

    def environment(self) -> dict[str, str]:
        given = {one["name"]: self._value(one) for one in self.spec.get("env", ())}
        return {"PATH": os.defpath, **given, **self._identity()}

    def file(self, path: str) -> Path:
        """Where something in the container is."""
        return Path(self._here(path))

    def _identity(self) -> dict[str, str]:
        """A kubeconfig for pods that are given a token; the others know no hub."""
        if not self.pod["automountServiceAccountToken"]:
            return {}
        access, file = self.machine.release.access, self.root / "kubeconfig"
        token = self.machine.token_of(self.pod["serviceAccountName"])
        file.write_text(kubeconfig(url=access.url, ca_file=access.ca_file, token=token), encoding="utf-8")
        return {"KUBECONFIG": str(file)}

    def _local(self, found: re.Match[str]) -> str:
        return f"={LOOPBACK}:{self.ports[int(found.group(1))]}"

    def _value(self, variable: Json) -> str:
        if "value" in variable:
            return self._here(variable["value"])
        wanted = variable["valueFrom"]["secretKeyRef"]
        return self.machine.content("secrets", wanted["name"])[wanted["key"]]

    def _here(self, text: str) -> str:
        """With the paths of volumes replaced by those of their folders."""
        paths = "|".join(sorted(map(re.escape, self._folders), key=len, reverse=True))
        return re.sub(rf"(?<!\w)({paths})(?=/|$)", lambda found: str(self._folders[found.group()]), text)

    def _mounted(self, mount: Json) -> Path:
        (volume,) = [one for one in self.pod["volumes"] if one["name"] == mount["name"]]
        claim = volume.get("persistentVolumeClaim")
        folder = self.machine.volume(claim["claimName"]) if claim else self.root / mount["name"]
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self._files(volume).items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder

    def _files(self, volume: Json) -> Mapping[str, str]:
        if "configMap" in volume:
            return self.machine.content("configmaps", volume["configMap"]["name"])
        if "secret" in volume:
            secret = volume["secret"]
            return self.machine.content("secrets", secret["secretName"], is_optional=secret.get("optional", False))
        return {}


def _containers(pod: Json) -> Iterator[Json]:
    yield from pod.get("initContainers", ())
    yield from pod["containers"]
