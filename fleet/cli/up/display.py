"""Output of `fleet up`: a greeting, and on a terminal a live view."""

from __future__ import annotations

import io
import shlex
import shutil
import sys
from collections.abc import Callable
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
"""Seconds between two refreshes."""
_LATE: Final = 2.5
"""Heartbeat intervals after which a cluster counts as late."""
_HEADLINES: Final = 100


def list_commands(endpoint: Endpoint) -> tuple[str, ...]:
    """Commands to try in another terminal."""
    return (
        f"export KUBECONFIG={shlex.quote(str(endpoint.kubeconfig.absolute()))}",
        f"{_program()} why storefront",
        "kubectl get crp",
        "kubectl get crb -l kubernetes-fleet.io/parent-CRP=storefront",
    )


def _program() -> str:
    """The command as another shell finds it: `make up` installs it next to the interpreter, outside PATH."""
    beside = Path(sys.executable).with_name("fleet")
    return "fleet" if shutil.which("fleet") or not beside.exists() else shlex.quote(str(beside))


def render_greeting(endpoint: Endpoint, data_dir: Path | None, *, api: str, explorer: str, clusters: int) -> str:
    storage = "live in memory and are lost when it stops" if data_dir is None else f"are stored in {data_dir}"
    listed = "\n".join(f"  {command}" for command in list_commands(endpoint))
    return (
        f"A fleet of {clusters} clusters is up at {endpoint.url}, its API at {api}; objects {storage}. Press Ctrl-C to "
        f"stop. In a browser, once and within ten minutes (afterwards `{_program()} ui` opens it):\n\n  {explorer}\n\n"
        f"In another terminal:\n\n{listed}\n"
    )


class UpView:
    def __init__(
        self, caches: Caches, headlines: Headlines, settings: Settings, endpoint: Endpoint, *, interval: float
    ) -> None:
        self._caches = caches
        self._headlines = headlines
        self._endpoint = endpoint
        self._thresholds = HeartbeatThresholds(_LATE * interval, settings.eligibility.heartbeat_timeout.seconds)

    async def run(
        self, clock: Clock, console: Console | None = None, *, api: str = "", link: Callable[[], str] = lambda: ""
    ) -> None:
        """Run until cancelled, then restore the terminal. `link` to the explorer, as it is now."""
        picture = LiveScreen(lambda: self.picture(clock, api=api, link=link()))
        with Live(picture, console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.refresh()
                await clock.sleep(_EVERY)

    def picture(self, clock: Clock, *, api: str = "", link: str = "") -> Screen:
        placements = [placement for kinds in self._caches.kinds for placement in kinds.placements.store.values()]
        return Screen(
            title=f"fleet up: {self._endpoint.url}{f', API {api}' if api else ''}, Ctrl-C to stop",
            clusters=cluster_rows(
                self._caches.clusters.values(), now=epoch_nanoseconds(clock), thresholds=self._thresholds
            ),
            placements=sorted(map(placement_row, placements)),
            headlines=self._headlines.latest(_HEADLINES),
            commands=(*((link,) if link else ()), *list_commands(self._endpoint)),
        )


class LogHeadlines(io.TextIOBase):
    """A log stream while the terminal shows the view: log lines become headlines."""

    def __init__(self, headlines: Headlines) -> None:
        self._headlines = headlines

    def write(self, text: str) -> int:
        for line in filter(None, map(str.strip, text.splitlines())):
            self._headlines.announce("log", line)
        return len(text)
