"""Reload of the configuration file, and of the Secrets that it names, without a restart.

The file is looked at by its content, so that a mounted ConfigMap, whose links are exchanged, is noticed as an edit is.
Of a Secret that cannot be read any more, the last values stay in effect.
An edit takes effect as a whole, or not at all: it is parsed, checked and built first. Settings that are read at startup
only keep their values, and are named.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from fleet.clock import Clock
from fleet.errors import ConfigurationError
from fleet.settings import Effective
from fleet.settings.document.substitution import SecretValues
from fleet.settings.names import known_settings

INTERVAL: Final = 2.0
"""Seconds between two looks at the file."""
SECRETS_INTERVAL: Final = 30.0
"""Seconds between two looks at the Secrets."""
_RELOADED: Final = ("status", "spread", "downscale", "sorter", "evaluation", "profiles", "extenders", "feeds")
_REFUSED: Final = "the last edit of the configuration was refused: the one before it is in effect; see the log"
_REFUSED_VALUES: Final = "new values of Secrets were refused: those before them are in effect; see the log"

log = structlog.get_logger(__name__)

ReadSecrets = Callable[[Effective], Awaitable[SecretValues]]
"""Called with the settings that name them."""


class ConfigReload:
    def __init__(
        self,
        file: Path,
        effective: Effective,
        *,
        load: Callable[[SecretValues | None, str | None], Effective],
        apply: Callable[[Effective], None],
        registry: CollectorRegistry,
        clock: Clock,
        read_secrets: ReadSecrets | None = None,
    ) -> None:
        """`load` reads the file, or the text that is given for it. `apply` raises ConfigurationError, and has changed
        nothing then. Without `read_secrets` the file cannot name any."""
        self._file = file
        self._effective = effective
        self._load = load
        self._apply = apply
        self._clock = clock
        self._read_secrets = read_secrets
        self._secrets = effective.secrets
        """As they were read last."""
        self._content = self._seen = _read(file)
        self._accepted = self._content
        """The content in effect."""
        self._edit_problem = ""
        self._rotation_problem = ""
        self._secret_problem = ""
        failed = Gauge(
            "fleet_config_reload_failed", "Whether the last edit of the configuration was refused.", registry=registry
        )
        failed.set_function(lambda: float(self._edit_problem == _REFUSED or bool(self._rotation_problem)))
        self._reloads = Counter(
            "fleet_config_reloads_total", "Edits of the configuration, by result.", ("result",), registry=registry
        )
        for result in ("applied", "refused"):
            self._reloads.labels(result)
        self._report_secrets()

    @property
    def problem(self) -> str:
        """Why the configuration in effect is not that of the file and its Secrets; empty if it is."""
        return "; ".join(filter(None, (self._edit_problem, self._rotation_problem, self._secret_problem)))

    async def run(self) -> None:
        """Until cancelled."""
        next_read = self._clock.monotonic() + SECRETS_INTERVAL
        while True:
            await self._clock.sleep(INTERVAL)
            if self._has_edit():
                await self._reload_file()
            elif self._names_secrets() and self._clock.monotonic() >= next_read:
                await self._reload_secrets()
                next_read = self._clock.monotonic() + SECRETS_INTERVAL

    def _has_edit(self) -> bool:
        """A change takes effect at the second look that finds it: until then the file may still be being written."""
        content, before = _read(self._file), self._seen
        self._seen = content
        if content == self._content or content != before:
            return False
        self._content = content
        return True

    def _names_secrets(self) -> bool:
        return bool(self._effective.secret_names) and self._read_secrets is not None

    async def _reload_file(self) -> None:
        before = self._secrets
        try:
            loaded = self._load(self._effective.secrets, None)
            if loaded.secret_names:
                loaded = self._load(await self._look_at_secrets(loaded), None)
            names = self._exchange(loaded)
        except Exception as error:
            self._secrets = before  # those of the refused edit may be others
            self._edit_problem = _REFUSED
            self._report_refusal("the configuration was edited and is refused", error)
        else:
            self._accepted = self._content
            self._edit_problem = f"needs a restart: {', '.join(names)}" if names else ""
            self._rotation_problem = ""
        self._report_secrets()

    async def _reload_secrets(self) -> None:
        """Nothing is exchanged if what the content in effect refers to is as before. Values that are refused are
        reported once."""
        try:
            text = None if self._accepted is None else self._accepted.decode()
            loaded = self._load(await self._look_at_secrets(self._effective), text)
            if _keep_fixed(self._effective, loaded)[0].settings != self._effective.settings:
                self._exchange(loaded)
            self._rotation_problem = ""
        except Exception as error:
            if not self._rotation_problem:
                self._rotation_problem = _REFUSED_VALUES
                self._report_refusal("new values of Secrets are refused", error)
        self._report_secrets()

    async def _look_at_secrets(self, effective: Effective) -> SecretValues:
        assert self._read_secrets is not None
        self._secrets = await self._read_secrets(effective)
        return self._secrets.keep(self._effective.secrets or SecretValues())

    def _exchange(self, loaded: Effective) -> tuple[str, ...]:
        """The names of settings that need a restart."""
        effective, names = _keep_fixed(self._effective, loaded)
        self._apply(effective)
        self._effective = effective
        self._reloads.labels("applied").inc()
        log.info("the configuration was reloaded", file=str(self._file), needs_restart=list(names))
        return names

    def _report_refusal(self, event: str, error: Exception) -> None:
        self._reloads.labels("refused").inc()
        log.error(
            event,
            file=str(self._file),
            problems=str(error),
            exc_info=None if isinstance(error, ConfigurationError) else error,
        )

    def _report_secrets(self) -> None:
        """Names of Secrets and keys, and never a value."""
        before, self._secret_problem = self._secret_problem, "; ".join(dict.fromkeys(self._list_secret_problems()))
        if self._secret_problem and self._secret_problem != before:
            log.warning("values of Secrets cannot be used", problems=self._secret_problem)
        elif before and not self._secret_problem:
            log.info("all values of Secrets can be used again")

    def _list_secret_problems(self) -> Iterator[str]:
        effective, read = self._effective, self._secrets
        if effective.secrets is None or read is None:
            return
        for key in sorted(effective.secret_keys):
            problem = read.describe_missing(key, effective.secret_names)
            if problem:
                yield f"{problem} (its last value is used)" if key in effective.secrets.values else problem


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
