"""Certificates in files, and what a client is shown of them."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Self

import trustme

AUTHORITY = trustme.CA()


class Files:
    """A certificate and its key, as whoever renews them leaves them."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"

    def write(self, name: str, *, key_type: trustme.KeyType = trustme.KeyType.ECDSA) -> Self:
        issued = AUTHORITY.issue_cert(name, key_type=key_type)
        self.key.write_bytes(issued.private_key_pem.bytes())
        self.certificate.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
        return self


def name_shown_by(context: ssl.SSLContext) -> str:
    trusting = ssl.create_default_context()
    AUTHORITY.configure_trust(trusting)
    trusting.check_hostname = False
    shown = shake_hands(trusting, context)[0].getpeercert()
    assert shown is not None
    return str(shown["subjectAltName"][0][1])


def shake_hands(
    client: ssl.SSLContext, server: ssl.SSLContext, *, server_hostname: str | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends, the client's first, without a network."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=server_hostname),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends
