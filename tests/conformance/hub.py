"""A hub under test: the real kubectl and plain HTTP, both as any of its users."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.control_plane.access import ADMIN, Access
from tests.control_plane.http_client import HttpClient
from tests.control_plane.waiting import soon

SECONDS_FOR_KUBECTL: Final = 90.0


@dataclass(frozen=True)
class Said:
    """What kubectl said."""

    code: int
    out: str
    err: str

    def ok(self) -> str:
        """Its output, if it was content."""
        assert self.code == 0, f"kubectl ended with {self.code}: {self.err}"
        return self.out

    @property
    def document(self) -> Any:
        """Its output, which has to be JSON or YAML."""
        return yaml.safe_load(self.ok())


@dataclass(frozen=True)
class Hub:
    """One target, as the tests see it."""

    target: str
    access: Access
    cache: Path
    """Where kubectl keeps what it discovered."""
    namespace: str = "default"

    @property
    def http(self) -> HttpClient:
        return HttpClient(self.access)

    def http_as(self, user: str) -> HttpClient:
        return HttpClient(self.access, user=user)

    def kubectl(
        self,
        *arguments: str,
        input: object = None,
        user: str = ADMIN,
        environment: Mapping[str, str] | None = None,
    ) -> Said:
        """Runs kubectl in the test's namespace. What is not a text is given to it as JSON."""
        done = subprocess.run(
            self.command(*arguments, user=user),
            input=input if isinstance(input, str | None) else json.dumps(input),
            capture_output=True,
            text=True,
            timeout=SECONDS_FOR_KUBECTL,
            env=self.environment() | dict(environment or {}),
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def command(self, *arguments: str, user: str = ADMIN) -> list[str]:
        options = [f"--kubeconfig={self.access.kubeconfig}", f"--namespace={self.namespace}"]
        if user != ADMIN:
            options.append(f"--token={self.access.tokens[user]}")
        return [str(self.access.kubectl), *options, *arguments]

    def environment(self) -> dict[str, str]:
        """Nothing of the person's own configuration, and the same words on every machine."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.cache), "KUBECACHEDIR": str(self.cache), "LC_ALL": "C"}

    def eventually(self, holds: Callable[[], bool]) -> None:
        """Waits for what a server promises soon rather than at once."""
        soon(holds)

    def path(self, plural: str, name: str = "", *, version: str = "v1", subresource: str = "") -> str:
        """The path of a namespaced collection or object: `version` is `v1` or group/version."""
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        return "/".join(filter(None, [root, "namespaces", self.namespace, plural, name, subresource]))
