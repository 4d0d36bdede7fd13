"""The certificate of a server, reloaded when its files change, so that a renewal needs no restart; and the authorities
of client certificates, likewise.

New handshakes use what is loaded; open connections keep what they started with.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from fleet.clock import Clock
from fleet.errors import ConfigurationError
from fleet.settings.values import CIPHER_SUITES

CHECK_INTERVAL: Final = 30.0
"""Seconds. Certificates are renewed days before they end, and a mounted Secret itself takes a minute to arrive."""
_VERSIONS: Final = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
_VALID: Final = timedelta(days=3650)
"""Of a self-signed certificate, which no client can verify."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    min_version: str = "VersionTLS12"
    cipher_suites: Sequence[str] = ()
    """Those of OpenSSL if there are none."""

    def create_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        suites = [name for suite in self.cipher_suites if (name := CIPHER_SUITES[suite])]
        context.minimum_version = _VERSIONS[self.min_version]
        if suites:
            context.set_ciphers(":".join(suites))
        elif self.cipher_suites:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


DEFAULT_POLICY: Final = TlsPolicy()


class Certificate:
    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        client_authorities: Callable[[], str] | None = None,
        policy: TlsPolicy = DEFAULT_POLICY,
        self_signs: bool = False,
        setting: str = "--tls-cert {} and --tls-key {}",
    ) -> None:
        """Raises ConfigurationError on files that cannot be used; `setting` says where they were named.
        `client_authorities`, in PEM, are the only ones whose client certificates are accepted; none is required.
        `self_signs`: while the files are not there."""
        self._files = (certificate, key)
        self._loaded: tuple[bytes, ...] = ()
        self._refused: tuple[bytes, ...] = ()
        self._client_authorities = client_authorities or (lambda: "")
        self._trusted = ""
        self._policy = policy
        self.context = policy.create_context()
        """Without a certificate: each handshake takes the one that is loaded by then."""
        self.context.sni_callback = self._choose_context
        try:
            if self_signs and not all(file.exists() for file in self._files):
                self._current = _self_sign(policy.create_context())
                log.info("a self-signed certificate serves until there are files", file=str(certificate))
            else:
                self._loaded = self._read()
                self._current = self._load()
        except OSError as error:
            raise ConfigurationError(
                f"{setting.format(certificate, key)} are no certificate with its key: {_reason(error)}; "
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
            self._current = self._load(self._trusted)
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
        self._trusted = authorities
        try:
            self._current = self._load(authorities)
        except (OSError, ValueError) as error:
            log.warning("the authorities of client certificates cannot be used", reason=str(error))
            return
        _verify_clients(self.context, wanted=bool(authorities))

    def _choose_context(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, begun: object) -> None:
        """A handshake begins with `context`, whose versions and suites count."""
        del name, begun
        connection.context = self._current

    def _read(self) -> tuple[bytes, ...]:
        return tuple(file.read_bytes() for file in self._files)

    def _load(self, authorities: str = "") -> ssl.SSLContext:
        context, (certificate, key) = self._policy.create_context(), self._files
        context.load_cert_chain(certificate, key, password="")  # without one, OpenSSL would prompt for it
        if authorities:
            context.load_verify_locations(cadata=authorities)
            _verify_clients(context, wanted=True)
        return context


def _verify_clients(context: ssl.SSLContext, *, wanted: bool) -> None:
    """Asks for a client certificate, and requires none. Sessions are not resumed: that would skip the verification."""
    context.verify_mode = ssl.CERT_OPTIONAL if wanted else ssl.CERT_NONE
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0


def _self_sign(context: ssl.SSLContext) -> ssl.SSLContext:
    from cryptography import x509  # slow to import, and seldom needed
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fleet")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    with tempfile.NamedTemporaryFile(prefix="fleet-tls-") as file:  # the ssl module reads files only
        encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        file.write(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
        file.write(certificate.public_bytes(encoding))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _reason(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return str(reason or error).replace("_", " ").lower()
