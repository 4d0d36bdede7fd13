"""Connection to the hub: from a kubeconfig if one is given, else from the pod's service account."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fleet.clock import Clock
from fleet.kube.client.rate_limiter import RateLimit, RateLimiter
from fleet.kube.client.transport import Transport
from fleet.settings import Settings
from fleet.settings.tree import SHARES

_POD_IDENTITY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


async def connect(
    settings: Settings, *, kubeconfig: Path | None = None, context: str | None = None, clock: Clock
) -> Transport:
    rate_limiter = build_rate_limiter(settings, clock)
    if kubeconfig is None and context is None and has_pod_identity(os.environ):
        return await Transport.in_cluster(clock=clock, rate_limiter=rate_limiter)
    return await Transport.from_kubeconfig(kubeconfig, clock=clock, context=context, rate_limiter=rate_limiter)


def build_rate_limiter(settings: Settings, clock: Clock) -> RateLimiter:
    """No fixed rates unless they are set. Each class of writes then has its own budget."""
    api = settings.api
    budgets: dict[str, RateLimit] = {}
    for name in SHARES:
        rate = api.rate_of(name)
        if rate is not None:
            budgets[name] = RateLimit(rate, api.burst_of(name))
    default = None if api.qps is None else RateLimit(api.qps, api.burst)
    return RateLimiter(clock, budgets, default, concurrency=api.write_concurrency)


def has_pod_identity(environ: Mapping[str, str], folder: Path = _POD_IDENTITY) -> bool:
    """Whether this is a container with a service account and no kubeconfig is given."""
    if environ.get("KUBECONFIG") or not environ.get("KUBERNETES_SERVICE_HOST"):
        return False
    return all((folder / name).is_file() for name in ("token", "ca.crt"))
