"""Bodies that nest deeper, or are larger, than any document of a user."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from api.http import bodies
from api.http.bodies import DEEPEST_BODY
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


@staged
async def test_a_large_body_is_read_apart_from_the_event_loop(stage: Stage) -> None:
    threads: set[int] = set()
    parse = bodies._parse

    def observe(*arguments: Any) -> dict[str, Any]:
        threads.add(threading.get_ident())
        return parse(*arguments)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(bodies, "_parse", observe)
        answer = await post(stage, b'{"placement": {"ref": "web", "annotation": "%s"}}' % (b"x" * 100_000))

    assert answer.status_code == 422
    assert len(threads) == 1
    assert threading.get_ident() not in threads


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
