"""One stage for all tests that only look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.stage import Running, a_running_stage


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with a_running_stage(tmp_path_factory.mktemp("api")) as found:
        yield found
