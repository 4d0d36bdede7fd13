"""`fleet simulate --scenario`: the controller plays the steps in virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.settings import load_settings
from tests.fast_yaml import safe_dump, safe_dump_all
from tests.installed import an_installed_package
from tests.unit.cli.conftest import Fleet, Ran
from tests.unit.cli.manifests import NOW, Manifest, member, placement, sized, wanting
from tests.unit.cli.profiled import HEAD, targets
from tests.unit.cli.scenario_events import (
    BEGIN,
    EVENTS,
    MOVES,
    PROFILE,
    QUEUE,
    UNTIL,
    list_delayed,
    read_report,
    run_controller,
)

Json = dict[str, Any]
Play = Callable[..., Ran]

SCENARIO: Final = {"apiVersion": "scheduling.fleet.dev/v1alpha1", "kind": "FleetScenario"}
REGIONS: Final = {"a": "west", "b": "west", "c": "east", "d": "east"}


@pytest.fixture
def play(tmp_path: Path, fleet: Fleet) -> Play:
    def played(
        manifests: list[Manifest], steps: list[Json], *options: str, profile: Json | None = None, **more: str
    ) -> Ran:
        files, scenario, config = tmp_path / "fleet.yaml", tmp_path / "scenario.yaml", tmp_path / "config.yaml"
        files.write_text(safe_dump_all(manifests), encoding="utf-8")
        scenario.write_text(safe_dump({**SCENARIO, "steps": steps, **more}, sort_keys=False), encoding="utf-8")
        config.write_text(safe_dump({**HEAD, **({} if profile is None else {**QUEUE, "profiles": [profile]})}))
        given = ("--config", str(config)) if profile is not None else ()
        return fleet("simulate", "-f", str(files), "--scenario", str(scenario), *given, *options)

    return played


def regional(*names: str) -> list[Manifest]:
    return [member(name, region=REGIONS[name]) for name in names]


def picking(name: str, number: int, **required: str) -> Manifest:
    selector = {"labelSelector": {"matchLabels": required}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [selector]}}
    affinity: Json = {"affinity": {"clusterAffinity": terms}} if required else {}
    return placement(name, placementType="PickN", numberOfClusters=number, **affinity)


def steps_of(ran: Ran) -> list[Json]:
    report = json.loads(ran.out)
    assert report["kind"] == "FleetScenarioReport", ran.err
    steps: list[Json] = report["steps"]
    return steps


def moves(step: Json, kind: str) -> set[str]:
    return {f"{move['placement']}/{move['cluster']}" for move in step[kind]}


@pytest.mark.parametrize(
    "name, entry",
    [
        ("extenders", {"name": "budget", "urlPrefix": "http://127.0.0.1:1/", "filterVerb": "filter"}),
        ("feeds", {"name": "prices", "http": {"url": "http://127.0.0.1:1/prices"}}),
    ],
)
def test_W_17_a_scenario_asks_no_real_service(tmp_path: Path, fleet: Fleet, name: str, entry: Json) -> None:
    files = {
        "config.yaml": {**HEAD, name: [entry]},
        "scenario.yaml": {**SCENARIO, "steps": [{"at": "0s"}]},
        "fleet.yaml": member("a"),
    }
    for file, document in files.items():
        (tmp_path / file).write_text(safe_dump(document), encoding="utf-8")
    config, scenario, members = (str(tmp_path / file) for file in files)

    ran = fleet("simulate", "-f", members, "--scenario", scenario, "--config", config)

    assert (ran.code, ran.out) == (2, "")
    assert f"{entry['name']} is a real service, and scenarios ask none" in ran.err


def test_W_17_a_region_that_is_lost_moves_what_can_move(play: Play) -> None:
    steps: list[Json] = [{"at": "0s"}, {"at": "1m", "leave": {"matchLabels": {"region": "west"}}}]
    west = picking("west", 2, region="west")
    ran = play([*regional("a", "b", "c", "d"), picking("web", 3), west], steps, "-o", "json")
    begin, lost = steps_of(ran)
    assert len(begin["placed"]) == 5
    assert begin["short"] == []
    assert {"web/a", "web/b", "west/a", "west/b"} & moves(begin, "placed") == moves(lost, "removed")
    assert {f"web/{name}" for name in "cd"} == {
        move for move in moves(begin, "placed") | moves(lost, "placed") if move[-1] in "cd"
    }
    assert lost["short"] == ["web", "west"]
    assert ran.code == 0


def test_W_17_decisions_are_those_of_fleet_simulate_and_the_same_in_each_run(
    play: Play, fleet: Fleet, tmp_path: Path
) -> None:
    manifests = [*regional("a", "b", "c"), picking("web", 2), picking("east", 1, region="east")]
    first, second = (steps_of(play(manifests, [{"at": "0s"}], "-o", "json")) for _ in range(2))
    assert first == second
    decided = json.loads(fleet("simulate", "-f", str(tmp_path / "fleet.yaml"), "-o", "json").out)
    expected = {
        f"{each['answer']['placement']['name']}/{name}" for each in decided["decisions"] for name in targets(each)
    }
    assert moves(first[0], "placed") == expected


def test_W_17_a_cluster_wakes_only_placements_that_it_helps(play: Play) -> None:
    manifests = [*regional("a"), *(picking(f"p{number}", 1, region="east") for number in range(5))]
    useless, useful = member("b", region="west"), member("c", region="east")
    steps: list[Json] = [{"at": "0s"}, {"at": "1m", "apply": [useless]}, {"at": "2m", "apply": [useful]}]
    begin, joined, helped = steps_of(play(manifests, steps, "-o", "json"))
    assert len(begin["short"]) == 5
    assert joined["attempts"] == []
    assert sorted(attempt["placement"] for attempt in helped["attempts"]) == begin["short"]
    assert moves(helped, "placed") == {f"p{number}/c" for number in range(5)}
    assert helped["short"] == []


def test_room_is_filled_to_the_last_copy(play: Play) -> None:
    manifests = [sized("a", has={"cpu": "8"}), sized("b", has={"cpu": "5"}), wanting("web", "cpu=2")]
    steps: list[Json] = [{"at": "0s"}, {"at": "1m", "fill": {"placement": "web", "atMost": 50}}]
    ran = play(manifests, steps, profile={"base": "ExtendedProfile"})
    assert "fill with web: 5 fit" in ran.out
    assert ran.code == 0


def test_silence_recovery_and_expectations(play: Play) -> None:
    steps: list[Json] = [
        {"at": "0s", "silence": {"names": ["a"]}},
        {"at": "10m", "apply": [picking("web", 1)]},
        {
            "at": "11m",
            "expect": [{"placement": "web", "state": "Unscheduled", "clusters": []}],
            "recover": {"names": ["a"]},
        },
        {"at": "12m", "expect": [{"placement": "web", "state": "Scheduled", "clusters": ["a"], "count": 1}]},
        {"at": "1h", "expect": [{"placement": "web", "count": 2}, {"placement": "shop", "count": 0}]},
    ]
    ran = play(regional("a"), steps)
    assert ran.code == 1
    unmet = ran.out.partition("NOT AS EXPECTED\n")[2].splitlines()
    assert unmet == [
        "1h  web: expected on 2 clusters, is on 1: a",
        "1h  shop: there is no such placement",
    ]
    assert "from " + NOW in ran.out


@pytest.mark.parametrize(
    "steps, more, message",
    [
        ([], {}, "steps: "),
        ([{"at": "soon"}], {}, "steps[0].at: 'soon' should be a duration such as 90s, 5m or 1h30m"),
        ([{"at": "2m"}, {"at": "1m"}], {}, "scenario.yaml:5: steps[1].at: 1m is before the step above it"),
        ([{"at": "0s", "leave": {}}], {}, "give either names or matchLabels"),
        ([{"at": "0s", "expect": [{"placement": "web"}]}], {}, "expects nothing: give clusters, count or state"),
        ([{"at": "0s", "evict": {}}], {}, "steps[0].evict: "),
        ([{"at": "0s"}], {"until": "900h"}, "a scenario may last 31 days at most"),
        (
            [{"at": "0s", "apply": [{"kind": "Widget", "apiVersion": "v1", "metadata": {"name": "x"}}]}],
            {},
            "steps[0]: ",
        ),
        ([{"at": "0s", "apply": [{"kind": "Namespace"}]}], {}, "needs apiVersion, kind and metadata.name"),
        ([{"at": "0s", "delete": [{"name": "web"}]}], {}, "steps[0]: "),
        ([{"at": "0s", "fill": {"placement": "web"}}], {}, "steps[0]: "),
        ([{"at": "0s", "leave": {"names": ["aa"]}}], {}, "steps[0]: there is no cluster named 'aa' at that time"),
    ],
)
def test_a_wrong_scenario_is_refused(play: Play, steps: list[Json], more: dict[str, str], message: str) -> None:
    ran = play(regional("a"), steps, **more)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


def test_X_20_T_13_a_scenario_plays_quotas(play: Play) -> None:
    """What a tenant does not use of its guarantee, the other may; what is given back wakes what fits."""
    quotas = [
        {
            "apiVersion": "scheduling.fleet.dev/v1alpha1",
            "kind": "ClusterPlacementQuota",
            "metadata": {"name": team},
            "spec": {"placements": {"matchLabels": {"team": team}}, "min": {"cpu": "2"}},
        }
        for team in ("a", "b")
    ]
    placements = [wanting(name, "cpu=1") for name in ("a1", "a2", "a3", "b1", "b2")]
    for each in placements:
        each["metadata"]["labels"] = {"team": each["metadata"]["name"][0]}
    *first, last = placements
    steps: list[Json] = [
        {"at": "0s"},
        {"at": "1m", "apply": [last]},
        {"at": "2m", "delete": [{"kind": "ClusterResourcePlacement", "name": "a1"}]},
    ]
    begin, full, freed = steps_of(
        play([sized("m", has={"cpu": "64"}), *quotas, *first], steps, "-o", "json", profile={"base": "ExtendedProfile"})
    )
    assert moves(begin, "placed") == {f"{name}/m" for name in ("a1", "a2", "a3", "b1")}
    assert full["short"] == ["b2"]
    assert moves(freed, "placed") == {"b2/m"}


def test_W_17_room_is_made_for_what_matters_more(play: Play) -> None:
    """The victim moves to the cluster that joins later."""
    profile = {
        "base": "ExtendedProfile",
        "plugins": {"multiPoint": {"enabled": [{"name": "DefaultPreemption"}]}},
    }
    options = {
        "apiVersion": "scheduling.fleet.dev/v1alpha1",
        "kind": "ClusterPlacementOptions",
        "metadata": {"name": "vip"},
        "spec": {"priority": 100, "requests": {"cpu": "3"}},
    }
    steps: list[Json] = [
        {"at": "0s"},
        {"at": "1m", "apply": [options, picking("vip", 1)]},
        {"at": "2m", "apply": [sized("b", has={"cpu": "4"})]},
    ]
    runs = [
        play([sized("a", has={"cpu": "4"}), wanting("low", "cpu=3")], steps, "-o", "json", profile=profile, until="20m")
        for _ in range(2)
    ]
    begin, made, later = steps_of(runs[0])
    assert moves(begin, "placed") == {"low/a"}
    assert (moves(made, "removed"), moves(made, "placed"), made["short"]) == ({"low/a"}, {"vip/a"}, ["low"])
    assert (moves(later, "placed"), later["short"]) == ({"low/b"}, [])
    assert runs[0].out == runs[1].out


def test_W_17_backoff_a_hint_a_preemption_and_a_group_are_those_of_the_controller(play: Play, tmp_path: Path) -> None:
    report = json.loads(play(BEGIN, EVENTS, "-o", "json", profile=PROFILE, until=UNTIL).out)
    played = read_report(report)
    settings = load_settings(tmp_path / "config.yaml", {}, []).settings
    controlled = run_controller(settings, datetime.fromisoformat(report["start"]))
    assert played.attempts == controlled.attempts
    assert played.moves == controlled.moves == MOVES
    assert list_delayed(played) == ["late"]  # backoff


ACTORS = """
class Loud:
    def __init__(self, raw=None, handle=None):
        pass

    def name(self):
        return type(self).__name__

    def note(self, hook):
        with open({journal!r}, "a") as journal:
            journal.write(self.name() + " " + hook + chr(10))

    def reserve(self, ctx, state, placement, target):
        self.note("reserve")

    def unreserve(self, ctx, state, placement, target):
        self.note("unreserve")

    def permit(self, ctx, state, placement, target):
        self.note("permit")
        return None, None

    def pre_bind(self, ctx, state, placement, target):
        self.note("preBind")

    async def bind(self, ctx, state, placement, target):
        self.note("bind")

    def post_bind(self, ctx, state, placement, target):
        self.note("postBind")


