"""`fleet config` and `fleet plugins`: what they print, and their exit codes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from fleet.cli.commands.config import check_config, convert_config, show_config
from fleet.cli.commands.plugins import check_conformance, create_plugin, list_known_plugins
from fleet.cli.commands.serve.api import ApiOptions, run_api
from fleet.cli.commands.serve.controller import BAD_INPUT, ControllerCommandOptions, run_controller_command
from fleet.cli.commands.simulation.simulate import SimulateOptions, read_given_settings, run_simulate
from fleet.cli.input.problems import Findings
from fleet.errors import ConfigurationError
from fleet.model.keys import SCHEDULER_NAME
from fleet.operator.configuration import review_config
from fleet.settings.document.substitution import NamedSources
from tests.fast_yaml import safe_dump, safe_dump_all
from tests.installed import an_installed_package, lettered_plugins
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import member, placement, written
from tests.unit.scheduler.test_configured_profiles import HEAD, MISTAKES

FOREIGN = """\
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
parallelism: 16
percentageOfNodesToScore: 50
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
clientConnection: {qps: 10, burst: 20, kubeconfig: /etc/kubeconfig, acceptContentTypes: json, contentType: json}
leaderElection:
  leaderElect: false
  resourceLock: leases
  leaseDuration: 60s
  renewDeadline: 40s
  retryPeriod: 5s
  resourceName: own
  resourceNamespace: fleet-system
healthzBindAddress: ":9081"
metricsBindAddress: ":9080"
enableProfiling: true
enableContentionProfiling: true
extenders:
- urlPrefix: https://quota.example.com/fleet
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  bindVerb: bind
  weight: 3
  enableHTTPS: true
  nodeCacheCapable: true
  ignorable: true
  httpTimeout: 20s
  tlsConfig: {insecure: false, serverName: quota}
  managedResources: [{name: example.com/gpu, ignoredByScheduler: false}]
