"""Values: all of them are described, mistakes in them are refused, and the refusals can be understood."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from charts.readme import parse_values, render_readme
from charts.schema import complete_schema
from fleet.settings.names import known_settings
from tests.chart.helm import CHART, COMBINATIONS, Helm, Json
from tests.control_plane.sharing import ROOT

VALUES: Final = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: Final = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
CHECKS: Final = (CHART / "templates" / "_checks.tpl").read_text(encoding="utf-8")
PARTS: Final = ("controller", "api")
ANYTHING: Final = {"global", "affinity", "apiTlsConfig", "controllerTlsConfig", "args"}
"""Handed on to objects and plugins of others, whose shape is their business."""


def resolved(schema: Json) -> Json:
    name = schema.get("$ref", "").removeprefix("#/definitions/")
    found: Json = SCHEMA["definitions"][name] if name else schema
    return found


def leaves(values: Json, schema: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Json]]:
    """Every value with what the schema says about it, down to where the schema names no parts any more."""
    for name, value in values.items():
        said = resolved(schema["properties"][name])  # fails where the schema forgets a value
        if isinstance(value, dict) and "properties" in said and name != "settings":
            yield from leaves(value, said, (*path, name))
        else:
            yield (*path, name), value, said


def objects_in(schema: Any, name: str = "") -> Iterator[tuple[str, Json]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield name, schema
        for key, inner in schema.items():
            yield from objects_in(inner, key)
    elif isinstance(schema, list):
        for inner in schema:
            yield from objects_in(inner, name)


# --- the schema is complete -------------------------------------------------------------------------------------------


def test_every_value_is_in_the_schema() -> None:
    assert len(list(leaves(VALUES, SCHEMA))) > 80


def test_every_value_of_the_schema_is_in_the_file() -> None:
    def missing(values: Json, schema: Json, path: str = "") -> Iterator[str]:
        for name, inner in schema.get("properties", {}).items():
            if name not in values:
                yield f"{path}{name}"
            elif isinstance(values[name], dict) and values[name]:
                yield from missing(values[name], resolved(inner), f"{path}{name}.")

    assert {one for one in missing(VALUES, SCHEMA) if not one.endswith(".resources.claims")} == {"global"}


def test_nothing_may_be_added_where_names_are_known() -> None:
    open_ = {name for name, one in objects_in(SCHEMA) if "properties" in one and one.get("additionalProperties", True)}
    assert open_ == {"items"}  # of lists of objects of others: environment variables
    unnamed = {name for name, one in objects_in(SCHEMA) if not one.keys() & {"properties", "additionalProperties"}}
    assert unnamed <= {*ANYTHING, "items"}


def test_every_value_is_described() -> None:
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    names = {one.name for one in parse_values(text)}
    for path, _, _ in leaves(VALUES, SCHEMA):
        parents = {".".join(path[:depth]) for depth in range(1, len(path) + 1)}
        assert names & parents, f"{'.'.join(path)} has no comment"


def test_the_schema_knows_the_settings_and_descriptions() -> None:
    assert complete_schema(CHART) == (CHART / "values.schema.json").read_text(encoding="utf-8"), "run `make gen`"


def test_every_setting_may_be_chosen_with_its_default(helm: Helm) -> None:
    derived = {"history.url", "health.address", "metrics.address", *LEASE}
    tree: Json = {}
    for known in known_settings().values():
        if known.name not in derived and known.default not in (None, ()):
            *sections, name = known.name.split(".")
            inner = tree
            for section in sections:
                inner = inner.setdefault(section, {})
            inner[name] = str(known.default) if isinstance(known.default, str) else known.default
    chosen = yaml.safe_load(helm.template("--set-json", f"settings={json.dumps(tree)}").settings())
    for name in ("resourceName", "resourceNamespace"):
        del chosen["leaderElection"][name]
    assert chosen == tree


def test_the_readme_is_that_of_the_values() -> None:
    assert render_readme(CHART) == (CHART / "README.md").read_text(encoding="utf-8"), "run `make gen`"


def is_a_value(name: str) -> bool:
    """Of the chart, or of a map that a value is."""
    said = SCHEMA
    for part in name.split("."):
        if "properties" not in said:
            return True
        if part not in said["properties"]:
            return False
        said = resolved(said["properties"][part])
    return True


def test_values_that_the_documentation_sets_exist() -> None:
    pages = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "docs").glob("*.md"))
    named = {name for name in re.findall(r"--set(?:-string)?[ =]([A-Za-z][\w.]*)", pages) if name != "NAME"}
    settings = {name for name in named if name in known_settings()}  # of the program, which has the same option
    assert "image.repository" in named
    assert {name for name in named - settings if not is_a_value(name)} == set()


def test_combinations_are_documented() -> None:
    page = (ROOT / "docs" / "configure.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`([\w-]+)\.yaml` \|", page)) == set(COMBINATIONS)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_combination_says_what_it_is(name: str) -> None:
    assert (CHART / "ci" / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")


# --- refusals of the schema -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assignment, said",
    [
        ("controller.replica=2", "at '/controller': additional properties 'replica' not allowed"),
        ("controllers.replicas=2", "at '': additional properties 'controllers' not allowed"),
        ("controller.replicas=two", "at '/controller/replicas': got string, want integer"),
        ("controller.replicas=-1", "at '/controller/replicas': minimum: got -1, want 0"),
        ("api.enabled=sometimes", "at '/api/enabled': got string, want boolean"),
        ("mode=schedulers-only", "at '/mode': value must be one of 'full', 'scheduler-only'"),
        ("history.type=mysql", "at '/history/type': value must be one of 'sqlite', 'postgresql', 'none'"),
        ("history.sqlite.size=lots", "at '/history/sqlite/size': 'lots' does not match pattern"),
        ("image.tag=1", "at '/image/tag': got number, want string"),
        ("image.digest=abc", "at '/image/digest': 'abc' does not match pattern"),
        ("api.service.port=70000", "at '/api/service/port': maximum: got 70,000, want 65,535"),
        ("api.tls.mode=on", "at '/api/tls/mode': value must be one of 'generated', 'secret', 'off', false"),
        ("leaderElection.namespace=Fleet", "at '/leaderElection/namespace': 'Fleet' does not match pattern"),
        ("rbac.selectable[0].apiGroups={apps}", "at '/rbac/selectable/0': missing property 'resources'"),
        ("settings.queue.maxdelay=3s", "at '/settings/queue': additional properties 'maxdelay' not allowed"),
        ("settings.queue.maxDelay=3", "at '/settings/queue/maxDelay': got number, want string"),
        ("settings.queue.mode=eager", "at '/settings/queue/mode': value must be one of 'simple', 'batched'"),
        ("settings.recorder.sampleDetail=200", "at '/settings/recorder/sampleDetail': maximum: got 200, want 100"),
        ("settings.evaluation.parallelism=0", "at '/settings/evaluation/parallelism': minimum: got 0, want 1"),
        ("settings.recorder.frames=65", "at '/settings/recorder/frames': value must be 64"),
        ("networkPolicy.apiServer.cidrs={everywhere}", "at '/networkPolicy/apiServer/cidrs/0': 'everywhere' does not"),
        ("api.extraVolumes[0].emptyDir.medium=Memory", "at '/api/extraVolumes/0': missing property 'name'"),
        ("api.extraVolumeMounts[0].name=a", "at '/api/extraVolumeMounts/0': missing property 'mountPath'"),
        (
            "monitoring.prometheusRule.disabled={FleetApiSlow,FleetApiFast}",
            "at '/monitoring/prometheusRule/disabled/1': value must be one of 'FleetControllerDown', ",
        ),
        ("tests.seconds=0", "at '/tests/seconds': minimum: got 0, want 1"),
        ("controller.resources.limits.memory=much", "at '/controller/resources/limits/memory': 'much' does not match"),
    ],
)
def test_a_mistake_is_refused_by_name(helm: Helm, assignment: str, said: str) -> None:
    assert said in helm.refusal(assignment)


@pytest.mark.parametrize("name", ["settings", "controller", "api.tls", "history.sqlite.size"])
def test_a_name_with_nothing_behind_it_is_refused(helm: Helm, name: str) -> None:
    parent, _, last = f".{name}".rpartition(".")
    assert f"at '{parent.replace('.', '/')}': missing property '{last}'" in helm.refusal(f"{name}=null")


@pytest.mark.parametrize("place", ["commonLabels", "controller.podLabels", "monitoring.dashboard.labels"])
@pytest.mark.parametrize("label", ["app.kubernetes.io/name", "helm.sh/chart"])
def test_labels_of_the_chart_cannot_be_replaced(helm: Helm, place: str, label: str) -> None:
    path = f"/{place.replace('.', '/')}/{label.replace('/', '~1')}"
    escaped = label.replace(".", r"\.")
    assert f"at '{path}': false schema" in helm.refusal(f"{place}.{escaped}=x")


# --- refusals of what does not go together ----------------------------------------------------------------------------

LEASE: Final = ("leaderElection.leaderElect", "leaderElection.resourceName", "leaderElection.resourceNamespace")


@pytest.mark.parametrize("part", ["controller", "api"])
def test_a_file_is_for_one_of_each(helm: Helm, part: str) -> None:
    said = helm.refusal(f"{part}.replicas=2")
    assert f"{part}.replicas is 2, and history.type sqlite is a file for one of each" in said
    assert "set history.type to postgresql and history.postgresql.existingSecret, or history.type to none" in said


@pytest.mark.parametrize(
    "assignments, said",
    [
        (("history.type=postgresql",), "set history.postgresql.existingSecret to the name of a Secret that holds"),
        (("history.postgresql.existingSecret=db",), "history.type sqlite would ignore: set history.type to postgresql"),
        (("history.type=none", "history.sqlite.existingClaim=mine"), "existingClaim is mine, which would not be used"),
        (("api.tls.mode=secret",), "set api.tls.existingSecret to the name of a Secret of type kubernetes.io/tls"),
        (("api.tls.existingSecret=mine",), "which api.tls.mode generated would ignore: set api.tls.mode to secret"),
        (
            ("api.tls.mode=secret", "api.tls.existingSecret=fleet-api-tls"),
            "is fleet-api-tls, which is the name of the Secret that api.tls.mode generated makes, and Helm deletes",
        ),
        (("api.ingress.enabled=true",), "api.ingress.enabled is true: name the API in api.ingress.hosts"),
        (("api.httpRoute.enabled=true",), "name its Gateway in api.httpRoute.parentRefs"),
        (("settings.history.url=sqlite:///x",), "settings.history.url is not for you to set here: it comes from"),
        (("settings.health.address=:1",), "settings.health.address is not for you to set here: the probes"),
        (("settings.metrics.address=off",), "settings.metrics.address is not for you to set here: Services"),
        *(((f"settings.{name}=x",), f"settings.{name} is not for you to set here") for name in LEASE[1:]),
        (("settings.leaderElection.leaderElect=false",), "without the lease, two controllers would run"),
        (
            ("settings.leaderElection.retryPeriod=10s",),
            "settings.leaderElection.retryPeriod should be shorter than renewDeadline, and that shorter than "
            "leaseDuration, but they are 10s, 10s and 15s: change those that you set",
        ),
        (("settings.leaderElection.leaseDuration=10s",), "but they are 2s, 10s and 10s: change"),
        (("settings.leaderElection.renewDeadline=1m0.5s",), "but they are 2s, 1m0.5s and 15s: change"),
        (("settings.leaderElection.leaseDuration=60.5s",), "leaseDuration 60.5s should be whole seconds: round it"),
        (
            ("settings.selection.allowedKinds={a/v1/B}", "settings.selection.skippedKinds=a/v1/C"),
            "settings.selection.allowedKinds and settings.selection.skippedKinds exclude each other: set one of them",
        ),
        (
            ("settings.selection.secrets=true", "rbac.selectableSecrets=false"),
            "settings.selection.secrets is true, and without rbac.selectableSecrets the controller may not read",
        ),
        *(
            (
                (f"{part}.serviceAccount.create=false",),
                f"{part}.serviceAccount.create is false, and rbac.create would give the rights to default, the account "
                f"of every pod that names none: name the account in {part}.serviceAccount.name",
            )
            for part in ("controller", "api")
        ),
        *(
            (
                (f"{part}.serviceAccount.name=fleet-{other}", f"{part}.serviceAccount.create=false"),
                f"the same service account, fleet-{other}, and rbac.create would give the API the rights of the",
            )
            for part, other in (("controller", "api"), ("api", "controller"))
        ),
        *(
            ((rf"{part}.podAnnotations.checksum/settings=x",), f"{part}.podAnnotations has checksum/settings, which is")
            for part in ("controller", "api")
        ),
        (
            ("fullnameOverride=2nd",),
            "begin with 2nd, and a Service's must not begin with a digit: set fullnameOverride",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_a_way_out(
    helm: Helm, assignments: tuple[str, ...], said: str
) -> None:
    assert said in helm.refusal(*assignments)


@pytest.mark.parametrize("part", ["controller", "api"])
def test_what_the_chart_derives_is_no_variable_of_ones_own(helm: Helm, part: str) -> None:
    derived = {"history.url", "health.address", "metrics.address", *LEASE}
    variables = [known.variable for known in known_settings().values() if known.name in derived]
    said = helm.refusal(*(f"{part}.extraEnv[{place}].name={name}" for place, name in enumerate(variables)))
    assert len(variables) == 6
    for name in variables:
        assert f"{part}.extraEnv has {name}, which is not for you to set" in said


def test_the_authority_of_the_database_is_named_once(helm: Helm) -> None:
    own = "api.extraEnv[0].name=PGSSLROOTCERT"
    database = "history.type=postgresql", "history.postgresql.existingSecret=db"
    assert {"name": "PGSSLROOTCERT"} in helm.with_values(own, *database).container("Deployment", "fleet-api")["env"]
    assert "api.extraEnv has PGSSLROOTCERT" in helm.refusal(own, *database, "history.postgresql.authoritySecret=ca")


def test_everything_that_is_wrong_is_told_at_once(helm: Helm) -> None:
    said = helm.refusal("controller.replicas=2", "api.tls.mode=secret", "settings.health.address=:1")
    assert said.count("\n") >= 3
    for name in ("controller.replicas", "api.tls.mode", "settings.health.address"):
        assert name in said


@pytest.mark.parametrize("part", ["controller", "api"])
@pytest.mark.parametrize("name", ["settings", "tmp", "history", "database", "tls"])
def test_volumes_of_the_chart_keep_their_names(helm: Helm, part: str, name: str) -> None:
    said = helm.refusal(f"{part}.extraVolumes[0].name={name}")
    assert f"{part}.extraVolumes has {name}, which is the name of a volume of the chart" in said


def test_every_volume_of_the_chart_has_a_name_that_is_kept(helm: Helm) -> None:
    own = yaml.safe_load(re.findall(r'define "fleet.ownVolumes".*?\n(\[.*?\])', CHECKS, re.DOTALL)[0])
    used = {
        volume["name"]
        for combination in COMBINATIONS
        for kind in ("controller", "api")
        if helm.combination(combination).has("Deployment", f"fleet-{kind}")
        for volume in helm.combination(combination).pod("Deployment", f"fleet-{kind}")["volumes"]
    }
    assert used <= set(own)


# --- what is accepted -------------------------------------------------------------------------------------------------


def test_nobody_has_to_run(helm: Helm) -> None:
    rendered = helm.with_values("controller.replicas=0", "api.replicas=0")
    assert rendered.one("Deployment", "fleet-controller")["spec"]["replicas"] == 0


def test_settings_of_the_lease_may_differ_by_less_than_a_second(helm: Helm) -> None:
    chosen = {"retryPeriod": "0.2s", "renewDeadline": "900ms", "leaseDuration": "1000ms"}
    settings = helm.with_values(*(f"settings.leaderElection.{name}={text}" for name, text in chosen.items())).settings()
    assert chosen.items() <= yaml.safe_load(settings)["leaderElection"].items()


def test_without_roles_of_the_chart_accounts_need_no_names_and_may_be_one(helm: Helm) -> None:
    rendered = helm.with_values("rbac.create=false", *(f"{part}.serviceAccount.create=false" for part in PARTS))
    assert {rendered.pod("Deployment", f"fleet-{part}")["serviceAccountName"] for part in PARTS} == {"default"}


def test_an_api_that_does_not_run_needs_no_account(helm: Helm) -> None:
    chosen = "api.enabled=false", "api.serviceAccount.create=false", "api.serviceAccount.name=fleet-controller"
    assert helm.with_values(*chosen).one("ClusterRoleBinding", "fleet-controller")
    assert helm.with_values(*chosen[:2]).one("ClusterRoleBinding", "fleet-controller")


def test_off_needs_no_quotes(helm: Helm) -> None:
    rendered = helm.template("--set-json", 'api={"tls": {"mode": false}}')
    assert "--plain-http" in rendered.container("Deployment", "fleet-api")["args"]
