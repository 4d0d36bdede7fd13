"""One request to a service outside of the cluster, bounded in size. Certificates are read again for each."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import fleet
from fleet.settings.document.extenders import TlsOptions

if TYPE_CHECKING:
    import aiohttp

LARGEST_ANSWER: Final = 16 * 2**20
"""Bytes."""
_OK: Final = 200
_REFUSALS: Final = (401, 403)
_LONGEST_MESSAGE: Final = 500


class UnusableAnswer(Exception):
    """The service answered, and the answer says nothing."""


class RefusedToken(UnusableAnswer):
    """It wants another token, or one at all."""


async def fetch(
    method: str, url: str, *, tls: TlsOptions, content: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """The body. The caller sets the time-out. Raises UnusableAnswer, and whatever the libraries raise."""
    async with (
        _open_session(url, tls) as session,
        session.request(
            method,
            url,
            data=content,
            headers=headers,
            allow_redirects=False,
            server_hostname=tls.server_name or None,
        ) as response,
    ):
        if response.status != _OK:
            kind = RefusedToken if response.status in _REFUSALS else UnusableAnswer
            raise kind(f"answered {response.status} {response.reason or ''}".rstrip())
        body = bytearray()
        async for chunk in response.content.iter_chunked(2**16):
            body += chunk
            if len(body) > LARGEST_ANSWER:
                raise UnusableAnswer(f"answered more than {LARGEST_ANSWER // 2**20} MiB")
        return bytes(body)


def describe_failure(error: BaseException, *, hides_address: bool = False) -> str:
    """Messages of the libraries name the address."""
    return type(error).__name__ if hides_address else shorten(error) or type(error).__name__


def shorten(message: object) -> str:
    """What a service says may be of any length."""
    text = str(message)
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def _open_session(url: str, tls: TlsOptions) -> aiohttp.ClientSession:
    import aiohttp  # slow to import, and not needed without a service

    connector = aiohttp.TCPConnector(ssl=_build_ssl(tls) if url.startswith("https:") else False)
    headers = {"Content-Type": "application/json", "User-Agent": f"fleet/{fleet.__version__}"}
    return aiohttp.ClientSession(connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=None))


def _build_ssl(options: TlsOptions) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.ca_file or None)
    if options.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if options.cert_file:
        context.load_cert_chain(options.cert_file, options.key_file)
    return context
