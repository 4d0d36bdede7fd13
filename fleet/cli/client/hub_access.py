"""How `fleet get` and `fleet apply` reach the hub: as kubectl would, or else the last `fleet up`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.cli.client.last_up import latest
from fleet.clock import SystemClock
from fleet.errors import ConfigurationError
from fleet.kube.client.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class HubOptions:
    """As they stand on the command line."""

    kubeconfig: Path | None = None
    context: str | None = None


@asynccontextmanager
async def connected(options: HubOptions, environ: Mapping[str, str] = os.environ) -> AsyncIterator[Transport]:
    path = kubeconfig_of(options, environ)
    async with await Transport.from_kubeconfig(path, clock=SystemClock(), context=options.context) as transport:
        yield transport


def kubeconfig_of(options: HubOptions, environ: Mapping[str, str] = os.environ) -> Path | None:
    """None: where kubectl looks. Only who has no hub of their own gets that of a `fleet up`."""
    if options.kubeconfig is not None:
        if not options.kubeconfig.is_file():
            raise ConfigurationError(f"--kubeconfig: there is no file {options.kubeconfig}")
        return options.kubeconfig
    if environ.get("KUBECONFIG") or (Path.home() / ".kube" / "config").is_file():
        return None
    up = latest(environ)
    if up is None:
        raise ConfigurationError(
            "there is no hub to talk to: start one with `fleet up`, or say how to reach it with --kubeconfig FILE or "
            "KUBECONFIG"
        )
    return Path(up.kubeconfig)
