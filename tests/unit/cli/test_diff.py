"""`fleet diff` of files with files: moves, exit codes, deletions, and what is wrong with the input."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from fleet.cli.output.diff_report import build_schema
from tests.extender import an_extender, forbid
from tests.fast_yaml import safe_dump
from tests.unit.cli.conftest import Fleet, Ran
from tests.unit.cli.manifests import LONG_AGO, Manifest, binding, member, placement, snapshot, written

Diff = Callable[..., Ran]


def required(**labels: str) -> Manifest:
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": labels}}]}
    return {"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def web(count: int, **labels: str) -> Manifest:
    return placement("web", placementType="PickN", numberOfClusters=count, **(required(**labels) if labels else {}))


def a_hub() -> list[Manifest]:
    """`web` is on two of four clusters, `all` on every one that had its label when it was decided."""
    clusters = [
        member("a", env="prod"),
        member("b", env="prod"),
        member("c", env="test"),
        member("d", env="prod", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
    ]
    return [
        *clusters,
        web(2, env="prod"),
        snapshot("web-0", "web", number=2, **web(2, env="prod")["spec"]["policy"]),
        binding("a", of="web", snapshot="web-0"),
        binding("b", of="web", snapshot="web-0"),
        placement("all", placementType="PickAll", **required(env="prod")),
        snapshot("all-0", "all", placementType="PickAll", **required(env="prod")),
        binding("a", of="all", snapshot="all-0"),
        binding("b", of="all", snapshot="all-0"),
    ]


def relabeled(name: str, *, env: str) -> Manifest:
    """As in a repository of clusters: without a status."""
    cluster = member(name, env=env)
    del cluster["status"]
    return cluster


@pytest.fixture
def diff(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Diff:
    monkeypatch.setenv("COLUMNS", "400")
    hub = written(tmp_path, *a_hub(), name="hub.yaml")

    def run(*manifests: Manifest, options: tuple[str, ...] = (), file: str = "change.yaml") -> Ran:
        files = ["-f", str(written(tmp_path, *manifests, name=file))] if manifests else []
        return fleet("diff", "--base", str(hub), *files, *options)

    return run


def report(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


def moves(ran: Ran) -> dict[str, tuple[list[str], list[str]]]:
    return {
        each["key"]: ([move["cluster"] for move in each["gained"]], [move["cluster"] for move in each["lost"]])
        for each in report(ran)["placements"]
    }


JSON = ("-o", "json")
HEAD = {"apiVersion": "scheduling.fleet.dev/v1", "kind": "FleetSchedulerConfiguration"}

# --- moves ------------------------------------------------------------------------------------------------------------


def test_the_same_files_move_nothing(diff: Diff) -> None:
    ran = diff(web(2, env="prod"), options=JSON)

    assert (ran.code, report(ran)["moves"], moves(ran)) == (0, False, {})
    assert [each["change"] for each in report(ran)["objects"]] == ["same"]


def test_fewer_clusters_are_a_loss(diff: Diff) -> None:
    ran = diff(web(1, env="prod"), options=JSON)

    assert (ran.code, moves(ran)) == (1, {"web": ([], ["a"])})
    (placement_moves,) = report(ran)["placements"]
    assert placement_moves["lost"][0]["why"] == "only 1 wanted"


def test_existing_bindings_count_for_a_changed_policy(diff: Diff) -> None:
    ran = diff(web(2, env="test"), options=JSON)

    (found,) = report(ran)["placements"]
    assert (ran.code, moves(ran)) == (1, {"web": (["c"], ["a", "b"])})
    assert found["gained"] == [{"cluster": "c", "why": "before: env In [prod] (is test)"}]
    assert [loss["why"] for loss in found["lost"]] == ["env In [test] (is prod)"] * 2
    assert (found["outcomeBefore"], found["outcomeAfter"]) == ("SELECTED", "PARTIAL")
    assert {"what": "snapshot", "before": "web-0", "after": "web-1"} in found["inputs"]


def test_a_changed_number_keeps_the_policy_snapshot(diff: Diff) -> None:
    (found,) = report(diff(web(3, env="prod"), options=JSON))["placements"]

    assert [part["what"] for part in found["inputs"]] == ["wanted"]
    assert found["outcomeAfter"] == "PARTIAL"


def test_a_new_placement_gains_only(diff: Diff) -> None:
    new = placement("new", placementType="PickFixed", clusterNames=["c"])

    ran = diff(new, options=JSON)

    assert (ran.code, moves(ran)) == (1, {"new": (["c"], [])})
    assert report(ran)["placements"][0]["change"] == "new"


def test_an_edit_of_a_cluster_moves_placements_that_are_not_in_the_files(diff: Diff) -> None:
    ran = diff(relabeled("c", env="prod"), options=JSON)

    assert (ran.code, moves(ran)) == (1, {"all": (["c"], [])})
    assert report(ran)["placements"][0]["gained"][0]["why"] == "before: env In [prod] (is test)"
    assert report(ran)["clusters"] == [{"cluster": "c", "gained": ["all"], "lost": []}]


def test_the_status_in_a_file_does_not_count(diff: Diff) -> None:
    """An apply does not write it, and a new cluster has none."""
    silent = member("a", heard=LONG_AGO, env="prod")

    ran = diff(silent, member("new", env="prod"), options=JSON)

    assert (ran.code, moves(ran)) == (0, {})
    assert [each["change"] for each in report(ran)["objects"]] == ["same", "new"]


def test_what_moves_without_the_files_is_shown_and_not_counted(fleet: Fleet, tmp_path: Path) -> None:
    pending = [item for item in a_hub() if item["metadata"]["name"] != "all-b-b"]
    hub = written(tmp_path, *pending, name="hub.yaml")
    change = written(tmp_path, relabeled("c", env="dev"), name="c.yaml")

    text = fleet("diff", "--base", str(hub), "-f", str(change))
    found = fleet("diff", "--base", str(hub), "-f", str(change), *JSON)

    assert (text.code, report(found)["placements"][0]["movesAnyway"]) == (0, True)
    assert "no move of 2 placements" in text.out
    assert "moves alike without the files, at its next decision" in text.out
    assert moves(found) == {"all": (["b"], [])}


# --- deletions --------------------------------------------------------------------------------------------------------


def test_extenders_are_asked_when_the_user_says_so(diff: Diff, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    with an_extender() as extender:
        extender.answer = forbid("d", because="over budget in July")
        extenders = [{"name": "budget", "urlPrefix": extender.url, "filterVerb": "filter", "bindVerb": "bind"}]
        config.write_text(safe_dump({**HEAD, "extenders": extenders}), encoding="utf-8")
        options = ("--config", str(config), *JSON)
        toleration: Any = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
        wider = placement("web", placementType="PickN", numberOfClusters=3, **required(env="prod"), **toleration)
        silent, asked = diff(wider, options=options), diff(wider, options=(*options, "--ask-extenders"))
        free = diff(wider, options=JSON)

    assert silent.code == 2
    assert "error: placement web cannot be decided: extender budget was not asked about this\n" in silent.err
    assert "the extenders of --config were not asked: add --ask-extenders\n" in silent.err
    assert (asked.code, moves(asked)["web"], asked.err) == (0, ([], []), "")
    assert {path for path, _ in extender.asked} == {"/filter"}
    assert (free.code, moves(free)["web"]) == (1, (["d"], []))


@pytest.mark.parametrize("name", ["placement/web", "crp/web", "clusterresourceplacement/web"])
def test_a_deleted_placement_leaves_its_clusters(diff: Diff, name: str) -> None:
    ran = diff(options=("--delete", name, *JSON))

    assert (ran.code, moves(ran)) == (1, {"web": ([], ["a", "b"])})
    assert report(ran)["objects"] == [
        {"kind": "ClusterResourcePlacement", "key": "web", "change": "deleted", "place": "", "fields": []}
    ]
    assert report(ran)["placementCount"] == 1


def test_a_deleted_cluster_moves_what_runs_there(diff: Diff) -> None:
    ran = diff(relabeled("c", env="prod"), options=("--delete", "cluster/a", *JSON))

    assert moves(ran) == {"all": (["c"], ["a"]), "web": (["c"], ["a"])}
    assert report(ran)["placements"][1]["lost"] == [{"cluster": "a", "why": "leaves the fleet"}]


def test_pruning_takes_the_placements_without_a_file(diff: Diff) -> None:
    ran = diff(web(2, env="prod"), options=("--prune", "--all", *JSON))

    assert moves(ran) == {"all": ([], ["a", "b"])}


def test_pruning_by_labels_takes_those_that_have_them(fleet: Fleet, tmp_path: Path) -> None:
    hub = a_hub()
    next(item for item in hub if item["metadata"]["name"] == "all")["metadata"]["labels"] = {"team": "x", "tier": "1"}
    file = str(written(tmp_path, *hub, name="hub.yaml"))

    for labels, want in (("team=x,tier=1", {"all"}), ("team==x", {"all"}), ("team=x,tier=2", set())):
        ran = fleet("diff", "--base", file, "--prune", "-l", labels, *JSON)
        assert (set(moves(ran)) if want else set()) == want, labels
        assert ran.code == (1 if want else 2)


@pytest.mark.parametrize(
    "options, said",
    [
        (("--prune",), "--prune: say which placements: add --selector LABELS, or --all for every one without a file"),
        (("--prune", "--all", "-l", "a=b"), "--prune: say which placements"),
        (("--all", "--delete", "placement/web"), "--all: needs --prune"),
        (("-l", "a=b", "--delete", "placement/web"), "--selector: needs --prune"),
        (("--prune", "-l", "team"), "--selector 'team': 'team' should be LABEL=VALUE"),
        (("--delete", "placement/webb"), "there is no ClusterResourcePlacement webb; did you mean web?"),
        (("--delete", "binding/web"), "--delete 'binding/web': write it as placement/web, placement/shop/web or"),
        (("--delete", "web"), "--delete 'web': 'web' is not a kind of Fleet"),
        (("--delete", "cluster/shop/a"), "--delete 'cluster/shop/a': write it as"),
    ],
)
def test_a_wrong_deletion_is_refused(diff: Diff, options: tuple[str, ...], said: str) -> None:
    ran = diff(options=options)

    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


def test_what_is_in_the_files_is_not_deleted(diff: Diff) -> None:
    ran = diff(web(2, env="prod"), options=("--delete", "placement/web"))

    assert (ran.code, "is also in the files; leave out one of the two" in ran.err) == (2, True)


# --- input ------------------------------------------------------------------------------------------------------------


def test_all_problems_are_told_at_once(diff: Diff, tmp_path: Path) -> None:
    wrong = placement("web", placementType="PickSome")
    untyped = {"metadata": {"name": "x"}}

    ran = diff(wrong, untyped, options=("--now", "noon", "--set", "x.y=1", "--prune"))

    lines = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, "")
    assert [line for line in lines if line.startswith("error: ")][3].startswith(f"error: {tmp_path / 'change.yaml'}:")
    assert lines[-1] == "5 problems, nothing was compared"


def test_a_change_that_the_hub_refuses_is_a_problem(diff: Diff, tmp_path: Path) -> None:
    ran = diff(placement("all", placementType="PickN", numberOfClusters=1))

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[0] == (
        f"error: {tmp_path / 'change.yaml'}:5: ClusterResourcePlacement all: "
        "spec: PO-02: placementType cannot be changed; create a new placement"
    )


def test_a_policy_that_cannot_be_evaluated_is_undecided(diff: Diff) -> None:
    expression = {"name": "cpu", "operator": "Ge", "values": ["many"]}
    terms = {"clusterSelectorTerms": [{"propertySelector": {"matchExpressions": [expression]}}]}
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    ran = diff(placement("new", placementType="PickAll", affinity=affinity))

    assert ran.code == 2
    assert "UNDECIDED  new: " in ran.out
    assert "error: placement new cannot be decided: " in ran.err


def test_fields_that_the_file_leaves_out_and_an_apply_keeps_are_noted(diff: Diff) -> None:
    ran = diff(web(3))

    assert "the file leaves out spec.policy.affinity; an apply keeps what is there" in ran.err


def test_clusters_that_change_with_other_objects_are_noted(diff: Diff) -> None:
    said = "clusters change together with other objects"
    together = diff(relabeled("c", env="prod"), web(1, env="prod"), options=JSON)
    alone = diff(relabeled("c", env="prod"), web(2, env="prod"), options=JSON)  # `web` is the same

    assert [note for note in report(together)["notes"] if note.startswith(said)] != []
    assert [note for note in report(alone)["notes"] if note.startswith(said)] == []


def test_objects_of_controllers_are_left_out(diff: Diff) -> None:
    ran = diff(web(2, env="prod"), snapshot("web-9", "web", number=1), options=JSON)

    assert (ran.code, moves(ran)) == (0, {})
    assert "ClusterSchedulingPolicySnapshot web-9: left out, because only clusters and placements" in ran.err


def test_one_object_twice_in_one_file_is_refused_and_in_two_files_the_later_one_counts(
    diff: Diff, fleet: Fleet, tmp_path: Path
) -> None:
    twice = diff(web(3, env="prod"), web(1, env="prod"))
    first = str(written(tmp_path, web(1, env="prod"), name="1.yaml"))
    second = str(written(tmp_path, web(2, env="prod"), name="2.yaml"))
    later = fleet("diff", "--base", str(tmp_path / "hub.yaml"), "-f", first, second, *JSON)

    assert (twice.code, "is also in" in twice.err) == (2, True)
    assert later.code == 0
    assert [each["change"] for each in report(later)["objects"]] == ["same"]


def test_lists_folders_and_standard_input_are_read(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "change"
    folder.mkdir()
    written(folder, web(2, env="test"), name="web.yaml")
    bundle = safe_dump({"apiVersion": "v1", "kind": "List", "items": a_hub()})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bundle.encode())))

    ran = fleet("diff", "--base", "-", "-f", str(folder))

    assert ran.code == 1
    assert "compared with standard input: 4 clusters, 2 placements" in ran.out


def test_nothing_to_compare(diff: Diff, fleet: Fleet) -> None:
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}

    assert diff(foreign).err.startswith("error: there is nothing to compare: the files contain no placement")
    assert fleet("diff").code == 2
    assert fleet("diff", "--base", "x", "--snapshot", "y", "-f", "z").code == 2


# --- exports ----------------------------------------------------------------------------------------------------------


def test_an_export_is_compared_as_of_then_with_its_settings(fleet: Fleet, tmp_path: Path) -> None:
    parts = {
        "MemberCluster": "clusters",
        "ClusterResourcePlacement": "placements",
        "ClusterResourceBinding": "bindings",
    }
    document: dict[str, Any] = {
        "apiVersion": "fleet/v1",
        "kind": "FleetSnapshot",
        "at": "2026-03-10T09:02:00Z",
        "settings": {"eligibility.heartbeatTimeout": "90s"},
        "clusters": [],
        "placements": [],
        "policySnapshots": [],
        "bindings": [],
    }
    for item in a_hub():
        document[parts.get(item["kind"], "policySnapshots")].append(item)
    export = tmp_path / "prod.json"
    export.write_text(json.dumps(document))
    change = str(written(tmp_path, web(2, env="test")))

    ran = fleet("diff", "--snapshot", str(export), "-f", change, *JSON)
    later = fleet("diff", "--snapshot", str(export), "-f", change, "--set", "eligibility.heartbeatTimeout=5m", *JSON)

    assert (report(ran)["now"], report(ran)["nowFrom"]) == ("2026-03-10T09:02:00Z", "--snapshot")
    assert report(ran)["settings"] == {"eligibility.heartbeatTimeout": "90s"}
    assert report(ran)["placements"][0]["gained"] == []  # every cluster is silent
    assert moves(later) == {"web": (["c"], ["a", "b"])}


# --- output -----------------------------------------------------------------------------------------------------------


def test_the_text_names_moves_and_reasons(diff: Diff, tmp_path: Path) -> None:
    moment = "2026-03-10T09:00:00Z (newest heartbeat)"

    assert diff(web(2, env="test")).out.splitlines() == [
        "1 placement moves: 1 binding gained, 2 lost",
        f"compared with {tmp_path / 'hub.yaml'}: 4 clusters, 2 placements, as of {moment}",
        "",
        f"ClusterResourcePlacement web  SELECTED on 2 → PARTIAL on 1  changed ({tmp_path / 'change.yaml'}:1)",
        "  snapshot: web-0 → web-1",
        "  required: env In [prod] → env In [test]",
        "  + c  before: env In [prod] (is test)",
        "  - a  env In [test] (is prod)",
        "  - b  env In [test] (is prod)",
    ]


def test_a_name_that_no_cluster_has_is_remarked(diff: Diff) -> None:
    change = web(2, evn="prod")

    assert "POLICY  web: " in diff(change).out
    assert "evn" in report(diff(change, options=JSON))["remarks"][0]["remarks"][0]["message"]
    assert "- `web`: `" in diff(change, options=("-o", "markdown")).out


def test_yaml_says_the_same_as_json(diff: Diff) -> None:
    change = web(2, env="test")

    assert yaml.safe_load(diff(change, options=("-o", "yaml")).out) == report(diff(change, options=JSON))


def test_the_schema_is_the_one_in_the_documentation() -> None:
    """After a change: `make gen`. Fields may be added, nothing else."""
    schema = Path(__file__).resolve().parents[3] / "docs" / "diff.schema.json"

    assert schema.read_text(encoding="utf-8") == build_schema() + "\n"


def test_a_report_is_valid_by_its_schema(diff: Diff) -> None:
    ran = diff(web(2, env="test"), relabeled("c", env="prod"), options=(*JSON, "--delete", "placement/all"))

    jsonschema_rs.validate(json.loads(build_schema()), report(ran))


def test_markdown_is_short_and_folds_the_details(diff: Diff) -> None:
    ran = diff(web(2, env="test"), options=("-o", "markdown"))

    lines = ran.out.splitlines()
    assert ran.code == 1
    assert lines[0] == "### Fleet: 1 placement moves: 1 binding gained, 2 lost"
    assert "| `web` (changed) | SELECTED on 2 → PARTIAL on 1 | `c` | `a`, `b` |" in lines
    assert "| `web` | loses | `a` | `env In [test] (is prod)` |" in lines
    assert ran.out.count("<details>") == ran.out.count("</details>") == 3


def test_markdown_of_no_move_is_a_line(diff: Diff) -> None:
    lines = diff(web(2, env="prod"), options=("-o", "markdown")).out.splitlines()

    assert lines[0] == "### Fleet: no move of 2 placements"
    assert not any(line.startswith("| `web` (") for line in lines)


def test_nothing_in_an_object_is_markup(fleet: Fleet, tmp_path: Path) -> None:
    hub = a_hub()
    bindings = [item for item in hub if item["kind"] == "ClusterResourceBinding"]
    bindings[0]["spec"]["targetCluster"] = "a|`@all` <img src=x>\n# head"
    file = str(written(tmp_path, *hub, name="hub.yaml"))

    ran = fleet("diff", "--base", file, "--delete", "placement/web", "-o", "markdown")

    assert "`a\\|'@all' <img src=x> # head`" in ran.out
    assert "\n# head" not in ran.out


def test_markdown_fits_into_a_comment(fleet: Fleet, tmp_path: Path) -> None:
    clusters = [member(f"c{number:04d}-{'x' * 50}") for number in range(300)]
    names = [f"p{number}-{'y' * 50}" for number in range(100)]
    hub = str(written(tmp_path, *clusters, name="hub.yaml"))
    change = str(written(tmp_path, *(placement(name, placementType="PickAll") for name in names)))

    ran = fleet("diff", "--base", hub, "-f", change, "-o", "markdown")

    assert "100 placements move: 30000 bindings gained" in ran.out
    assert "… and 80 more" in ran.out
    assert len(ran.out) < 65_536
