"""Connection of `fleet get` and `fleet apply` to the hub: as kubectl does, or else to the last `fleet up`."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.cli.client.last_up import find_latest_up
from fleet.clock import SystemClock
from fleet.errors import ApiError, ConfigurationError, Forbidden, NotFound, Unauthorized, Unreachable
from fleet.kube.client.transport import Transport

REQUEST: Final = re.compile(r"^[A-Z]+ /\S*: ")
"""In front of the hub's messages."""
_STEPS: Final[tuple[tuple[type[ApiError], str], ...]] = (
    (NotFound, "`fleet get {plural}` lists what there is"),
    (Forbidden, "ask an administrator of the hub for this right"),
    (Unauthorized, "renew the credentials of your kubeconfig, or choose another one with --kubeconfig or --context"),
    (Unreachable, "check that the hub runs, or choose another one with --kubeconfig or --context"),
)


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
def describe_hub_errors(plural: str) -> Iterator[None]:
    """The hub's message without the request, and the next step."""
    try:
        yield
    except (NotFound, Forbidden, Unauthorized, Unreachable) as error:
        step = next(step for kind, step in _STEPS if isinstance(error, kind)).format(plural=plural)
        error.args = (f"{REQUEST.sub('', str(error))}\nnext: {step}",)
        raise
