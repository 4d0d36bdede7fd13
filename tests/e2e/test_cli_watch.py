"""`fleet get --watch` in its own process, against a hub."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.cli.commands.apply import APPLY_PATCH
from fleet.kube.api import Method, Request
from tests.control_plane.waiting import SECONDS_TO_HAPPEN, soon
from tests.e2e.hub import Hub
from tests.unit.cli.scripted_api import Said, ScriptedApi, in_json

PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
MEMBERS = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"


def apply(hub: Hub, name: str, count: int = 2, **labels: str) -> None:
    document = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"placementType": "PickN", "numberOfClusters": count},
        },
    }
    query = (("fieldManager", "test"), ("force", "true"))
    body = json.dumps(document).encode()
    send(hub, Request(Method.PATCH, f"{PLACEMENTS}/{name}", query=query, body=body, content_type=APPLY_PATCH))


def join(hub: Hub, name: str) -> None:
    document = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name},
        "spec": {"identity": {"kind": "ServiceAccount", "name": "member", "namespace": "fleet-system"}},
    }
    send(hub, Request(Method.POST, MEMBERS, body=json.dumps(document).encode()))


def send(hub: Hub, request: Request) -> None:
    async def call() -> None:
        async with hub.connected() as api:
            await api.call(request)

    asyncio.run(call())


class Watched:
    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self.process = process
        self._output = output

    def text(self) -> str:
        return self._output.read_text()

    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.text().splitlines()[1:]]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait_for(self, holds: Callable[[str], bool]) -> None:
        soon(lambda: self.process.poll() is not None or holds(self.text()))
        assert self.process.poll() is None, self.text()


@contextmanager
def watching(hub: Hub, folder: Path, *arguments: str) -> Iterator[Watched]:
    output = folder / "output"
    command = [sys.executable, "-m", "fleet.cli", "get", *arguments, "--watch"]
    environment = os.environ | {"KUBECONFIG": str(hub.access.kubeconfig)}
    # A job in the background of a shell ignores interrupts, and so would what it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, text=True, env=environment)
        signal.signal(signal.SIGINT, before)
        try:
            yield Watched(process, output)
        finally:
            process.kill()
            process.wait()


def test_a_cluster_gets_a_row_when_the_api_considers_it_eligible_no_longer(hub: Hub, tmp_path: Path) -> None:
    join(hub, "ams-1")
    (tmp_path / "token").write_text("of-me\n")

    def page(*, eligible: bool) -> Said:
        return in_json({"items": [{"name": "ams-1", "eligible": eligible}], "next": None})

    with ScriptedApi() as api:
        api.says("/v1/clusters", page(eligible=True))
        asked = ("--api", api.url, "--token-file", str(tmp_path / "token"))
        with watching(hub, tmp_path, "clusters", *asked) as watched:
            watched.wait_for(lambda text: "ams-1" in text)
            api.says("/v1/clusters", page(eligible=False))
            join(hub, "dub-1")
            watched.wait_for(lambda text: text.count("ams-1") == 2 and "dub-1" in text)
            watched.end()

    assert sorted(row[:2] for row in watched.rows()) == [["ams-1", "no"], ["ams-1", "yes"], ["dub-1", "-"]]


def test_a_table_is_followed_by_a_row_for_every_change_until_it_is_interrupted(hub: Hub, tmp_path: Path) -> None:
    apply(hub, "web")

    with watching(hub, tmp_path, "placements") as watched:
        watched.wait_for(lambda text: "web" in text)
        apply(hub, "api", 1)
        watched.wait_for(lambda text: "api" in text)
        apply(hub, "web", seen="nowhere")  # in no column
        apply(hub, "web", 3)
        watched.wait_for(lambda text: "0/3" in text)
        send(hub, Request(Method.DELETE, f"{PLACEMENTS}/api"))
        watched.wait_for(lambda text: "(deleted)" in text)
        watched.process.send_signal(signal.SIGINT)
        code = watched.process.wait(SECONDS_TO_HAPPEN)

    assert [[cell for cell in row if "/" in cell or cell in ("web", "api", "(deleted)")] for row in watched.rows()] == [
        ["web", "0/2"],
        ["api", "0/1"],
        ["web", "0/3"],
        ["api", "(deleted)", "0/1"],
    ]
    assert code == 1  # as kubectl's
    assert "Traceback" not in watched.text()


@pytest.mark.parametrize(
    "output, read",
    [
        ("name", lambda text: [line.rpartition("/")[2] for line in text.splitlines()]),
        ("yaml", lambda text: [document["metadata"]["name"] for document in yaml.safe_load_all(text)]),
    ],
)
def test_names_and_documents_follow_each_other_like_rows(
    hub: Hub, tmp_path: Path, output: str, read: Callable[[str], Any]
) -> None:
    apply(hub, "web", team="a")

    with watching(hub, tmp_path, "crp", "-l", "team=a", "-o", output) as watched:
        watched.wait_for(lambda text: "web" in text)
        apply(hub, "other", team="b")
        apply(hub, "late", team="a")
        watched.wait_for(lambda text: "late" in text)
        watched.end()

    assert read(watched.text()) == ["web", "late"]


def test_one_object_is_watched_and_one_that_is_not_there_is_an_error(hub: Hub, tmp_path: Path) -> None:
    apply(hub, "web")

    with watching(hub, tmp_path, "crp", "web") as watched:
        watched.wait_for(lambda text: "web" in text)
        apply(hub, "api")
        apply(hub, "web", 4)
        watched.wait_for(lambda text: "0/4" in text)
        assert "api" not in watched.text()
    with watching(hub, tmp_path, "crp", "nosuch") as lost:
        code = lost.process.wait(SECONDS_TO_HAPPEN)

    assert code == 2
    assert lost.text().startswith("error: ")
    assert "next: `fleet get crp` lists what there is" in lost.text()
