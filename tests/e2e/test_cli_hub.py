"""`fleet get` and `fleet apply` against a hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.cli.client.hub_access import HubOptions
from fleet.cli.commands.apply import ApplyOptions, run_apply
from fleet.cli.commands.get import GetOptions, run_get
from fleet.errors import InputError, NotFound
from tests.e2e.hub import Hub

PLACEMENT = """
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: web, labels: {team: a}}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: cli-shop}]
  policy: {placementType: PickN, numberOfClusters: 2}
"""
MEMBER = """
apiVersion: cluster.kubernetes-fleet.io/v1beta1
kind: MemberCluster
metadata: {name: ams-1}
spec:
  identity: {kind: ServiceAccount, name: member, namespace: fleet-system}
  taints: [{key: gpu, value: "yes", effect: NoSchedule}]
"""
NAMESPACED = """
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: cart, namespace: cli-shop}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: cart}]
"""
CONTENT = """
apiVersion: v1
kind: ConfigMap
metadata: {name: cart, namespace: cli-shop}
data: {size: "3"}
---
apiVersion: v1
kind: Namespace
metadata: {name: cli-shop}
"""


class Hand:
    """The two commands on one hub, with files in one folder."""

    def __init__(self, hub: Hub, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._options = HubOptions(kubeconfig=hub.access.kubeconfig)
        self._file = folder / "objects.yaml"
        self._capsys = capsys

    def apply(self, *documents: str, **options: Any) -> tuple[int, list[str], str]:
        self._file.write_text("\n---\n".join(documents))
        code = run_apply(ApplyOptions(files=[str(self._file)], hub=self._options, **options))
        shown = self._capsys.readouterr()
        return code, shown.out.splitlines(), shown.err.replace(str(self._file), "FILE")

    def get(self, kind: str, name: str | None = None, **options: Any) -> str:
        assert run_get(GetOptions(kind=kind, name=name, hub=self._options, **options)) == 0
        return self._capsys.readouterr().out

    def rows(self, kind: str, **options: Any) -> list[list[str]]:
        return [line.split() for line in self.get(kind, **options).splitlines()[1:]]


@pytest.fixture
def hand(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Hand:
    return Hand(hub, tmp_path, capsys)


# --- apply --------------------------------------------------------------------------------------------------------


def test_placements_and_what_they_select_are_applied_namespaces_first(hand: Hand) -> None:
    code, lines, errors = hand.apply(CONTENT, NAMESPACED, PLACEMENT)

    assert (code, errors) == (0, "")
    assert lines == [
        "Namespace cli-shop applied",
        "ConfigMap cli-shop/cart applied",
        "ResourcePlacement cli-shop/cart applied",
        "ClusterResourcePlacement web applied",
    ]


def test_the_examples_for_a_hub_can_be_applied_as_they_are(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(Path(__file__).resolve().parents[2] / "docs" / "hub-examples")

    for _ in range(2):
        assert run_apply(ApplyOptions(files=[folder], hub=HubOptions(kubeconfig=hub.access.kubeconfig))) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        assert "ClusterResourcePlacement storefront applied" in shown.out


def test_applying_again_changes_what_changed(hand: Hand) -> None:
    hand.apply(PLACEMENT)
    hand.apply(PLACEMENT.replace("Clusters: 2", "Clusters: 3"))

    assert json.loads(hand.get("crp", "web", output="json"))["spec"]["policy"]["numberOfClusters"] == 3


def test_a_mistake_of_meaning_is_noted_and_applied(hand: Hand) -> None:
    wrong = PLACEMENT.replace("cli-shop", "cli-shopp").replace(
        "Clusters: 2}", "Clusters: 1, tolerations: [{key: gpus}]}"
    )

    code, lines, errors = hand.apply(MEMBER, wrong, CONTENT.replace("cart, namespace", "basket, namespace"))

    assert (code, lines[-1]) == (0, "ConfigMap cli-shop/basket applied")
    assert errors.splitlines() == [
        "note: ClusterResourcePlacement web: no cluster has taint gpus; did you mean gpu, which is on 1 of 1?",
        "note: ClusterResourcePlacement web: the hub has no Namespace named cli-shopp, so nothing is selected by it; "
        "did you mean cli-shop?",
    ]


def test_a_dry_run_changes_nothing(hand: Hand) -> None:
    code, lines, _ = hand.apply(PLACEMENT, dry_run=True)

    assert (code, lines) == (0, ["ClusterResourcePlacement web would be applied"])
    assert hand.rows("placements") == []


def test_a_document_that_is_wrong_in_itself_keeps_all_from_being_applied(hand: Hand) -> None:
    code, lines, errors = hand.apply(MEMBER, PLACEMENT.replace("PickN,", "PickSome,"), PLACEMENT.replace("web", "''"))

    assert (code, lines) == (2, [])
    assert "FILE:16 (document 2): ClusterResourcePlacement web: spec.policy.placementType: 'PickSome'" in errors
    assert "(document 3)" in errors
    assert errors.endswith("\nnothing was applied\n")


def test_what_the_hub_refuses_is_told_for_each_document_and_the_others_are_applied(hand: Hand) -> None:
    stranger = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}"
    lost = CONTENT.partition("---")[0].replace("cli-shop", "nowhere")
    code, lines, errors = hand.apply(stranger, lost, PLACEMENT)

    assert (code, lines) == (2, ["ClusterResourcePlacement web applied"])
    # What an earlier test left decides whether a note on the selected namespace follows.
    first, second = (line for line in errors.splitlines() if line.startswith("error: "))
    assert first == "error: FILE:1: Widget w: the hub has no kind Widget in example.com/v1"
    assert second == 'error: FILE:6 (document 2): ConfigMap nowhere/cart: namespaces "nowhere" not found'


@pytest.mark.servers  # kubectl
def test_fields_of_somebody_else_are_taken_over_only_by_force(hand: Hand, hub: Hub) -> None:
    hub.kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=PLACEMENT)
    changed = PLACEMENT.replace("Clusters: 2", "Clusters: 3")

    code, _, errors = hand.apply(changed)

    assert code == 2
    assert ".spec.policy.numberOfClusters" in errors
    assert "use --force-conflicts to take over these fields" in errors
    assert hand.apply(changed, force=True)[0] == 0


def test_a_namespace_is_given_to_those_that_name_none(hand: Hand) -> None:
    hand.apply(CONTENT)
    bare = NAMESPACED.replace(", namespace: cli-shop", "")

    assert hand.apply(bare, namespace="cli-shop")[1] == ["ResourcePlacement cli-shop/cart applied"]


# --- get ----------------------------------------------------------------------------------------------------------


def test_placements_are_listed_in_both_flavours(hand: Hand) -> None:
    hand.apply(CONTENT, NAMESPACED, PLACEMENT)

    assert [row[:5] for row in hand.rows("placements")] == [
        ["cli-shop/cart", "PickAll", "0/0", "Pending", "NotDecided"],
        ["web", "PickN", "0/2", "Pending", "NotDecided"],
    ]
    assert [row[0] for row in hand.rows("rp")] == ["cli-shop/cart"]
    assert [row[0] for row in hand.rows("crp")] == ["web"]


def test_labels_and_a_namespace_choose(hand: Hand) -> None:
    hand.apply(CONTENT, NAMESPACED, PLACEMENT)

    assert [row[0] for row in hand.rows("placements", labels="team=a")] == ["web"]
    assert [row[0] for row in hand.rows("placements", namespace="cli-shop")] == ["cli-shop/cart"]


def test_a_selector_that_the_hub_cannot_read_is_named(hand: Hand) -> None:
    with pytest.raises(InputError, match=r"--selector: 'team in \(': ") as refused:
        hand.get("placements", labels="team in (")
    assert str(refused.value).count("team in (") == 1

    with pytest.raises(InputError, match=r"--selector: 'team in \(': "):
        hand.get("placements", labels="team in (", watch=True)


def test_clusters_are_listed_with_what_keeps_workloads_away(hand: Hand) -> None:
    hand.apply(MEMBER)

    assert [row[:6] for row in hand.rows("mc")] == [["ams-1", "-", "-", "-", "-", "gpu=yes:NoSchedule"]]


def test_lists_are_filtered_and_named(hand: Hand) -> None:
    hand.apply(CONTENT, NAMESPACED, PLACEMENT)

    assert [row[0] for row in hand.rows("placements", unfulfilled=True)] == ["cli-shop/cart", "web"]
    assert hand.rows("placements", cluster="ams-1") == []
    assert hand.get("crp", output="name") == "clusterresourceplacement.placement.kubernetes-fleet.io/web\n"
    assert "MESSAGE" in hand.get("crp", output="wide")
    with pytest.raises(InputError, match="--unfulfilled: is for placements"):
        hand.get("clusters", unfulfilled=True)


def test_one_object_is_shown_whole_and_without_who_manages_which_field(hand: Hand) -> None:
    hand.apply(MEMBER)

    found = yaml.safe_load(hand.get("cluster", "ams-1", output="yaml"))

    assert found["kind"] == "MemberCluster"
    assert found["metadata"]["name"] == "ams-1"
    assert "managedFields" not in found["metadata"]


def test_many_objects_are_a_list_that_can_be_applied_again(hand: Hand) -> None:
    hand.apply(CONTENT, NAMESPACED, PLACEMENT)

    found = json.loads(hand.get("placements", output="json"))

    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert [one["kind"] for one in found["items"]] == ["ResourcePlacement", "ClusterResourcePlacement"]


def test_a_placement_in_a_namespace_is_found_by_both_ways_to_name_it(hand: Hand) -> None:
    hand.apply(CONTENT, NAMESPACED)

    assert hand.get("placement", "cli-shop/cart").splitlines()[1].startswith("cli-shop/cart")
    ways = [hand.get("placement", "cart", namespace="cli-shop"), hand.get("rp", "cli-shop/cart")]
    one, other = (text.rsplit(maxsplit=1)[0] for text in ways)  # but for the age
    assert one == other


def test_what_is_not_there_is_said_by_the_hub(hand: Hand) -> None:
    with pytest.raises(NotFound, match='"web" not found'):
        hand.get("crp", "web")


def test_a_cluster_is_in_no_namespace(hand: Hand) -> None:
    with pytest.raises(InputError, match="a MemberCluster has no namespace"):
        hand.get("mc", "shop/ams-1")
