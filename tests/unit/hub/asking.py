"""Asks a hub without a socket: the ASGI application is called as the server would call it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from fleet.hub.access.authentication import AUTHENTICATED, Tokens, User
from fleet.hub.http.app import Application, Listener
from fleet.hub.hub import Hub

Message = MutableMapping[str, Any]

ADMIN = User("admin", "1", ("system:masters", AUTHENTICATED))
BOB = User("bob", "2", ("developers", AUTHENTICATED))
TOKENS = Tokens({"admin-token": ADMIN, "bob-token": BOB})
NOON = 1_700_000_000.0

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"


@dataclass
class Answer:
    code: int
    headers: dict[str, str]
    content: bytes
    chunks: list[bytes] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def events(self) -> list[Any]:
        return [json.loads(line) for line in self.content.splitlines()]

    @property
    def refusal(self) -> tuple[int, str, str]:
        document = self.json
        assert document["kind"] == "Status", document
        assert document["code"] == self.code
        return self.code, document["reason"], document["message"]


class Asker:
    """One client of one hub. `settle` lets the hub finish what deletions set in motion."""

    def __init__(self, hub: Hub, runner: asyncio.Runner, *, trusts_local: bool = False) -> None:
        self.hub = hub
        self._runner = runner
        self._app = Application(hub, Listener(trusts_local=trusts_local, address="127.0.0.1:1"))

    def __call__(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        token: str | None = "admin-token",
        media_type: str = "application/json",
        headers: Iterable[tuple[str, str]] = (),
    ) -> Answer:
        return self._runner.run(self.begin(method, url, body, token=token, media_type=media_type, headers=headers))

    async def begin(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        token: str | None = "admin-token",
        media_type: str = "application/json",
        headers: Iterable[tuple[str, str]] = (),
    ) -> Answer:
        """For tests with several requests at once."""
        path, _, query = url.partition("?")
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = [("host", "127.0.0.1:1"), ("content-type", media_type), ("user-agent", "tests/1"), *headers]
        if token is not None:
            sent.append(("authorization", f"Bearer {token}"))
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent],
        }
        return await self._ask(scope, content)

    async def _ask(self, scope: dict[str, Any], content: bytes) -> Answer:
        incoming: list[Message] = [{"type": "http.request", "body": content}]
        answer = Answer(0, {}, b"")

        async def receive() -> Message:
            if incoming:
                return incoming.pop()
            await asyncio.Event().wait()
            raise AssertionError("nobody sets the event")

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.code = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                answer.content += message["body"]

        await self._app(scope, receive, send)
        return answer

    def settle(self) -> None:
        while self.hub.garbage_collector.has_work:
            self.hub.garbage_collector.process_batch()

    def names(self, url: str) -> list[str]:
        return [item["metadata"]["name"] for item in self("GET", url).json["items"]]


def a_config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def a_thing(name: str, *, n: Any = 1, **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, **metadata}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": meta, "spec": {"n": n}}


def a_definition(**changes: Any) -> dict[str, Any]:
    """Things: two versions, a status, a default in the second version's spec."""
    spec = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}}
    status = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    newer = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"m": {"type": "integer"}}}}}
    versions = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
        },
        {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": newer}},
    ]
    names = {"plural": "things", "kind": "Thing", "shortNames": ["th"]}
    described = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions, **changes}
    name = f"{described['names']['plural']}.{described['group']}"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": described,
    }
