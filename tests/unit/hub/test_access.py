"""Who gets in, and who may do what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.errors import ConfigurationError
from fleet.hub.access.authentication import read_tokens
from fleet.hub.http.server import HubSettings, check_settings
from tests.unit.hub.asking import CONFIG_MAPS, NAMESPACES, Asker, a_config_map

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def allow_bob(ask: Asker, *, namespace: str, **rule: Any) -> None:
    where, kind = (f"/namespaces/{namespace}", "") if namespace else ("", "Cluster")
    plural = f"{kind.lower()}role"
    ask("POST", f"{RBAC}{where}/{plural}s", {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""]} | rule]})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": f"{kind}Role", "name": "r"},
        "subjects": [{"kind": "Group", "name": "developers"}],
    }
    assert ask("POST", f"{RBAC}{where}/{plural}bindings", binding).code == 201


def test_a_cluster_role_grants_everywhere(ask: Asker) -> None:
    allow_bob(ask, namespace="", resources=["*"], verbs=["*"])
    assert ask("POST", f"{NAMESPACES}/kube-system/configmaps", a_config_map("a"), token="bob-token").code == 201


def test_a_grant_may_name_objects(ask: Asker) -> None:
    allow_bob(ask, namespace="default", resources=["configmaps"], verbs=["get"], resourceNames=["mine"])
    assert ask("GET", f"{CONFIG_MAPS}/mine", token="bob-token").code == 404
    assert ask("GET", f"{CONFIG_MAPS}/yours", token="bob-token").code == 403


def test_everyone_known_may_discover_and_anyone_may_see_the_health(ask: Asker) -> None:
    assert ask("GET", "/apis", token="bob-token").code == 200
    assert ask("GET", "/apis", token=None).code == 403
    assert ask("GET", "/readyz", token=None).code == 200


def test_on_loopback_programs_need_no_token_but_web_pages_get_nowhere(ask: Asker) -> None:
    local = Asker(ask.hub, ask._runner, trusts_local=True)
    assert local("GET", CONFIG_MAPS, token=None).code == 200
    assert local("GET", CONFIG_MAPS, token=None, headers=[("origin", "http://example.com")]).code == 403
    assert local("GET", CONFIG_MAPS, token=None, headers=[("host", "example.com")]).code == 403
    for site, code in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert local("GET", CONFIG_MAPS, token=None, headers=[("sec-fetch-site", site)]).code == code


def test_administrators_act_as_others(ask: Asker) -> None:
    answer = ask("GET", CONFIG_MAPS, headers=[("impersonate-user", "carol")])
    assert 'User "carol" cannot list resource "configmaps"' in answer.refusal[2]
    assert ask("GET", CONFIG_MAPS, token="bob-token", headers=[("impersonate-user", "admin")]).code == 403


def test_a_token_file_is_read_as_the_api_server_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text('secret,alice,7,"one,two"\n')
    (user,) = read_tokens(path).values()
    assert (user.name, user.uid, user.groups) == ("alice", "7", ("one", "two", "system:authenticated"))


def test_a_token_file_with_half_a_line_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text("secret,alice,7\nalone\n")
    with pytest.raises(ConfigurationError, match=r"tokens\.csv:2: expected token,user,uid"):
        read_tokens(path)


@pytest.mark.parametrize(
    "settings",
    [HubSettings(host="0.0.0.0"), HubSettings(host="0.0.0.0", allow_remote=True), HubSettings(tls_cert=Path("c"))],
    ids=["remote", "remote without TLS", "half of TLS"],
)
def test_what_would_be_unsafe_is_refused(settings: HubSettings) -> None:
    with pytest.raises(ConfigurationError):
        check_settings(settings)
