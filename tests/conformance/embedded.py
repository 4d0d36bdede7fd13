"""Fleet's embedded hub as a program, for tests: with users and TLS, and it can be stopped and started again."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import trustme

from tests.conformance.targets import REAL
from tests.control_plane.access import ADMIN, Access, kubeconfig
from tests.control_plane.assets import assets
from tests.control_plane.credentials import new_tokens, write_token_file
from tests.control_plane.failures import NeverReady
from tests.control_plane.instance import LOOPBACK, ControlPlane, free_port
from tests.control_plane.process import ServerProcess

SECONDS_TO_START: Final = 90.0  # about two on an idle laptop
SECONDS_BETWEEN_REFRESHES: Final = 0.02


class EmbeddedHub:
    """An embedded hub in a folder, with its data there, so that a restart keeps it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = folder / "ready.json"
        port = free_port()
        self.access = Access(
            url=f"https://{LOOPBACK}:{port}",
            ca_file=folder / "ca.crt",
            kubeconfig=folder / "kubeconfig",
            tokens=new_tokens(),
            log=folder / "hub.log",
        )
        self.server = ServerProcess(self._command(port), log=folder / "hub.log")

    def __enter__(self) -> Self:
        self._write_files()
        try:
            self.start()
        except BaseException:
            self.server.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.stop()

    def start(self) -> None:
        """Returns when the hub has said that it is ready."""
        self._ready.unlink(missing_ok=True)
        self.server.start()
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._ready.exists():
            if not self.server.is_running or time.monotonic() > deadline:
                raise NeverReady(f"the embedded hub did not start:\n{self.server.last_words()}")
            time.sleep(SECONDS_BETWEEN_REFRESHES)

    def restart(self) -> None:
        self.server.stop()
        self.start()

    def crash(self) -> None:
        """Kills it in the middle of whatever it does, and starts it again."""
        self.server.kill()
        self.start()

    def pause(self) -> None:
        """It keeps its connections and answers nothing."""
        self.server.pause()

    def forget_history(self) -> None:
        """Old states are kept in memory; they are gone with it."""
        self.restart()

    def _write_files(self) -> None:
        self._folder.mkdir(parents=True)
        write_token_file(self._folder / "tokens.csv", self.access.tokens)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.access.ca_file))
        certificate = authority.issue_cert(LOOPBACK)
        certificate.cert_chain_pems[0].write_to_path(str(self._folder / "hub.crt"))
        certificate.private_key_pem.write_to_path(str(self._folder / "hub.key"))
        token = self.access.tokens[ADMIN]
        text = kubeconfig(url=self.access.url, ca_file=self.access.ca_file, token=token)
        self.access.kubeconfig.write_text(text, encoding="utf-8")

    def _command(self, port: int) -> list[str]:
        return [
            *(sys.executable, "-m", "fleet.hub"),
            f"--port={port}",
            f"--data-dir={self._folder / 'data'}",
            f"--ready-file={self._ready}",
            f"--token-file={self._folder / 'tokens.csv'}",
            f"--tls-cert={self._folder / 'hub.crt'}",
            f"--tls-key={self._folder / 'hub.key'}",
        ]


def new_hub(target: str, folder: Path) -> EmbeddedHub | ControlPlane:
    """A hub of this target in a folder, not started yet."""
    return ControlPlane(folder, programs=assets()) if target == REAL else EmbeddedHub(folder)
