"""Whose identity a controller uses, and how fast it may write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fleet.clock import SystemClock
from fleet.kube.client.rate_limiter import RateLimit
from fleet.manager.hub_connection import build_rate_limiter, has_pod_identity
from fleet.settings import load_settings

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    return tmp_path


def test_a_pod_with_a_service_account_is_itself(identity: Path) -> None:
    assert has_pod_identity(IN_A_POD, identity)


@pytest.mark.parametrize("environ", [{}, {"KUBERNETES_SERVICE_HOST": ""}, IN_A_POD | {"KUBECONFIG": "/config"}])
def test_outside_a_pod_or_with_a_kubeconfig_it_is_not(environ: Mapping[str, str], identity: Path) -> None:
    assert not has_pod_identity(environ, identity)


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_pod_without_a_mounted_account_is_nobody(name: str, identity: Path) -> None:
    (identity / name).unlink()
    assert not has_pod_identity(IN_A_POD, identity)


def test_each_class_of_writes_has_the_budget_of_the_settings() -> None:
    settings = load_settings(None, {}, ["api.qps=250", "api.budget.bind.qps=100", "api.burst=500"]).settings
    flow = build_rate_limiter(settings, SystemClock())
    assert flow.limits == {"bind": RateLimit(100, 300), "evict": RateLimit(50, 100), "status": RateLimit(50, 100)}
    assert flow.default == RateLimit(250, 500)


def test_without_rates_only_the_concurrency_of_writes_is_limited() -> None:
    limiter = build_rate_limiter(load_settings(None, {}, ["api.writeConcurrency=7"]).settings, SystemClock())
    assert (limiter.limits, limiter.default) == ({}, None)
    assert limiter.writes.limit == 7
