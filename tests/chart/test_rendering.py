"""What the chart renders, and that it fits the program it runs: its options, its settings, its ports."""

from __future__ import annotations

import json
import re
import ssl
from base64 import b64decode
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

import fleet
from fleet.cli.main import app
from fleet.settings import Settings, load_settings
from tests.chart.helm import CHART, COMBINATIONS, NAMESPACE, Helm, Json, Rendered
from tests.control_plane.sharing import ROOT

PROGRAM = typer.main.get_command(app)
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


@pytest.fixture(params=COMBINATIONS)
def rendered(helm: Helm, request: pytest.FixtureRequest) -> Rendered:
    """Each documented combination."""
    return helm.combination(request.param)


def containers(rendered: Rendered) -> list[Json]:
    return [
        one
        for _, template in rendered.pods()
        for one in [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]]
    ]


# --- all of it --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMBINATIONS)
def test_helm_finds_nothing_to_complain_about(helm: Helm, name: str) -> None:
    done = helm.lint("--values", str(CHART / "ci" / f"{name}.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_object_says_what_it_belongs_to(rendered: Rendered) -> None:
    for one in rendered.manifests:
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "fleet"
        assert labels["app.kubernetes.io/instance"] == "fleet"
        assert labels["app.kubernetes.io/component"]


def test_no_two_objects_have_the_same_name(rendered: Rendered) -> None:
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in rendered.manifests]
    assert len(names) == len(set(names))


def test_pods_are_selected_by_what_selects_them(rendered: Rendered) -> None:
    pods = [template["metadata"]["labels"] for _, template in rendered.pods()]
    selectors = [one["spec"]["selector"]["matchLabels"] for one in rendered.of("Deployment")]
    selectors += [one["spec"]["selector"] for one in rendered.of("Service")]
    selectors += [one["spec"]["selector"]["matchLabels"] for one in rendered.of("PodDisruptionBudget")]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in rendered.of("NetworkPolicy")]
    for selector in selectors:
        assert len([labels for labels in pods if selector.items() <= labels.items()]) == 1


def test_what_is_named_is_there(rendered: Rendered) -> None:
    """Volumes, service accounts and ports; what the combinations take from elsewhere is named in them."""
    elsewhere = {"decisions", "fleet-api-certificate"}
    for _, template in rendered.pods():
        spec = template["spec"]
        assert rendered.has("ServiceAccount", spec["serviceAccountName"])
        for volume in spec["volumes"]:
            named = [
                ("ConfigMap", volume.get("configMap", {}).get("name")),
                ("Secret", volume.get("secret", {}).get("secretName")),
                ("PersistentVolumeClaim", volume.get("persistentVolumeClaim", {}).get("claimName")),
            ]
            assert all(rendered.has(kind, name) or name in elsewhere for kind, name in named if name)
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            mounted = {one["name"] for one in container["volumeMounts"]}
            assert mounted <= {volume["name"] for volume in spec["volumes"]}


def test_probes_and_services_know_the_ports(rendered: Rendered) -> None:
    for deployment in rendered.of("Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] in ports
        service = rendered.one("Service", deployment["metadata"]["name"])
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_every_object_stays_in_the_namespace_of_the_release(helm: Helm) -> None:
    rendered = helm.template("--set", "leaderElection.namespace=leases", namespace="somewhere")
    namespaces = {
        one["metadata"]["name"]: one["metadata"]["namespace"]
        for one in rendered.manifests
        if "namespace" in one["metadata"]
    }
    elsewhere = {name for name, namespace in namespaces.items() if namespace != "somewhere"}
    assert elsewhere == {"fleet-lease", "fleet-front-proxy"}
    assert (namespaces["fleet-lease"], namespaces["fleet-front-proxy"]) == ("leases", "kube-system")


def test_labels_of_ones_own_are_on_everything(helm: Helm) -> None:
    """And where several places name the same one, the nearest counts."""
    rendered = helm.with_values(
        "commonLabels.team=platform",
        "controller.podLabels.team=placing",
        "monitoring.dashboard.enabled=true",
        "monitoring.dashboard.labels.team=charts",
    )
    for one in rendered.manifests:
        nearer = one["metadata"]["name"] == "fleet-dashboard"
        assert one["metadata"]["labels"]["team"] == ("charts" if nearer else "platform")
    of_pods = {name: template["metadata"]["labels"]["team"] for name, template in rendered.pods()}
    assert of_pods.pop("Deployment fleet-controller") == "placing"
    assert of_pods == {"Deployment fleet-api": "platform", "Pod fleet-test": "platform"}


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, name",
    [
        ((), "fleet"),
        (("--set", "nameOverride=placer"), "fleet-placer"),
        (("--set", "fullnameOverride=placer"), "placer"),
    ],
    ids=["as it is", "another name for the chart", "another name for all"],
)
def test_names_begin_with_what_was_chosen(helm: Helm, options: tuple[str, ...], name: str) -> None:
    assert helm.template(*options).has("Deployment", f"{name}-controller")


