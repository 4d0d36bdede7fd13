"""A plain HTTPS client for one hub: what was sent is what a test wrote, what came back is what the server said.

The client under test would hide both. It also ignores proxies, which have no business on the loopback interface.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPMessage
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from tests.control_plane.access import ADMIN, Access

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

SECONDS_TO_ANSWER: Final = 90.0

Query = Mapping[str, str | int | bool]


@dataclass(frozen=True)
class Response:
    """A whole answer."""

    status: int
    headers: HTTPMessage
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def message(self) -> str:
        """The message of a Status."""
        text: str = self.json["message"]
        return text

    def ok(self) -> Any:
        """The document, if the server was content."""
        assert 200 <= self.status < 300, f"{self.status}: {self.content.decode(errors='replace')}"
        return self.json


class HttpClient:
    """Requests as one user; one connection each, so that no test meets another's."""

    def __init__(self, access: Access, *, user: str = ADMIN) -> None:
        self._address = urlsplit(access.url)
        self._context = access.ssl_context()
        self._token = access.tokens.get(user)

    def get(self, path: str, query: Query | None = None, **headers: str) -> Response:
        return self.request("GET", path, query=query, headers=headers)

    def post(self, path: str, body: object, query: Query | None = None) -> Response:
        return self.request("POST", path, body=body, query=query)

    def put(self, path: str, body: object, query: Query | None = None) -> Response:
        return self.request("PUT", path, body=body, query=query)

    def patch(self, path: str, body: object, query: Query | None = None, *, kind: str = MERGE_PATCH) -> Response:
        return self.request("PATCH", path, body=body, query=query, headers={"Content-Type": kind})

    def apply(self, path: str, body: object, *, manager: str, force: bool = False) -> Response:
        query: Query = {"fieldManager": manager, "force": force}
        return self.request("PATCH", path, body=body, query=query, headers={"Content-Type": APPLY_PATCH})

    def delete(self, path: str, body: object = None, query: Query | None = None) -> Response:
        return self.request("DELETE", path, body=body, query=query)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = SECONDS_TO_ANSWER,
    ) -> Response:
        with self._answer(method, path, body, query, headers or {}, seconds=seconds) as answer:
            return Response(answer.status, answer.headers, answer.read())

    @contextmanager
    def watch(self, path: str, query: Query | None = None, *, seconds: float = SECONDS_TO_ANSWER) -> Iterator[Watch]:
        """A watch that gives up after a silence of some seconds."""
        query = {"watch": True, **(query or {})}
        with self._answer("GET", path, None, query, {}, seconds=seconds) as answer:
            assert answer.status == 200, answer.read().decode(errors="replace")
            yield Watch(answer)

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        body: object,
        query: Query | None,
        headers: Mapping[str, str],
        *,
        seconds: float,
    ) -> Iterator[http.client.HTTPResponse]:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Accept": JSON, "Content-Type": JSON} | self._authorization() | dict(headers)
        host, port = self._address.hostname or "", self._address.port
        connection = http.client.HTTPSConnection(host, port, context=self._context, timeout=seconds)
        try:
            connection.request(method, path + _encoded(query), body=content, headers=sent)
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


class Watch(Iterator[Any]):
    """The events of one watch, as they come. Ends when the server ends it."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer

    def __next__(self) -> Any:
        line = self._answer.readline()
        if not line:
            raise StopIteration
        return json.loads(line)


def _encoded(query: Query | None) -> str:
    if not query:
        return ""
    texts = {key: str(value).lower() if isinstance(value, bool) else value for key, value in query.items()}
    return "?" + urlencode(texts)
