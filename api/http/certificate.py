"""The server certificate, reloaded when its files change, so that a renewal needs no restart; and the authorities of
client certificates, likewise.

New handshakes use what is loaded; open connections keep what they started with.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from fleet.clock import Clock
from fleet.errors import ConfigurationError

CHECK_INTERVAL: Final = 30.0
"""Seconds. Certificates are renewed days before they end, and a mounted Secret itself takes a minute to arrive."""

log = structlog.get_logger(__name__)


class Certificate:
    def __init__(self, certificate: Path, key: Path, *, client_authorities: Callable[[], str] | None = None) -> None:
        """Raises ConfigurationError on files that cannot be used. `client_authorities`, in PEM, are the only ones whose
        client certificates are accepted; none is required."""
        self._files = (certificate, key)
        self._refused: tuple[bytes, ...] = ()
        self._client_authorities = client_authorities or (lambda: "")
        self._trusted = ""
        self.context = self._verifying = _context()
        if client_authorities is not None:
            self.context.sni_callback = self._choose_context
        try:
            self._loaded = self._read()
            self._load_into(self.context)
        except OSError as error:
            raise ConfigurationError(
                f"--tls-cert {certificate} and --tls-key {key} are no certificate with its key: {_reason(error)}; "
                "give both in PEM, the key without a password"
            ) from error
        self._reload_authorities()

    async def watch_files(self, clock: Clock) -> None:
        """Until cancelled."""
        while True:
            await clock.sleep(CHECK_INTERVAL)
            self.reload()

    def reload(self) -> None:
        """Load the present content of the files. Unusable (or incomplete) files are ignored."""
        self._reload_files()
        self._reload_authorities()

    def _reload_files(self) -> None:
        content: tuple[bytes, ...] = ()
        try:
            content = self._read()
            if content == self._loaded:
                return
            self._load_into(_context())  # first on a spare one: a context that fails half-way cannot be used any more
            self._load_into(self.context)
            self._load_into(self._verifying)
        except OSError as error:
            if content != self._refused:
                log.warning("the renewed certificate cannot be used, the former one stays", reason=_reason(error))
            self._refused = content
            return
        self._loaded, self._refused = content, ()
        log.info("certificate renewed", file=str(self._files[0]))

    def _reload_authorities(self) -> None:
        """Into another context: an authority cannot be taken out of one."""
        authorities = self._client_authorities()
        if authorities == self._trusted:
            return
        self._trusted, context = authorities, _context()
        try:
            self._load_into(context)
            if authorities:
                context.load_verify_locations(cadata=authorities)
        except (OSError, ValueError) as error:
            log.warning("the authorities of client certificates cannot be used", reason=str(error))
            return
        for used in (context, self.context):
            _verify_clients(used, wanted=bool(authorities))
        self._verifying = context

    def _choose_context(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, begun: object) -> None:
        """A handshake begins with `context`, and verifies with the one that has the present authorities."""
        del name, begun
        connection.context = self._verifying

    def _read(self) -> tuple[bytes, ...]:
        return tuple(file.read_bytes() for file in self._files)

    def _load_into(self, context: ssl.SSLContext) -> None:
        certificate, key = self._files
        context.load_cert_chain(certificate, key, password="")  # without one, OpenSSL would prompt for it


def _context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def _verify_clients(context: ssl.SSLContext, *, wanted: bool) -> None:
    """Asks for a client certificate, and requires none. Sessions are not resumed: that would skip the verification."""
    context.verify_mode = ssl.CERT_OPTIONAL if wanted else ssl.CERT_NONE
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0


def _reason(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return str(reason or error).replace("_", " ").lower()
