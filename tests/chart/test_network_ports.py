"""Policies of the network leave open what a connected Helm finds: ports of the API server and of the database."""

from __future__ import annotations

from typing import Any, Final

import pytest
import yaml

from tests.chart.release import Release

SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
DATABASE: Final = ("--set=history.type=postgresql", "--set=history.postgresql.existingSecret=history")


def open_ports(release: Release, *values: str) -> dict[str, list[list[int]]]:
    """By policy and rule, of egress. Nothing is installed."""
    options = ("--set=crds.install=false", *values)
    rendered = release.succeeds("template", release.name, str(release.chart), "--dry-run=server", *options)
    documents: list[dict[str, Any]] = [one for one in yaml.safe_load_all(rendered) if one]
    return {
        one["metadata"]["name"]: [[port["port"] for port in rule.get("ports", ())] for rule in one["spec"]["egress"]]
        for one in documents
        if one["kind"] == "NetworkPolicy"
    }


@pytest.fixture
def published(release: Release) -> list[int]:
    """Ports of the API server. It publishes none while its address is one that nobody else could use."""
    found = release.hub.get(f"{SLICES}/kubernetes")
    if found.status != 200:
        ports = [{"name": "https", "port": 16443, "protocol": "TCP"}]
        endpoints = [{"addresses": ["192.0.2.1"]}]
        document = {"metadata": {"name": "kubernetes"}, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}
        found = release.hub.post(SLICES, document)
    return [one["port"] for one in found.ok()["ports"]]


def test_the_port_of_the_api_server_is_open_whatever_it_is(release: Release, published: list[int]) -> None:
    opened = open_ports(release)

    for name in ("fleet-controller", "fleet-api"):
        assert opened[name][0] == list(dict.fromkeys([443, 6443, *published]))


@pytest.mark.parametrize(
    "url, more",
    [
        ("postgresql://fleet:a%40b:99@db.example/history", []),
        ("postgresql://fleet:secret@db.example:6432/history?sslmode=verify-full", [6432]),
        ("postgresql+psycopg://one:5433,two,[2001:db8::1]:5434/history", [5433, 5434]),
        ("not a URL", []),
    ],
    ids=["usual", "other", "several hosts", "none"],
)
def test_the_ports_of_the_database_are_open_as_well(release: Release, url: str, more: list[int]) -> None:
    secrets = f"/api/v1/namespaces/{release.namespace}/secrets"
    release.hub.post(secrets, {"metadata": {"name": "history"}, "stringData": {"url": url}}).ok()
    opened = open_ports(release, *DATABASE)

    for name in ("fleet-controller", "fleet-api", "fleet-migrate"):
        assert opened[name][-1] == [5432, *more]