def test_a_release_of_another_name_adds_it(helm: Helm) -> None:
    assert helm.template(release="prod").has("Deployment", "prod-fleet-controller")


def test_a_release_with_dots_in_its_name_has_services_without(helm: Helm) -> None:
    assert {one["metadata"]["name"] for one in helm.template(release="hub.east").of("Service")} == {
        "hub-east-fleet-controller",
        "hub-east-fleet-api",
    }


def test_names_are_never_too_long(helm: Helm) -> None:
    chosen = "--values", str(CHART / "ci" / "ha-postgresql.yaml"), "--set", f"nameOverride={'x' * 70}"
    rendered = helm.template(*chosen, release="r" * 53, with_definitions=True)
    names = [one["metadata"]["name"] for one in rendered.manifests if one["kind"] != "CustomResourceDefinition"]
    labels = [value for one in rendered.manifests for value in one["metadata"]["labels"].values()]
    assert all(NAME.fullmatch(name) for name in names)
    assert all(len(text) <= 63 for text in [*names, *labels])


# --- values become what they are --------------------------------------------------------------------------------------


def test_large_numbers_stay_whole_numbers(helm: Helm) -> None:
    rendered = helm.with_values("settings.recorder.digestsTotal=123456789", "settings.maxFleetSize=1000000")
    assert "digestsTotal: 123456789\n" in rendered.settings()
    assert "maxFleetSize: 1000000\n" in rendered.settings()
    history = '{"type": "postgresql", "postgresql": {"existingSecret": "db"}}'
    migration = '{"activeDeadlineSeconds": 10000000, "backoffLimit": 1000000}'  # in JSON and files all are fractions
    rendered = helm.template("--set-json", f"history={history}", "--set-json", f"migration={migration}")
    job = rendered.one("Job", "fleet-migrate")["spec"]
    assert (repr(job["activeDeadlineSeconds"]), repr(job["backoffLimit"])) == ("10000000", "1000000")


def test_texts_that_look_like_numbers_stay_texts(helm: Helm) -> None:
    rendered = helm.template(
        "--set-string", "image.tag=1.0,commonLabels.build=007", "--set-string", "controller.podAnnotations.on=yes"
    )
    assert rendered.container("Deployment", "fleet-controller")["image"] == "fleet:1.0"
    template = rendered.one("Deployment", "fleet-controller")["spec"]["template"]
    assert template["metadata"]["labels"]["build"] == "007"
    assert template["metadata"]["annotations"]["on"] == "yes"


def test_the_image_is_of_the_same_version(helm: Helm) -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert about["appVersion"] == fleet.__version__
    for container in containers(helm.combination("ha-postgresql")):
        assert container["image"] == f"fleet:{fleet.__version__}"


def test_a_digest_counts_more_than_a_tag(helm: Helm) -> None:
    digest = f"sha256:{'0' * 64}"
    rendered = helm.with_values(f"image.digest={digest}", "image.tag=v1", "image.repository=registry.example/fleet")
    assert rendered.container("Deployment", "fleet-api")["image"] == f"registry.example/fleet@{digest}"


