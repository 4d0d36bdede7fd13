"""Versions and cipher suites of TLS that a hub prescribes, as OpenShift has them: for secondary schedulers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleet.settings.tree import TlsSection
from fleet.settings.values import CIPHER_SUITES

Json = dict[str, Any]

API_SERVER: Final = "/apis/config.openshift.io/v1/apiservers/cluster"
TLS_FOLDER: Final = TlsSection().folder
_OLDEST, _NEWEST = "VersionTLS12", "VersionTLS13"
_VERSIONS: Final = {"VersionTLS10": _OLDEST, "VersionTLS11": _OLDEST, _OLDEST: _OLDEST, _NEWEST: _NEWEST}
"""What is served for them."""
_FIELDS: Final = ("minTLSVersion", "cipherSuites")
_NAMES: Final = {openssl: suite for suite, openssl in CIPHER_SUITES.items() if openssl}
_INTERMEDIATE: Final = tuple(CIPHER_SUITES)[:6]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    settings: Mapping[str, str]
    problems: tuple[str, ...] = ()


def read_tls_policy(spec: Json) -> TlsSettings:
    """Settings of a scheduler, from `observedConfig.servingInfo`. What cannot be served is left out, and a problem."""
    path, settings, problems = "spec.observedConfig.servingInfo", {"enabled": "true"}, []
    serving = (spec.get("observedConfig") or {}).get("servingInfo") or {}
    if not isinstance(serving, dict):
        return TlsSettings(settings, (f"{path}: should be an object",))
    version, suites = serving.get("minTLSVersion"), serving.get("cipherSuites") or []
    if isinstance(version, str) and version in _VERSIONS:
        settings["minVersion"] = _VERSIONS[version]
    elif version:
        problems.append(f"{path}.minTLSVersion: {version!r} should be one of {', '.join(_VERSIONS)}")
    if not isinstance(suites, list):
        return TlsSettings(settings, (*problems, f"{path}.cipherSuites: should be a list"))
    known = [suite for suite in suites if isinstance(suite, str) and suite in CIPHER_SUITES]
    if known:
        settings["cipherSuites"] = ",".join(known)
    unknown = [str(suite) for suite in suites if suite not in known]
    if unknown:
        problems.append(f"{path}.cipherSuites: {', '.join(unknown)} cannot be served")
    return TlsSettings(settings, tuple(problems))


def convert_profile(api_server: Json) -> Json:
    """The `servingInfo` for the profile that an APIServer of OpenShift asks for."""
    profile = (api_server.get("spec") or {}).get("tlsSecurityProfile") or {}
    match profile.get("type") or "Intermediate":
        case "Modern":
            return {"minTLSVersion": _NEWEST}
        case "Custom":
            custom = profile.get("custom") or {}
            return {
                "minTLSVersion": custom.get("minTLSVersion") or _OLDEST,
                "cipherSuites": list(_translate(custom.get("ciphers") or ())),
            }
        case "Old":
            return {"minTLSVersion": "VersionTLS10"}
    return {"minTLSVersion": _OLDEST, "cipherSuites": list(_INTERMEDIATE)}


def find_observed_config(spec: Json, serving_info: Json | None) -> Json:
    """The patch after which `observedConfig` is what the hub asks for; empty if it is."""
    if serving_info is None or spec["managementState"] not in ("Managed", "Force"):
        return {}
    serving = (spec.get("observedConfig") or {}).get("servingInfo")
    wanted = {field: serving_info.get(field) for field in _FIELDS}
    if isinstance(serving, dict) and all(serving.get(field) == wanted[field] for field in _FIELDS):
        return {}
    return {"servingInfo": wanted}


def _translate(ciphers: Iterable[str]) -> Iterable[str]:
    return (_NAMES.get(cipher, cipher) for cipher in ciphers)
