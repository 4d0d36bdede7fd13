"""Reload of the configuration file without a restart.

The file is looked at by its content, so that a mounted ConfigMap, whose links are exchanged, is noticed as an edit is.
An edit takes effect as a whole, or not at all: it is parsed, checked and built first. Settings that are read at startup
only keep their values, and are named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from fleet.clock import Clock
from fleet.errors import ConfigurationError
from fleet.settings import Effective
from fleet.settings.names import known_settings

INTERVAL: Final = 2.0
"""Seconds between two looks at the file."""
_RELOADED: Final = ("status", "spread", "downscale", "sorter", "evaluation", "profiles", "extenders", "feeds")
_REFUSED: Final = "the last edit of the configuration was refused: the one before it is in effect; see the log"

log = structlog.get_logger(__name__)


class ConfigReload:
    def __init__(
        self,
        file: Path,
        effective: Effective,
        *,
        load: Callable[[], Effective],
        apply: Callable[[Effective], None],
        registry: CollectorRegistry,
        clock: Clock,
    ) -> None:
        """`apply` raises ConfigurationError, and has changed nothing then."""
        self._file = file
        self._effective = effective
        self._load = load
        self._apply = apply
        self._clock = clock
        self._content = self._seen = _read(file)
        self.problem = ""
        """Why the configuration in effect is not that of the file; empty if it is."""
        failed = Gauge(
            "fleet_config_reload_failed", "Whether the last edit of the configuration was refused.", registry=registry
        )
        failed.set_function(lambda: float(self.problem == _REFUSED))
        self._reloads = Counter(
            "fleet_config_reloads_total", "Edits of the configuration, by result.", ("result",), registry=registry
        )
        for result in ("applied", "refused"):
            self._reloads.labels(result)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL)
            self.look()

    def look(self) -> None:
        """A change takes effect at the second look that finds it: until then the file may still be being written."""
        content, before = _read(self._file), self._seen
        self._seen = content
        if content != self._content and content == before:
            self._content = content
            self._reload()

    def _reload(self) -> None:
        try:
            loaded = self._load()
            effective, names = _keep_fixed(self._effective, loaded)
            self._apply(effective)
        except Exception as error:
            self.problem = _REFUSED
            self._reloads.labels("refused").inc()
            log.error(
                "the configuration was edited and is refused",
                file=str(self._file),
                problems=str(error),
                exc_info=None if isinstance(error, ConfigurationError) else error,
            )
            return
        self._effective = effective
        self._reloads.labels("applied").inc()
        self.problem = f"needs a restart: {', '.join(names)}" if names else ""
        log.info("the configuration was reloaded", file=str(self._file), needs_restart=list(names))


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _keep_fixed(before: Effective, loaded: Effective) -> tuple[Effective, tuple[str, ...]]:
    """The settings that can be exchanged, and the names of the others that differ."""
    exchanged = {name: getattr(loaded.settings, name) for name in _RELOADED}
    settings = before.settings.model_copy(update=exchanged)
    fixed = [name for name in known_settings() if name.partition(".")[0] not in _RELOADED]
    trees = [each.model_dump(mode="json", by_alias=True) for each in (before.settings, loaded.settings)]
    names = tuple(name for name in fixed if _get(trees[0], name) != _get(trees[1], name))
    origins = {**loaded.origins, **{name: before.origins[name] for name in fixed}}
    return replace(loaded, settings=settings, origins=origins), names


def _get(tree: object, name: str) -> object:
    for part in name.split("."):
        assert isinstance(tree, dict)
        tree = tree[part]
    return tree
