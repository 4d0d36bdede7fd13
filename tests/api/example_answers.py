"""The examples of the OpenAPI document: answers that the API really gave, with made-up moments and identities.

`python -m tests.api.example_answers` asks a stage and writes them down. A test asks again, and finds examples that no
longer look like answers.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any, Final

from api.http.examples import RECORDED_FILE, REPLAY, SIMULATE
from tests.api.stage import Json, Stage, a_stage

TEXT: Final = "text/plain"
BIG: Final = "/v1/placements/-/big"
ASKED: Final[dict[str, tuple[str, Json | None]]] = {
    "why": (f"{BIG}/why", None),
    "whyNot": ("/v1/clusters/osl-1/why-not?placement=big", None),
    "matrix": ("/v1/matrix?placement=big", None),
    "fleetMatrix": ("/v1/matrix?limit=1", None),
    "status": ("/v1/status", None),
    "clusterPlacements": ("/v1/clusters/osl-1/placements", None),
    "history": (f"{BIG}/history?limit=1", None),
    "difference": (f"{BIG}/history?diff=1..1", None),
    "simulate": ("/v1/simulate", SIMULATE),
    "replay": ("/v1/replay", REPLAY),
    "snapshot": ("/v1/snapshot", None),
    "placements": ("/v1/placements?limit=1", None),
    "placement": (BIG, None),
    "clusters": ("/v1/clusters?limit=1", None),
    "cluster": ("/v1/clusters/ams-1", None),
    "bindings": ("/v1/bindings?limit=1", None),
    "profiles": ("/v1/profiles", None),
    "version": ("/v1/version", None),
}
"""By name the path, and the body of those that are sent."""
TEXTS: Final = ("why", "whyNot", "clusterPlacements", "history", "simulate", "placements", "bindings")

_STAND_INS: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "2026-03-10T09:00:00Z"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"), "2026-03-10 09:00:00 UTC"),
    (
        re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        "5f1c2f5e-0d4b-4c39-9a52-6a1f2f8d7a11",
    ),
    (re.compile(r"\b[0-9a-f]{32}\b"), "0f2c6a1e8b3d4c5f9a7b6c5d4e3f2a1b"),
    (re.compile(r"\ba-[0-9a-z]+-[0-9]+\b"), "a-1f0c9d2e-17"),
    (re.compile(r"((?:ams|dub|osl)-\d)-[0-9a-f]{8}\b"), r"\1-5d1c2f0a"),
    (re.compile(r"attempt \d+"), "attempt 1"),
    (re.compile(r"cursor=\w+"), "cursor=WyJwbGFjZW1lbnRzIiwiYmlnIl0"),
)
_NUMBERS: Final = {"durationMs": 3.2, "frameGeneration": 4711, "seq": 17, "n": 1, "next": 17}


def made_up(value: Any) -> Any:
    """Without what is different in every run."""
    if isinstance(value, str):
        for pattern, stand_in in _STAND_INS:
            value = pattern.sub(stand_in, value)
        return value
    if isinstance(value, list):
        return [made_up(item) for item in value]
    if isinstance(value, dict):
        return {key: _field(key, item) for key, item in value.items()}
    return value


def _field(key: str, value: Any) -> Any:
    if key == "resourceVersion":
        return "4711"
    if key in ("next", "cursor") and isinstance(value, str):
        return "WyJwbGFjZW1lbnRzIiwiYmlnIl0"
    return _NUMBERS[key] if key in _NUMBERS and isinstance(value, int | float) else made_up(value)


def shape(value: Any) -> Any:
    """The fields and the kinds of their values; of a list, the kinds of its items."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(shape(item), sort_keys=True) for item in value})
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


async def answer_to(stage: Stage, name: str) -> Any:
    path, body = ASKED[name]
    found = await (stage.get(path) if body is None else stage.post(path, body))
    assert found.status_code == 200, found.text
    return made_up(_short(name, found.json()))


async def text_for(stage: Stage, name: str) -> str:
    path, body = ASKED[name]
    found = await (stage.get(path, Accept=TEXT) if body is None else stage.post(path, body, Accept=TEXT))
    assert found.status_code == 200, found.text
    text: str = made_up(found.text)
    return text


def _short(name: str, found: Json) -> Json:
    """Of an export, one object of each kind, and of the hub's own objects no more than tells which they are."""
    if name != "snapshot":
        return found
    short = {key: value[:1] if isinstance(value, list) else value for key, value in found.items()}
    return short | {key: [_outline(one) for one in short[key]] for key in ("placements", "policySnapshots", "bindings")}


def _outline(document: Json) -> Json:
    metadata = {"name": document["metadata"]["name"]}
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata, "spec": {}}


async def _all(stage: Stage) -> Json:
    return {
        "answers": {name: await answer_to(stage, name) for name in ASKED},
        "texts": {name: await text_for(stage, name) for name in TEXTS},
    }


async def _write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with a_stage(Path(folder)) as stage:
            RECORDED_FILE.write_text(
                json.dumps(await _all(stage), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )


if __name__ == "__main__":
    asyncio.run(_write())