# --- volumes of one's own ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part, other", [("controller", "api"), ("api", "controller")])
def test_volumes_of_ones_own_are_beside_those_of_the_chart(helm: Helm, part: str, other: str) -> None:
    volume = {"name": "authorities", "configMap": {"name": "authorities"}}
    mount = {"name": "authorities", "mountPath": "/etc/authorities", "readOnly": True}
    variable = {"name": "SSL_CERT_DIR", "value": "/etc/authorities"}
    values = {"extraVolumes": [volume], "extraVolumeMounts": [mount], "extraEnv": [variable]}
    rendered = helm.template("--set-json", json.dumps({part: values}))
    without = helm.combination("default")

    usual, own = (one.pod("Deployment", f"fleet-{part}")["volumes"] for one in (without, rendered))
    assert [one for one in own if one not in usual] == [volume]
    assert [one for one in own if one in usual] == usual
    container = rendered.container("Deployment", f"fleet-{part}")
    usually = without.container("Deployment", f"fleet-{part}")
    assert container["volumeMounts"] == [*usually["volumeMounts"], mount]
    assert container["env"] == [*usually["env"], variable]
    of_others = [one.pod("Deployment", f"fleet-{other}") for one in (without, rendered)]
    assert of_others[0] == of_others[1]
    assert "authorities" not in json.dumps(rendered.pod("Deployment", "fleet-controller").get("initContainers", ()))


def test_the_tables_are_made_with_what_the_controller_has(helm: Helm) -> None:
    volume = {"name": "client", "secret": {"secretName": "client"}}
    mount = {"name": "client", "mountPath": "/etc/client"}
    variable = {"name": "PGSSLCERT", "value": "/etc/client/tls.crt"}
    own = {"extraVolumes": [volume], "extraVolumeMounts": [mount], "extraEnv": [variable]}
    chosen = ("--values", str(CHART / "ci" / "ha-postgresql.yaml"))
    rendered = helm.template(*chosen, "--set-json", json.dumps({"controller": {**own, "replicas": 2}}))
    for kind, name in (("Job", "fleet-migrate"), ("Deployment", "fleet-controller")):
        container = rendered.container(kind, name)
        assert volume in rendered.pod(kind, name)["volumes"]
        assert mount in container["volumeMounts"]
        assert variable in container["env"]


# --- it fits the program ----------------------------------------------------------------------------------------------


def test_the_program_takes_the_arguments(rendered: Rendered) -> None:
    roles = [one for one in containers(rendered) if one["name"] != "test"]
    for container in roles:
        assert "command" not in container  # the image knows what to start
        command, *arguments = container["args"]
        assert isinstance(PROGRAM, TyperGroup)
        PROGRAM.commands[command].make_context(command, arguments)  # raises on an option that does not exist


def test_the_program_takes_the_settings(rendered: Rendered, tmp_path: Path) -> None:
    file = tmp_path / "controller.yaml"
    file.write_text(rendered.settings(), encoding="utf-8")
    settings = load_settings(file, {}, ()).settings
    if not rendered.has("Deployment", "fleet-controller"):
        assert rendered.settings().strip() == "{}"
        return
    role = rendered.one("Role", "fleet-lease")
    (named,) = (rule for rule in role["rules"] if "resourceNames" in rule)
    assert [settings.leader_election.resource_name] == named["resourceNames"]
    assert settings.leader_election.resource_namespace == role["metadata"]["namespace"]


def test_the_program_takes_the_environment(rendered: Rendered) -> None:
    for container in containers(rendered):
        environ = {one["name"]: one.get("value", "postgresql://fleet@db/history") for one in container.get("env", ())}
        assert load_settings(None, environ, ()).origins["history.url"] in ("env:FLEET_HISTORY__URL", "default")


def test_profiles_become_a_document_beside_the_settings(helm: Helm, tmp_path: Path) -> None:
    profiles = [
        {"schedulerName": "mine", "plugins": {"score": {"enabled": [{"name": "ClusterAffinity", "weight": 1000000}]}}}
    ]
    rendered = helm.template(
        "--set",
        "settings.queue.maxDelay=30s,settings.maxFleetSize=1000000",
        "--set-json",
        f"profiles={json.dumps(profiles)}",
    )
    data = rendered.one("ConfigMap", "fleet-settings")["data"]
    file = tmp_path / "config.yaml"
    file.write_text(data["config.yaml"], encoding="utf-8")
    settings = load_settings(file, {}, ()).settings

    assert (settings.queue.max_delay, settings.max_fleet_size) == ("30s", 1000000)
    assert [profile.scheduler_name for profile in settings.profiles] == ["mine"]
    assert settings.profiles[0].plugins["score"].enabled[0].weight == 1000000
    assert load_settings_of(data["controller.yaml"], tmp_path) == settings.model_copy(update={"profiles": ()})
    for name in ("fleet-controller", "fleet-api"):
        assert "--config=/etc/fleet/config.yaml" in rendered.container("Deployment", name)["args"]


