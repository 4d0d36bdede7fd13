"""`fleet hub`: the embedded hub with a greeting that says how to talk to it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from fleet.hub.__main__ import run
from fleet.hub.http.server import Endpoint, HubSettings


def run_hub(*, data_dir: Path | None, port: int, ready_file: Path | None) -> int:
    settings = HubSettings(data_dir=data_dir, port=port, ready_file=ready_file)

    def greet(endpoint: Endpoint) -> None:
        sys.stdout.write(greeting(endpoint, data_dir))
        sys.stdout.flush()

    return run(settings, ready=greet)


def greeting(endpoint: Endpoint, data_dir: Path | None) -> str:
    kept = "in memory, gone when it ends" if data_dir is None else f"in {data_dir}"
    return (
        f"The hub serves at {endpoint.url}; objects are kept {kept}. Ctrl-C ends it. In another terminal:\n\n"
        f"  export KUBECONFIG={shlex.quote(str(endpoint.kubeconfig.absolute()))}\n"
        "  kubectl apply -f examples/fleet -f examples/placements\n"
        "  kubectl get fleet\n"
    )
