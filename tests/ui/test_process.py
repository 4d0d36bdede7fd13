"""The explorer of `fleet up`: its link, changes by kubectl, and what its log keeps to itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.calm import CALM
from tests.control_plane.tier import built_programs
from tests.ui.browsing import READY, BrowserThread, Explorer, Visit

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time

TAINTED: Final = {"spec": {"taints": [{"key": "maintenance", "value": "now", "effect": "NoSchedule"}]}}


@dataclass(frozen=True)
class Up:
    ready: dict[str, str]
    output: Path

    def kubectl(self, *arguments: str) -> None:
        command = [str(built_programs() / "kubectl"), f"--kubeconfig={self.ready['kubeconfig']}", *arguments]
        environment = os.environ | {"KUBECACHEDIR": str(self.output.with_name("kubectl"))}
        subprocess.run(command, env=environment, check=True, timeout=120, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    ready, output = folder / "ready.json", folder / "output"
    command = [sys.executable, "-c", CALM, "up", "--clusters=12", f"--ready-file={ready}"]
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        while not ready.exists():
            assert process.poll() is None, output.read_text()
            time.sleep(0.05)
        yield Up(json.loads(ready.read_text()), output)
    finally:
        process.kill()
        process.wait()


def test_the_link_opens_the_explorer_and_a_taint_by_kubectl_shows_without_a_reload(
    browser: BrowserThread, up: Up
) -> None:
    def look(visit: Visit) -> None:
        page = visit.page
        visit.keep_bodies()
        page.goto(up.ready["ui"])
        page.get_by_role("button", name="Sign in as fleet:admin").click()
        page.wait_for_selector(".strip-cell")
        visit.open("/ui/placements/-/storefront")
        cluster = page.get_attribute('.cell.pass[data-plugin="TaintToleration"]', "data-cluster")
        page.evaluate("() => { window.stayed = true; }")
        up.kubectl("patch", "membercluster", str(cluster), "--type=merge", f"--patch={json.dumps(TAINTED)}")
        cell = f'.cell[data-cluster="{cluster}"][data-plugin="TaintToleration"]'
        page.wait_for_selector(f"{cell}.first, {cell}.later")
        assert page.evaluate("() => window.stayed") is True
        page.wait_for_selector(READY)
        assert token not in visit.everything()
        visit.check_calm()

    token = Path(up.ready["tokenFile"]).read_text().strip()
    Explorer(browser, up.ready["api"]).visit(None, look)

    log = up.output.read_text()
    assert token not in log
    assert up.ready["ui"].partition("#")[2] not in "".join(
        line for line in log.splitlines() if "/ui/signin#" not in line
    )