- {urlPrefix: https://price.example.com, filterVerb: filter, bindVerb: "", managedResources: [], httpTimeout: 1m30s}
profiles:
- schedulerName: load-aware
  percentageOfNodesToScore: 30
  plugins:
    multiPoint:
      enabled: [{name: PodTopologySpread, weight: 4}, {name: SelectorSpread}]
    filter:
      disabled: [{name: NodePorts}]
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: "*"}]
      enabled: [{name: NodeAffinity, weight: 3}, {name: TaintToleration, weight: 2}, {name: InterPodAffinity}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  - name: ClusterEligibility
    args: {retention: 1m}
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    return tmp_path / "fleet.yaml"


def field_paths(value: object, path: str = "") -> set[str]:
    """Of every value in a document."""
    if isinstance(value, dict) and value:
        return {
            inner
            for name, each in value.items()
            for inner in field_paths(each, f"{path}.{name}" if path else str(name))
        }
    if isinstance(value, list) and value:
        return {inner for place, each in enumerate(value) for inner in field_paths(each, f"{path}[{place}]")}
    return {path}


def simulating(objects: Path, config: Path, *, why: tuple[str, ...] = ()) -> SimulateOptions:
    return SimulateOptions(
        files=[str(objects)],
        output="json",
        why=why,
        expect_fulfilled=False,
        now="2026-01-01T00:00:00Z",
        settings=(),
        config=config,
        verbose=False,
    )


# --- conversion -------------------------------------------------------------------------------------------------------


def test_C_12_every_field_is_reported_and_the_result_is_correct(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document.write_text(FOREIGN, encoding="utf-8")

    assert convert_config(document) == 0
    out, report = capsys.readouterr()
    for name in ("bindVerb", "managedResources[0].name"):
        assert f"honoured   extenders[0].{name}\n" in report
    reported = re.findall(r"^(?:honoured|translated|ignored|refused) +([^:\s]+)", report, re.MULTILINE)
    assert set(reported) == field_paths(yaml.safe_load(FOREIGN))
    assert len(reported) == len(set(reported))

    native = tmp_path / "native.yaml"
    native.write_text(out, encoding="utf-8")
    assert yaml.safe_load(out)["evaluation"] == {"parallelism": 16, "percentageOfClustersToScore": 50}
    assert yaml.safe_load(out)["debug"] == {"enabled": True}
    assert check_config(native) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "has no effect yet" not in line]
    assert warnings == []


def test_a_foreign_document_is_taken_as_it_is(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document.write_text(FOREIGN, encoding="utf-8")

    assert check_config(document) == 0
    out, err = capsys.readouterr()
    assert out == f"{document} is correct; its profiles: load-aware\n"
    assert f"warning: {document}: version v1beta1 is no longer served; convert the document" in err


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1"])
def test_only_the_newest_version_is_taken_without_a_warning(
    document: Path, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n"
    document.write_text(head, encoding="utf-8")

    assert check_config(document) == 0
    assert ("is no longer served" in capsys.readouterr().err) == (version != "v1")


@pytest.mark.parametrize(
    "line, complaint",
    [
        (
            "algorithmSource: {provider: x}",
            "algorithmSource: policies of v1alpha1 are not read: list the plugins in profiles",
        ),
        (
            "extenders: [{managedResources: [{name: gpu, ignoredByScheduler: true}]}]",
            "extenders[0].managedResources[0].ignoredByScheduler: room is compared wherever members report the "
            "resource: leave it out",
        ),
        ("extenders: [{managedResources: gpu}]", "extenders[0].managedResources: should be a list"),
        ("extenders: [{managedResources: [gpu]}]", "extenders[0].managedResources[0]: should be a mapping"),
        ("extenders: [{managedResources: [{gpu: 1}]}]", "extenders[0].managedResources[0].gpu: there is no such field"),
        ("extenders: [{httpTimeout: soon}]", "extenders[0].httpTimeout: should be a duration such as 5s"),
        ("extenders: [{tlsConfig: {caData: x}}]", "extenders[0].tlsConfig.caData: give a file: tlsConfig.caFile"),
        ("leaderElection: {resourceLock: endpoints}", "leaderElection.resourceLock: only leases are held"),
        ("nodes: 5", "nodes: there is no such field"),
        (
            "pluginConfig: [{name: Packing, args: {token: abc}}]",
            "pluginConfig[0].args.token: a token has to come from a variable: write ${NAME}",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(
    document: Path, line: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    document.write_text(f"{head}{line}\n", encoding="utf-8")

    assert convert_config(document) == 2
    assert f"refused    {complaint}" in capsys.readouterr().err
    assert check_config(document) == 2
    assert f"error: {document}:3: {complaint}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "lines, complaint",
    [
        ("profiles: 5", "profiles: should be a list"),
        ("profiles: [web]", "profiles[0]: should be a mapping"),
        ("profiles: [{plugins: [a]}]", "profiles[0].plugins: should be a mapping"),
        ("profiles: [{plugins: {score: 3}}]", "profiles[0].plugins.score: should be a mapping"),
        ("profiles: [{plugins: {score: {enabled: a}}}]", "profiles[0].plugins.score.enabled: should be a list"),
        ("profiles: [{plugins: {score: {enabled: [A]}}}]", "profiles[0].plugins.score.enabled[0]: should be a mapping"),
        (
            "profiles: [{plugins: {score: {enabled: [{name: NodePorts}, {weight: 1}]}}}]",
            "profiles[0].plugins.score.enabled[1].name: is missing",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: NodePorts}, {name: NodeAffinity, weight: x}]}}}]",
            "profiles[0].plugins.score.enabled[1].weight: x should be a whole number of 0 to 1000000",
        ),
        ("profiles: [{pluginConfig: {name: A}}]", "profiles[0].pluginConfig: should be a list"),
        ("profiles: [{pluginConfig: [A]}]", "profiles[0].pluginConfig[0]: should be a mapping"),
        ("profiles: [{pluginConfig: [{name: A, args: 5}]}]", "profiles[0].pluginConfig[0].args: should be a mapping"),
        (
            "profiles: [{schedulerName: My_Own}]",
            "profiles[0].schedulerName: 'My_Own' should be a DNS label: lower-case letters, digits and dashes, at most "
            "63",
        ),
        ("clientConnection: fast", "clientConnection: should be a mapping"),
        ("podInitialBackoffSeconds: soon", "podInitialBackoffSeconds: 'soon' should be a whole number"),
        (
            "profiles: [{percentageOfNodesToScore: {a: 1}}]",
            "profiles[0].percentageOfNodesToScore: a mapping should be a whole number of 0 to 100",
        ),
    ],
)
def test_C_12_a_field_of_another_type_is_refused(
    document: Path, lines: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    document.write_text(f"{head}{lines}\n", encoding="utf-8")

    assert convert_config(document) == 2
    assert f"refused    {complaint}" in capsys.readouterr().err.splitlines()
    assert check_config(document) == 2


PLUGINS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packed
  plugins:
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
    preFilter: {enabled: [{name: Coscheduling}, {name: CapacityScheduling}], disabled: [{name: Coscheduling}]}
    filter: {enabled: [{name: NodeName}, {name: NetworkOverhead}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: DefaultPreemption}]}
    score: {enabled: [{name: NodeResourcesMostAllocated, weight: 2}], disabled: [{name: NodeResourcesLeastAllocated}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      ignoredResources: [example.com/dongle]
      scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 3}, {name: example.com/gpu}]}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}
  - name: NodeResourcesMostAllocated
    args: {resources: [{name: memory}]}
  - name: NodeResourceTopologyMatch
    args: {scoringStrategy: {type: BalancedAllocation}, cacheResyncPeriodSeconds: 5}
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 20}
  - name: Coscheduling
    args: {permitWaitingTimeSeconds: 10}
