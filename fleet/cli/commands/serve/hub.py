"""`fleet hub`: the embedded hub, with a greeting that explains how to connect."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from fleet.hub.__main__ import run
from fleet.hub.http.server import Endpoint, HubSettings


def run_hub(*, data_dir: Path | None, port: int, ready_file: Path | None) -> int:
    settings = HubSettings(data_dir=data_dir, port=port, ready_file=ready_file)

    def greet(endpoint: Endpoint) -> None:
        sys.stdout.write(render_greeting(endpoint, data_dir))
        sys.stdout.flush()

    return run(settings, ready=greet)


def render_greeting(endpoint: Endpoint, data_dir: Path | None) -> str:
    storage = "live in memory and are lost when it stops" if data_dir is None else f"are stored in {data_dir}"
    return (
        f"The hub listens at {endpoint.url}; objects {storage}. Press Ctrl-C to stop. In another terminal:\n\n"
        f"  export KUBECONFIG={shlex.quote(str(endpoint.kubeconfig.absolute()))}\n"
        "  kubectl apply -f docs/hub-examples\n"
        "  kubectl get fleet\n\n"
        "Nothing is placed before a controller runs and clusters report. `fleet up` has both.\n"
    )
