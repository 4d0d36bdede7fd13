"""The tree of settings: names, defaults and meanings, and the page that lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.settings import Address, Duration, Rate, Settings
from fleet.settings.names import known_settings, render_value
from fleet.settings.reference import render_reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
DEFAULTS = {
    "maxFleetSize": "100",
    "maxConcurrentPlacements": "100",
    "resourcePlacements.enabled": "true",
    "queue.mode": "simple",
    "queue.batchPeriod": "300s",
    "queue.baseDelay": "5ms",
    "queue.maxDelay": "60s",
    "queue.rate": "10/s",
    "queue.burst": "100",
    "eligibility.heartbeatTimeout": "5m",
    "eligibility.unhealthyTimeout": "5m",
    "eligibility.retention": "15m",
    "status.unselectedBudget": "20",
    "status.maxDecisions": "1000",
    "evaluation.parallelism": "4",
    "api.qps": "",
    "api.burst": "1000",
    "api.writeConcurrency": "32",
    "bindings.read": "Cache",
    "spread.missingKey": "Neutral",
    "spread.usableDomainsOnly": "false",
    "downscale.order": "StoredScore",
    "sorter.population": "AllClusters",
    "eviction.cooldown": "0s",
    "capacity.reservation": "Off",
    "capacity.clusterSelector": "",
    "shutdown.gracePeriod": "30s",
    "leaderElection.leaseDuration": "15s",
    "leaderElection.renewDeadline": "10s",
    "leaderElection.retryPeriod": "2s",
    "leaderElection.resourceName": "136224848560.hub.fleet.azure.com",
    "leaderElection.resourceNamespace": "fleet-system",
    "metrics.address": ":8080",
    "health.address": ":8081",
    "resourceSnapshots.minimumInterval": "30s",
    "resourceSnapshots.collectionTime": "15s",
    "queue.initialBackoffSeconds": "1",
    "queue.maxBackoffSeconds": "10",
    "queue.maxInUnschedulableSeconds": "300",
    "queue.earlyPop": "true",
}


@pytest.mark.parametrize("name, default", DEFAULTS.items())
def test_defaults_are_those_that_operators_know(name: str, default: str) -> None:
    assert render_value(known_settings()[name].default) == default


@pytest.mark.parametrize("name", known_settings())
def test_every_setting_says_what_it_means(name: str) -> None:
    assert known_settings()[name].meaning.endswith(".")


def test_no_two_settings_share_a_variable() -> None:
    variables = [known.variable for known in known_settings().values()]
    assert len(set(variables)) == len(variables)


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_reference(), "run `make gen`"


@pytest.mark.parametrize("name", known_settings())
def test_the_reference_page_lists_every_setting_once(name: str) -> None:
    assert render_reference().count(f"\n| `{name}` |") == 1


@pytest.mark.parametrize(
    "settings, want",
    [
        (Settings(), 20),
        (Settings(max_fleet_size=1, max_concurrent_placements=1), 1),
        (Settings(max_fleet_size=51, max_concurrent_placements=11), 4),
        (Settings(workers=3), 3),
    ],
    ids=["default", "small", "just over", "given"],
)
def test_workers_follow_the_expected_load_unless_given(settings: Settings, want: int) -> None:
    assert settings.worker_count == want


@pytest.mark.parametrize(
    "text, seconds", [("0", 0), ("90s", 90), ("1h30m", 5400), ("250ms", 0.25), ("1.5m", 90), ("1m1ms", 60.001)]
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert Duration(text).seconds == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "5s ", "-5s", "5d", "1" * 10 + "s", "5s5", "1e3s", "\u0665s"])
def test_other_texts_are_no_durations(text: str) -> None:
    assert not Duration.matches(text)


@pytest.mark.parametrize("text, rate", [("10/s", 10), ("600/m", 10), ("0.5/s", 0.5), ("36/h", 0.01)])
def test_rates_are_per_second(text: str, rate: float) -> None:
    assert Rate.matches(text)
    assert Rate(text).per_second == pytest.approx(rate)


@pytest.mark.parametrize(
    "text, host, port",
    [(":8080", None, 8080), ("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:80", "::1", 80), ("localhost:1", "localhost", 1)],
)
def test_addresses_have_a_host_or_all_of_them_and_a_port(text: str, host: str | None, port: int) -> None:
    assert Address.matches(text)
    assert (Address(text).host, Address(text).port) == (host, port)


@pytest.mark.parametrize("text", ["", ":", "8080", ":65536", "::1:80", "a b:80", "http://x:80", "x:", ":-1"])
def test_other_texts_are_no_addresses(text: str) -> None:
    assert not Address.matches(text)