"""


def test_C_12_plugins_and_their_arguments_become_their_counterparts(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document.write_text(PLUGINS, encoding="utf-8")
    prefix = "profiles[0].plugin"

    assert convert_config(document) == 0
    out, err = capsys.readouterr()
    report = {line.split()[1].rstrip(":"): line for line in err.splitlines() if re.match(r"\w+ +profiles", line)}
    for path, line in {
        "s.queueSort.enabled[0].name": "translated : PrioritySort",
        "s.preFilter.enabled[0].name": "translated : GangPlacement, at all of its hooks",
        "s.preFilter.enabled[1].name": "translated : QuotaFit, at all of its hooks",
        "s.preFilter.disabled[0].name": "ignored : GangPlacement is on: a hook enables it",
        "s.filter.enabled[0].name": "ignored : placements of type PickFixed name their clusters",
        "s.filter.enabled[1].name": "ignored : NetworkOverhead has no counterpart",
        "s.postFilter.enabled[0].name": "translated : DefaultPreemption, at all of its hooks",
        "s.postFilter.disabled[0].name": "ignored : DefaultPreemption is on: a hook enables it",
        "s.score.enabled[0].name": "translated : ResourceFit",
        "Config[0].args.apiVersion": "ignored : arguments have no version here",
        "Config[0].args.ignoredResources[0]": "ignored : ResourceFit takes no such arguments",
        "Config[0].args.scoringStrategy.type": "ignored : ResourceFit has no strategy RequestedToCapacityRatio",
        "Config[0].args.scoringStrategy.resources[0].name": "translated : resources",
        "Config[0].args.scoringStrategy.resources[0].weight": "ignored : all resources weigh the same",
        "Config[3].args.scoringStrategy.type": "translated : strategy",
        "Config[4].args.minCandidateNodesPercentage": "ignored : DefaultPreemption takes no such arguments",
        "Config[5].args.permitWaitingTimeSeconds": "ignored : GangPlacement takes no such arguments",
    }.items():
        treatment, _, note = line.partition(" ")
        assert report[f"{prefix}{path}"] == f"{treatment:<10} {prefix}{path}{note}"
    assert [line for line in err.splitlines() if line.startswith("warning")] == [
        f"warning: {prefix}s.filter.enabled[1].name: NetworkOverhead has no counterpart: it is left out",
        f"warning: {prefix}s.score.disabled[0].name: NodeResourcesLeastAllocated: v1 has no such plugin, and "
        "NodeResourcesFit scores all the same: disable that",
        f"warning: {prefix}Config[0].args.scoringStrategy.type: ResourceFit has no strategy RequestedToCapacityRatio: "
        "it is left out",
    ]
    (profile,) = yaml.safe_load(out)["profiles"]
    assert {item["name"]: item["args"] for item in profile["pluginConfig"]} == {
        "ResourceFit": {"resources": ["cpu", "example.com/gpu"], "strategy": "MostAllocated"},
        "BalancedAllocation": {"resources": ["cpu", "memory"]},
        "PoolTopologyMatch": {"strategy": "BalancedAllocation"},
    }
    enabled = [item["name"] for item in profile["plugins"]["multiPoint"]["enabled"]]
    assert enabled == ["GangPlacement", "QuotaFit", "DefaultPreemption"]

    native = tmp_path / "native.yaml"
    native.write_text(out, encoding="utf-8")
    assert check_config(native) == 0
    assert check_config(document) == 0


def test_a_plugin_that_is_a_strategy_becomes_an_argument(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}], disabled: [{name: '*'}]}}\n"
    head = "apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n"
    document.write_text(head + lines, encoding="utf-8")

    assert convert_config(document) == 0
    (profile,) = yaml.safe_load(capsys.readouterr().out)["profiles"]
    assert profile["pluginConfig"] == [{"name": "ResourceFit", "args": {"strategy": "MostAllocated"}}]


def test_C_12_an_empty_field_is_reported_too(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    document.write_text(f"{head}clientConnection:\nprofiles: [{{plugins: {{}}}}]\n", encoding="utf-8")

    assert convert_config(document) == 0
    lines = capsys.readouterr().err.splitlines()
    assert "ignored    clientConnection: it is empty" in lines
    assert "ignored    profiles[0].plugins: it is empty" in lines


LOAD_AWARE = """\
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: load-aware
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: NodeResourcesLeastAllocated}]
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - name: TargetLoadPacking
    args:
      targetUtilization: 70
      defaultRequests: {cpu: "2000m"}
      defaultRequestsMultiplier: "1"
      metricProvider:
        type: Prometheus
        address: ${PROM_URL}
        token: ${PROM_TOKEN}
