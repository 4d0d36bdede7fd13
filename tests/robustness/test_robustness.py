"""Histories under faults: a short form of `make robustness`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.robustness.__main__ import render, run


@pytest.mark.servers  # a hub that is killed and stopped again and again
@pytest.mark.timeout(1800)
def test_histories_stay_linearizable_while_the_hub_fails(tmp_path: Path) -> None:
    reports = asyncio.run(run(tmp_path, seed=1, rounds=1, faults=6))
    assert [report.violations for report in reports] == [[]], render(reports, seed=1)
    assert all(report.acknowledged and report.events for report in reports)
