"""Credentials of a kubeconfig, of every kind, and what the hub's refusals come to."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from fleet.cli.client.connection import ConnectionOptions, find_connection
from fleet.cli.client.hub_credentials import HubCredentials
from fleet.cli.client.requests import ApiRefusal, ApiRequest, fetch_json, open_stream
from fleet.errors import ConfigurationError
from fleet.kube.client.kubeconfig import read_kubeconfig
from tests.certificates import shake_hands
from tests.fast_yaml import safe_dump
from tests.unit.cli.scripted_api import Asked, Said, ScriptedApi, in_json, in_lines, refused

WHY = "/apis/explain.fleet/v1/placements/-/web/why"
V1 = "client.authentication.k8s.io/v1"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A kubeconfig with this user, and more about the cluster; no fleet of this machine is known."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def written(user: dict[str, Any], server: str = "https://hub.example.com:6443", **cluster: Any) -> Path:
        file = tmp_path / "config"
        content = {
            "current-context": "hub",
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
            "clusters": [{"name": "hub", "cluster": {"server": server, **cluster}}],
            "users": [{"name": "me", "user": user}],
        }
        file.write_text(safe_dump(content))
        return file

    return written


def credentials(file: Path) -> HubCredentials:
    return HubCredentials(read_kubeconfig(file), interactive=False)


def plugin(folder: Path, script: str, **more: Any) -> dict[str, Any]:
    """An exec plugin beside the kubeconfig."""
    (folder / "plugin").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "plugin").chmod(0o700)
    return {"exec": {"apiVersion": V1, "command": "./plugin", **more}}


def printing(**status: str) -> str:
    return f"echo '{json.dumps({'apiVersion': V1, 'kind': 'ExecCredential', 'status': status})}'"


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_file_counts_more_than_a_token_and_is_read_again(write: Write, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    own = credentials(write({"token": "inline", "tokenFile": "token"}))
    before = own.headers()
    (tmp_path / "token").write_text("second\n")

    assert (before, own.headers()) == ({"Authorization": "Bearer first"}, {"Authorization": "Bearer second"})


def test_a_user_may_ask_as_another(write: Write) -> None:
    user = {"token": "t", "as": "alice", "as-groups": ["team-a"], "as-user-extra": {"scope": ["x"]}}

    assert credentials(write(user)).headers() == {
        "Authorization": "Bearer t",
        "Impersonate-User": "alice",
        "Impersonate-Group": "team-a",
        "Impersonate-Extra-scope": "x",
    }


def test_what_cannot_be_sent_or_read_is_refused_with_its_place(write: Write) -> None:
    with pytest.raises(ConfigurationError, match="cannot send Impersonate-Group more than once"):
        credentials(write({"as": "alice", "as-groups": ["a", "b"]})).headers()
    with pytest.raises(ConfigurationError, match=r"users\[me\].user.auth-provider: is no longer supported"):
        credentials(write({"auth-provider": {"name": "gcp"}}))
    with pytest.raises(ConfigurationError, match="client-certificate-data: is not base64 of PEM"):
        credentials(write({"client-certificate-data": "?"})).tls()


# --- exec plugins -----------------------------------------------------------------------------------------------------


def test_a_plugin_gets_its_arguments_and_surroundings_and_runs_once(write: Write, tmp_path: Path) -> None:
    script = f'echo "$1 $REGION" >> {tmp_path}/runs; echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; '
    described = plugin(
        tmp_path,
        script + printing(token="issued"),
        args=["login"],
        env=[{"name": "REGION", "value": "eu"}],
        provideClusterInfo=True,
    )
    own = credentials(write(described, **{"tls-server-name": "inner"}))
    own.tls()

    assert own.headers() == own.headers() == {"Authorization": "Bearer issued"}
    assert (tmp_path / "runs").read_text() == "login eu\n"
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://hub.example.com:6443", "tls-server-name": "inner"},
        },
    }


@pytest.mark.parametrize("seconds, runs", [(10, 2), (3600, 1)])
def test_a_plugin_runs_again_when_its_credential_ends(write: Write, tmp_path: Path, seconds: int, runs: int) -> None:
    ends = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    script = f"echo run >> {tmp_path}/runs; {printing(token='t', expirationTimestamp=ends)}"
    own = credentials(write(plugin(tmp_path, script)))
    own.headers()
    own.headers()

    assert (tmp_path / "runs").read_text().split() == ["run"] * runs


@pytest.mark.parametrize(
    "script, told",
    [
        ("exit 3", "./plugin failed with exit code 3\nnext: log in again"),
        ("echo hello", "printed no JSON"),
        ("echo '[]'", "printed no ExecCredential"),
        (printing(), "gave neither a token nor a client certificate"),
        (printing(token="t").replace("/v1", "/v1beta1"), f"answered in {V1}beta1, and {V1} was asked for"),
    ],
)
def test_a_plugin_that_fails_is_named(write: Write, tmp_path: Path, script: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        credentials(write(plugin(tmp_path, script))).headers()
    assert told in str(refusal.value)


def test_a_plugin_that_is_not_there_is_named_with_its_hint(write: Write) -> None:
    absent = {"exec": {"apiVersion": V1, "command": "absent-plugin", "installHint": "brew install it"}}
    with pytest.raises(ConfigurationError) as refusal:
        credentials(write(absent)).headers()
    assert str(refusal.value).endswith("exec.command: there is no program 'absent-plugin'\nnext: brew install it")


def test_a_plugin_that_must_ask_is_not_run_without_a_terminal(write: Write, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="interactiveMode: is Always, and there is no terminal"):
        credentials(write(plugin(tmp_path, "exit 1", interactiveMode="Always"))).headers()


# --- TLS --------------------------------------------------------------------------------------------------------------


def shown_to_server(own: HubCredentials, authority: trustme.CA) -> str:
    """The common name of the certificate that a server gets, without a network."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    tls = own.tls()
    assert tls is not None
    _, serving = shake_hands(tls, server, server_hostname="localhost")
    shown: Any = serving.getpeercert()
    return next(str(value) for part in shown["subject"] for name, value in part if name == "commonName")


