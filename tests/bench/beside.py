"""A scheduler with the API in its own process, as in `fleet up`, for any hub: `python -m tests.bench.beside`."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.http.server import ListenOptions, serve_app
from api.live.embedded import build_live_state
from fleet.clock import SystemClock
from fleet.eventloop import loop_factory, tune_interpreter
from fleet.manager.hub_connection import connect
from fleet.manager.logs import configure
from fleet.manager.manager import Manager
from fleet.settings import Address, load_settings
from tests.bench.controller.workers import SETTINGS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    options = parser.parse_args()
    tune_interpreter()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(options.kubeconfig, options.ready_file))


async def _serve(kubeconfig: Path, ready_file: Path) -> None:
    effective, clock = load_settings(None, {}, SETTINGS), SystemClock()
    configure(effective.settings.logging.level, effective.settings.logging.format)
    async with (
        await connect(effective.settings, kubeconfig=kubeconfig, context=None, clock=clock) as transport,
        asyncio.TaskGroup() as tasks,
    ):
        controller = Manager(transport, effective.settings, controllers={"scheduler"}, elects=False, clock=clock)
        tasks.create_task(controller.run(), name="controller")
        await controller.ready()
        live = build_live_state(controller, clock=clock)
        app = create_app(live, None, HubAuthorizer(transport, clock=clock), effective, shares_loop=True)
        async with serve_app(app, ListenOptions(address=Address("127.0.0.1:0"))) as url:
            temporary = ready_file.with_suffix(".new")
            temporary.write_text(json.dumps({"api": url}), encoding="utf-8")
            temporary.rename(ready_file)
            await asyncio.Event().wait()


if __name__ == "__main__":
    main()
