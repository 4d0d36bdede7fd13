"""Throughput: windows in which something was pending, and nothing bound is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduler.telemetry.throughput import Throughput


def test_Q_44_idle_windows_do_not_count() -> None:
    rate = Throughput()
    rate.set_pending(0.0, is_pending=True)
    rate.add_bound(0.5, 6)
    rate.set_pending(0.6, is_pending=False)
    rate.set_pending(3600.0, is_pending=True)
    rate.add_bound(3600.1, 2)
    assert rate.windows(3601.0) == [6, 2]
    assert rate.per_second(3601.0) == 4


def test_Q_44_windows_without_progress_count_while_something_is_pending() -> None:
    rate = Throughput()
    rate.set_pending(0.0, is_pending=True)
    rate.add_bound(3.5)
    assert rate.windows(4.0) == [0, 0, 0, 1]


def test_Q_44_a_window_counts_if_something_was_pending_in_a_part_of_it() -> None:
    rate = Throughput()
    rate.set_pending(0.9, is_pending=True)
    rate.set_pending(0.95, is_pending=False)
    assert rate.windows(10.0) == [0]


@given(
    st.lists(st.tuples(st.floats(0, 5), st.sampled_from(["bound", "pending", "idle", "arrived"]), st.integers(1, 3))),
)
def test_Q_44_the_sum_over_windows_is_what_was_bound(steps: list[tuple[float, str, int]]) -> None:
    rate, now, total = Throughput(), 0.0, 0
    for wait, what, count in steps:
        now += wait
        match what:
            case "bound":
                rate.add_bound(now, count)
                total += count
            case "arrived":
                rate.add_arrivals(now, count)
            case _:
                rate.set_pending(now, is_pending=what == "pending")
    assert sum(rate.windows(now + 1)) == total


def test_quantiles_are_those_of_windows() -> None:
    rate = Throughput()
    for second in range(100):
        rate.add_bound(second + 0.5, second + 1)
    assert [rate.quantile(100.0, share) for share in (0.5, 0.9, 0.95, 0.99)] == [51, 91, 96, 100]


def test_without_a_window_there_is_no_rate() -> None:
    rate = Throughput()
    assert (rate.per_second(0.0), rate.arrivals_per_second(0.0), rate.quantile(0.0, 0.5)) == (0, 0, 0)


def test_arrivals_are_told_over_all_windows() -> None:
    rate = Throughput()
    rate.add_arrivals(0.5, 10)
    assert rate.arrivals_per_second(5.0) == 2


def test_rates_are_per_second_whatever_the_window() -> None:
    rate = Throughput(window=10.0)
    rate.add_bound(5.0, 20)
    assert rate.per_second(10.0) == 2


def test_hours_of_waiting_take_no_memory() -> None:
    rate = Throughput(kept=5)
    rate.set_pending(0.0, is_pending=True)
    assert rate.windows(1e9) == [0] * 5
