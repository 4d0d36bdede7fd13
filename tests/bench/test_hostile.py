"""Policies in sizes, and what a run is not content with. No test here looks at a clock."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from fleet.framework.policy.size import count_parts
from fleet.model.views import PlacementPolicy
from tests.bench import hostile
from tests.bench.hostile import SHAPES, Found, Size, build_policy, list_questions
from tests.bench.measuring import Run
from tests.bench.others import Beside, list_waits

LARGEST: Final = 90_000


@pytest.mark.parametrize("shape", SHAPES)
def test_a_policy_has_as_many_parts_as_asked_or_as_many_bytes(shape: str) -> None:
    asked, largest = (build_policy(shape, parts, most_bytes=LARGEST) for parts in (200, None))

    assert count_parts(msgspec.convert(asked, PlacementPolicy)) >= 200 + 100
    assert LARGEST * 0.85 < len(msgspec.json.encode(largest["affinity"])) < LARGEST * 1.05


def test_a_long_wait_counts_for_all_that_would_have_been_sent_meanwhile() -> None:
    assert len(list(list_waits(1.005))) == 101
    assert len(list(list_waits(0.001))) == 1


def test_the_questions_name_the_placement_and_contain_its_policy() -> None:
    document = hostile.build_placement("large", build_policy("labels", 10, most_bytes=LARGEST))
    questions = list_questions("large", document)

    assert {path for path, body in questions if body is None and "large" in path}
    assert any(msgspec.json.decode(body)["placement"] == document for _, body in questions if body is not None)


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({}, None),
        ({"probes": [0.201]}, "/livez worst, asked"),
        ({"answers": [0.021]}, "others p99 kept, asked"),
        ({"stored": [0.021]}, "others p99 kept, stored"),
        ({"questions": [36.0]}, "slowest question"),
        ({"wrong": ["GET /v1/status: 500"]}, "without a declared answer"),
    ],
)
def test_a_run_complains_about_probes_others_deadlines_and_failures(
    change: dict[str, list[float]], complaint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure_all(size: Size) -> dict[int | None, Found]:
        given = {"probes": [0.2], "answers": [0.02], "stored": [0.02], "questions": [30.0], "wrong": [], **change}
        beside = Beside(given["probes"], given["answers"])
        found = Found(Beside([0.01], [0.01]), Beside([0.2], given["stored"]), beside, given["questions"])
        found.wrong = [str(each) for each in given["wrong"]]
        return {None: found}

    monkeypatch.setattr(hostile, "measure_all", measure_all)
    figures = list(hostile.hostile(Run("hostile", quick=True)))

    assert [one.part for one in figures if one.misses_target] == ([] if complaint is None else [complaint])
