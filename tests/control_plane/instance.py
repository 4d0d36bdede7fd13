"""One etcd and one kube-apiserver, owned by whoever started them."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.control_plane.access import ADMIN, Access, kubeconfig
from tests.control_plane.credentials import new_tokens, write_signing_key, write_token_file
from tests.control_plane.failures import NeverReady
from tests.control_plane.http_client import HttpClient
from tests.control_plane.process import ServerProcess, Startable

LOOPBACK: Final = "127.0.0.1"
PORTS: Final = range(10_000, 32_000)  # below the range systems take for outgoing connections
SECONDS_TO_START: Final = 180.0  # about five on an idle laptop, but others may keep it busy
SECONDS_BETWEEN_REFRESHES: Final = 0.05
WRITES_AT_ONCE: Final = 100  # etcd takes 128
WITHOUT_CONTROLLERS: Final = ("--disable-admission-plugins=ServiceAccount",)
"""Without the controller that makes them for every namespace, no pod could be created."""

Entry = dict[str, Any]
"""Of etcd, with its key and value encoded."""


class ControlPlane(Startable):
    """A control plane in a folder: `with ControlPlane(folder, programs=assets()) as control_plane: …`.

    Both servers keep their ports and data over a restart; the folder keeps the logs after the end. `flags` are more of
    them for the API server.
    """

    def __init__(self, folder: Path, *, programs: Path, flags: Sequence[str] = WITHOUT_CONTROLLERS) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._flags = flags
        self.signing_key = self._data / "service-accounts.key"
        self._etcd_port = free_port()
        self._etcd_url = f"http://{LOOPBACK}:{self._etcd_port}"
        self._port = free_port()
        tokens = new_tokens()
        self.access = Access(
            url=f"https://{LOOPBACK}:{self._port}",
            ca_file=self._data / "certificates" / "apiserver.crt",
            kubeconfig=folder / "kubeconfig",
            programs=programs,
            tokens=tokens,
            log=folder / "kube-apiserver.log",
        )
        self.etcd = ServerProcess(self._etcd_command(), log=folder / "etcd.log")
        self.api_server = ServerProcess(self._api_server_command(), log=folder / "kube-apiserver.log")

    def start(self) -> None:
        self._write_files()
        self.etcd.start()
        self.api_server.start()
        self.wait_until_ready()

    def stop(self) -> None:
        self.api_server.stop()
        self.etcd.stop()
        shutil.rmtree(self._data, ignore_errors=True)

    def restart(self) -> None:
        """Stops the API server in order and starts it again; etcd stays."""
        self.api_server.stop()
        self.api_server.start()
        self.wait_until_ready()

    def pause(self) -> None:
        """The API server keeps its connections and answers nothing."""
        self.api_server.pause()

    def crash(self) -> None:
        """Kills the API server in the middle of whatever it does, and starts it again."""
        self.api_server.kill()
        self.api_server.start()
        self.wait_until_ready()

    def wait_until_ready(self, *, seconds: float = SECONDS_TO_START) -> None:
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            for server in (self.etcd, self.api_server):
                if not server.is_running:
                    raise NeverReady(f"{server.name} ended:\n{server.last_words()}")
            if time.monotonic() > deadline:
                raise NeverReady(f"not ready after {seconds:.0f} s:\n{self.api_server.last_words()}")
            time.sleep(SECONDS_BETWEEN_REFRESHES)

    def is_ready(self) -> bool:
        """Whether the API server has started completely; the namespace `default` is the last thing it makes."""
        return all(self._answers(path) for path in ("/readyz", "/api/v1/namespaces/default"))

    def forget_history(self) -> None:
        """Drops all versions but the newest, as compaction does in time.

        The API server remembers some of them itself, so it is restarted.
        """
        newest = self._ask_etcd("/v3/kv/range", {**_EVERYTHING, "count_only": True})["header"]["revision"]
        self._ask_etcd("/v3/kv/compaction", {"revision": newest, "physical": True})
        self.restart()

    def stored(self) -> dict[str, Entry]:
        """All that etcd keeps of the API server."""
        return {one["key"]: one for one in self._ask_etcd("/v3/kv/range", _EVERYTHING)["kvs"]}

    def restore(self, wanted: Mapping[str, Entry]) -> bool:
        """Makes etcd keep what it kept, past the API server, which hears of it by its watches. Says whether it did."""
        found = self.stored()
        strange = [{"requestDeleteRange": {"key": key}} for key in found.keys() - wanted.keys()]
        changed = [
            {"requestPut": {"key": key, "value": entry["value"]}}
            for key, entry in wanted.items()
            if entry["value"] != found.get(key, {}).get("value") and not _is_renewed(key)
        ]
        writes = strange + changed
        for start in range(0, len(writes), WRITES_AT_ONCE):
            self._ask_etcd("/v3/kv/txn", {"success": writes[start : start + WRITES_AT_ONCE]})
        return not writes

    def _write_files(self) -> None:
        (self._data / "certificates").mkdir(parents=True)
        write_token_file(self._data / "tokens.csv", self.access.tokens)
        write_signing_key(self.signing_key)
        self.access.kubeconfig.touch(mode=0o600)
        self.access.kubeconfig.write_text(
            kubeconfig(url=self.access.url, ca_file=self.access.ca_file, token=self.access.tokens[ADMIN]),
            encoding="utf-8",
        )

    def _etcd_command(self) -> list[str | Path]:
        return [
            self.access.program("etcd"),
            f"--data-dir={self._data / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls=http://{LOOPBACK}:0",
            "--unsafe-no-fsync",  # nobody will miss this data after a power cut
            "--log-level=warn",
        ]

    def _api_server_command(self) -> list[str | Path]:
        return [
            self.access.program("kube-apiserver"),
            f"--etcd-servers={self._etcd_url}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self._port}",
            f"--cert-dir={self._data / 'certificates'}",  # it makes its certificate there, once
            f"--token-auth-file={self._data / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--anonymous-auth=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.signing_key}",
            f"--service-account-signing-key-file={self.signing_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--shutdown-send-retry-after=false",
            *self._flags,
        ]

    def _answers(self, path: str) -> bool:
        try:
            return HttpClient(self.access).get(path).status == 200
        except (OSError, http.client.HTTPException):
            return False  # not there yet, or its certificate is not

    def _ask_etcd(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        connection = http.client.HTTPConnection(LOOPBACK, self._etcd_port, timeout=SECONDS_TO_START)
        try:
            connection.request("POST", path, body=json.dumps(body))
            response = connection.getresponse()
            answer: dict[str, Any] = json.load(response)
            assert response.status == http.client.OK, answer
            return answer
        finally:
            connection.close()


def free_port() -> int:
    """A port nobody listens on, no outgoing connection is given and nobody else of this test run is told meanwhile."""
    while True:
        port = Random().choice(_ports_of_this_worker())
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


_given: Final[set[int]] = set()


def _ports_of_this_worker() -> Sequence[int]:
    number, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    return PORTS[int(number.removeprefix("gw")) :: int(workers)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()


def _is_renewed(key: str) -> bool:
    """The leases with which servers say that they live."""
    return base64.b64decode(key).startswith(b"/registry/leases/kube-system/")


_EVERYTHING: Final = {"key": _encoded(b"/registry/"), "range_end": _encoded(b"/registry0")}
