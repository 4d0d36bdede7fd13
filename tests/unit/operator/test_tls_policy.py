"""From the policy of a hub to the settings of a scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.operator.tls_policy import convert_profile, find_observed_config, read_tls_policy
from fleet.settings.values import CIPHER_SUITES

GCM = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
AT = "spec.observedConfig.servingInfo"
VERSIONS = "VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13"


@pytest.mark.parametrize(
    "serving, settings, problems",
    [
        (None, {}, ()),
        ({"minTLSVersion": "VersionTLS13"}, {"minVersion": "VersionTLS13"}, ()),
        ({"minTLSVersion": "VersionTLS10"}, {"minVersion": "VersionTLS12"}, ()),
        ({"cipherSuites": [GCM, "RC4"]}, {"cipherSuites": GCM}, (f"{AT}.cipherSuites: RC4 cannot be served",)),
        ({"cipherSuites": [{}]}, {}, (f"{AT}.cipherSuites: {{}} cannot be served",)),
        ({"cipherSuites": "all"}, {}, (f"{AT}.cipherSuites: should be a list",)),
        ({"minTLSVersion": "1.2"}, {}, (f"{AT}.minTLSVersion: '1.2' should be one of {VERSIONS}",)),
        ({"minTLSVersion": [1]}, {}, (f"{AT}.minTLSVersion: [1] should be one of {VERSIONS}",)),
        (["VersionTLS13"], {}, (f"{AT}: should be an object",)),
    ],
)
def test_what_can_be_served_becomes_settings(serving: Any, settings: dict[str, str], problems: tuple[str, ...]) -> None:
    policy = read_tls_policy({"observedConfig": {"servingInfo": serving}})
    assert policy.settings == {"enabled": "true", **settings}
    assert policy.problems == problems


@pytest.mark.parametrize(
    "profile, version",
    [
        (None, "VersionTLS12"),
        ({"type": "Intermediate"}, "VersionTLS12"),
        ({"type": "Modern"}, "VersionTLS13"),
        ({"type": "Old"}, "VersionTLS10"),
        ({"type": "Custom", "custom": {"minTLSVersion": "VersionTLS11"}}, "VersionTLS11"),
        ({"type": "Custom"}, "VersionTLS12"),
    ],
)
def test_a_profile_has_an_oldest_version(profile: Any, version: str) -> None:
    assert convert_profile({"spec": {"tlsSecurityProfile": profile}})["minTLSVersion"] == version


def test_ciphers_get_the_names_that_kubernetes_has_for_them() -> None:
    custom = {"ciphers": ["ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256", "RC4-SHA"]}
    converted = convert_profile({"spec": {"tlsSecurityProfile": {"type": "Custom", "custom": custom}}})
    assert converted["cipherSuites"] == [GCM, "TLS_AES_128_GCM_SHA256", "RC4-SHA"]
    assert set(convert_profile({})["cipherSuites"]) < CIPHER_SUITES.keys()


def test_what_the_hub_asks_for_is_written_once() -> None:
    spec: dict[str, Any] = {"managementState": "Managed"}
    wanted = {"minTLSVersion": "VersionTLS13", "cipherSuites": None}
    assert find_observed_config(spec, {"minTLSVersion": "VersionTLS13"}) == {"servingInfo": wanted}
    followed = {**spec, "observedConfig": {"servingInfo": {"minTLSVersion": "VersionTLS13", "more": 1}}}
    assert find_observed_config(followed, {"minTLSVersion": "VersionTLS13"}) == {}
    assert find_observed_config({**spec, "managementState": "Removed"}, {"minTLSVersion": "VersionTLS13"}) == {}
    assert find_observed_config(spec, None) == {}
