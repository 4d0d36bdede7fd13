"""What `fleet up` says and shows: a greeting, and on a terminal a view that keeps itself current."""

from __future__ import annotations

import io
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live

from fleet.clock import Clock, epoch_nanoseconds
from fleet.demo.headlines import Headlines
from fleet.demo.status_rows import HeartbeatThresholds, cluster_rows, placement_row
from fleet.demo.view import LiveScreen, Screen
from fleet.hub.http.server import Endpoint
from fleet.informers.cache import Caches
from fleet.settings import Settings

_EVERY: Final = 0.5
"""Seconds between two pictures."""
_LATE: Final = 2.5
"""Heartbeats that are waited for before a cluster counts as late."""
_HEADLINES: Final = 100


def commands(endpoint: Endpoint) -> tuple[str, ...]:
    """To try in another terminal."""
    return (
        f"export KUBECONFIG={shlex.quote(str(endpoint.kubeconfig.absolute()))}",
        f"{_program()} why storefront",
        "kubectl get crp",
        "kubectl get crb -l kubernetes-fleet.io/parent-CRP=storefront",
    )


def _program() -> str:
    """As another shell finds it: `make up` installs it beside its interpreter, where no PATH leads."""
    beside = Path(sys.executable).with_name("fleet")
    return "fleet" if shutil.which("fleet") or not beside.exists() else shlex.quote(str(beside))


def greeting(endpoint: Endpoint, data_dir: Path | None, *, clusters: int) -> str:
    kept = "live in memory and are lost when it stops" if data_dir is None else f"are kept in {data_dir}"
    command_lines = "\n".join(f"  {command}" for command in commands(endpoint))
    return (
        f"A fleet of {clusters} clusters is up at {endpoint.url}; objects {kept}. Ctrl-C ends it. In another "
        f"terminal:\n\n{command_lines}\n"
    )


class Show:
    def __init__(
        self, caches: Caches, headlines: Headlines, settings: Settings, endpoint: Endpoint, *, interval: float
    ) -> None:
        self._caches = caches
        self._headlines = headlines
        self._endpoint = endpoint
        self._patience = HeartbeatThresholds(_LATE * interval, settings.eligibility.heartbeat_timeout.seconds)

    async def run(self, clock: Clock, console: Console | None = None) -> None:
        """Until cancelled. The terminal is as before then."""
        picture = LiveScreen(lambda: self.picture(clock))
        with Live(picture, console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.refresh()
                await clock.sleep(_EVERY)

    def picture(self, clock: Clock) -> Screen:
        placements = [one for kinds in self._caches.kinds for one in kinds.placements.store.values()]
        return Screen(
            title=f"fleet up: {self._endpoint.url}, Ctrl-C ends it",
            clusters=cluster_rows(
                self._caches.clusters.values(), now=epoch_nanoseconds(clock), patience=self._patience
            ),
            placements=sorted(map(placement_row, placements)),
            headlines=self._headlines.latest(_HEADLINES),
            commands=commands(self._endpoint),
        )


class Overheard(io.TextIOBase):
    """A stream for log lines while the terminal shows the view: they become headlines."""

    def __init__(self, headlines: Headlines) -> None:
        self._headlines = headlines

    def write(self, text: str) -> int:
        for line in filter(None, map(str.strip, text.splitlines())):
            self._headlines.tell("log", line)
        return len(text)