def test_what_comes_from_outside_is_in_the_document_and_may_be_read(helm: Helm, tmp_path: Path) -> None:
    parts = {
        "extenders": [{"name": "budget", "urlPrefix": "${URL}", "filterVerb": "filter"}],
        "feeds": [{"name": "prices", "configMap": {"namespace": "shop", "name": "prices"}}],
        "substitution": {"fromSecret": ["outside", "shop/more"]},
    }
    rendered = helm.template(*(f"--set-json={name}={json.dumps(part)}" for name, part in parts.items()))
    file = tmp_path / "config.yaml"
    file.write_text(rendered.one("ConfigMap", "fleet-settings")["data"]["config.yaml"], encoding="utf-8")
    effective = load_settings(file, {}, ())

    assert [extender.name for extender in effective.settings.extenders] == ["budget"]
    assert [feed.name for feed in effective.settings.feeds] == ["prices"]
    assert effective.secret_names == ("outside", "shop/more")
    roles = [one for one in rendered.of("Role") if one["metadata"]["name"] == "fleet-outside"]
    allowed = {
        (role["metadata"]["namespace"], rule["resources"][0], rule["resourceNames"][0], *rule["verbs"])
        for role in roles
        for rule in role["rules"]
    }
    assert allowed == {
        ("shop", "configmaps", "prices", "get"),
        ("shop", "secrets", "more", "get"),
        ("fleet-system", "secrets", "outside", "get"),
    }
    bound = [one for one in rendered.of("RoleBinding") if one["metadata"]["name"] == "fleet-outside"]
    assert {one["metadata"]["namespace"] for one in bound} == {"shop", "fleet-system"}
    for one in bound:
        assert {subject["name"] for subject in one["subjects"]} == {"fleet-controller", "fleet-api"}


def load_settings_of(text: str, folder: Path) -> Settings:
    file = folder / "controller.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, {}, ()).settings


def test_settings_are_handed_on(helm: Helm, tmp_path: Path) -> None:
    chosen = "settings.queue.maxDelay=30s", "settings.workers=7", "settings.selection.skippedNamespaces={a,b}"
    file = tmp_path / "controller.yaml"
    file.write_text(helm.with_values(*chosen).settings(), encoding="utf-8")
    settings = load_settings(file, {}, ()).settings
    assert (settings.queue.max_delay, settings.workers) == ("30s", 7)
    assert settings.selection.skipped_namespaces == ("a", "b")


def test_a_change_of_a_setting_restarts_the_pods(helm: Helm) -> None:
    before, after = (helm.with_values(f"settings.workers={count}") for count in (7, 8))
    for name in ("fleet-controller", "fleet-api"):
        old, new = (one.one("Deployment", name)["spec"]["template"]["metadata"] for one in (before, after))
        assert old["annotations"]["checksum/settings"] != new["annotations"]["checksum/settings"]
        assert old["labels"] == new["labels"]


def test_a_pod_may_take_as_long_to_end_as_the_settings_say(helm: Helm) -> None:
    def seconds(*values: str) -> Any:
        return helm.with_values(*values).pod("Deployment", "fleet-controller")["terminationGracePeriodSeconds"]

    assert seconds() == 45
    assert seconds("settings.shutdown.gracePeriod=1m30s") == 105
    assert (
        helm.template("--set-string", "settings.shutdown.gracePeriod=0").pod("Deployment", "fleet-controller")[
            "terminationGracePeriodSeconds"
        ]
        == 15
    )


def test_only_the_scheduler_runs_where_another_controller_serves_placements(helm: Helm) -> None:
    rendered = helm.combination("scheduler-only")
    assert "--controllers=scheduler" in rendered.container("Deployment", "fleet-controller")["args"]
    assert "resourceName: fleet-scheduler\n" in rendered.settings()
    assert not helm.template("--set", "mode=scheduler-only", with_definitions=True).of("CustomResourceDefinition")


# --- the history ------------------------------------------------------------------------------------------------------


