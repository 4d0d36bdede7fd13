"""The hub as a process: what it writes for its clients, and what it refuses to do."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml

from fleet.hub.__main__ import main
from fleet.hub.access.authentication import read_tokens
from tests.unit.hub.test_durability import a_running_hub

BEGINNING = """
import gc, os, signal
from fleet.hub.__main__ import run
from fleet.hub.http.server import HubSettings

def look(endpoint):
    print(gc.get_freeze_count(), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

run(HubSettings(), ready=look)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a hub that runs."""
    folder = tmp_path_factory.mktemp("hub")
    with a_running_hub(folder):
        yield folder


def test_the_ready_file_leads_to_everything_a_client_needs(folder: Path) -> None:
    ready = json.loads((folder / "ready.json").read_text())
    kubeconfig = yaml.safe_load(Path(ready["kubeconfig"]).read_text())
    assert kubeconfig["clusters"][0]["cluster"]["server"] == ready["url"]
    users = read_tokens(Path(ready["tokenFile"]))
    assert users[kubeconfig["users"][0]["user"]["token"]].is_administrator


def test_secrets_are_for_the_owner_of_the_hub_only(folder: Path) -> None:
    ready = json.loads((folder / "ready.json").read_text())
    assert {Path(ready[name]).stat().st_mode & 0o077 for name in ("kubeconfig", "tokenFile")} == {0}


@pytest.mark.servers  # two processes one after the other
def test_the_token_survives_a_restart(tmp_path: Path) -> None:
    tokens = []
    for _ in range(2):
        with a_running_hub(tmp_path):
            tokens.append((tmp_path / "data" / "tokens.csv").read_text())
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_although_somebody_watches(tmp_path: Path, number: signal.Signals) -> None:
    with a_running_hub(tmp_path) as (hub, _):
        ready = json.loads((tmp_path / "ready.json").read_text())
        request = Request(f"{ready['url']}/api/v1/namespaces?watch=1")
        request.add_header("Authorization", f"Bearer {Path(ready['tokenFile']).read_text().partition(',')[0]}")
        with urlopen(request, timeout=90) as watch:
            assert json.loads(watch.readline())["type"] == "ADDED"
            hub.send_signal(number)
            assert hub.wait(timeout=90) == 0
    assert not (tmp_path / "data" / "hub.sqlite-wal").exists(), "the database was not closed"


def test_garbage_collection_never_visits_what_was_there_when_the_hub_began() -> None:
    ended = subprocess.run([sys.executable, "-c", BEGINNING], capture_output=True, text=True, timeout=90, check=False)
    assert int(ended.stdout) > 10_000


def test_a_mistake_in_the_settings_is_told_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fleet.hub", "--host", "0.0.0.0", "--data-dir", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert ended.returncode == 2
    assert ended.stderr == (
        "fleet hub: host '0.0.0.0' can be reached from other machines; add --allow-remote to allow that\n"
    )


def test_a_certificate_that_cannot_be_used_is_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("hub.crt", "hub.key")]
    named = f"fleet hub: --tls-cert {files[0]} and --tls-key {files[1]} are no certificate and its key: "
    arguments = [f"--tls-cert={files[0]}", f"--tls-key={files[1]}"]

    assert main(arguments) == 2
    assert capsys.readouterr().err == f"{named}No such file or directory\n"
    for file in files:
        file.write_text("a letter")
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(named)


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["--data-dir", str(tmp_path / "file" / "data")]) == 2
    want = f"fleet hub: cannot create the data directory {tmp_path}/file/data: Not a directory\n"
    assert capsys.readouterr().err == want


def test_a_kubeconfig_that_cannot_be_written_is_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kubeconfig").mkdir()
    assert main(["--data-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"fleet hub: cannot write {tmp_path}/kubeconfig: Is a directory\n"
    assert caplog.messages == []


def test_a_second_hub_on_a_data_directory_leaves_the_kubeconfig_of_the_first_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = Path(json.loads((folder / "ready.json").read_text())["kubeconfig"])
    before = kubeconfig.read_text()
    assert main(["--data-dir", str(folder / "data")]) == 2
    assert "another hub uses this data directory" in capsys.readouterr().err
    assert kubeconfig.read_text() == before
