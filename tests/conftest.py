"""What holds for every test: which examples Hypothesis draws, and when the long tests run."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

LONG = os.environ.get("FLEET_LONG", "") not in ("", "0")
IN_CI = bool(os.environ.get("CI"))

# No deadline: a busy machine is not a failure, pytest-timeout catches what hangs. In CI the examples are the same in
# every run, so that a change is judged by what it changed; the search for new ones happens on laptops and in long runs.
settings.register_profile(
    "fleet", deadline=None, derandomize=IN_CI and not LONG, print_blob=True, max_examples=1000 if LONG else 100
)
settings.load_profile("fleet")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("long") and not LONG:
        pytest.skip("long: runs with FLEET_LONG=1 (make test-long)")


@pytest.fixture(scope="session")
def long() -> bool:
    """Whether this is a long run, for tests that only scale with it."""
    return LONG