def test_one_volume_is_shared_on_one_node(helm: Helm) -> None:
    rendered = helm.combination("default")
    terms = []
    for name in ("fleet-controller", "fleet-api"):
        pod = rendered.pod("Deployment", name)
        assert {"name": "history", "persistentVolumeClaim": {"claimName": "fleet-history"}} in pod["volumes"]
        terms += pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms[0] == terms[1]  # neither has to be there first
    assert terms[0]["topologyKey"] == "kubernetes.io/hostname"


def test_who_shares_a_volume_leaves_before_its_successor_comes(helm: Helm) -> None:
    """One that waited for it would bind it to a node where it may not fit, or not be wanted any more."""
    names = ("fleet-controller", "fleet-api")
    rendered = helm.combination("default")
    assert [rendered.one("Deployment", name)["spec"]["strategy"]["type"] for name in names] == ["Recreate"] * 2
    rendered = helm.with_values("history.sqlite.persistence.enabled=false")
    assert [rendered.one("Deployment", name)["spec"]["strategy"]["type"] for name in names] == [
        "Recreate",
        "RollingUpdate",
    ]


def test_an_affinity_of_ones_own_is_kept_beside(helm: Helm) -> None:
    chosen = "controller.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=zone"
    own, added = helm.with_values(chosen).pod("Deployment", "fleet-controller")["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert (own["topologyKey"], added["topologyKey"]) == ("zone", "kubernetes.io/hostname")


def test_without_a_volume_the_api_has_no_history(helm: Helm) -> None:
    rendered = helm.with_values("history.sqlite.persistence.enabled=false")
    volume = {"name": "history", "emptyDir": {"sizeLimit": "4Gi"}}
    assert volume in rendered.pod("Deployment", "fleet-controller")["volumes"]
    assert "env" not in rendered.container("Deployment", "fleet-api")
    assert "affinity" not in rendered.pod("Deployment", "fleet-api")
    assert not rendered.of("PersistentVolumeClaim")


def test_an_existing_claim_is_used_and_not_made(helm: Helm) -> None:
    rendered = helm.combination("existing-claim")
    volume = {"name": "history", "persistentVolumeClaim": {"claimName": "decisions"}}
    assert volume in rendered.pod("Deployment", "fleet-controller")["volumes"]
    assert not rendered.of("PersistentVolumeClaim")


def test_a_file_is_migrated_by_the_pod_that_writes_it(helm: Helm) -> None:
    (first,) = helm.combination("default").pod("Deployment", "fleet-controller")["initContainers"]
    assert (first["args"], first["env"]) == (
        ["migrate", "--best-effort"],
        [{"name": "FLEET_HISTORY__URL", "value": "sqlite:////var/lib/fleet/history.sqlite"}],
    )


def test_a_database_is_migrated_before_anything_else(helm: Helm) -> None:
    rendered = helm.combination("ha-postgresql")
    job = rendered.one("Job", "fleet-migrate")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    account = rendered.one("ServiceAccount", job["spec"]["template"]["spec"]["serviceAccountName"])
    weights = [int(one["metadata"]["annotations"]["helm.sh/hook-weight"]) for one in (account, job)]
    assert weights == sorted(weights)
    assert len(set(weights)) == 2
    (volume,) = job["spec"]["template"]["spec"]["volumes"]  # nothing else is there yet
    assert volume == {"name": "tmp", "emptyDir": {"sizeLimit": "512Mi"}}
    assert not helm.template(
        "--values", str(CHART / "ci" / "ha-postgresql.yaml"), "--set", "migration.enabled=false"
    ).of("Job")


def test_a_migration_runs_where_the_controller_may_run(helm: Helm) -> None:
    rendered = helm.template(
        *("--values", str(CHART / "ci" / "ha-postgresql.yaml")),
        *("--set", "controller.tolerations[0].operator=Exists,controller.nodeSelector.pool=hub,commonLabels.team=a"),
    )
    migrating, deciding = rendered.pod("Job", "fleet-migrate"), rendered.pod("Deployment", "fleet-controller")
    for field in ("nodeSelector", "tolerations"):
        assert migrating[field] == deciding[field]
    assert rendered.one("Job", "fleet-migrate")["spec"]["template"]["metadata"]["labels"]["team"] == "a"


def test_an_authority_of_the_database_is_known_to_all_who_speak_to_it(helm: Helm) -> None:
    rendered = helm.template(
        *("--values", str(CHART / "ci" / "ha-postgresql.yaml")),
        *("--set", "history.postgresql.authoritySecret=authority,history.postgresql.authorityKey=root.pem"),
    )
    volume = {"secretName": "authority", "items": [{"key": "root.pem", "path": "ca.crt"}]}
    for kind, name in (("Deployment", "fleet-controller"), ("Deployment", "fleet-api"), ("Job", "fleet-migrate")):
        container = rendered.container(kind, name)
        assert {"name": "database", "secret": volume} in rendered.pod(kind, name)["volumes"]
        (mounted,) = (one["mountPath"] for one in container["volumeMounts"] if one["name"] == "database")
        assert {"name": "PGSSLROOTCERT", "value": f"{mounted}/ca.crt"} in container["env"]


def test_no_history_needs_nothing(helm: Helm) -> None:
    rendered = helm.combination("no-history")
    assert not rendered.of("PersistentVolumeClaim") + rendered.of("Job")
    assert all("env" not in container for container in containers(rendered))


# --- several replicas -------------------------------------------------------------------------------------------------


def test_replicas_keep_apart_and_are_not_all_away_at_once(helm: Helm) -> None:
    rendered = helm.combination("ha-postgresql")
    for name in ("fleet-controller", "fleet-api"):
        keys = [one["topologyKey"] for one in rendered.pod("Deployment", name)["topologySpreadConstraints"]]
        assert keys == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        assert rendered.one("PodDisruptionBudget", name)["spec"]["maxUnavailable"] == 1
        strategy = rendered.one("Deployment", name)["spec"]["strategy"]
        assert strategy["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_one_replica_has_nothing_that_would_block_a_drain(helm: Helm) -> None:
    rendered = helm.combination("default")
    assert not rendered.of("PodDisruptionBudget")
    assert "topologySpreadConstraints" not in rendered.pod("Deployment", "fleet-controller")


# --- reaching the API -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [f"fleet-api.{NAMESPACE}.svc", "localhost", "fleet.example.com", "10.1.2.3", "fd00::7"]
)
def test_a_generated_certificate_is_good_for_the_api(helm: Helm, tmp_path: Path, name: str) -> None:
    chosen = "api.tls.dnsNames={fleet.example.com,10.1.2.3,fd00::7}"
    data = helm.with_values(chosen).one("Secret", "fleet-api-tls")["data"]
    for file in ("tls.crt", "tls.key"):
        (tmp_path / file).write_bytes(b64decode(data[file]))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cadata=b64decode(data["ca.crt"]).decode())
    shake_hands(client, server, name)  # raises if the name, the times or the signature are wrong


