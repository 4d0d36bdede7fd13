"""The HTTP protocol of every server here: uvicorn's, with bounds on what one connection may cost.

A request is bounded in bytes before it reaches an application (URL, head, trailers and chunk extensions), and in the
time until it has arrived; a response is bounded in the time in which its reader takes nothing. Bodies are bounded by
the applications, which know how large they may be; uvicorn reads them only as fast as the application does.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

LARGEST_URL: Final = 52 * 1024
"""Bytes: continue tokens and cursors of lists stand in the URL."""
LARGEST_HEAD: Final = 128 * 1024
"""Bytes of URL and headers together: besides a long URL there may be a long token."""
MOST_HEADERS: Final = 256
REQUEST_SECONDS: Final = 30.0
"""From the first byte of a request to the last one of its body, as long as the application is ready to read it."""
UNREAD_SECONDS: Final = 30.0
"""How long a client may take next to nothing of a response that is ready for it."""
_LEAST_TAKEN: Final = 16 * 1024
"""Bytes within `UNREAD_SECONDS`, if there are as many."""
PEER_CERTIFICATE: Final = "peer_certificate"
"""In the state of a request: the client certificate of its connection, which TLS has verified."""

_NEXT: Final = {
    HTTPStatus.REQUEST_TIMEOUT: "send the whole request at once",
    HTTPStatus.REQUEST_URI_TOO_LONG: "send a shorter URL",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "send fewer and shorter headers",
    HTTPStatus.BAD_REQUEST: "send an HTTP/1.1 request",
}


class HttpRefusal(Exception):
    """Raised in a callback of the parser, which stops at the first error."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._is_arriving = True
        """Whether a request is awaited or incomplete; not between two requests of a connection."""
        self._has_head = False
        """Of the request that is arriving."""
        self._unparsed = 0
        """Bytes since the parser last completed a head, a part of a body or a message."""
        self._head_size = 0
        self._refusal: HttpRefusal | None = None
        self._arrival: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._unread_size = 0

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, PEER_CERTIFICATE: certificate}
        self._await_arrival()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_awaiting_arrival()
        self._stop_awaiting_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return  # answered already; the connection is closing
        if not self._is_arriving and not self._is_responding:
            self._is_arriving = True  # the next request of this connection
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > LARGEST_HEAD and self._refusal is None:
            self._refuse(_head_too_large())
        if not self._is_arriving:
            self._stop_awaiting_arrival()
        elif self._arrival is None:
            self._await_arrival()

    @property
    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]  # at first

    @property
    def _may_refuse_aloud(self) -> bool:
        """Whether the next response on the connection is the one to the request that is arriving."""
        if self._has_head:
            return not self.cycle.response_started and not self.pipeline
        return not self._is_responding

    # --- bytes of a request -------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._is_arriving, self._has_head, self._head_size = True, False, 0
        self._stop_awaiting_arrival()  # each of several requests without a pause has its own time
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._head_size += len(url)
        if len(self.url) > LARGEST_URL:
            text = f"the URL is longer than {LARGEST_URL} bytes"
            self._stop_parser(HttpRefusal(HTTPStatus.REQUEST_URI_TOO_LONG, text))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > LARGEST_HEAD or len(self.headers) >= MOST_HEADERS:
            self._stop_parser(_head_too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._unparsed, self._has_head = 0, True

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed, self._is_arriving, self._has_head = 0, False, False
        super().on_message_complete()

    def _stop_parser(self, refusal: HttpRefusal) -> None:
        self._refusal = refusal
        raise refusal

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn after any error of the parser."""
        self._refuse(self._refusal or HttpRefusal(HTTPStatus.BAD_REQUEST, msg.rstrip(".")))

    def _refuse(self, refusal: HttpRefusal) -> None:
        self._refusal = refusal
        if self.transport.is_closing():
            return
        if self._may_refuse_aloud:
            self.transport.write(_format_refusal(refusal))
        self.transport.close()

    # --- time ---------------------------------------------------------------------------------------------------------

    def _await_arrival(self) -> None:
        self._arrival = self.loop.call_later(REQUEST_SECONDS, self._check_arrival)

    def _stop_awaiting_arrival(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _check_arrival(self) -> None:
        self._arrival = None
        if self.transport.is_closing() or not self._is_arriving:
            return
        if self.flow.read_paused:  # the client may be ready, but the application is not
            self._await_arrival()
            return
        if not self._unparsed and not self._has_head:
            self.transport.close()  # no request was begun
            return
        text = f"the request had not arrived after {REQUEST_SECONDS:g} s"
        self._refuse(HttpRefusal(HTTPStatus.REQUEST_TIMEOUT, text))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_awaiting_reader()

    def _await_reader(self) -> None:
        self._stop_awaiting_reader()
        self._unread_size = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self._check_reader)

    def _stop_awaiting_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _check_reader(self) -> None:
        taken = self._unread_size - self.transport.get_write_buffer_size()
        if 0 <= taken < _LEAST_TAKEN:
            self._unread = None
            self.transport.abort()
        else:
            self._await_reader()


def _head_too_large() -> HttpRefusal:
    text = f"the head of the request has more than {LARGEST_HEAD} bytes or {MOST_HEADERS} headers"
    return HttpRefusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)


def _format_refusal(refusal: HttpRefusal) -> bytes:
    status = refusal.status
    problem = {"title": status.phrase, "status": status.value, "detail": str(refusal), "next": _NEXT[status]}
    body = json.dumps(problem).encode()
    head = b"content-type: application/problem+json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    return STATUS_LINE[status] + head + body
