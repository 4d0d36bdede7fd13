"""Callers that the hub's aggregation layer names: believed from the front proxy's certificate, and from nobody else."""

from __future__ import annotations

import json
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trustme
from structlog.testing import capture_logs

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.auth.front_proxy import FrontProxy, FrontProxyTrust
from api.http.server import ListenOptions, serve_app
from fleet.certificate import Certificate
from fleet.clock import SystemClock
from fleet.errors import UnreadableAnswer
from fleet.settings import Address, load_settings
from tests.api.stage import PATIENT, READER, Stage, live_beside, staged
from tests.certificates import shake_hands
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import VirtualClock, virtual

SERVER: Final = trustme.CA()
FRONT: Final = trustme.CA()
USERS: Final = trustme.CA()
PROXY: Final = FRONT.issue_cert("proxy.example", common_name="front-proxy")
VERIFIED: Final = {"subject": ((("organizationName", "somewhere"),), (("commonName", "front-proxy"),))}
CONFIG_MAPS: Final = "/api/v1/namespaces/kube-system/configmaps"
NAME: Final = "extension-apiserver-authentication"
WHY: Final = "/apis/explain.fleet/v1/placements/-/web/why"


def pem(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


def published(**changes: str) -> dict[str, str]:
    return {
        "requestheader-client-ca-file": pem(FRONT),
        "client-ca-file": pem(USERS),
        "requestheader-allowed-names": '["front-proxy"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        **changes,
    }


async def a_proxy(hub: HubApi, data: Mapping[str, str]) -> FrontProxy:
    await hub.create(CONFIG_MAPS, {"metadata": {"name": NAME}, "data": dict(data)})
    found = FrontProxy(hub, clock=VirtualClock())
    await found.load()
    return found


# --- who is named -----------------------------------------------------------------------------------------------------


@virtual
async def test_a_caller_has_name_uid_groups_and_extra_of_the_headers() -> None:
    proxy = await a_proxy(a_hub(), published())
    caller = proxy.identify(
        VERIFIED,
        [
            (b"x-remote-user", "zoë".encode()),
            (b"x-remote-uid", b"7"),
            (b"x-remote-group", b"team-a"),
            (b"x-remote-group", b"system:authenticated"),
            (b"x-remote-extra-example.com%2fscope", b"one"),
            (b"x-remote-extra-example.com%2fscope", b"two"),
        ],
    )

    assert caller is not None
    assert (caller.name, caller.uid, caller.groups) == ("zoë", "7", ("team-a", "system:authenticated"))
    assert caller.extra == {"example.com/scope": ("one", "two")}


@pytest.mark.parametrize(
    "certificate, headers",
    [
        ({"subject": ((("commonName", "alice"),),)}, [(b"x-remote-user", b"root")]),
        ({}, [(b"x-remote-user", b"root")]),
        (VERIFIED, []),
        (VERIFIED, [(b"x-remote-user", b"")]),
        (VERIFIED, [(b"x-remote-group", b"system:masters")]),
        (VERIFIED, [(b"x-remote-user", b"\xff")]),
    ],
)
def test_no_one_is_named(certificate: dict[str, Any], headers: list[tuple[bytes, bytes]]) -> None:
    @virtual
    async def identified() -> None:
        proxy = await a_proxy(a_hub(), published())
        assert proxy.identify(certificate, headers) is None

    identified()


def test_an_authority_that_also_signs_users_is_trusted_only_with_names() -> None:
    shared = published(**{"client-ca-file": f"{pem(USERS)}{pem(FRONT)}"})

    assert FrontProxyTrust.parse(shared).authorities
    with pytest.raises(UnreadableAnswer, match="any of them could claim to be the API server"):
        FrontProxyTrust.parse({**shared, "requestheader-allowed-names": "[]"})


@pytest.mark.parametrize(
    "data, reason",
    [
        ({}, "requestheader-client-ca-file is not set"),
        (
            published(**{"requestheader-username-headers": "X-Remote-User"}),
            "requestheader-username-headers is not a list",
        ),
    ],
)
def test_what_cannot_be_used_is_not_trusted(data: dict[str, str], reason: str) -> None:
    with pytest.raises(UnreadableAnswer, match=reason):
        FrontProxyTrust.parse(data)


@virtual
async def test_what_was_loaded_stays_while_the_hub_does_not_answer_and_that_is_told_once() -> None:
    hub = a_hub()
    proxy = await a_proxy(hub, published())
    await hub.delete(f"{CONFIG_MAPS}/{NAME}")
    with capture_logs() as logs:
        await proxy.load()
        await proxy.load()

    assert proxy.authorities == pem(FRONT)
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert "extension-apiserver-authentication-reader" in logs[0]["reason"]


# --- over TLS ---------------------------------------------------------------------------------------------------------


def write_server_files(folder: Path) -> ListenOptions:
    issued = SERVER.issue_cert("localhost")
    certificate, key = folder / "tls.crt", folder / "tls.key"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    return ListenOptions(address=Address("127.0.0.1:0"), tls_cert=certificate, tls_key=key)


def client_tls(certificate: trustme.LeafCert | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    SERVER.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return context


@staged
async def test_the_front_proxy_speaks_for_callers_and_others_do_not(stage: Stage) -> None:
    """The same rights as with a token of the same user; headers without the certificate count for nothing."""
    proxy = await a_proxy(a_hub(), published())
    app = create_app(
        live_beside(stage),
        stage.history,
        HubAuthorizer(stage.hub, clock=SystemClock()),
        load_settings(None, {}, [PATIENT]),
        front_proxy=proxy,
    )
    with tempfile.TemporaryDirectory() as folder:
        listening = write_server_files(Path(folder))
        async with serve_app(app, listening, client_authorities=lambda: proxy.authorities) as url:
            local = url.replace("127.0.0.1", "localhost")

            async def ask(
                path: str, headers: Mapping[str, str], certificate: trustme.LeafCert | None = PROXY
            ) -> httpx.Response:
                async with httpx.AsyncClient(verify=client_tls(certificate), trust_env=False) as client:
                    return await client.get(f"{local}{path}", headers=headers)

            rosa = {"X-Remote-User": "rosa"}
            through = await ask(WHY, rosa)
            with_token = await ask("/v1/placements/-/web/why", {"Authorization": f"Bearer {READER}"}, None)
            assert through.status_code == 200
            assert through.json()["verdict"] == with_token.json()["verdict"]
            assert through.json()["redacted"] == with_token.json()["redacted"] > 0
            other = await ask(WHY.replace("web", "big"), rosa)
            assert (other.status_code, other.json()["detail"].split()[0]) == (403, "rosa")
            assert (await ask(WHY, rosa, None)).status_code == 401
            assert (await ask(WHY, {})).status_code == 401
            assert (await ask(WHY, rosa, FRONT.issue_cert("x.example", common_name="alice"))).status_code == 401
            with pytest.raises(httpx.TransportError):
                await ask(WHY, rosa, USERS.issue_cert("y.example", common_name="front-proxy"))


@staged
async def test_the_layer_finds_what_it_looks_for(stage: Stage) -> None:
    resources = (await stage.get("/apis/explain.fleet/v1", None)).json()
    streamed = await stage.get("/apis/explain.fleet/v1/decisions?placement=web&watch=true")
    misspelt = await stage.get("/apis/explain.fleet/v1/decisions?watches=true")

    assert (resources["kind"], resources["groupVersion"], resources["resources"]) == (
        "APIResourceList",
        "explain.fleet/v1",
        [],
    )
    assert json.loads(streamed.text.splitlines()[0])["key"] == "web"
    assert misspelt.status_code == 422
    for path in ("/openapi/v2", "/openapi/v3"):
        assert (await stage.get(path, None)).json()["paths"] == {}


# --- authorities that are replaced ------------------------------------------------------------------------------------


def is_accepted(server: ssl.SSLContext, certificate: trustme.LeafCert) -> bool:
    """A handshake without a network."""
    try:
        _, serving = shake_hands(client_tls(certificate), server, server_hostname="localhost")
    except ssl.SSLError:
        return False
    return bool(serving.getpeercert())


def test_a_replaced_authority_is_no_longer_accepted_and_the_new_one_is(tmp_path: Path) -> None:
    listening, next_front, present = write_server_files(tmp_path), trustme.CA(), [""]
    renewed = next_front.issue_cert("proxy.example", common_name="front-proxy")
    assert listening.tls_cert is not None
    assert listening.tls_key is not None
    served = Certificate(listening.tls_cert, listening.tls_key, client_authorities=lambda: present[0])
    accepted = []
    for authorities in ("", pem(FRONT), pem(FRONT) + pem(next_front), pem(next_front), "no certificate", ""):
        present[0] = authorities
        served.reload()
        accepted.append((is_accepted(served.context, PROXY), is_accepted(served.context, renewed)))

    assert accepted == [
        (False, False),
        (True, False),
        (True, True),
        (False, True),
        (False, True),
        (False, False),
    ]
