"""Certificates that are renewed under way, that are signed here until there is one, and what clients may use."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from structlog.testing import capture_logs

from fleet.certificate import CHECK_INTERVAL, Certificate, TlsPolicy
from fleet.errors import ConfigurationError
from fleet.settings.values import CIPHER_SUITES
from tests.certificates import Files, name_shown_by, shake_hands
from tests.faults.virtual import VirtualClock, virtual

GCM = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path).write("before.example")


@virtual
async def test_a_renewed_certificate_is_taken_without_a_restart(tmp_path: Path) -> None:
    files = Files(tmp_path).write("before.example")
    certificate = Certificate(files.certificate, files.key)
    following = asyncio.create_task(certificate.watch_files(VirtualClock()))
    before = name_shown_by(certificate.context)
    files.write("after.example")
    await asyncio.sleep(CHECK_INTERVAL + 1)
    following.cancel()

    assert (before, name_shown_by(certificate.context)) == ("before.example", "after.example")


def test_half_of_a_renewal_changes_nothing_and_is_told_once(files: Files) -> None:
    certificate = Certificate(files.certificate, files.key)
    former = files.key.read_bytes()
    files.write("after.example")
    latter = files.key.read_bytes()
    files.key.write_bytes(former)
    with capture_logs() as logs:
        certificate.reload()
        certificate.reload()
    in_between = name_shown_by(certificate.context)
    files.key.write_bytes(latter)
    certificate.reload()

    assert [one["log_level"] for one in logs] == ["warning"]
    assert (in_between, name_shown_by(certificate.context)) == ("before.example", "after.example")


def test_files_that_are_gone_change_nothing(files: Files) -> None:
    certificate = Certificate(files.certificate, files.key)
    files.key.unlink()
    certificate.reload()

    assert name_shown_by(certificate.context) == "before.example"


def test_files_that_fit_no_server_are_refused_at_the_start(files: Files) -> None:
    files.key.write_text("no key")

    with pytest.raises(ConfigurationError, match=r"tls.crt and --tls-key .*tls.key are no certificate with its key"):
        Certificate(files.certificate, files.key)


def test_of_two_kinds_of_keys_the_renewed_one_is_shown(files: Files) -> None:
    certificate = Certificate(files.certificate, files.key)
    files.write("after.example", key_type=trustme.KeyType.RSA)
    certificate.reload()

    assert name_shown_by(certificate.context) == "after.example"


def accept(certificate: Certificate, **limits: Any) -> ssl.SSLObject:
    """What a client agrees on that verifies nothing, as the kubelet."""
    careless = ssl._create_unverified_context()
    careless.maximum_version = limits.get("until", ssl.TLSVersion.MAXIMUM_SUPPORTED)
    if "ciphers" in limits:
        careless.set_ciphers(limits["ciphers"])
    return shake_hands(careless, certificate.context)[0]


def test_without_files_it_signs_its_own_until_there_are_some(tmp_path: Path) -> None:
    files = Files(tmp_path)
    with capture_logs() as logs:
        certificate = Certificate(files.certificate, files.key, self_signs=True)
        certificate.reload()
    assert accept(certificate).version() == "TLSv1.3"
    assert [one["log_level"] for one in logs] == ["info"]
    files.write("after.example", key_type=trustme.KeyType.RSA)
    certificate.reload()

    assert name_shown_by(certificate.context) == "after.example"


def test_an_old_version_of_tls_is_refused(files: Files) -> None:
    old = {"until": ssl.TLSVersion.TLSv1_2}
    assert accept(Certificate(files.certificate, files.key), **old).version() == "TLSv1.2"
    strict = Certificate(files.certificate, files.key, policy=TlsPolicy("VersionTLS13"))

    assert accept(strict).version() == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        accept(strict, **old)


def test_only_listed_suites_are_used(files: Files) -> None:
    listed = Certificate(files.certificate, files.key, policy=TlsPolicy(cipher_suites=(GCM,)))
    old = {"until": ssl.TLSVersion.TLSv1_2}

    agreed = accept(listed, **old).cipher()
    assert agreed is not None
    assert agreed[0] == CIPHER_SUITES[GCM]
    with pytest.raises(ssl.SSLError):
        accept(listed, **old, ciphers="ECDHE-ECDSA-AES256-GCM-SHA384")


def test_with_suites_of_tls_1_3_only_there_is_nothing_older(files: Files) -> None:
    newest = Certificate(files.certificate, files.key, policy=TlsPolicy(cipher_suites=("TLS_AES_128_GCM_SHA256",)))
    with pytest.raises(ssl.SSLError):
        accept(newest, until=ssl.TLSVersion.TLSv1_2)


def test_every_suite_is_one_of_openssl() -> None:
    for suite in CIPHER_SUITES:
        TlsPolicy(cipher_suites=(suite,)).create_context()
