"""`fleet up`: as a process, and what it refuses before it starts."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import uvicorn

from fleet.cli.up.display import LogHeadlines
from fleet.cli.up.up import LineWriter, UpOptions, adapt_settings, run_up
from fleet.clock import SystemClock
from fleet.demo.headlines import Headline, Headlines
from fleet.errors import ConfigurationError
from fleet.settings import load_settings
from tests.calm import CALM
from tests.control_plane.instance import free_port
from tests.control_plane.waiting import soon
from tests.unit.cli.conftest import Fleet

PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
CLUSTERS = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
SIZE = 6
RUN = "from fleet.cli.main import run; run()"
HUNG = """
import time
from api.live.history_reader import HistoryReader

call = HistoryReader.call
HistoryReader.call = lambda self, query, *args, **kwargs: call(self, time.sleep, 3600)

from fleet.cli.main import run

run()
"""
Answering = tuple[subprocess.Popen[bytes], Request]
CONFIG = "fleet.yaml"


def document(ranking: str) -> str:
    head = "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
    return f"{head}profiles:\n- schedulerName: DefaultScheduler\n  ranking: {ranking}\n"


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    ready: dict[str, str]
    output: Path

    def items(self, path: str) -> dict[str, Any]:
        with urlopen(self.ready["hub"] + path, timeout=90) as answer:
            return {one["metadata"]["name"]: one for one in json.load(answer)["items"]}

    def delete(self, path: str) -> None:
        urlopen(Request(self.ready["hub"] + path, method="DELETE"), timeout=90).close()

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=90)


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Running]:
    """Ready."""
    ready, output = folder / "ready.json", folder / "output"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-c", CALM, "up", "--quiet", f"--ready-file={ready}", *arguments]
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        while not ready.exists():
            assert process.poll() is None, output.read_text()
            time.sleep(0.02)
        soon(lambda: " is up at " in output.read_text())  # the ready file is written before it
        yield Running(process, json.loads(ready.read_text()), output)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("up")
    (folder / CONFIG).write_text(document("lexicographic"), encoding="utf-8")
    with running(folder, f"--clusters={SIZE}", f"--config={folder / CONFIG}") as found:
        yield found


# --- ready ------------------------------------------------------------------------------------------------------------


def test_the_ready_file_says_where_the_hub_is_and_is_for_its_owner(up: Running) -> None:
    mode = stat.S_IMODE((up.output.parent / "ready.json").stat().st_mode)

    assert set(up.ready) == {"hub", "kubeconfig", "api", "tokenFile", "ui"}
    assert up.ready["hub"] in Path(up.ready["kubeconfig"]).read_text()
    assert mode == 0o600


def test_the_token_file_opens_the_api(up: Running) -> None:
    file = Path(up.ready["tokenFile"])
    request = Request(up.ready["api"] + "/v1/placements/-/storefront/why")
    request.add_header("Authorization", f"Bearer {file.read_text().strip()}")
    answers: list[Any] = []

    def is_recorded() -> bool:
        with urlopen(request, timeout=90) as answer:
            answers.append(json.load(answer))
        return answers[-1]["recorded"] is not None

    soon(is_recorded)
    found = answers[-1]

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert found["placement"]["name"] == "storefront"
    assert found["verdict"]["counts"]["total"] == SIZE
    assert found["recorded"]["key"] == "storefront"


def test_the_link_of_the_explorer_is_printed_and_its_pages_are_there(up: Running) -> None:
    page, _, code = up.ready["ui"].partition("#")

    assert page == up.ready["api"] + "/ui/signin"
    assert re.fullmatch("[A-Za-z0-9_-]{22}", code)
    assert f"  {up.ready['ui']}\n" in up.output.read_text()
    with urlopen(page, timeout=90) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"


def test_fleet_ui_makes_a_link_that_signs_in_once(up: Running) -> None:
    options = ["--no-open", f"--api={up.ready['api']}", f"--token-file={up.ready['tokenFile']}"]
    done = subprocess.run(
        [sys.executable, "-m", "fleet.cli", "ui", *options], capture_output=True, text=True, timeout=90
    )
    page, _, code = done.stdout.strip().partition("#")
    request = Request(up.ready["api"] + "/v1/session", json.dumps({"code": code, "user": "fleet:admin"}).encode())
    request.add_header("Content-Type", "application/json")

    with urlopen(request, timeout=90) as answer:
        cookie = answer.headers["Set-Cookie"]
        caller = json.load(answer)["user"]
    with pytest.raises(HTTPError, match="401") as refused:
        urlopen(request, timeout=90)
    refused.value.close()

    assert (done.returncode, page) == (0, up.ready["api"] + "/ui/signin"), done.stderr
    assert Path(up.ready["tokenFile"]).read_text().strip() not in done.stdout + cookie
    assert caller == "fleet:admin"
    assert cookie.endswith("Path=/; HttpOnly; SameSite=Strict")
    port = up.ready["api"].rpartition(":")[2]
    assert cookie.startswith(f"fleet-session-{port}=")
    clusters = Request(up.ready["api"] + "/v1/matrix", headers={"Cookie": cookie.partition(";")[0]})
    with urlopen(clusters, timeout=90) as answer:
        assert json.load(answer)["clusters"]


def test_figures_of_the_history_are_with_those_of_the_controller(up: Running) -> None:
    request = Request(up.ready["api"] + "/metrics")
    request.add_header("Authorization", f"Bearer {Path(up.ready['tokenFile']).read_text().strip()}")

    with urlopen(request, timeout=90) as answer:
        found = answer.read().decode()

    assert "\nfleet_recorder_attempts_total{" in found
    assert "\nfleet_history_unavailable_since_seconds 0.0\n" in found
    assert "\nfleet_schedule_attempts_total{" in found


@contextmanager
def an_api(
    up: Running, folder: Path, *options: str, code: str = "from fleet.cli.main import run; run()"
) -> Iterator[Answering]:
    """`fleet api` beside it, ready."""
    ready = folder / "ready.json"
    known = [f"--kubeconfig={up.ready['kubeconfig']}", f"--ready-file={ready}"]
    process = subprocess.Popen([sys.executable, "-c", code, "api", "--address=127.0.0.1:0", *known, *options])
    try:
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.02)
        request = Request(json.loads(ready.read_text())["api"] + "/v1/placements/-/storefront/why")
        request.add_header("Authorization", f"Bearer {Path(up.ready['tokenFile']).read_text().strip()}")
        yield process, request
    finally:
        process.kill()
        process.wait()


def test_an_api_of_its_own_answers_beside_it_and_ends_in_order(up: Running, tmp_path: Path) -> None:
    with an_api(up, tmp_path) as (process, request):
        with urlopen(request, timeout=90) as answer:
            found = json.load(answer)
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=90)

    assert (found["attempt"]["evaluatedOn"], found["queue"]["space"]) == ("current", "unknown")
    assert found["verdict"]["counts"]["total"] == SIZE
    assert code == 0


@pytest.mark.servers  # it takes its time to give up
def test_an_api_whose_history_hangs_ends_nevertheless(up: Running, tmp_path: Path) -> None:
    history = f"--set=history.url=sqlite:///{tmp_path / 'history.sqlite'}"
    with an_api(up, tmp_path, history, "--set=shutdown.gracePeriod=1s", code=HUNG) as (process, request):
        with pytest.raises(TimeoutError), urlopen(request, timeout=2):
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=90) == 1


def test_an_edit_of_its_configuration_takes_effect_and_a_broken_one_changes_nothing(up: Running) -> None:
    file = up.output.parent / CONFIG

    def ask(path: str) -> str:
        request = Request(up.ready["api"] + path)
        request.add_header("Authorization", f"Bearer {Path(up.ready['tokenFile']).read_text().strip()}")
        with urlopen(request, timeout=90) as answer:
            return str(answer.read().decode())

    def ranking() -> str:
        return str(json.loads(ask("/v1/profiles/DefaultScheduler"))["ranking"])

    assert ranking() == "lexicographic"
    file.write_text(document("weighted"), encoding="utf-8")
    soon(lambda: ranking() == "weighted")
    soon(lambda: f"configuration: reloaded from {file}" in up.output.read_text())
    file.write_text(document("sideways"), encoding="utf-8")
    soon(lambda: "refused" in ask("/readyz?verbose"))
    assert ranking() == "weighted"
    assert "ranking" in up.output.read_text()
    file.write_text(document("lexicographic"), encoding="utf-8")
    soon(lambda: ranking() == "lexicographic")


def test_once_it_is_ready_every_placement_has_an_answer(up: Running) -> None:
    placements = up.items(PLACEMENTS)

    assert set(placements) == {"node-agents", "payments-ledger", "storefront", "batch-reports"}
    for placement in placements.values():
        conditions = {one["type"]: one["status"] for one in placement["status"]["conditions"]}
        assert conditions["ClusterResourcePlacementScheduled"] in ("True", "False")


def test_once_it_is_ready_members_have_joined_and_are_used(up: Running) -> None:
    said = up.output.read_text()

    assert f"A fleet of {SIZE} clusters is up at {up.ready['hub']}" in said
    assert re.search(rf"^\S+  node-agents: places on ams-1, .*; {SIZE} clusters", said, re.MULTILINE)


def test_decisions_are_told_in_plain_lines_and_commands_to_try_follow(up: Running) -> None:
    said = up.output.read_text()

    assert re.search(r"^\d\d:\d\d:\d\d  payments-ledger: places on dub-1, iad-1; 2 of 2 clusters", said, re.MULTILINE)
    kubeconfig = re.escape(up.ready["kubeconfig"])
    assert re.search(
        rf"^  export KUBECONFIG={kubeconfig}\n  (/.*/)?fleet why storefront\n  kubectl get crp\n", said, re.M
    )
    assert "\x1b" not in said


# --- ending and starting again ----------------------------------------------------------------------------------------


@pytest.mark.servers  # a process of its own; within this one a signal is tried below
def test_a_signal_before_it_is_ready_ends_it_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [sys.executable, "-m", "fleet.cli", "up", "--quiet", "--clusters=2000", f"--data-dir={data}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not (data / "hub.sqlite").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=90)

    assert process.returncode == 0, said
    assert "Traceback" not in said


def test_a_signal_while_the_hub_starts_ends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    load = uvicorn.Config.load

    def interrupted(config: uvicorn.Config) -> None:
        load(config)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(uvicorn.Config, "load", interrupted)

    assert run_up(UpOptions(quiet=True)) == 0


@pytest.mark.servers  # two processes one after the other
def test_it_ends_in_order_and_a_second_start_goes_on_where_it_ended(tmp_path: Path) -> None:
    data = f"--data-dir={tmp_path / 'data'}"
    with running(tmp_path, data, "--clusters=3") as first:
        first.delete(f"{PLACEMENTS}/storefront")
        while "storefront" in first.items(PLACEMENTS):
            time.sleep(0.02)
        before = first.items(CLUSTERS)
        assert first.end(signal.SIGTERM) == 0
        assert "Traceback" not in first.output.read_text()
    with running(tmp_path, data) as second:
        after, placements = second.items(CLUSTERS), second.items(PLACEMENTS)

    assert uids(after) == uids(before)
    assert set(placements) == {"node-agents", "payments-ledger", "batch-reports"}


@pytest.mark.servers  # four processes one after the other
def test_a_start_that_is_refused_leaves_the_ready_file_of_the_one_that_runs(tmp_path: Path) -> None:
    shared = [f"--data-dir={tmp_path / 'data'}", f"--port={free_port()}", f"--api-port={free_port()}"]
    with running(tmp_path, *shared, "--clusters=1") as first:
        ready = tmp_path / "ready.json"
        for option in shared:
            command = [sys.executable, "-m", "fleet.cli", "up", "--quiet", f"--ready-file={ready}", option]
            second = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

            assert second.returncode == 2, second.stderr
            assert json.loads(ready.read_text()) == first.ready
            assert "storefront" in first.items(PLACEMENTS)


def uids(items: dict[str, Any]) -> set[str]:
    return {one["metadata"]["uid"] for one in items.values()}


# --- the view ---------------------------------------------------------------------------------------------------------


@pytest.mark.servers  # a process of its own; what the view shows is held by tests/unit/demo
def test_on_a_terminal_there_is_a_view_and_the_terminal_is_given_back() -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40"}
    command = [sys.executable, "-m", "fleet.cli", "up", "--clusters=3"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while b"3 clusters" not in seen:
        seen += os.read(ours, 65536)
    process.send_signal(signal.SIGINT)
    with open(ours, "rb", buffering=0) as terminal:
        seen += b"".join(iter(lambda: read_or_end(terminal), b""))

    assert process.wait(timeout=90) == 0
    assert b"\x1b[?1049h" in seen  # the other screen
    assert seen.index(b"\x1b[?1049h") < seen.rindex(b"\x1b[?1049l")
    assert b"payments-ledger" in seen
    assert b"Traceback" not in seen


def read_or_end(terminal: Any) -> bytes:
    """Linux says EIO when the last writer of a terminal is gone."""
    try:
        return bytes(terminal.read(65536))
    except OSError:
        return b""


# --- refused ----------------------------------------------------------------------------------------------------------


def refusal(**options: Any) -> str:
    with pytest.raises(ConfigurationError) as refused:
        run_up(UpOptions(quiet=True, **options))
    text = str(refused.value)
    assert "\n" not in text
    return text


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert refusal(port=port) == f"--port: cannot listen on 127.0.0.1:{port}: Address already in use"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert refusal(data_dir=tmp_path / "file" / "data").startswith("--data-dir: cannot write to ")
    assert refusal(ready_file=tmp_path / "file" / "ready").startswith("--ready-file: cannot write to ")
    assert refusal(ready_file=tmp_path / "none" / "ready").startswith("--ready-file: cannot write to ")
    assert not (tmp_path / "none").exists()


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "hub.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another hub uses this data directory" in refusal(data_dir=tmp_path)


def test_the_ready_file_of_a_former_run_is_gone_before_there_is_a_new_one(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    ready.write_text("{}")

    refusal(ready_file=ready, clusters=1, settings=["history.url=mysql://x/y"])

    assert not ready.exists()


def test_unknown_settings_are_refused() -> None:
    assert "no setting named" in refusal(settings=["no.such=1"])


def test_a_refusal_is_one_line_and_exit_code_2(tmp_path: Path, fleet: Fleet) -> None:
    (tmp_path / "file").touch()
    ran = fleet("up", f"--data-dir={tmp_path / 'file' / 'data'}")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"error: --data-dir: cannot write to {tmp_path / 'file' / 'data'}: Not a directory\n"
        "next: see `fleet up --help`\n"
    )


# --- settings ---------------------------------------------------------------------------------------------------------


def heartbeat_timeout(*assignments: str, interval: float = 5.0) -> float:
    settings = adapt_settings(load_settings(None, {}, assignments), interval=interval)
    return settings.eligibility.heartbeat_timeout.seconds


def test_a_silent_cluster_drops_out_soon_enough_to_be_seen() -> None:
    assert heartbeat_timeout() == 30


def test_large_fleets_whose_members_are_heard_less_often_get_more_time() -> None:
    assert heartbeat_timeout(interval=100) == 400


def test_whoever_sets_the_timeout_has_the_last_word() -> None:
    assert heartbeat_timeout("eligibility.heartbeatTimeout=5m") == 300


# --- lines ------------------------------------------------------------------------------------------------------------


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_who_has_gone_away_ends_the_lines_and_nothing_else() -> None:
    lines = LineWriter(Gone())

    lines.headline(Headline(datetime(2026, 1, 1, tzinfo=UTC), "web", "news"))
    lines.write("more")


def test_log_lines_become_headlines_while_the_view_is_shown() -> None:
    headlines = Headlines(SystemClock())

    LogHeadlines(headlines).write("a warning\n\nanother one\n")

    assert [(one.about, one.text) for one in headlines.latest(10)] == [("log", "a warning"), ("log", "another one")]