def test_client_certificates_come_inline_from_files_or_from_a_plugin(write: Write, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("me.example", common_name="me")
    certificate, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    (tmp_path / "me.crt").write_bytes(certificate)
    (tmp_path / "me.key").write_bytes(key)
    (tmp_path / "printed").write_text(
        json.dumps(
            {
                "apiVersion": V1,
                "kind": "ExecCredential",
                "status": {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()},
            }
        )
    )
    inline = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    trusted = {"certificate-authority-data": base64.b64encode(authority.cert_pem.bytes()).decode()}
    users: list[dict[str, Any]] = [
        inline,
        {"client-certificate": "me.crt", "client-key": "me.key"},
        plugin(tmp_path, f"cat {tmp_path}/printed"),
    ]

    assert [shown_to_server(credentials(write(user, **trusted)), authority) for user in users] == ["me"] * 3


# --- through the hub --------------------------------------------------------------------------------------------------


def ask(file: Path) -> Any:
    connection = find_connection(ConnectionOptions(kubeconfig=file), {})
    return fetch_json(connection, ApiRequest(path="/v1/placements/-/web/why"))


def failure(file: Path) -> str:
    with pytest.raises(ApiRefusal) as refusal:
        ask(file)
    return str(refusal.value).replace(str(file), "FILE")


def status(code: int, message: str) -> Said:
    return in_json({"kind": "Status", "status": "Failure", "message": message, "code": code}, code)


@pytest.fixture
def hub() -> Any:
    with ScriptedApi() as found:
        yield found


def test_a_question_goes_through_the_hub_with_the_own_token(hub: ScriptedApi, write: Write) -> None:
    hub.says(WHY, in_json({"verdict": "here"}))

    assert ask(write({"token": "mine"}, hub.url)) == {"verdict": "here"}
    assert hub.asked[0].headers["Authorization"] == "Bearer mine"


def test_a_stream_says_that_it_has_no_end(hub: ScriptedApi, write: Write) -> None:
    hub.says("/apis/explain.fleet/v1/decisions", in_lines({"seq": 1}))
    connection = find_connection(ConnectionOptions(kubeconfig=write({}, hub.url)), {})
    for follows in (True, False):
        with open_stream(connection, ApiRequest(path="/v1/decisions", follows=follows), accept="text/plain") as chunks:
            list(chunks)

    assert [asked.query for asked in hub.asked] == [{"watch": "true"}, {}]


def test_a_refused_credential_of_a_plugin_is_renewed_once(hub: ScriptedApi, write: Write, tmp_path: Path) -> None:
    script = f"echo run >> {tmp_path}/runs; {printing(token='t')}"
    hub.says(WHY, status(401, "Unauthorized"), in_json({"verdict": "here"}), status(401, "Unauthorized"))
    file = write(plugin(tmp_path, script), hub.url)

    assert ask(file) == {"verdict": "here"}
    assert (tmp_path / "runs").read_text().split() == ["run", "run"]
    assert failure(file) == (
        "the hub does not accept the credentials of context hub of FILE\n"
        "next: log in again; `kubectl auth whoami` fails in the same way until then"
    )


def test_a_missing_right_names_the_role_and_the_command(hub: ScriptedApi, write: Write) -> None:
    """The API server reviews rights before it looks for the API, which is asked for then."""
    message = 'placements.explain.fleet "-" is forbidden: User "alice" cannot get resource "placements/web"'
    hub.says(WHY, status(403, message))
    hub.says("/apis/explain.fleet/v1", in_json({}))

    assert failure(write({}, hub.url)) == (
        f"{message}\nnext: an administrator of the hub can allow it with the chart's role fleet-ask: "
        "`kubectl create clusterrolebinding fleet-ask-alice --clusterrole=fleet-ask --user=alice`"
    )


@pytest.mark.parametrize("code", [403, 404])
def test_a_hub_without_the_api_is_told_from_one_that_refuses(hub: ScriptedApi, write: Write, code: int) -> None:
    hub.says(WHY, status(code, "no"))
    hub.says("/apis/explain.fleet/v1", Said(b"404 page not found\n", 404, "text/plain"))

    assert failure(write({}, hub.url)).startswith(
        "the hub has no Fleet API: context hub of FILE\nnext: install the chart"
    )


def test_an_api_that_the_hub_cannot_reach_is_told_with_its_reason(hub: ScriptedApi, write: Write) -> None:
    hub.says(WHY, Said(b"error trying to reach service: refused\n", 503, "text/plain"))

    assert failure(write({}, hub.url)) == (
        "the hub cannot reach the Fleet API: error trying to reach service: refused\n"
        "next: `kubectl get apiservice v1.explain.fleet -o yaml` has the reason"
    )


def test_an_error_of_the_api_itself_comes_through(hub: ScriptedApi, write: Write) -> None:
    def answer(asked: Asked) -> Said:
        return refused(404, "placement web was never seen here", next="GET /v1/placements lists those that are there")

    hub.says(WHY, answer)

    assert failure(write({}, hub.url)) == (
        "placement web was never seen here\nnext: `fleet get placements` lists those that are there"
    )


def test_a_hub_that_is_not_there_is_told_with_its_context(hub: ScriptedApi, write: Write) -> None:
    text = failure(write({}, "http://127.0.0.1:9"))

    assert text.endswith("next: check context hub of FILE; `kubectl cluster-info` fails in the same way")