class Quiet(Loud):
    ACTS_ON_HUB_ONLY = True
"""
ACTING = ("reserve", "permit", "preBind", "bind", "postBind")


def test_W_17_plugins_that_may_act_on_the_real_world_do_not_act_in_a_scenario(play: Play, tmp_path: Path) -> None:
    journal, package = tmp_path / "journal", tmp_path / "package"
    package.mkdir()
    both = {"enabled": [{"name": "Loud"}, {"name": "Quiet"}]}
    loud = {"disabled": [{"name": "*"}], "enabled": [{"name": "Loud"}]}
    plugins = {hook: loud if hook == "bind" else both for hook in ACTING}
    named = {name: name for name in ("Loud", "Quiet")}
    with an_installed_package(package, ACTORS.format(journal=str(journal)), named):
        manifests = [*regional("a", "b"), picking("web", 1)]
        ran = play(manifests, [{"at": "0s"}], "-o", "json", profile={"plugins": plugins})
        text = play(manifests, [{"at": "0s"}], profile={"plugins": plugins}).out

    said = "not run, since it may act on the real world: Loud (reserve, permit, preBind, bind, postBind)"
    assert said in " ".join(text.split())
    assert json.loads(ran.out)["notRun"] == {"Loud": list(ACTING)}
    assert moves(steps_of(ran)[0], "placed") == {"web/b"}
    assert set(journal.read_text().splitlines()) == {f"Quiet {hook}" for hook in ACTING if hook != "bind"}


def approval(placement: str, cluster: str, *, at: str | None, decision: str = "Approved", **spec: str) -> Manifest:
    metadata = {"name": f"{placement}-{cluster}", **({} if at is None else {"creationTimestamp": at})}
    given = {"placement": placement, "rule": "owners", "cluster": cluster, "decision": decision, **spec}
    typed = {"apiVersion": CLUSTER_SCOPED.approval.api_version, "kind": CLUSTER_SCOPED.approval.kind}
    return {**typed, "metadata": metadata, "spec": {**given, "by": {"user": "olga"}}}


def test_W_17_approvals_in_the_files_count_in_a_scenario_and_steps_may_approve(play: Play) -> None:
    manifests = [member("a", tier="gold"), member("b")]
    for name in ("asked", "given", "expired", "earlier", "denied"):
        placed = picking(name, 1, tier="gold")
        placed["metadata"]["uid"] = f"uid-of-{name}"
        manifests.append(placed)
        manifests.append(
            {
                "apiVersion": CLUSTER_SCOPED.options.api_version,
                "kind": CLUSTER_SCOPED.options.kind,
                "metadata": {"name": name},
                "spec": {"approvals": [{"name": "owners", "validFor": "24h"}]},
            }
        )
    manifests += [
        approval("given", "a", at="2025-12-31T12:00:00Z", placementUID="uid-of-given"),
        approval("expired", "a", at="2025-12-30T12:00:00Z", placementUID="uid-of-expired"),
        approval("earlier", "a", at="2025-12-31T12:00:00Z", placementUID="uid-of-another-one"),
        approval("denied", "a", at="2025-12-31T12:00:00Z", placementUID="uid-of-denied", decision="Denied"),
    ]
    steps: list[Json] = [{"at": "0s"}, {"at": "1m", "apply": [approval("asked", "a", at=None)]}]

    ran = play(
        manifests, steps, "-o", "json", "--now", "2026-01-01T00:00:00Z",
        profile={"plugins": {"permit": {"enabled": [{"name": "PlacementApproval"}]}}},
    )  # fmt: skip

    before, after = steps_of(ran)
    assert moves(before, "placed") == {"given/a"}
    assert before["short"] == ["asked", "denied", "earlier", "expired"]
    assert moves(after, "placed") == {"asked/a"}
