"""Large responses: they are compressed beside the event loop, and those that are not read are bounded by bytes."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from typing import Any, Final

import pytest

from fleet.hub.access.authentication import ADMINISTRATORS, AUTHENTICATED, Tokens, User
from fleet.hub.http import app
from fleet.hub.http.app import Application, Listener
from fleet.hub.hub import Hub
from fleet.serving import bind, build_server, serve
from tests.unit.hub.asking import CONFIG_MAPS, Answer, Asker, a_config_map

OBJECTS: Final = 24
SIZE: Final = 900_000
"""More than sockets take without a reader, in all."""
PATIENCE: Final = 120.0


async def ask_for_list(port: int, token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    lines = [f"GET {CONFIG_MAPS} HTTP/1.1", "Host: hub", f"Authorization: Bearer {token}", "Connection: close", "", ""]
    writer.write("\r\n".join(lines).encode())
    return reader, writer


async def read_head(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\r\n\r\n")).decode()


async def read_list(port: int, token: str) -> tuple[str, bytes]:
    reader, writer = await ask_for_list(port, token)
    head = await read_head(reader)
    body = await reader.read()
    writer.close()
    return head, body


def test_a_caller_who_does_not_read_gets_no_further_large_list(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_UNSENT", OBJECTS * SIZE * 3 // 2)
    for number in range(OBJECTS):
        ask("POST", CONFIG_MAPS, a_config_map(f"c{number}", text="x" * SIZE))
    names = ("one", "other")
    ask.hub.tokens = Tokens({name: User(name, name, (ADMINISTRATORS, AUTHENTICATED)) for name in names})
    asyncio.run(check(ask.hub, *names))


async def check(hub: Hub, one: str, other: str) -> None:
    bound = bind("127.0.0.1", 0)
    port = bound.getsockname()[1]
    async with (
        asyncio.timeout(PATIENCE),
        serve(build_server(Application(hub, Listener(trusts_local=False))), bound, name="hub"),
    ):
        reader, writer = await ask_for_list(port, one)
        assert " 200 " in await read_head(reader)

        head, body = await read_list(port, one)
        assert " 429 " in head
        assert "retry-after: 1" in head
        assert json.loads(body)["reason"] == "TooManyRequests"
        assert " 200 " in (await read_list(port, other))[0]

        assert len(json.loads(await reader.read())["items"]) == OBJECTS
        writer.close()
        assert " 200 " in (await read_list(port, one))[0]


def test_others_are_answered_while_a_large_response_is_compressed(
    ask: Asker, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("large", text="x" * SIZE))
    compress, is_answered = gzip.compress, threading.Event()

    def compress_after_others(*arguments: Any, **options: Any) -> bytes:
        assert is_answered.wait(PATIENCE)
        return compress(*arguments, **options)

    async def both() -> tuple[Answer, Answer]:
        large = asyncio.create_task(ask.begin("GET", f"{CONFIG_MAPS}/large", headers=[("accept-encoding", "gzip")]))
        await asyncio.sleep(0)  # its turn is first
        small = await ask.begin("GET", CONFIG_MAPS.removesuffix("/configmaps"))
        is_answered.set()
        return small, await large

    monkeypatch.setattr(gzip, "compress", compress_after_others)
    small, large = runner.run(both())
    assert small.code == 200
    assert json.loads(gzip.decompress(large.content))["data"] == {"text": "x" * SIZE}
