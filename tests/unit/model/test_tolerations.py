from __future__ import annotations

import pytest

from fleet.model.views import Taint, Toleration, find_untolerated, tolerates

GPU = Taint(key="gpu", value="a100", effect="NoSchedule")


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(key="gpu", operator="Equal", value="a100", effect="NoSchedule"),
        Toleration(key="gpu", operator="Equal", value="a100"),
        Toleration(key="gpu", operator="", value="a100"),
        Toleration(key="gpu", operator="Exists"),
        Toleration(key="gpu", operator="Exists", effect="NoSchedule"),
        Toleration(operator="Exists"),
    ],
    ids=str,
)
def test_a_toleration_that_accepts_the_taint(toleration: Toleration) -> None:
    assert tolerates(toleration, GPU)


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(key="gpu", operator="Equal", value="h100"),
        Toleration(key="gpu", operator="Equal"),
        Toleration(key="tpu", operator="Equal", value="a100"),
        Toleration(key="tpu", operator="Exists"),
        Toleration(key="gpu", operator="Exists", effect="NoExecute"),
        Toleration(key="gpu", operator="exists"),
        Toleration(operator="Equal", value="a100"),
    ],
    ids=str,
)
def test_a_toleration_that_does_not_accept_the_taint(toleration: Toleration) -> None:
    assert not tolerates(toleration, GPU)


def test_an_equal_toleration_without_value_accepts_a_taint_without_value() -> None:
    assert tolerates(Toleration(key="cordon"), Taint(key="cordon", effect="NoSchedule"))


def test_the_first_taint_that_nothing_accepts_is_reported() -> None:
    other = Taint(key="spot", effect="NoSchedule")
    last = Taint(key="edge", effect="NoSchedule")
    assert find_untolerated((GPU, other, last), (Toleration(key="gpu", operator="Exists"),)) == other


def test_nothing_is_reported_when_every_taint_is_accepted() -> None:
    assert find_untolerated((GPU,), (Toleration(operator="Exists"),)) is None
