"""The server's certificate, and the one that follows it: whoever renews the files need not restart the server.

Handshakes take what the context has at that moment; connections that stand keep what they began with.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import structlog

from fleet.clock import Clock
from fleet.errors import ConfigurationError

LOOK_EVERY: Final = 30.0
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

    async def follow(self, clock: Clock) -> None:
        """Until cancelled."""
        while True:
            await clock.sleep(LOOK_EVERY)
            self.renew()

    def renew(self) -> None:
        """Take what the files hold now. Files that make no sense, or not yet, change nothing."""
        found: tuple[bytes, ...] = ()
        try:
            found = self._read()
            if found == self._loaded:
                return
            self._load_into(_context())  # one that refuses half of it is of no use any more: never try on the real one
            self._load_into(self.context)
        except OSError as error:
            if found != self._refused:
                log.warning("the renewed certificate cannot be used, the former one stays", reason=_reason(error))
            self._refused = found
            return
        self._loaded, self._refused = found, ()
        log.info("certificate renewed", file=str(self._files[0]))

    def _read(self) -> tuple[bytes, ...]:
        return tuple(file.read_bytes() for file in self._files)

    def _load_into(self, context: ssl.SSLContext) -> None:
        certificate, key = self._files
        context.load_cert_chain(certificate, key, password="")  # without one, OpenSSL would ask the terminal


def _context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def _reason(error: OSError) -> str:
    said = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return str(said or error).replace("_", " ").lower()