def test_a_generated_certificate_is_kept_for_its_names_and_its_addresses(helm: Helm) -> None:
    """One whose addresses were names is made anew."""

    def said(*values: str) -> Json:
        found: Json = helm.with_values(*values).one("Secret", "fleet-api-tls")["metadata"]["annotations"]
        return found

    assert said().keys() == {"fleet/names"}
    with_addresses = said("api.tls.dnsNames={10.1.2.3,fd00::7,fleet.example.com,10.1.2.3}")
    assert with_addresses.pop("fleet/addresses") == '["10.1.2.3","fd00::7"]'
    assert with_addresses == said("api.tls.dnsNames={fleet.example.com}") != said()


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(back, there, server_hostname=name), server.wrap_bio(there, back, server_side=True))
    for end in ends * 3:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert ends[0].version()


def test_plain_http_is_asked_for_and_told_to_everybody(helm: Helm) -> None:
    for combination in ("plain-http-ingress", "gateway"):
        rendered = helm.combination(combination)
        container = rendered.container("Deployment", "fleet-api")
        assert "--plain-http" in container["args"]
        assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTP"
        (port,) = rendered.one("Service", "fleet-api")["spec"]["ports"]
        assert (port["name"], port["appProtocol"]) == ("http", "http")
        assert not rendered.of("Secret")


def test_ways_in_lead_to_the_service(helm: Helm) -> None:
    (rule,) = helm.combination("plain-http-ingress").one("Ingress", "fleet-api")["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": "fleet-api", "port": {"name": "http"}}
    (rule,) = helm.combination("gateway").one("HTTPRoute", "fleet-api")["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": "fleet-api", "port": 443}]


