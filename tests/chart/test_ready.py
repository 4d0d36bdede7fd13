"""`helm test`: what the chart renders for it, and that Helm runs it.

The pods of the cluster here only pretend to run; what the test says when it really runs, `test_ready_processes` shows.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, Final

import pytest

from tests.chart.helm import CHART, Helm, Rendered
from tests.chart.release import Release
from tests.control_plane.waiting import soon

Json = dict[str, Any]

NAME: Final = "fleet-test"
PROGRAM: Final = CHART / "files" / "ready.py"
CONTROLLER: Final = "http://fleet-controller.fleet-system.svc"
API: Final = "fleet-api.fleet-system.svc:443"


def asked(rendered: Rendered) -> list[str]:
    """The options of the program that the test runs."""
    (container,) = rendered.one("Pod", NAME)["spec"]["containers"]
    options: list[str] = container["args"][1:]
    return options


# --- what is rendered -------------------------------------------------------------------------------------------------


def test_it_is_a_hook_that_runs_when_helm_is_asked_to_test(helm: Helm) -> None:
    for one in (helm.combination("monitoring").one(kind, NAME) for kind in ("Pod", "NetworkPolicy")):
        assert one["metadata"]["annotations"]["helm.sh/hook"] == "test"
        assert "before-hook-creation" in one["metadata"]["annotations"]["helm.sh/hook-delete-policy"]


def test_it_runs_the_program_of_the_chart_with_python_alone(helm: Helm) -> None:
    (container,) = helm.combination("default").one("Pod", NAME)["spec"]["containers"]
    assert container["command"] == ["python", "-I", "-c"]
    assert container["args"][0] == PROGRAM.read_text(encoding="utf-8")
    assert "$(" not in container["args"][0]  # a kubelet would put a variable there


def test_it_asks_both_roles_by_the_names_of_their_services(helm: Helm) -> None:
    assert asked(helm.combination("default")) == [
        "--within=90",
        f"--pods={CONTROLLER}:8081/readyz",
        f"--working={CONTROLLER}:8080/metrics",
        f"--ready=https://{API}/readyz",
        "--authority=/etc/fleet-tls/ca.crt",
    ]


def test_it_asks_the_controller_as_its_settings_say(helm: Helm) -> None:
    rendered = helm.with_values("settings.tls.enabled=true", "monitoring.serviceMonitor.enabled=true")
    secure = CONTROLLER.replace("http:", "https:")
    assert asked(rendered)[1:3] == [f"--pods={secure}:8081/readyz", f"--working={secure}:8080/metrics"]
    (container,) = rendered.one("Deployment", "fleet-controller")["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    (endpoint,) = rendered.one("ServiceMonitor", "fleet-controller")["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", {"insecureSkipVerify": True})


@pytest.mark.parametrize(
    "values, of_the_api",
    [
        (("api.enabled=false",), []),
        (("api.tls.mode=off", "api.service.port=80"), ["--ready=http://fleet-api.fleet-system.svc:80/readyz"]),
        (("api.tls.mode=secret", "api.tls.existingSecret=mine"), [f"--ready=https://{API}/readyz"]),
    ],
    ids=["no API", "plain HTTP", "a certificate for other names"],
)
def test_it_looks_at_no_certificate_that_is_not_the_charts(
    helm: Helm, values: tuple[str, ...], of_the_api: list[str]
) -> None:
    rendered = helm.with_values(*values)
    assert asked(rendered)[3:] == of_the_api
    assert [one["name"] for one in rendered.one("Pod", NAME)["spec"]["volumes"]] == ["tmp"]


def test_it_reaches_controllers_that_are_not_ready(helm: Helm) -> None:
    """Names lead to ready pods only, unless the Service says otherwise."""
    spec = helm.combination("default").one("Service", "fleet-controller")["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)


def test_it_sees_no_key(helm: Helm) -> None:
    (volume,) = (one for one in helm.combination("default").one("Pod", NAME)["spec"]["volumes"] if "secret" in one)
    assert volume["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]


def test_it_may_run_where_the_controller_may(helm: Helm) -> None:
    rendered = helm.with_values("controller.nodeSelector.pool=hub", "controller.tolerations[0].operator=Exists")
    spec = rendered.one("Pod", NAME)["spec"]
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"pool": "hub"}, [{"operator": "Exists"}])


def test_closed_networks_let_it_ask_what_it_asks_and_nothing_else(helm: Helm) -> None:
    rendered = helm.combination("monitoring")
    (own,) = (rendered.one("NetworkPolicy", name) for name in (NAME,))
    labels = rendered.one("Pod", NAME)["metadata"]["labels"]
    for part, ports in (("controller", {8080, 8081}), ("api", {8090})):
        pods = rendered.one("Deployment", f"fleet-{part}")["spec"]["selector"]["matchLabels"]
        assert {"to": [{"podSelector": {"matchLabels": pods}}]} in own["spec"]["egress"]
        rules = rendered.one("NetworkPolicy", f"fleet-{part}")["spec"]["ingress"]
        (rule,) = (one for one in rules if "podSelector" in one.get("from", [{}])[0])
        assert {port["port"] for port in rule["ports"]} == ports
        assert rule["from"][0]["podSelector"]["matchLabels"].items() <= labels.items()
    assert not any("ipBlock" in to for rule in own["spec"]["egress"] for to in rule.get("to", ()))


def test_who_wants_none_has_none(helm: Helm) -> None:
    rendered = helm.with_values("tests.enabled=false")
    assert not rendered.of("Pod")
    assert not rendered.has("NetworkPolicy", NAME)
    assert len(rendered.one("NetworkPolicy", "fleet-api")["spec"]["ingress"]) == 1


def test_it_asks_for_as_long_as_the_values_say(helm: Helm) -> None:
    rendered = helm.with_values("tests.seconds=7")
    assert asked(rendered)[0] == "--within=7"
    assert rendered.one("Pod", NAME)["spec"]["activeDeadlineSeconds"] > 7


# --- what it says -----------------------------------------------------------------------------------------------------


def test_whoever_speaks_no_http_is_not_ready_and_does_not_work() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        babbling = threading.Thread(target=babble, args=(listening,), name="babbling")
        babbling.start()
        command = [sys.executable, "-I", str(PROGRAM), "--within=0", f"--ready={url}", f"--working={url}"]
        done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=90, check=False)
        listening.shutdown(socket.SHUT_RDWR)
        babbling.join()

    absent, idle = done.stderr.splitlines()
    assert done.returncode == 1
    assert absent == f"not ready: {url}: SSH-2.0-none"
    assert idle.startswith("no controller is the leader")


def babble(listening: socket.socket) -> None:
    with suppress(OSError):
        while True:
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(2**16)
                accepted.sendall(b"SSH-2.0-none")


# --- how it runs ------------------------------------------------------------------------------------------------------


def test_helm_runs_it_and_leaves_nothing_of_it_behind(release: Release) -> None:
    release.install()
    said = release.succeeds("test", release.name, "--timeout=90s")
    assert f"TEST SUITE:     {NAME}" in said
    assert "Phase:          Succeeded" in said
    soon(lambda: release.hub.get(f"/api/v1/namespaces/{release.namespace}/pods/{NAME}").status == 404)


def test_helm_tells_when_it_fails(release: Release) -> None:
    release.install("--set=image.tag=broken")
    assert "failed" in release.fails("test", release.name, "--timeout=90s")
