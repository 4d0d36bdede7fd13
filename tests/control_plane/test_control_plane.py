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
