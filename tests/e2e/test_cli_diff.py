"""`fleet diff` against a hub: what it says is what an apply then does."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.cli.client.hub_access import HubOptions
from fleet.cli.commands.apply import ApplyOptions, run_apply
from fleet.cli.commands.simulation.diff import DiffOptions, run_diff
from fleet.kube.scopes import MEMBER_CLUSTERS
from tests.e2e.hub import Hub
from tests.e2e.world import World, world

Json = dict[str, Any]

PREFERS: Json = {
    "clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 50, "preference": {"labelSelector": {"matchLabels": {"region": "eu"}}}}
        ]
    }
}


def a_placement(name: str, policy: Json | None, *, namespace: str = "", **spec: Any) -> Json:
    kind = "ConfigMap" if namespace else "Namespace"
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourcePlacement" if namespace else "ClusterResourcePlacement",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": kind, "name": "diff-nothing"}],
            **({} if policy is None else {"policy": policy}),
            **spec,
        },
    }


def a_cluster(name: str, **labels: str) -> Json:
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"identity": {"kind": "User", "name": f"agent-{name}"}},
    }


def picking(count: int, **more: Any) -> Json:
    return {"placementType": "PickN", "numberOfClusters": count, **more}


class Author:
    """Compares and applies files on one hub."""

    def __init__(self, hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.hub, self._file, self._capsys = HubOptions(kubeconfig=hub.access.kubeconfig), folder / "x.yaml", capsys

    async def diff(self, *documents: Json, **options: Any) -> tuple[int, str, str]:
        self._file.write_text(yaml.safe_dump_all(documents))
        files = [str(self._file)] if documents else []
        code = await asyncio.to_thread(run_diff, DiffOptions(files=files, hub=self.hub, output="json", **options))
        shown = self._capsys.readouterr()
        report = re.search(r"^\{$.*?^\}$", shown.out, re.MULTILINE | re.DOTALL)  # the controller of the test logs there
        return code, report[0] if report else "", shown.err

    async def apply(self, *documents: Json) -> tuple[int, str]:
        self._file.write_text(yaml.safe_dump_all(documents))
        code = await asyncio.to_thread(run_apply, ApplyOptions(files=[str(self._file)], hub=self.hub, force=True))
        return code, self._capsys.readouterr().err


@pytest.fixture
def author(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Author:
    return Author(hub, tmp_path, capsys)


async def join_all(user: World) -> None:
    for name, region in {"a": "eu", "b": "us", "c": "us", "d": "eu"}.items():
        await user.join(name, labels={"region": region})


def list_moves(text: str) -> dict[str, tuple[set[str], set[str]]]:
    return {
        each["key"]: ({move["cluster"] for move in each["gained"]}, {move["cluster"] for move in each["lost"]})
        for each in json.loads(text)["placements"]
    }


TOGETHER = "note: clusters change together with other objects"


async def expect(author: Author, user: World, *documents: Json) -> int:
    """Compare, apply, and see every placement where the diff said. Returns the exit code of the diff."""
    code, text, problems = await author.diff(*documents)
    assert [line for line in problems.splitlines() if not line.startswith(TOGETHER)] == []
    expected = {
        each["key"]: set(each["after"]) for each in json.loads(text)["placements"] if each["change"] != "deleted"
    }
    assert (await author.apply(*documents))[0] == 0
    for key, clusters in expected.items():
        await user.soon_on(key, *clusters)
    code_after, text_after, _ = await author.diff(*documents)
    assert (code_after, list_moves(text_after)) == (0, {})
    return code


def test_an_apply_does_what_the_diff_said(hub: Hub, author: Author) -> None:
    async def main() -> None:
        async with world(hub) as user:
            await join_all(user)
            web, every = a_placement("web", picking(2)), a_placement("every", {"placementType": "PickAll"})
            assert await expect(author, user, web, every) == 1
            assert await expect(author, user, web) == 0
            assert await expect(author, user, a_placement("web", picking(3))) == 1
            assert await expect(author, user, a_placement("web", picking(2, affinity=PREFERS))) == 1
            assert await user.in_use("web") == {"a", "d"}
            # The preference leaves with the field, because it was applied before.
            assert await expect(author, user, a_placement("web", picking(4)), a_cluster("b", region="asia")) == 1
            snapshot = await user.latest_snapshot("web")
            assert snapshot is not None
            assert "affinity" not in snapshot["spec"]["policy"]

    asyncio.run(main())


def test_a_deletion_leaves_what_the_diff_said(hub: Hub, author: Author) -> None:
    async def main() -> None:
        async with world(hub) as user:
            await join_all(user)
            await expect(author, user, a_placement("web", picking(3)))
            before = await user.in_use("web")

            cluster = sorted(before)[0]
            code, text, _ = await author.diff(delete=[f"cluster/{cluster}"])
            gained, lost = list_moves(text)["web"]
            assert (code, lost, len(gained)) == (1, {cluster}, 1)
            await user.delete(MEMBER_CLUSTERS, cluster)
            await user.soon_on("web", *(before - lost | gained))

            code, text, _ = await author.diff(delete=["placement/web"])
            assert (code, list_moves(text)["web"]) == (1, (set(), before - lost | gained))

    asyncio.run(main())


CHANGES: dict[str, tuple[Json, Json]] = {
    "PO-01": (a_placement("web", picking(1)), a_placement("web", None)),
    "PO-02": (a_placement("web", picking(1)), a_placement("web", {"placementType": "PickAll"})),
    "PO-02 of no policy": (a_placement("web", None), a_placement("web", picking(1))),
    "ST-01": (
        a_placement("web", picking(1), strategy={"type": "External"}),
        a_placement("web", picking(1), strategy={"type": "RollingUpdate"}),
    ),
    "PL-15": (
        a_placement("web", picking(1)),
        a_placement("web", picking(1), statusReportingScope="NamespaceAccessible"),
    ),
}


@pytest.mark.cel
@pytest.mark.parametrize("rule", CHANGES)
def test_a_change_that_the_hub_refuses_is_a_problem_of_the_diff(hub: Hub, author: Author, rule: str) -> None:
    before, after = CHANGES[rule]

    async def main() -> None:
        assert (await author.apply(before))[0] == 0
        code, text, problems = await author.diff(after)
        refused, because = await author.apply(after)

        name = rule.partition(" ")[0]
        assert (code, text, f"spec: {name}: " in problems) == (2, "", True), problems
        assert (refused, name in because) == (2, True), because

    asyncio.run(main())


def test_a_placement_needs_its_namespace_on_the_hub_or_in_the_files(hub: Hub, author: Author) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "diff-absent"}}
    new = a_placement("cart", picking(1), namespace="diff-absent")

    async def main() -> None:
        code, text, problems = await author.diff(new)
        assert (code, text) == (2, "")
        assert "metadata.namespace: there is no namespace diff-absent on the hub; create it, or add it" in problems
        assert (await author.diff(new, namespace))[0] == 0  # and no cluster is there to take it

    asyncio.run(main())