"""
SCORES = [
    ("ClusterAffinity", 2), ("SamePlacementAntiAffinity", 1), ("TopologySpreadConstraints", 2),
    ("PlacementAffinity", 2), ("DataLocality", 1), ("TargetLoadPacking", 1),
]  # fmt: skip


def test_C_01_a_foreign_document_that_packs_by_load_is_understood(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fleet: Fleet
) -> None:
    document.write_text(LOAD_AWARE, encoding="utf-8")
    for name, value in (("PROM_URL", "https://prometheus.example.com"), ("PROM_TOKEN", "hush")):
        monkeypatch.setenv(name, value)
    complaint = "profiles[0].pluginConfig[0].args.metricProvider.token: ${PROM_TOKEN} has no source"

    assert check_config(document) == 2
    advice = "give --substitute-env PROM_TOKEN, or --substitute-secret and the name of a Secret"
    assert (
        f"error: {document}:20: {complaint}: documents of kube-scheduler name none: {advice}" in capsys.readouterr().err
    )
    foreign = tmp_path / "foreign.yaml"
    foreign.write_text(LOAD_AWARE, encoding="utf-8")
    assert convert_config(foreign, NamedSources(["PROM_URL"])) == 0
    native, report = capsys.readouterr()
    assert "warning: version v1beta1 is no longer served; convert the document" in report
    document.write_text(native, encoding="utf-8")
    assert check_config(document) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
    assert "add PROM_TOKEN to substitution.fromEnv" in line

    ran = fleet("config", "convert", str(foreign), "--substitute-env", "PROM_URL, PROM_TOKEN")
    document.write_text(ran.out, encoding="utf-8")
    assert show_config(document, []) == 0
    shown = capsys.readouterr().out
    assert "hush" not in shown
    values = {row[0]: row[1] for line in shown.splitlines() if len(row := line.split()) == 3}
    args = "profiles[0].pluginConfig[0].args"
    assert values[f"{args}.targetUtilization"] == "70"
    assert values[f"{args}.defaultRequests.cpu"] == "2000m"
    assert values[f"{args}.defaultRequestsMultiplier"] == "1"

    gold = {"weight": 5, "preference": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}
    affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [gold]}}
    spread = [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
    web = placement(
        "web", placementType="PickN", numberOfClusters=1, affinity=affinity, topologySpreadConstraints=spread
    )
    terms = {"preferred": [{"placements": {"matchLabels": {"app": "db"}}, "weight": 5}]}
    said = {"affinity": json.dumps(terms), "locality": "models=1Gi"}
    web["metadata"]["annotations"] = {SCHEDULER_NAME: "load-aware"} | {
        f"scheduling.fleet.dev/{name}": text for name, text in said.items()
    }
    objects = str(written(tmp_path, member("a", zone="x"), web))
    sources = ("--substitute-env", "PROM_URL, PROM_TOKEN")
    for config in (("--config", str(document)), ("--config", str(foreign), *sources)):
        (decision,) = json.loads(fleet("simulate", "-f", objects, *config, "-o", "json").out)["decisions"]
        (row,) = decision["answer"]["attempt"]["clusters"]
        assert [(score["plugin"], score["weight"]) for score in row["scores"]] == SCORES
    for command in ("check", "show"):
        ran = fleet("config", command, str(foreign), *sources)
        assert (ran.code, "hush" in ran.out + ran.err) == (0, False)
    wrong = fleet("config", "check", str(document), "--substitute-env", "PROM_URL")
    assert wrong.code == 2
    assert "are for documents of kube-scheduler; name the sources in its substitution" in wrong.err
    assert fleet("config", "check", str(foreign), "--substitute-secret", "load-metrics").code == 0


def test_C_12_most_allocated_is_a_strategy_of_resource_fit(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n"
    score = (
        "{disabled: [{name: NodeResourcesLeastAllocated}], enabled: [{name: NodeResourcesMostAllocated, weight: 3}]}"
    )
    for text in (f"profiles: [{{plugins: {{score: {score}}}}}]\n", f"plugins: {{score: {score}}}\n"):
        document.write_text(head + text, encoding="utf-8")
        assert show_config(document, []) == 0
        values = {row[0]: row[1] for row in map(str.split, capsys.readouterr().out.splitlines()) if len(row) == 3}
        assert values["profiles[0].pluginConfig[0].args.strategy"] == "MostAllocated"
        assert values["profiles[0].plugins.score.enabled[0].name"] == "ResourceFit"


@pytest.mark.parametrize("version, scores", [("v1alpha1", False), ("v1beta1", False), ("v1beta2", True), ("v1", True)])
def test_C_12_scores_that_are_none_of_a_version_switch_nothing_off(
    document: Path, capsys: pytest.CaptureFixture[str], version: str, *, scores: bool
) -> None:
    head = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n"
    score = "{disabled: [{name: NodeResourcesLeastAllocated}, {name: NodeResourcesBalancedAllocation}]}"
    document.write_text(f"{head}profiles: [{{plugins: {{score: {score}}}}}]\n", encoding="utf-8")
    assert convert_config(document) == 0
    out, err = capsys.readouterr()
    (profile,) = yaml.safe_load(out)["profiles"]
    disabled = [each["name"] for each in profile["plugins"]["score"]["disabled"]]
    assert disabled == [*([] if scores else ["ResourceFit"]), "BalancedAllocation"]
    assert (f"{version} has no such plugin, and NodeResourcesFit scores all the same" in err) is scores


def test_plugins_at_the_top_become_one_profile(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """\
apiVersion: kubescheduler.config.k8s.io/v1alpha1
kind: KubeSchedulerConfiguration
plugins: {score: {disabled: [{name: NodeAffinity}]}}
pluginConfig: [{name: ClusterEligibility, args: {retention: 1m}}]
"""
    document.write_text(text, encoding="utf-8")

    assert convert_config(document) == 0
    (profile,) = yaml.safe_load(capsys.readouterr().out)["profiles"]
    assert profile == {
        "base": "ExtendedProfile",
        "plugins": {"score": {"disabled": [{"name": "ClusterAffinity"}]}},
        "pluginConfig": [{"name": "ClusterEligibility", "args": {"retention": "1m"}}],
    }


def test_a_native_document_is_not_converted(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document.write_text(HEAD, encoding="utf-8")

    assert convert_config(document) == 2
    assert "is no document of kube-scheduler" in capsys.readouterr().err


# --- checks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", MISTAKES)
def test_C_05_a_broken_document_starts_nothing(
    tmp_path: Path, document: Path, mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, complaint = MISTAKES[mistake]
    document.write_text(HEAD + text, encoding="utf-8")
    folder = tmp_path / "letters"
    folder.mkdir()

    with lettered_plugins(folder):
        assert check_config(document) == 2
        assert capsys.readouterr().err.splitlines() == [f"error: {tmp_path}/{complaint}"]
        assert run_controller_command(ControllerCommandOptions(config=document), environ={}) == BAD_INPUT
        lines = capsys.readouterr().err.splitlines()
        assert lines == [f"error: {tmp_path}/{complaint}", "1 problem, nothing was started"]
        with pytest.raises(ConfigurationError):
            run_api(ApiOptions(config=document))


SEVERAL = """\
queue: {bogus: 1}
profiles:
- schedulerName: a
  ranking: best
  base: Nothing
  plugins: {filter: {enabled: [{name: Nope}]}}
  pluginConfig: [{name: ClusterEligibility, args: {bogus: 1}}]
