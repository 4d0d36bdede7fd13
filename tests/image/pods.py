"""The chart's pods without a kubelet: its containers in rooms with the image's files, mounts, environment and user."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import yaml

from tests.control_plane.access import Access
from tests.control_plane.http_client import HttpClient
from tests.control_plane.instance import free_port
from tests.image.dockerfile import ROOT, stages
from tests.image.room import Room, with_python

Json = dict[str, Any]

NAMESPACE: Final = "fleet-system"
TREE: Final = "/opt/fleet"
IDENTITY: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_SECONDS: Final = 120.0
_PORT: Final = re.compile(r":(80[89]\d)$")


def rendered(helm: Path, *values: str) -> list[Json]:
    """What Helm would send, in the order in which it would."""
    command = [str(helm), "template", "fleet", str(ROOT / "charts" / "fleet"), f"--namespace={NAMESPACE}", *values]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


class Running:
    """A container at work."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def require_life(self) -> None:
        assert self._process.poll() is None, f"it ended with {self._process.returncode}:\n{self.said}"

    def ended(self) -> int:
        """Its exit code, once it ends by itself."""
        return self._process.wait(_SECONDS)

    def end(self) -> int:
        """As a kubelet ends it."""
        self._process.send_signal(signal.SIGTERM)
        return self.ended()


@dataclass(frozen=True)
class Machine:
    """Where pods run: the image, the rendered chart, and a folder for their volumes. Ports are free ones."""

    image: Path
    folder: Path
    documents: list[Json]
    access: Access
    ports: dict[str, int]

    @classmethod
    def set_up(cls, *, image: Path, folder: Path, documents: list[Json], access: Access) -> Machine:
        ports = {port: free_port() for port in ("8080", "8081", "8090")}
        return cls(image, folder, documents, access, ports)

    def document(self, kind: str, name: str) -> Json:
        (found,) = (one for one in self.documents if (one["kind"], one["metadata"]["name"]) == (kind, name))
        return found

    def run(self, deployment: str, container: str) -> Running:
        pod = self.document("Deployment", deployment)["spec"]["template"]["spec"]
        (chosen,) = (one for one in (*pod.get("initContainers", ()), *pod["containers"]) if one["name"] == container)
        arguments = [_PORT.sub(lambda found: f":{self.ports[found[1]]}", one) for one in chosen["args"]]
        log = self.folder / f"{deployment}-{container}.log"
        return Running(self.room(pod, chosen).entered(*stages()["image"].entrypoint, *arguments), log)

    def room(self, pod: Json, container: Json) -> Room:
        image = stages()["image"]
        given = {one["name"]: one["value"] for one in container.get("env", ())}
        hub = urlsplit(self.access.url)
        mounts = {one["mountPath"]: self._volume(pod, one["name"]) for one in container["volumeMounts"]}
        fixed = {one["mountPath"] for one in container["volumeMounts"] if one.get("readOnly")}
        return Room(
            root=str(self._new_folder("root", container["name"])),
            readable={
                **with_python(),
                TREE: str(self.image),
                IDENTITY: str(self._identity(pod["serviceAccountName"])),
                **{path: str(folder) for path, folder in mounts.items() if path in fixed},
            },
            writable={path: str(folder) for path, folder in mounts.items() if path not in fixed},
            environment={
                **image.environment,
                **given,
                "KUBERNETES_SERVICE_HOST": str(hub.hostname),
                "KUBERNETES_SERVICE_PORT": str(hub.port),
            },
            folder=image.folder,
            user=pod["securityContext"]["runAsUser"],
        )

    def written(self) -> Iterator[Path]:
        """Everything that pods wrote, relative to the folder of volumes."""
        volumes = self.folder / "volumes"
        for path in sorted(volumes.rglob("*")):
            if path.is_file() and path.stat().st_uid != os.getuid():
                yield path.relative_to(volumes)

    def _volume(self, pod: Json, name: str) -> Path:
        (volume,) = (one for one in pod["volumes"] if one["name"] == name)
        group = pod["securityContext"]["fsGroup"]
        if "configMap" in volume:
            data = self.document("ConfigMap", volume["configMap"]["name"])["data"]
            return self._filled(name, {key: str(value).encode() for key, value in data.items()}, group)
        if "secret" in volume:
            data = self.document("Secret", volume["secret"]["secretName"])["data"]
            return self._filled(name, {key: base64.b64decode(value) for key, value in data.items()}, group)
        own = name if "persistentVolumeClaim" in volume else f"{name}-{pod['serviceAccountName']}"
        folder = self._new_folder("volumes", own)
        os.chown(folder, -1, group)
        folder.chmod(0o2770)
        return folder

    def _filled(self, name: str, files: dict[str, bytes], group: int) -> Path:
        folder = self._new_folder("volumes", name)
        for key, content in files.items():
            (folder / key).write_bytes(content)
            os.chown(folder / key, -1, group)
            (folder / key).chmod(0o440)
        return folder

    def _identity(self, account: str) -> Path:
        """A token as a kubelet gets it, and whom to trust."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        issued = HttpClient(self.access).post(path, {"spec": {"expirationSeconds": 3600}}).ok()
        files = {"token": issued["status"]["token"].encode(), "ca.crt": self.access.ca_file.read_bytes()}
        return self._filled(f"identity-{account}", {**files, "namespace": NAMESPACE.encode()}, 65532)

    def _new_folder(self, kind: str, name: str) -> Path:
        folder = self.folder / kind / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder
