"""The control plane does what later tests rely on, and does not outlive them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.control_plane.access import Access
from tests.control_plane.http_client import HttpClient
from tests.control_plane.instance import ControlPlane
from tests.control_plane.process import ServerProcess
from tests.control_plane.sharing import ROOT, shared_control_plane

SECONDS_TO_END = 90


@pytest.mark.parametrize("user, status", [("admin", 200), ("alice", 403), ("nobody", 401)])
def test_users_may_do_what_their_roles_allow(control_plane: Access, user: str, status: int) -> None:
    access = Access(**(vars(control_plane) | {"tokens": {**control_plane.tokens, "nobody": "guessed"}}))
    assert HttpClient(access, user=user).get("/api/v1/namespaces/default/configmaps").status == status


def test_a_second_caller_shares_the_control_plane(control_plane: Access, programs: Path) -> None:
    folder = control_plane.kubeconfig.parent
    with shared_control_plane(folder, programs=programs) as second:
        assert second == control_plane


def test_data_and_address_survive_a_restart(own_control_plane: ControlPlane) -> None:
    client = HttpClient(own_control_plane.access)
    client.post("/api/v1/namespaces", {"metadata": {"name": "kept"}}).ok()
    own_control_plane.restart()
    assert client.get("/api/v1/namespaces/kept").status == 200


def test_a_paused_server_answers_when_it_is_resumed(own_control_plane: ControlPlane) -> None:
    client = HttpClient(own_control_plane.access)
    own_control_plane.api_server.pause()
    with pytest.raises(TimeoutError):
        client.request("GET", "/readyz", seconds=0.2)
    own_control_plane.api_server.resume()
    own_control_plane.wait_until_ready()
    assert client.get("/api/v1/namespaces").status == 200


def test_forgotten_history_is_gone(own_control_plane: ControlPlane) -> None:
    client = HttpClient(own_control_plane.access)
    before = client.get("/api/v1/namespaces").ok()["metadata"]["resourceVersion"]
    client.post("/api/v1/namespaces", {"metadata": {"name": "later"}}).ok()
    own_control_plane.forget_history()
    answer = client.get("/api/v1/namespaces", {"resourceVersion": before, "resourceVersionMatch": "Exact"})
    assert answer.status == 410


def test_a_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    ours, servers = os.pipe()
    os.set_inheritable(servers, True)
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path / "log"), str(servers)], cwd=ROOT, pass_fds=[servers]
    )
    os.close(servers)
    assert os.read(ours, 5) == b"ready"
    owner.send_signal(signal.SIGKILL)
    assert owner.wait(SECONDS_TO_END) == -signal.SIGKILL
    assert os.read(ours, 1) == b"", "the pipe closes when its last holder, the server, is gone"
    os.close(ours)


_OWNER = """
import subprocess, sys
from tests.control_plane import leash
import os
command = [sys.executable, "-c", "import os, sys, time; os.write(int(sys.argv[1]), b'ready'); time.sleep(600)"]
subprocess.Popen(
    [sys.executable, leash.__file__, str(os.getpid()), *command, sys.argv[2]], pass_fds=[int(sys.argv[2])]
).wait()
"""


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    server = ServerProcess([sys.executable, "-c", "raise SystemExit('no disk')"], log=tmp_path / "log")
    server.start()
    server.wait()
    assert not server.is_running
    assert server.last_words() == "no disk"