- schedulerName: b
  plugins: {score: {enabled: [{name: TaintToleration}, {name: Nope}]}}
  pluginConfig: [{name: TopologySpreadConstraints, args: {bogus: 1}}]
"""
COMPLAINTS = (
    "3: no setting named 'queue.bogus'",
    "6: profiles[0].ranking: 'best' should be one of",
    "7: profiles[0].base: 'Nothing' should be one of",
    "8: profiles[0].plugins.filter.enabled[0].name: no plugin named Nope exists",
    "9: profiles[0].pluginConfig[0].args.bogus: unknown field",
    "11: profiles[1].plugins.score.enabled[0]: TaintToleration has no score hook",
    "11: profiles[1].plugins.score.enabled[1].name: no plugin named Nope exists",
    "12: profiles[1].pluginConfig[0].args.bogus: unknown field",
)


def test_C_05_mistakes_in_settings_profiles_and_plugins_are_reported_together(
    document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document.write_text(HEAD + SEVERAL, encoding="utf-8")

    for run in (check_config, lambda config: run_controller_command(ControllerCommandOptions(config=config), {})):
        assert run(document) == 2
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        told = sorted((line.removeprefix(f"error: {document}:") for line in lines), key=_read_line)
        assert len(told) == len(COMPLAINTS)
        assert all(line.startswith(expected) for line, expected in zip(told, COMPLAINTS, strict=True)), told
    with pytest.raises(ConfigurationError) as caught:
        run_api(ApiOptions(config=document))
    assert len(str(caught.value).splitlines()) == len(COMPLAINTS)
    findings = Findings()
    read_given_settings((), findings, document)
    assert len(findings.problems) == len(COMPLAINTS)
    assert len(review_config(HEAD + SEVERAL).message.splitlines()) == len(COMPLAINTS)


def _read_line(problem: str) -> tuple[int, str]:
    number, _, rest = problem.partition(": ")
    return int(number), rest


@pytest.mark.parametrize(
    "line, complaint",
    [
        (
            "queue: {initialBackoffSeconds: 9, maxBackoffSeconds: 8}",
            "queue.maxBackoffSeconds 8 should not be less than queue.initialBackoffSeconds 9",
        ),
        (
            "evaluation: {parallelism: 0}",
            "setting evaluation.parallelism: '0' should be greater than or equal to 1",
        ),
        (
            "evaluation: {percentageOfClustersToScore: 101}",
            "setting evaluation.percentageOfClustersToScore: '101' should be less than or equal to 100",
        ),
        (
            "api: {qps: 100, budget: {bind: {qps: 90}, evict: {qps: 11}}}",
            "the rates of api.budget should not exceed api.qps 100 together, and are 121",
        ),
        (
            "api: {burst: 100, budget: {status: {burst: 21}}}",
            "the bursts of api.budget should not exceed api.burst 100 together, and are 101",
        ),
    ],
)
def test_C_09_settings_that_contradict_each_other_start_nothing(
    document: Path, line: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document.write_text(f"{HEAD}{line}\n", encoding="utf-8")

    assert check_config(document) == 2
    assert capsys.readouterr().err.splitlines() == [f"error: {document}:3: {complaint}"]
    assert run_controller_command(ControllerCommandOptions(config=document), environ={}) == BAD_INPUT
    assert f"{document}:3: {complaint}" in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match=re.escape(complaint)):
        run_api(ApiOptions(config=document))


def test_values_are_shown_with_their_origin(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document.write_text(f"{HEAD}queue: {{maxDelay: 20s}}\nprofiles: [{{ranking: weighted}}]\n", encoding="utf-8")

    assert show_config(document, ["queue.baseDelay=1s"]) == 0
    rows = {row[0]: row[1:] for line in capsys.readouterr().out.splitlines() if len(row := line.split()) == 3}
    assert rows["queue.maxDelay"] == ["20s", f"{document}:3"]
    assert rows["queue.baseDelay"] == ["1s", "--set"]
    assert rows["profiles[0].ranking"] == ["weighted", f"{document}:4"]
    assert rows["profiles[0].base"] == ["DefaultProfile", "default"]


def test_a_weight_of_zero_counts_as_one_and_is_pointed_out(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = "profiles: [{plugins: {score: {enabled: [{name: ClusterAffinity, weight: 0}]}}}]"
    document.write_text(f"{HEAD}{entry}\n", encoding="utf-8")
    path = "profiles[0].plugins.score.enabled[0].weight"

    assert check_config(document) == 0
    assert f"warning: {document}:3: {path}: 0 counts as 1; disable the plugin instead" in capsys.readouterr().err
    assert show_config(document, []) == 0
    assert re.search(rf"^{re.escape(path)} +1 +{re.escape(str(document))}:3$", capsys.readouterr().out, re.MULTILINE)


def test_a_simulation_decides_with_the_profile_that_a_placement_names(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document.write_text(f"{HEAD}profiles: [{{}}, {{}}]\n".replace("{}, {}", "{schedulerName: mine}"), encoding="utf-8")
    objects = tmp_path / "objects.yaml"
    placement = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]},
    }
    both = [
        placement | {"metadata": {"name": "web", "annotations": {SCHEDULER_NAME: "mine"}}},
        placement | {"metadata": {"name": "other"}},
    ]
    objects.write_text(safe_dump_all(both), encoding="utf-8")
    options = simulating(objects, document)

    assert run_simulate(options) == 0
    out, err = capsys.readouterr()
    (decision,) = yaml.safe_load(out)["decisions"]
    assert decision["answer"]["placement"]["name"] == "web"
    assert decision["answer"]["attempt"]["profile"] == "mine"
    assert (
        "placement other: left alone, because its scheduler is DefaultScheduler, and the profiles here are mine" in err
    )


def test_F3_137_a_simulation_reads_the_numbers_of_the_document(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "feeds": [{"name": "prices", "static": {"a": 3, "b": 1}}],
        "profiles": [
            {
                "plugins": {"filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "FeedLimit"}]}},
                "pluginConfig": [{"name": "FeedLimit", "args": {"limits": [{"feed": "prices", "atMost": 2}]}}],
            }
        ],
    }
    document.write_text(HEAD + safe_dump(config), encoding="utf-8")
    objects = tmp_path / "objects.yaml"
    identity = {"kind": "User", "name": "agent"}
    kind = {"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster"}
    placement = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]},
    }
    clusters = [kind | {"metadata": {"name": name}, "spec": {"identity": identity}} for name in "abc"]
    objects.write_text(safe_dump_all([placement, *clusters]), encoding="utf-8")
    options = simulating(objects, document, why=("a", "c"))

    run_simulate(options)
    out, err = capsys.readouterr()
    assert "error" not in err
    assert "prices value is 3.0, more than 2.0; sampled 0s before" in out
    assert "prices has no value" in out


# --- plugins ----------------------------------------------------------------------------------------------------------


def test_in_tree_and_installed_plugins_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lettered_plugins(tmp_path):
        assert list_known_plugins() == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["TaintToleration", "filter", "in-tree"] in rows
    assert ["A", "score", tmp_path.name and f"plugins_of_{tmp_path.name.replace('-', '_')}", "1.0"] in rows


def test_a_new_plugin_conforms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "project"

    assert create_plugin("LateShift", folder) == 0
    assert "fleet plugins check LateShift" in capsys.readouterr().out
    source = (folder / "late_shift" / "__init__.py").read_text(encoding="utf-8")
    site = tmp_path / "late-shift-site"
    site.mkdir()
    with an_installed_package(site, source, {"LateShift": "LateShift"}):
        assert check_conformance("LateShift") == 0
        assert check_config(folder / "fleet.yaml") == 0
    assert (folder / "tests" / "test_late_shift.py").exists()
    assert 'LateShift = "late_shift:LateShift"' in (folder / "pyproject.toml").read_text(encoding="utf-8")
    assert create_plugin("LateShift", folder) == 2
    assert create_plugin("late-shift", tmp_path / "other") == 2


def test_a_new_plugin_does_not_take_the_name_of_one_in_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert create_plugin("TaintToleration", tmp_path / "project") == 2
    assert "a plugin named TaintToleration exists in Fleet itself" in capsys.readouterr().err
    assert not (tmp_path / "project").exists()


def test_a_plugin_that_does_not_conform_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
from fleet.framework.types import PluginTraits


class Careless(PluginTraits):
    def __init__(self, raw=None, handle=None): ...
    def name(self): return "Careless"
    def filter(self, ctx, state, req, frame, alive): return "yes"
"""
    with an_installed_package(tmp_path, source, {"Careless": "Careless"}):
        assert check_conformance("Careless") == 1
        assert "Careless does not conform" in capsys.readouterr().err
        assert check_conformance("Carefree") == 2
        assert "no plugin named Carefree exists" in capsys.readouterr().err
    assert not any(str(tmp_path) in path for path in sys.path)