def test_without_the_api_nothing_of_it_is_left(helm: Helm) -> None:
    rendered = helm.with_values("api.enabled=false", "api.ingress.enabled=true", "api.ingress.hosts={a.example}")
    parts = {one["metadata"]["labels"]["app.kubernetes.io/component"] for one in rendered.manifests}
    assert not {"api", "api-tls"} & parts
    assert "affinity" not in rendered.pod("Deployment", "fleet-controller")


# --- what somebody else has -------------------------------------------------------------------------------------------


def test_the_namespace_of_the_lease_is_made_where_it_is_another(helm: Helm) -> None:
    rendered = helm.template(namespace="elsewhere")
    kept = rendered.one("Namespace", "fleet-system")["metadata"]["annotations"]["helm.sh/resource-policy"]
    assert kept == "keep"
    assert not helm.template(namespace="fleet-system").of("Namespace")
    assert not helm.template("--set", "leaderElection.createNamespace=false", namespace="elsewhere").of("Namespace")


def notes_of(helm: Helm, *options: str) -> str:
    chosen = ("install", "fleet", str(CHART), "--namespace", NAMESPACE, "--dry-run=client", "--hide-secret", *options)
    done = helm.run(*chosen)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]


def test_the_notes_tell_what_to_do_next(helm: Helm) -> None:
    notes = notes_of(helm)
    assert "kubectl --namespace fleet-system rollout status deployment/fleet-controller" in notes
    assert "with your kubeconfig and nothing else:\n\n  kubectl fleet why PLACEMENT\n" in notes
    assert "  kubectl fleet why-not CLUSTER PLACEMENT\n" in notes
    assert "token" not in notes.partition("Note:")[0]
    assert "Secrets included" in notes
    for file in re.findall(r"kubectl apply -f (\S+)\n", notes):
        assert (ROOT / file).is_file()


def test_the_notes_tell_the_long_way_where_the_api_server_has_no_part_in_it(helm: Helm) -> None:
    notes = notes_of(helm, "--set", "api.aggregation.enabled=false")
    assert "export FLEET_API=https://localhost:8090 FLEET_TOKEN_FILE=token\n" in notes
    assert "use the API:\n\n  kubectl --namespace fleet-system port-forward service/fleet-api 8090:443 &\n" in notes


def test_the_notes_trust_the_generated_certificate_for_the_one_command(helm: Helm) -> None:
    notes = notes_of(helm, "--set", "api.aggregation.enabled=false")
    assert "  SSL_CERT_FILE=ca.crt fleet why PLACEMENT\n" in notes
    assert "  SSL_CERT_FILE=ca.crt fleet why-not CLUSTER PLACEMENT\n" in notes
    assert "export SSL_CERT_FILE" not in notes


@pytest.mark.parametrize(
    "way",
    [
        "api.ingress.enabled=true,api.ingress.hosts={*.example.com,fleet.example.com}",
        "api.httpRoute.enabled=true,api.httpRoute.hostnames={fleet.example.com},api.httpRoute.parentRefs[0].name=public",
    ],
    ids=["Ingress", "HTTPRoute"],
)
def test_the_notes_name_the_host_that_a_certificate_of_ones_own_is_for(helm: Helm, way: str) -> None:
    chosen = ("--values", str(CHART / "ci" / "tls-secret.yaml"))
    notes = notes_of(helm, *chosen, "--set", way)
    assert "export FLEET_API=https://fleet.example.com FLEET_TOKEN_FILE=token\n  fleet why PLACEMENT\n" in notes
    assert "use the API:\n\n  kubectl create token SERVICE-ACCOUNT > token\n" in notes
    assert "export FLEET_API=https://localhost:8090 " in notes_of(helm, *chosen)
    assert "port-forward" in notes_of(helm, *chosen)


def test_a_migration_ends_before_helm_stops_waiting_for_it(helm: Helm) -> None:
    waits = re.search(r"--timeout duration .*\(default (\d+)m0s\)", helm.run("install", "--help").stdout)
    assert waits
    seconds = helm.combination("ha-postgresql").one("Job", "fleet-migrate")["spec"]["activeDeadlineSeconds"]
    assert seconds < int(waits[1]) * 60
