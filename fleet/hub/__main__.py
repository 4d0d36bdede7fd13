"""`python -m fleet.hub`: runs the embedded hub as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from fleet.errors import ConfigurationError, find_first_error
from fleet.eventloop import handle_first_signal, leave_out_present_objects, loop_factory, prefer_event_loop
from fleet.hub.http.server import Endpoint, HubSettings, serve_hub


def main(arguments: list[str] | None = None) -> int:
    try:
        return run(_build_settings(_build_parser().parse_args(arguments)))
    except ConfigurationError as error:
        sys.stderr.write(f"fleet hub: {error}\n")
        return 2


def run(settings: HubSettings, *, ready: Callable[[Endpoint], None] | None = None) -> int:
    """Serve until SIGINT or SIGTERM."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    prefer_event_loop()

    def begin(endpoint: Endpoint) -> None:
        leave_out_present_objects()
        if ready is not None:
            ready(endpoint)

    with asyncio.Runner(loop_factory=loop_factory()) as runner, contextlib.suppress(KeyboardInterrupt):
        try:
            runner.run(_serve(settings, begin))
        except BaseExceptionGroup as group:  # of the background tasks, which end when the start fails
            raise find_first_error(group) from group
    return 0


async def _serve(settings: HubSettings, ready: Callable[[Endpoint], None]) -> None:
    stop = asyncio.Event()
    handle_first_signal(lambda _: stop.set())
    await serve_hub(settings, stop=stop, ready=ready)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fleet.hub", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    parser.add_argument("--data-dir", type=Path, help="directory for objects (default: in memory)")
    parser.add_argument(
        "--ready-file", type=Path, help="JSON file written once the hub serves: url, kubeconfig, tokenFile, caFile"
    )
    parser.add_argument("--token-file", type=Path, help='lines of token,user,uid,"group1,group2" (default: generated)')
    parser.add_argument("--tls-cert", type=Path, help="serving certificate (default: plain HTTP)")
    parser.add_argument("--tls-key", type=Path, help="private key of the serving certificate")
    parser.add_argument(
        "--allow-remote", action="store_true", help="allow listening on an address that other machines can reach"
    )
    return parser


def _build_settings(arguments: argparse.Namespace) -> HubSettings:
    return HubSettings(**vars(arguments))


if __name__ == "__main__":
    sys.exit(main())
