"""Bodies that nest deeper, or are larger, than any document of a user."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from api.http import bodies
from api.http.bodies import DEEPEST_BODY
from fleet import checkpoint
from tests.api.stage import ADMIN, AUTHOR, Stage, staged


def nested(levels: int) -> bytes:
    """An object with that many levels, itself included."""
    return b'{"placement": ' + b'{"a": ' * (levels - 2) + b"{}" + b"}" * (levels - 1)


async def post(stage: Stage, body: bytes) -> Any:
    async with stage.client(ADMIN) as client:
        return await client.post("/v1/simulate", content=body, headers={"content-type": "application/json"})


@staged
async def test_a_body_of_any_depth_is_refused_and_never_fails(stage: Stage) -> None:
    answers = {levels: await post(stage, nested(levels)) for levels in (DEEPEST_BODY + 1, 480, 950, 2_000, 100_000)}

    assert {levels: answer.status_code for levels, answer in answers.items()} == dict.fromkeys(answers, 422)
    assert all(answer.json()["next"] for answer in answers.values())
    assert answers[DEEPEST_BODY + 1].json()["detail"] == f"the body is nested deeper than {DEEPEST_BODY} levels"


@staged
async def test_a_body_as_deep_as_allowed_is_read(stage: Stage) -> None:
    answer = await post(stage, nested(DEEPEST_BODY))

    assert "nested" not in answer.text
    assert answer.status_code == 422


def of_kilobytes(size: int) -> bytes:
    return b'{"placement": {"ref": "web", "annotation": "%s"}}' % (b"x" * 1_000 * size)


@staged
async def test_a_large_body_is_read_apart_from_the_event_loop(stage: Stage) -> None:
    """In a thread that pauses for requests, and ends where nobody waits for it any more."""
    threads: list[tuple[int, Any]] = []
    parse = bodies._parse

    def observe(*arguments: Any) -> dict[str, Any]:
        threads.append((threading.get_ident(), checkpoint._CALL.get()))
        return parse(*arguments)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(bodies, "_parse", observe)
        answer = await post(stage, of_kilobytes(100))

    assert answer.status_code == 422
    ((thread, interrupt),) = threads
    assert thread != threading.get_ident()
    assert interrupt.__self__._precedence is not None


@staged
async def test_a_large_body_does_not_wait_for_those_of_others(stage: Stage) -> None:
    parse, has_begun, is_over = bodies._parse, threading.Event(), threading.Event()

    def wait(body: bytes, check: Any) -> dict[str, Any]:
        if len(body) > 200_000:
            has_begun.set()
            is_over.wait(10)
        return parse(body, check)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(bodies, "_parse", wait)
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(post(stage, of_kilobytes(300))) for _ in range(4)]
            await asyncio.to_thread(has_begun.wait, 10)
            answer = await post(stage, of_kilobytes(100))
            assert not any(other.done() for other in others)
            is_over.set()

    assert answer.status_code == 422
    assert {other.result().status_code for other in others} == {422}


@staged
async def test_a_body_that_ends_before_its_length_is_no_failure_of_the_api(stage: Stage) -> None:
    messages = iter(({"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}))
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {AUTHOR}".encode()), (b"content-length", b"100")]
    scope = {"type": "http", "method": "POST", "path": "/v1/simulate", "query_string": b"", "headers": headers}
    with capture_logs() as logs:
        await stage.app(scope, receive, send)
    assert sent[0]["status"] == 400
    assert b"closed before the end of the body" in sent[1]["body"]
    assert [line for line in logs if line["log_level"] == "error"] == []
