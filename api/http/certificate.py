"""The server certificate, reloaded when its files change, so that a renewal needs no restart.

New handshakes use the reloaded certificate; open connections keep the one they started with.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import structlog

from fleet.clock import Clock
from fleet.errors import ConfigurationError

CHECK_INTERVAL: Final = 30.0
"""Seconds. Certificates are renewed days before they end, and a mounted Secret itself takes a minute to arrive."""

log = structlog.get_logger(__name__)


class Certificate:
    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises ConfigurationError on files that cannot be used."""
        self._files = (certificate, key)
        self._refused: tuple[bytes, ...] = ()
        self.context = _context()
        try:
            self._loaded = self._read()
            self._load_into(self.context)
        except OSError as error:
            raise ConfigurationError(
                f"--tls-cert {certificate} and --tls-key {key} are no certificate with its key: {_reason(error)}; "
                "give both in PEM, the key without a password"
            ) from error

    async def watch_files(self, clock: Clock) -> None:
        """Until cancelled."""
        while True:
            await clock.sleep(CHECK_INTERVAL)
            self.reload()

    def reload(self) -> None:
        """Load the present content of the files. Unusable (or incomplete) files are ignored."""
        content: tuple[bytes, ...] = ()
        try:
            content = self._read()
            if content == self._loaded:
                return
            self._load_into(_context())  # first on a spare one: a context that fails half-way cannot be used any more
            self._load_into(self.context)
        except OSError as error:
            if content != self._refused:
                log.warning("the renewed certificate cannot be used, the former one stays", reason=_reason(error))
            self._refused = content
            return
        self._loaded, self._refused = content, ()
        log.info("certificate renewed", file=str(self._files[0]))

    def _read(self) -> tuple[bytes, ...]:
        return tuple(file.read_bytes() for file in self._files)

    def _load_into(self, context: ssl.SSLContext) -> None:
        certificate, key = self._files
        context.load_cert_chain(certificate, key, password="")  # without one, OpenSSL would prompt for it


def _context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def _reason(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return str(reason or error).replace("_", " ").lower()
