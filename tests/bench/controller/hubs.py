"""The hubs that are measured: where they are, and how many requests of which kind they have answered."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fleet.hub.access.authentication import generate_administrator, write_tokens
from tests.bench.controller.counting_hub import COUNTS

REAL: Final = "real"
EMBEDDED: Final = "embedded"
TARGETS: Final = (REAL, EMBEDDED)

_SECONDS_TO_START: Final = 90.0
_REQUESTS: Final = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Hub:
    url: str
    kubeconfig: Path
    token: str = ""
    ca_file: Path | None = None
    counts_path: str = COUNTS
    other_token: str = ""
    """Of another user: an administrator on the embedded hub, without rights on a real API server."""

    def trust(self) -> ssl.SSLContext | bool:
        return True if self.ca_file is None else ssl.create_default_context(cafile=self.ca_file)

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def counted(self, answer: str) -> Counter[str]:
        """Requests by method and subject, from what `counts_path` was answered with."""
        return Counter(json.loads(answer)) if self.counts_path == COUNTS else _from_metrics(answer)


@contextmanager
def serving(target: str) -> Iterator[Hub]:
    """A hub of one's own, with Fleet's kinds and nothing else."""
    with tempfile.TemporaryDirectory(prefix=f"fleet-bench-{target}-") as folder, _HUBS[target](Path(folder)) as hub:
        yield hub


@contextmanager
def _real(folder: Path) -> Iterator[Hub]:
    from tests.conformance.crds import install_crds
    from tests.control_plane.access import ADMIN
    from tests.control_plane.assets import assets
    from tests.control_plane.instance import ControlPlane

    with ControlPlane(folder / "hub", programs=assets()) as running:
        install_crds(running.access)
        access = running.access
        admin, other = (access.tokens[name] for name in (ADMIN, "alice"))
        yield Hub(access.url, access.kubeconfig, admin, access.ca_file, counts_path="/metrics", other_token=other)


@contextmanager
def _embedded(folder: Path) -> Iterator[Hub]:
    """In memory and without TLS, as `fleet up` runs it."""
    ready, tokens = folder / "ready.json", folder / "tokens.csv"
    token, other_token = write_administrators(tokens)
    options = [f"--ready-file={ready}", f"--token-file={tokens}"]
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.controller.counting_hub", *options])
    try:
        deadline = time.monotonic() + _SECONDS_TO_START
        while not ready.exists():
            assert process.poll() is None, "the hub ended at once"
            assert time.monotonic() < deadline, "the hub did not start"
            time.sleep(0.05)
        told = json.loads(ready.read_text(encoding="utf-8"))
        yield Hub(told["url"], Path(told["kubeconfig"]), token, other_token=other_token)
    finally:
        process.terminate()
        process.wait()


def write_administrators(file: Path) -> tuple[str, str]:
    """The hub serves whoever comes from this machine, and looks at a token all the same: so everybody has one."""
    (token, user), (other_token, other) = generate_administrator(), generate_administrator()
    write_tokens(file, {token: user, other_token: replace(other, name="other", uid="other")})
    return token, other_token


_HUBS: Final = {REAL: _real, EMBEDDED: _embedded}


def _from_metrics(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for labels, value in _REQUESTS.findall(text):
        known = dict(_LABEL.findall(labels))
        subject = "/".join(part for part in (known["resource"], known["subresource"]) if part)
        counts[f"{known['verb']} {subject}"] += int(float(value))
    return counts
