"""How to reach a hub: all a test needs to know about one, whoever runs it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.control_plane.tier import built_programs

ADMIN: Final = "admin"


@dataclass(frozen=True)
class Access:
    """A hub's URL, whom to trust, and as whom to come."""

    url: str
    ca_file: Path
    kubeconfig: Path
    """For kubectl, as the administrator."""
    programs: Path | None = None
    """The folder with kubectl; looked up when it is first needed, because most tests on the embedded hub do without."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Bearer tokens by the name of the user."""
    log: Path | None = None
    """What the server writes about itself."""

    @property
    def kubectl(self) -> Path:
        return self.program("kubectl")

    def program(self, name: str) -> Path:
        return (self.programs or built_programs()) / name

    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file)

    def known_as(self, user: str, token: str) -> Access:
        """With one more user."""
        return replace(self, tokens={**self.tokens, user: token})

    def to_json(self) -> str:
        paths = {"ca_file": self.ca_file, "kubeconfig": self.kubeconfig, "programs": self.programs, "log": self.log}
        return json.dumps(
            {"url": self.url, "tokens": dict(self.tokens)} | {name: path and str(path) for name, path in paths.items()}
        )

    @classmethod
    def from_json(cls, text: str) -> Access:
        known = json.loads(text)
        paths = {name: Path(known[name]) for name in ("ca_file", "kubeconfig", "programs", "log") if known[name]}
        return cls(url=known["url"], tokens=known["tokens"], **paths)


def kubeconfig(*, url: str, ca_file: Path, token: str) -> str:
    """A kubeconfig with one context. JSON, which is YAML."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "hub",
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "user", "namespace": "default"}}],
            "clusters": [{"name": "hub", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
            "users": [{"name": "user", "user": {"token": token}}],
        },
        indent=2,
    )
