"""Alerts and dashboard speak of figures that the code has, under labels that it gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from api.http.middleware import Audit
from fleet.clock import SystemClock
from fleet.history import HistoryCounts, HistoryHealth
from fleet.manager.manager import LeadershipMetrics
from fleet.operator.configuration import ConfigReview
from fleet.operator.operands import SERVICES, build_operands
from fleet.placement.metrics import PlacementMetrics
from fleet.recorder.metrics import RecorderMetrics
from fleet.scheduler.telemetry.metrics import SchedulerMetrics
from tests.chart import promql
from tests.chart.helm import CHART, Helm, Json

SUFFIXES: Final = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
OF_PROMETHEUS: Final = {"namespace", "job", "pod", "le"}
"""Labels that it adds."""
ALERTS: Final = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
DASHBOARD: Final = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
NAMED: Final = re.compile(r"\b(?:fleet|workqueue)_\w+")


class Remembering(CollectorRegistry):
    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        super().register(collector)
        self.collectors.append(collector)


def figures() -> dict[str, set[str]]:
    """Every series that either role can have, with its labels."""
    registry = Remembering()
    SchedulerMetrics(registry)
    PlacementMetrics(registry)
    LeadershipMetrics(registry)
    RecorderMetrics(registry, counts=HistoryCounts, state=HistoryHealth)
    Audit(_nowhere, clock=SystemClock(), registry=registry)
    ProcessCollector(registry=registry)
    found = {"up": set[str]()}
    for collector in registry.collectors:
        describe = getattr(collector, "describe", collector.collect)
        for family in describe():
            labels = getattr(family, "_labelnames", ()) or getattr(collector, "_labelnames", ())
            for suffix in SUFFIXES[family.type]:
                found[f"{family.name}{suffix}"] = set(labels)
    return found


async def _nowhere(*_: Any) -> None:
    """An application that no questions."""


OF_THE_API_SERVER: Final = {"aggregator_unavailable_apiservice"}
"""Of the aggregation layer: no process of ours has them."""
OF_THE_API: Final = {"FleetApiDown", "FleetApiErrors", "FleetApiSlow", "FleetAggregationUnavailable"}
FIGURES: Final = figures()


def is_told(expression: promql.Expression) -> bool:
    known = set[str]().union(OF_PROMETHEUS, *(FIGURES.get(name, ()) for name in expression.metrics))
    return expression.metrics <= FIGURES.keys() and expression.labels <= known


def queries() -> Iterator[str]:
    """Of the dashboard."""
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def alerts_of(helm: Helm, *values: str) -> dict[str, Json]:
    rendered = helm.with_values("monitoring.prometheusRule.enabled=true", *values)
    (group,) = rendered.one("PrometheusRule", "fleet-alerts")["spec"]["groups"]
    return {one["alert"]: one for one in group["rules"]}


# --- reading expressions ----------------------------------------------------------------------------------------------


def test_an_expression_tells_what_it_speaks_of() -> None:
    read = promql.read('sum by (le) (rate(a_bucket{job="x",code=~"5.."}[5m])) / max(b offset 1h) > 0.5 and on (c) up')
    assert read.metrics == {"a_bucket", "b", "up"}
    assert read.labels == {"le", "job", "code", "c"}


@pytest.mark.parametrize("text", ["sum(up", "up)", "up{job='x'", "frobnicate(up)", 'up{job="x}', "rate(up[5 minutes])"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(promql.Unreadable):
        promql.read(text)


# --- alerts -----------------------------------------------------------------------------------------------------------


def test_alerts_speak_of_figures_that_exist(helm: Helm) -> None:
    for alert in alerts_of(helm).values():
        expression = promql.read(alert["expr"])
        assert expression.metrics, alert["alert"]
        assert expression.metrics <= OF_THE_API_SERVER or is_told(expression), f"{alert['alert']}: {expression}"
        named = set(NAMED.findall(alert["annotations"]["description"]))
        assert named <= {name.removesuffix(end) for name in FIGURES for end in ("", "_bucket")}


def test_alerts_speak_of_this_release_only(helm: Helm) -> None:
    rendered = helm.template("--set", "monitoring.prometheusRule.enabled=true", release="prod", namespace="hub")
    (group,) = rendered.one("PrometheusRule", "prod-fleet-alerts")["spec"]["groups"]
    for rule in group["rules"]:
        selectors = re.findall(r"\{([^}]*)\}", rule["expr"])
        assert selectors
        for selector in selectors:
            if selector == 'name="v1.explain.fleet"':  # a hub has one, and this release is what is behind it
                continue
            assert re.match(r'namespace="hub",job="prod-fleet-(controller|api)"', selector)


def test_alerts_say_how_bad_it_is_and_what_to_do(helm: Helm) -> None:
    for alert in alerts_of(helm).values():
        assert alert["labels"]["severity"] in ("critical", "warning")
        assert alert["annotations"].keys() == {"summary", "description"}
        assert alert["annotations"]["description"].endswith(".")
        named = set(re.findall(r"\$labels\.(\w+)", json.dumps(alert["annotations"])))
        assert named <= promql.read(alert["expr"]).labels


@pytest.mark.parametrize(
    "values, gone",
    [
        (("mode=scheduler-only",), {"FleetReconcileErrors", "FleetClusterSilent"}),
        (("history.type=none",), {"FleetHistoryUnavailable", "FleetHistoryShedding"}),
        (("api.enabled=false",), {"FleetApiDown", "FleetApiErrors", "FleetApiSlow", "FleetAggregationUnavailable"}),
        (("api.aggregation.enabled=false",), {"FleetAggregationUnavailable"}),
        (("mode=explain-only",), {one["alert"] for one in ALERTS} - OF_THE_API),
        (("monitoring.prometheusRule.disabled={FleetApiSlow}",), {"FleetApiSlow"}),
    ],
    ids=["only the scheduler", "no history", "no API", "no aggregation", "only the API", "by name"],
)
def test_what_is_not_there_alerts_nobody(helm: Helm, values: tuple[str, ...], gone: set[str]) -> None:
    everything = {one["alert"] for one in ALERTS}
    assert alerts_of(helm).keys() == everything
    assert everything - alerts_of(helm, *values).keys() == gone


def test_a_cluster_is_silent_when_the_settings_say_so(helm: Helm) -> None:
    assert alerts_of(helm)["FleetClusterSilent"]["expr"].endswith("> 300")
    later = alerts_of(helm, "settings.eligibility.heartbeatTimeout=1h30m")["FleetClusterSilent"]
    assert later["expr"].endswith("> 5400")


def test_the_first_defect_alerts_although_its_series_is_new(helm: Helm) -> None:
    """`increase` knows nothing of what was not there before."""
    expression = alerts_of(helm)["FleetSchedulerDefect"]["expr"]
    assert re.search(r"or sum\((\S+)\s+unless \1 offset 30m\) > 0$", expression)


def test_a_missing_leader_is_told_in_both_modes_by_the_same_figure(helm: Helm) -> None:
    """One that the scheduler has alone, too; of pods that can be reached, so that nothing is told twice."""
    told = {alerts_of(helm, *values)["FleetNoLeader"]["expr"] for values in ((), ("mode=scheduler-only",))}
    (expression,) = told
    assert promql.read(expression).metrics == {"fleet_leader"}
    assert expression.endswith(" == 0")
    assert "absent" not in expression


def test_labels_of_ones_own_are_on_every_alert(helm: Helm) -> None:
    for alert in alerts_of(helm, "monitoring.prometheusRule.alertLabels.team=platform").values():
        assert alert["labels"].keys() == {"severity", "team"}


# --- the dashboard ----------------------------------------------------------------------------------------------------


def test_the_dashboard_is_handed_over_as_it_is(helm: Helm) -> None:
    (text,) = helm.combination("monitoring").one("ConfigMap", "fleet-dashboard")["data"].values()
    assert json.loads(text) == DASHBOARD


def test_the_dashboard_counts_clusters_as_silent_when_the_settings_say_so(helm: Helm) -> None:
    chosen = "monitoring.dashboard.enabled=true", "settings.eligibility.heartbeatTimeout=20m"
    (text,) = helm.with_values(*chosen).one("ConfigMap", "fleet-dashboard")["data"].values()
    (query,) = (line for line in text.splitlines() if "count(max by (cluster)" in line)
    assert "> 1200) or vector(0)" in query


def test_a_share_of_nothing_is_none() -> None:
    """And not NaN, in which no `or` sees anything amiss."""
    shares = [query for query in queries() if " / " in query and " or vector(0)" in query]
    assert shares
    assert all(re.search(r" / sum\(rate\([^)]*\) > 0\) or vector\(0\)$", query) for query in shares)


def test_the_dashboard_shows_figures_that_exist() -> None:
    for query in queries():
        expression = promql.read(query)
        assert expression.metrics, query
        assert is_told(expression), f"{query}: {expression}"


def test_the_dashboard_names_series_by_labels_they_have() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= promql.read(target["expr"]).labels, panel["title"]


def test_panels_stand_side_by_side_and_not_on_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_the_variables_of_the_dashboard_are_defined() -> None:
    defined = {one["name"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used - {"__rate_interval"} <= defined
    for one in DASHBOARD["templating"]["list"][1:]:
        metric = re.match(r"label_values\((\w+)", one["query"]["query"])
        assert metric
        assert metric[1] in FIGURES


# --- monitors ---------------------------------------------------------------------------------------------------------


def test_monitors_ask_the_ports_of_the_services(helm: Helm) -> None:
    rendered = helm.combination("monitoring")
    for name in ("fleet-controller", "fleet-api"):
        monitor, service = rendered.one("ServiceMonitor", name), rendered.one("Service", name)
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_secondary_schedulers_are_asked_over_https(helm: Helm) -> None:
    rendered = helm.with_values("operator.enabled=true", "monitoring.serviceMonitor.enabled=true")
    spec = rendered.one("ServiceMonitor", "fleet-secondary-scheduler")["spec"]
    (endpoint,) = spec["endpoints"]
    assert (endpoint["scheme"], endpoint["interval"]) == ("https", "30s")
    owner = {"apiVersion": "operator.fleet.dev/v1", "metadata": {"name": "cluster", "namespace": "fleet", "uid": "1"}}
    config = ConfigReview("Valid", document="profiles: []\n")
    service = build_operands({**owner, "spec": {}}, config, "fleet:v0.1.0", 1)[SERVICES]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_figures_of_the_api_are_asked_for_with_a_token_and_a_checked_certificate(helm: Helm) -> None:
    (endpoint,) = helm.combination("monitoring").one("ServiceMonitor", "fleet-api")["spec"]["endpoints"]
    assert endpoint["bearerTokenFile"]
    assert endpoint["tlsConfig"] == {
        "serverName": "fleet-api.fleet-system.svc",
        "ca": {"secret": {"name": "fleet-api-tls", "key": "ca.crt"}},
    }
    chosen = "monitoring.serviceMonitor.enabled=true", "monitoring.serviceMonitor.apiToken.name=scrape"
    rendered = helm.with_values(*chosen, "monitoring.serviceMonitor.apiToken.key=token", "api.tls.mode=off")
    (endpoint,) = rendered.one("ServiceMonitor", "fleet-api")["spec"]["endpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "scrape", "key": "token"}}
    assert not endpoint.keys() & {"bearerTokenFile", "tlsConfig"}


def test_monitoring_is_off_until_it_is_asked_for(helm: Helm) -> None:
    rendered = helm.combination("default")
    assert not any(rendered.of(kind) for kind in ("ServiceMonitor", "PrometheusRule"))
    assert not rendered.has("ConfigMap", "fleet-dashboard")
