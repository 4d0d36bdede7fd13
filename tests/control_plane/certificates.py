"""Client certificates: of users, and of the API server's front proxy, each signed by an authority of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme

FRONT_PROXY: Final = "front-proxy"


@dataclass(frozen=True)
class ClientCertificate:
    certificate: Path
    key: Path


class ClientAuthorities:
    """What an API server needs to know users by their certificates, and to have an aggregation layer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._users = trustme.CA()
        self._front = trustme.CA()

    def write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._users.cert_pem.write_to_path(str(self._folder / "users.crt"))
        self._front.cert_pem.write_to_path(str(self._folder / "front.crt"))
        self._write(self._front, FRONT_PROXY, group="")

    def user(self, name: str, *, group: str) -> ClientCertificate:
        return self._write(self._users, name, group=group)

    def flags(self) -> list[str]:
        """For the API server."""
        return [
            f"--client-ca-file={self._folder / 'users.crt'}",
            f"--requestheader-client-ca-file={self._folder / 'front.crt'}",
            f"--requestheader-allowed-names={FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._folder / FRONT_PROXY}.crt",
            f"--proxy-client-key-file={self._folder / FRONT_PROXY}.key",
        ]

    def _write(self, authority: trustme.CA, name: str, *, group: str) -> ClientCertificate:
        issued = authority.issue_cert(f"{name}.example", common_name=name, organization_name=group or None)
        files = ClientCertificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(str(files.certificate))
        issued.private_key_pem.write_to_path(str(files.key))
        return files
