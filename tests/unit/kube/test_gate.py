"""What may be written, and what may still happen of what was."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from fleet.errors import ApiError, ConnectionLost, NotLeading
from fleet.kube.api import Method, Request, WriteGate
from tests.fake_hub import FakeHub, Fault, Lost, Slow
from tests.faults.scripted import Down, Refuse
from tests.faults.virtual import VirtualClock, virtual

PATH = "/api/v1/namespaces/shop/configmaps/one"
WRITE = Request(Method.DELETE, PATH, deadline=30.0)
READ = Request(Method.GET, PATH)


def a_gate(weather: Fault = None) -> WriteGate:
    server = FakeHub(lambda _: weather)
    server.put(PATH, {"metadata": {"name": "one"}})
    gate = WriteGate(server, clock=VirtualClock())
    gate.open()
    return gate


@virtual
async def test_a_closed_gate_lets_nothing_but_reads_pass() -> None:
    gate = a_gate()
    gate.close()
    await gate.call(READ)
    with pytest.raises(NotLeading):
        await gate.call(WRITE)
    assert gate.list_unsettled() == []


@virtual
async def test_a_write_is_unsettled_until_it_is_answered() -> None:
    gate = a_gate(Slow(before=5.0))
    writing = asyncio.create_task(gate.call(WRITE))
    await asyncio.sleep(1)
    assert gate.list_unsettled() == [f"DELETE {PATH}"]
    await writing
    assert gate.list_unsettled() == []


@virtual
async def test_a_read_is_never_unsettled() -> None:
    gate = a_gate(Slow(before=5.0))
    reading = asyncio.create_task(gate.call(READ))
    await asyncio.sleep(1)
    assert gate.list_unsettled() == []
    await reading


@virtual
async def test_a_write_without_an_answer_is_unsettled_until_its_deadline() -> None:
    gate = a_gate(Lost())
    with pytest.raises(ConnectionLost):
        await gate.call(WRITE)
    await asyncio.sleep(29)
    assert gate.list_unsettled() == [f"DELETE {PATH}"]
    await asyncio.sleep(2)
    assert gate.list_unsettled() == []


@virtual
async def test_a_write_that_is_cut_off_is_unsettled_until_its_deadline() -> None:
    gate = a_gate(Slow(before=60.0))
    writing = asyncio.create_task(gate.call(WRITE))
    await asyncio.sleep(1)
    writing.cancel()
    await asyncio.wait({writing})
    assert gate.list_unsettled() == [f"DELETE {PATH}"]
    await asyncio.sleep(30)
    assert gate.list_unsettled() == []


@pytest.mark.parametrize("weather", [Refuse(503), Refuse(409, "Conflict"), Down()])
def test_a_write_that_was_refused_is_settled(weather: Fault) -> None:
    @virtual
    async def refused() -> None:
        gate = a_gate(weather)
        with suppress(ApiError):
            await gate.call(WRITE)
        assert gate.list_unsettled() == []

    refused()
