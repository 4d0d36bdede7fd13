"""Connection of `fleet get` and `fleet apply` to the hub: as kubectl does, or else to the last `fleet up`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.cli.client.last_up import find_latest_up
from fleet.clock import SystemClock
from fleet.errors import ConfigurationError, NotFound
from fleet.kube.client.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class HubOptions:
    """The options of the command line."""

    kubeconfig: Path | None = None
    context: str | None = None


@asynccontextmanager
async def connect_to_hub(options: HubOptions, environ: Mapping[str, str] = os.environ) -> AsyncIterator[Transport]:
    path = find_kubeconfig(options, environ)
    async with await Transport.from_kubeconfig(path, clock=SystemClock(), context=options.context) as transport:
        yield transport


def find_kubeconfig(options: HubOptions, environ: Mapping[str, str] = os.environ) -> Path | None:
    """None means kubectl's default. A running `fleet up` is used only without a kubeconfig of the user's own."""
    if options.kubeconfig is not None:
        if not options.kubeconfig.is_file():
            raise ConfigurationError(f"--kubeconfig: there is no file {options.kubeconfig}")
        return options.kubeconfig
    if environ.get("KUBECONFIG") or (Path.home() / ".kube" / "config").is_file():
        return None
    up = find_latest_up(environ)
    if up is None:
        raise ConfigurationError("no hub found\nnext: try `fleet up`, or set --kubeconfig or KUBECONFIG")
    return Path(up.kubeconfig)


@contextmanager
def describe_missing(plural: str) -> Iterator[None]:
    """What lists the objects that there are."""
    try:
        yield
    except NotFound as error:
        error.args = (f"{error}\nnext: `fleet get {plural}` lists what there is",)
        raise
