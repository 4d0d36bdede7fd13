"""How often a reconcile decodes what its author may make large: each time holds the event loop for milliseconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from types import BuiltinMethodType
from typing import Any, Final

import msgspec
import pytest

from fleet.model import decoding
from tests.fake_hub import FakeHub, Json
from tests.faults.virtual import within
from tests.unit.placement.workbench import WEB, Neighbours, Workbench, a_placement

PART: Final = "example.com/part"
FOREIGN: Final = "ofAnotherWriter"


class Decodes:
    """Texts that the product decoded, by whatever decoder of `msgspec`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on_loop: list[bytes] = []
        self._loop_thread = threading.current_thread()
        monkeypatch.setattr(msgspec.json, "decode", partial(self._count, msgspec.json.decode))
        monkeypatch.setattr(decoding, "_read", partial(self._count, decoding._read))
        for name, module in list(sys.modules.items()):
            for field, found in vars(module).copy().items() if name.startswith("fleet.") else ():
                is_method = isinstance(found, BuiltinMethodType)
                if is_method and isinstance(found.__self__, msgspec.json.Decoder):
                    monkeypatch.setattr(module, field, partial(self._count, found))

    def count(self, part: str) -> int:
        """Those with this part, since the last question."""
        texts, self.on_loop[:] = list(self.on_loop), []
        return sum(part.encode() in text for text in texts)

    def _count(self, decode: Callable[..., Any], text: Any, *arguments: Any, **named: Any) -> Any:
        caller = sys._getframe(1).f_globals["__name__"]
        if caller.startswith("fleet.") and threading.current_thread() is self._loop_thread:
            self.on_loop.append(bytes(text))
        return decode(text, *arguments, **named)


def tolerating(parts: int, at: int = 0) -> Json:
    return {"tolerations": [{"key": f"{PART}-{at}-{part}", "operator": "Exists"} for part in range(parts)]}


def change(hub: FakeHub, policy: Json) -> None:
    placement = hub.get(WEB)
    hub.put(WEB, {**placement, "spec": {**placement["spec"], "policy": policy}})


async def settle(bench: Workbench, *policies: Json) -> None:
    """With a snapshot of each."""
    a_placement(bench.hub, policy=policies[0])
    for policy in policies:
        change(bench.hub, policy)
        await bench.settle()
        Neighbours(bench.hub).schedule("c1")
        await bench.settle()


@within(Workbench)
@pytest.mark.parametrize("parts", [1, 2_000])
async def test_spec_policy_and_latest_snapshot_are_each_decoded_once(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    await settle(bench, tolerating(parts, at=1), tolerating(parts, at=2), tolerating(parts))
    decodes = Decodes(monkeypatch)
    await bench.pass_over()
    assert decodes.count(PART) == 3


@within(Workbench)
async def test_older_snapshots_are_decoded_in_a_thread_where_the_policy_changes(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    decodes, counts = Decodes(monkeypatch), []
    await settle(bench, tolerating(2_000))
    for at in range(1, 5):
        change(bench.hub, tolerating(2_000, at))
        await bench.catch_up()
        decodes.count(PART)
        await bench.reconciler.reconcile("web")
        counts.append(decodes.count(PART))
    assert len(set(counts)) == 1


@within(Workbench)
async def test_a_status_is_decoded_as_a_view_and_as_a_document(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settle(bench, tolerating(1))
    bench.hub.put(WEB, {**bench.hub.get(WEB), "status": {**bench.status(), FOREIGN: True}})
    await bench.settle()
    decodes = Decodes(monkeypatch)
    await bench.pass_over()
    assert decodes.count(FOREIGN) == 2
