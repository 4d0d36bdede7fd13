"""Pods are restricted, rights are those that are used, and secrets are nowhere but in Secrets."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from typing import Any, Final

import pytest
import yaml

from fleet.model.catalog import CATALOG
from tests.chart.helm import CHART, COMBINATIONS, NAMESPACE, Helm, Json, Rendered
from tests.chart.pod_security import complaints_about
from tests.control_plane.sharing import ROOT

CLUSTER: Final = "cluster.kubernetes-fleet.io"
PLACEMENT: Final = "placement.kubernetes-fleet.io"
SCHEDULING: Final = "scheduling.fleet.dev"
QUOTAS: Final = "placementquotas clusterplacementquotas"
GROUPS: Final = "placementgroups clusterplacementgroups"
COMPANIONS: Final = "placementoptions clusterplacementoptions placementapprovals clusterplacementapprovals"
HOLDING_CONTENT: Final = {
    "appliedworks",
    "clusterresourceenvelopes",
    "clusterresourcesnapshots",
    "resourceenvelopes",
    "resourcesnapshots",
    "works",
}
"""Kinds with copies of what is placed, which may be Secrets."""

Rights = set[tuple[str, str, str]]


@pytest.fixture(params=COMBINATIONS)
def rendered(helm: Helm, request: pytest.FixtureRequest) -> Rendered:
    """Each documented combination."""
    return helm.combination(request.param)


# --- pods -------------------------------------------------------------------------------------------------------------


def test_every_pod_is_restricted(rendered: Rendered) -> None:
    assert {name: complaints_about(template) for name, template in rendered.pods()} == {
        name: [] for name, _ in rendered.pods()
    }


def containers_of(template: Json) -> list[Json]:
    return [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]]


def test_every_container_has_a_read_only_root_and_limits_of_memory_and_disk(rendered: Rendered) -> None:
    for _, template in rendered.pods():
        for one in containers_of(template):
            assert one["securityContext"]["readOnlyRootFilesystem"] is True
            assert {"cpu", "memory"} <= one["resources"]["requests"].keys()
            assert {"memory", "ephemeral-storage"} <= one["resources"]["limits"].keys()


def test_no_pod_waits_for_a_node_with_free_disk(rendered: Rendered) -> None:
    """Without a request of its own, a container would request its limit."""
    for _, template in rendered.pods():
        for one in containers_of(template):
            assert one["resources"]["requests"]["ephemeral-storage"] == "0"


def test_every_volume_on_the_disk_of_the_node_has_a_limit(helm: Helm, rendered: Rendered) -> None:
    without_volume = helm.with_values("history.sqlite.persistence.enabled=false")
    for one in (rendered, without_volume):
        volumes = [volume for _, template in one.pods() for volume in template["spec"]["volumes"]]
        assert {len(volume["emptyDir"]) for volume in volumes if "emptyDir" in volume} == {1}
        assert {volume["emptyDir"]["sizeLimit"] for volume in volumes if volume["name"] == "tmp"} == {"512Mi"}


def test_a_history_in_the_pod_is_limited_by_its_volume_alone(helm: Helm) -> None:
    rendered = helm.with_values("history.sqlite.persistence.enabled=false")
    pod = rendered.pod("Deployment", "fleet-controller")
    (volume,) = (one for one in pod["volumes"] if one["name"] == "history")

    assert volume["emptyDir"] == {"sizeLimit": "4Gi"}
    assert all("ephemeral-storage" not in one["resources"]["limits"] for one in containers_of({"spec": pod}))
    assert rendered.container("Deployment", "fleet-api")["resources"]["limits"]["ephemeral-storage"] == "1Gi"


def test_only_who_needs_a_token_has_one(rendered: Rendered) -> None:
    tokens = {name: template["spec"]["automountServiceAccountToken"] for name, template in rendered.pods()}
    assert tokens.pop("Job fleet-migrate", False) is False
    assert tokens.pop("Pod fleet-test") is False
    assert tokens == {f"Deployment {one['metadata']['name']}": True for one in rendered.of("Deployment")}
    assert tokens.keys() <= {"Deployment fleet-controller", "Deployment fleet-api", f"Deployment {OPERATOR}"}
    assert all(one["automountServiceAccountToken"] is False for one in rendered.of("ServiceAccount"))


def a_restricted_pod() -> Json:
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "metadata": {},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "app", "securityContext": context}],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }


def test_a_restricted_pod_is_fine() -> None:
    assert complaints_about(a_restricted_pod()) == []


@pytest.mark.parametrize(
    "path, value, complaint",
    [
        (("securityContext", "windowsOptions"), {"hostProcess": True}, "the pod is a process of the host"),
        (("hostNetwork",), True, "the pod has hostNetwork"),
        (("containers", 0, "securityContext", "privileged"), True, "app is privileged"),
        (("containers", 0, "ports"), [{"containerPort": 1, "hostPort": 1}], "app takes a port of the host"),
        (("containers", 0, "livenessProbe"), {"httpGet": {"host": "other"}}, "app has another host asked"),
        (("securityContext", "appArmorProfile"), {"type": "Unconfined"}, "the pod has no AppArmor profile"),
        (("securityContext", "seLinuxOptions"), {"type": "spc_t"}, "the pod changes its SELinux context"),
        (("containers", 0, "securityContext", "procMount"), "Unmasked", "app mounts /proc unmasked"),
        (("securityContext", "sysctls"), [{"name": "kernel.sem"}], "the pod sets kernel.sem"),
        (("volumes", 0), {"name": "tmp", "hostPath": {}}, "volume tmp is a hostPath"),
        (("containers", 0, "securityContext", "allowPrivilegeEscalation"), True, "app may escalate"),
        (("securityContext", "runAsNonRoot"), False, "app may run as root"),
        (("containers", 0, "securityContext", "runAsUser"), 0, "app is root"),
        (("securityContext", "seccompProfile"), {"type": "Unconfined"}, "app has no seccomp profile"),
        (("containers", 0, "securityContext", "capabilities"), {}, "app keeps capabilities"),
        (("containers", 0, "securityContext", "capabilities", "add"), ["SYS_ADMIN"], "app adds SYS_ADMIN"),
    ],
)
def test_a_pod_that_is_not_restricted_is_complained_about(
    path: tuple[str | int, ...], value: object, complaint: str
) -> None:
    pod = deepcopy(a_restricted_pod())
    inner: Any = pod["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert complaints_about(pod) == [complaint]


# --- rights -----------------------------------------------------------------------------------------------------------

ROLES: Final = ("ClusterRole", "ClusterRoleBinding")
OPERATOR: Final = "fleet-operator"
SECONDARY: Final = "secondary-scheduler"


def rights_of(role: Json) -> Rights:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def on(group: str, resources: str, verbs: str) -> Rights:
    return {(group, resource, verb) for resource in resources.split() for verb in verbs.split()}


DECIDING: Final = (
    on(CLUSTER, "memberclusters", "list watch")
    | on(PLACEMENT, "clusterresourceplacements resourceplacements", "get list watch update")
    | on(PLACEMENT, "clusterresourcebindings resourcebindings", "get list watch create patch delete")
    | on(PLACEMENT, "clusterschedulingpolicysnapshots schedulingpolicysnapshots", "get list watch")
    | on(PLACEMENT, "clusterschedulingpolicysnapshots/status schedulingpolicysnapshots/status", "update")
    | on(SCHEDULING, "placementoptions clusterplacementoptions", "get list watch create")
    | on(SCHEDULING, "placementoptions/status clusterplacementoptions/status", "update")
    | on(SCHEDULING, "placementapprovals clusterplacementapprovals", "list watch delete")
    | on(SCHEDULING, QUOTAS, "get list watch")
    | on(SCHEDULING, "placementquotas/status clusterplacementquotas/status", "update")
    | on(SCHEDULING, GROUPS, "get list watch")
    | on(SCHEDULING, "placementgroups/status clusterplacementgroups/status", "update")
    | on(SCHEDULING, "clusterreservations", "get list watch create update delete")
    | on(PLACEMENT, "clusterresourceplacementdisruptionbudgets", "list watch")
    | on("scheduling.k8s.io", "priorityclasses", "list watch")
    | on("", "events", "create patch")
)
PLACING: Final = (
    on(PLACEMENT, "clusterresourceplacements/status resourceplacements/status", "update")
    | on(PLACEMENT, "clusterresourceplacements/finalizers resourceplacements/finalizers", "update")
    | on(
        PLACEMENT,
        "clusterschedulingpolicysnapshots schedulingpolicysnapshots",
        "create update delete deletecollection",
    )
    | on(
        PLACEMENT,
        "clusterresourcesnapshots resourcesnapshots",
        "get list watch create patch delete deletecollection",
    )
    | on(PLACEMENT, "clusterresourceplacementstatuses", "get list watch create update")
    | on(PLACEMENT, "clusterstagedupdateruns stagedupdateruns", "list")
    | on(PLACEMENT, "clusterresourceoverrides resourceoverrides", "list watch")
    | on("apiextensions.k8s.io", "customresourcedefinitions", "list watch")
    | on("", "namespaces", "list watch")
)


def test_the_controller_may_do_what_it_does(helm: Helm) -> None:
    role = helm.combination("default").one("ClusterRole", "fleet-controller")
    assert rights_of(role) == DECIDING | PLACING | on("*", "*", "list watch")


def test_the_scheduler_alone_may_do_less(helm: Helm) -> None:
    assert rights_of(helm.combination("scheduler-only").one("ClusterRole", "fleet-controller")) == DECIDING


def test_what_may_be_selected_can_be_limited(helm: Helm) -> None:
    role = helm.combination("restricted-selectable").one("ClusterRole", "fleet-controller")
    selectable = on("apps", "deployments", "list watch") | on("", "services configmaps", "list watch")
    assert rights_of(role) == DECIDING | PLACING | selectable


def test_secrets_can_be_taken_out_of_what_may_be_selected(helm: Helm) -> None:
    rendered = helm.combination("secrets-not-selectable")
    rights = rights_of(rendered.one("ClusterRole", "fleet-controller"))

    assert not any(group in ("*", "") and resource in ("*", "secrets") for group, resource, _ in rights)
    assert on("", "configmaps services serviceaccounts persistentvolumeclaims", "list watch") <= rights
    assert on("apps", "*", "list watch") | on("rbac.authorization.k8s.io", "*", "list watch") <= rights
    assert on(PLACEMENT, "clusterresourceenvelopes resourceenvelopes", "list watch") <= rights
    assert not any((group, resource) == (PLACEMENT, "*") for group, resource, _ in rights)
    assert yaml.safe_load(rendered.settings())["selection"] == {"secrets": False}


@pytest.mark.parametrize(
    "selectable, rights",
    [
        ([(["apps"], ["*"])], on("apps", "*", "list watch")),
        ([([""], ["configmaps", "secrets"])], on("", "configmaps", "list watch")),
        ([([""], ["secrets"])], set()),
        ([(["*"], ["services", "secrets"])], on("", "services", "list watch") | on("apps", "services", "list watch")),
    ],
    ids=["other group", "named", "nothing else", "named in every group"],
)
def test_rules_without_secrets_keep_the_rest(
    helm: Helm, selectable: list[tuple[list[str], list[str]]], rights: Rights
) -> None:
    rules = [{"apiGroups": groups, "resources": resources} for groups, resources in selectable]
    chosen = "--set-json", f"rbac.selectable={json.dumps(rules)}", "--set", "rbac.selectableSecrets=false"
    found = rights_of(helm.template(*chosen).one("ClusterRole", "fleet-controller"))

    assert rights <= found
    assert not any(resource == "secrets" for _, resource, _ in found)
    assert ("", "*", "list") not in found


def test_only_its_own_lease_may_be_changed(helm: Helm) -> None:
    role = helm.combination("default").one("Role", "fleet-lease")
    assert rights_of(role) == on("coordination.k8s.io", "leases", "create get update watch")
    for rule in role["rules"]:
        assert rule["verbs"] == ["create"] or rule["resourceNames"] == ["136224848560.hub.fleet.azure.com"]


def test_the_api_may_read_and_ask_who_may(helm: Helm) -> None:
    kinds = (
        "clusterresourceplacements resourceplacements clusterresourcebindings resourcebindings "
        "clusterschedulingpolicysnapshots schedulingpolicysnapshots"
    )
    assert rights_of(helm.combination("default").one("ClusterRole", "fleet-api")) == (
        on(CLUSTER, "memberclusters", "list watch")
        | on(PLACEMENT, kinds, "list watch")
        | on(SCHEDULING, f"{COMPANIONS} {QUOTAS} {GROUPS}", "list watch")
        | on(PLACEMENT, "clusterresourceplacementdisruptionbudgets", "list watch")
        | on("scheduling.k8s.io", "priorityclasses", "list watch")
        | on(SCHEDULING, "placementapprovals clusterplacementapprovals", "get create")
        | on(SCHEDULING, "placementoptions clusterplacementoptions", "patch")
        | on("", "events", "list")
        | on("authentication.k8s.io", "tokenreviews", "create")
        | on("authorization.k8s.io", "subjectaccessreviews", "create")
    )


def test_nothing_is_granted_without_a_name_but_what_may_be_selected(rendered: Rendered) -> None:
    for role in [*rendered.of("ClusterRole"), *rendered.of("Role")]:
        wild = {right for right in rights_of_named(role) if "*" in right}
        if role["metadata"]["name"] == "fleet-ask":
            assert wild == on("explain.fleet", "*", "get list watch create")
            continue
        assert {verb for *_, verb in wild} <= {"list", "watch"}
        assert not wild or role["metadata"]["name"] == "fleet-controller"


def rights_of_named(role: Json) -> Rights:
    return rights_of({"rules": [rule for rule in role["rules"] if "resources" in rule]})


def test_accounts_are_bound_to_their_own_roles_only(rendered: Rendered) -> None:
    everyone = {"fleet-ask"}
    bindings = [
        one
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for one in rendered.of(kind)
        if one["metadata"]["name"] not in everyone
    ]
    bound = {
        (subject["name"], one["roleRef"]["kind"], one["roleRef"]["name"])
        for one in bindings
        for subject in one["subjects"]
    }
    deciding = {
        ("fleet-controller", "ClusterRole", "fleet-controller"),
        ("fleet-controller", "Role", "fleet-lease"),
    }
    aggregated = {("fleet-api", "Role", "extension-apiserver-authentication-reader")}
    operating = {
        (OPERATOR, "Role", OPERATOR),
        (OPERATOR, "ClusterRole", f"{OPERATOR}-{NAMESPACE}"),
        (SECONDARY, "ClusterRole", f"{SECONDARY}-{NAMESPACE}"),
        (SECONDARY, "Role", f"{SECONDARY}-leases"),
    }
    assert bound == (
        {("fleet-api", "ClusterRole", "fleet-api")}
        | (deciding if rendered.has("Deployment", "fleet-controller") else set())
        | (aggregated if rendered.has("APIService", "v1.explain.fleet") else set())
        | (operating if rendered.has("Deployment", OPERATOR) else set())
    )
    assert all(subject["namespace"] == NAMESPACE for one in bindings for subject in one["subjects"])


def test_the_scheduler_of_the_operator_may_do_what_a_scheduler_does(helm: Helm) -> None:
    rendered = helm.combination("operator")
    assert rights_of(rendered.one("ClusterRole", f"{SECONDARY}-{NAMESPACE}")) == DECIDING


def test_without_roles_the_operator_has_none(helm: Helm) -> None:
    rendered = helm.with_values("operator.enabled=true", "rbac.create=false")
    assert rendered.has("Deployment", OPERATOR)
    assert not [each for kind in ROLES for each in rendered.of(kind) if NAMESPACE in each["metadata"]["name"]]
    assert not any(rendered.has("Role", name) for name in (OPERATOR, f"{SECONDARY}-leases"))


# --- beside KubeFleet -------------------------------------------------------------------------------------------------


READS: Final = {"get", "list", "watch"}
ASKING: Final = (
    on("authentication.k8s.io", "tokenreviews", "create")
    | on("authorization.k8s.io", "subjectaccessreviews", "create")
    | on("explain.fleet", "*", "create")
)
"""Creates that store nothing: reviews of the caller, and questions with a body."""


def test_explaining_alone_grants_no_right_to_write(helm: Helm) -> None:
    rendered = helm.combination("explain-only")
    roles = [*rendered.of("ClusterRole"), *rendered.of("Role")]
    writing = {right for role in roles for right in rights_of_named(role) if right[2] not in READS}
    asked = {
        (path, verb)
        for role in roles
        for rule in role["rules"]
        for path in rule.get("nonResourceURLs", ())
        for verb in rule["verbs"]
        if verb not in READS
    }
    referred = {one["roleRef"]["name"] for kind in ("ClusterRoleBinding", "RoleBinding") for one in rendered.of(kind)}

    assert writing == ASKING
    assert asked == {("/fleet/v1/replay", "post"), ("/fleet/v1/simulate", "post")}
    assert referred == {"fleet-api", "fleet-ask", "extension-apiserver-authentication-reader"}


def test_explaining_alone_brings_the_api_and_nothing_that_decides(helm: Helm) -> None:
    rendered = helm.template("--values", str(CHART / "ci" / "explain-only.yaml"), with_definitions=True)
    kinds = {one["kind"] for one in rendered.manifests}

    assert [one["metadata"]["name"] for one in rendered.of("Deployment")] == ["fleet-api"]
    assert kinds.isdisjoint({"CustomResourceDefinition", "Namespace", "PersistentVolumeClaim", "Job", "Role"})
    assert "--explain-only" in rendered.container("Deployment", "fleet-api")["args"]
    assert not any("lease" in one["metadata"]["name"] for one in rendered.manifests)


def test_the_api_server_is_told_the_authority_of_the_certificate(helm: Helm) -> None:
    generated = helm.combination("default")
    own = ("--values", str(CHART / "ci" / "tls-secret.yaml"))
    trusted = helm.template(*own, "--set", "api.aggregation.caBundle=PEM")
    injected = helm.template(*own, "--set", "api.aggregation.annotations.inject=here")

    assert (
        generated.one("APIService", "v1.explain.fleet")["spec"]["caBundle"]
        == generated.one("Secret", "fleet-api-tls")["data"]["ca.crt"]
    )
    assert trusted.one("APIService", "v1.explain.fleet")["spec"]["caBundle"] == base64.b64encode(b"PEM").decode()
    assert injected.one("APIService", "v1.explain.fleet")["metadata"]["annotations"] == {"inject": "here"}
    assert "--aggregated" in trusted.container("Deployment", "fleet-api")["args"]


@pytest.mark.parametrize(
    "options",
    [
        ("--values", str(CHART / "ci" / "tls-secret.yaml")),
        ("--values", str(CHART / "ci" / "plain-http-ingress.yaml")),
        ("--set", "api.aggregation.enabled=false"),
        ("--set", "api.enabled=false"),
    ],
    ids=["unknown authority", "no TLS", "turned off", "no API"],
)
def test_without_tls_that_can_be_verified_there_is_no_api_service(helm: Helm, options: tuple[str, str]) -> None:
    """One that never becomes available would disturb discovery and the deletion of namespaces."""
    rendered = helm.template(*options)

    assert not rendered.of("APIService")
    assert not rendered.has("ClusterRole", "fleet-ask")
    assert "--aggregated" not in str(rendered.of("Deployment"))


def test_groups_that_may_ask_are_chosen(helm: Helm) -> None:
    chosen = helm.with_values("api.aggregation.groups={team-a,team-b}").one("ClusterRoleBinding", "fleet-ask")

    assert [one["name"] for one in chosen["subjects"]] == ["team-a", "team-b"]
    nobody = helm.template("--set-json", "api.aggregation.groups=[]")
    assert not nobody.has("ClusterRoleBinding", "fleet-ask")
    assert nobody.has("ClusterRole", "fleet-ask")


def test_the_api_server_passes_a_restricted_network(helm: Helm) -> None:
    restricted = "networkPolicy.apiFrom[0].podSelector.matchLabels.a=b,tests.enabled=false"
    policy = helm.with_values(restricted, "networkPolicy.apiServer.cidrs={10.0.0.1/32}").one(
        "NetworkPolicy", "fleet-api"
    )
    _, proxied = policy["spec"]["ingress"]

    assert proxied == {"ports": [{"port": 8090}], "from": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}


def test_accounts_and_roles_may_be_somebody_elses(helm: Helm) -> None:
    rendered = helm.with_values(
        "rbac.create=false", "controller.serviceAccount.create=false", "controller.serviceAccount.name=mine"
    )
    assert rendered.pod("Deployment", "fleet-controller")["serviceAccountName"] == "mine"
    assert not any(rendered.of(kind) for kind in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"))
    assert [one["metadata"]["name"] for one in rendered.of("ServiceAccount")] == ["fleet-api"]


# --- people -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role, into", [("viewer", "view"), ("editor", "edit"), ("operator", "admin")])
def test_roles_of_people_become_part_of_those_they_have(helm: Helm, role: str, into: str) -> None:
    label = f"rbac.authorization.k8s.io/aggregate-to-{into}"
    assert helm.combination("default").one("ClusterRole", f"fleet-{role}")["metadata"]["labels"][label] == "true"
    alone = helm.with_values("rbac.aggregate=false").one("ClusterRole", f"fleet-{role}")
    assert label not in alone["metadata"]["labels"]


def test_viewers_see_every_kind_but_those_that_may_hold_secrets(helm: Helm) -> None:
    rights = rights_of(helm.combination("default").one("ClusterRole", "fleet-viewer"))
    kinds = {(one.group, one.plural) for one in CATALOG}
    assert {right[:2] for right in rights} == {one for one in kinds if one[1] not in HOLDING_CONTENT}
    assert {verb for *_, verb in rights} == {"get", "list", "watch"}


def test_people_may_have_rights_to_kinds_that_exist_only(helm: Helm) -> None:
    kinds = {(one.group, one.plural) for one in CATALOG}
    for role in ("editor", "operator"):
        found = rights_of_named(helm.combination("default").one("ClusterRole", f"fleet-{role}"))
        assert {(group, resource.partition("/")[0]) for group, resource, _ in found} <= kinds


def test_operators_may_ask_the_api_what_concerns_the_whole_fleet(helm: Helm) -> None:
    role = helm.combination("default").one("ClusterRole", "fleet-operator")
    granted = {
        (path, verb) for rule in role["rules"] for path in rule.get("nonResourceURLs", ()) for verb in rule["verbs"]
    }
    described = json.loads((ROOT / "api" / "openapi.json").read_text(encoding="utf-8"))["paths"]
    assert len(granted) == 5
    for path, verb in granted:
        assert verb in described[path.removeprefix("/fleet")]


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_the_url_of_the_database_is_nowhere_but_in_its_secret(helm: Helm) -> None:
    rendered = helm.combination("ha-postgresql")
    reference = {"name": "fleet-history", "key": "url"}
    for kind, name in (("Deployment", "fleet-controller"), ("Deployment", "fleet-api"), ("Job", "fleet-migrate")):
        (variable,) = rendered.container(kind, name)["env"]
        assert variable == {"name": "FLEET_HISTORY__URL", "valueFrom": {"secretKeyRef": reference}}
    assert "history" not in rendered.settings()


def test_the_network_is_open_for_what_is_needed(helm: Helm) -> None:
    rendered = helm.template(
        *("--set", "history.type=postgresql,history.postgresql.existingSecret=db"),
        *("--set", "tests.enabled=false"),
    )
    for name, port in (("fleet-controller", 8080), ("fleet-api", 8090)):
        spec = rendered.one("NetworkPolicy", name)["spec"]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert [one["port"] for rule in spec["ingress"] for one in rule["ports"]] == [port]
        outwards = [one["port"] for rule in spec["egress"] for one in rule["ports"]]
        assert outwards == [443, 6443, 53, 53, 5353, 5353, 5432]


def test_the_migration_reaches_names_and_the_database(helm: Helm) -> None:
    """Where the namespace closes everything, and before there is any other object of the release."""
    chosen = "history.type=postgresql", "history.postgresql.existingSecret=db"
    rendered = helm.with_values(*chosen, "networkPolicy.postgresql.cidrs={10.1.0.0/16}")
    policy, job = rendered.one("NetworkPolicy", "fleet-migrate"), rendered.one("Job", "fleet-migrate")
    pod = job["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod.items()
    names, database = policy["spec"]["egress"]
    asked = [(one["port"], one.get("protocol", "TCP")) for one in names["ports"]]
    assert asked == [(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")]
    assert database == {"ports": [{"port": 5432}], "to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}
    hooks = [one["metadata"]["annotations"] for one in (policy, job)]
    assert hooks[0]["helm.sh/hook"] == hooks[1]["helm.sh/hook"]
    assert int(hooks[0]["helm.sh/hook-weight"]) < int(hooks[1]["helm.sh/hook-weight"])
    assert not helm.with_values(*chosen, "networkPolicy.enabled=false").of("NetworkPolicy")


def test_more_egress_is_added_for_both_components(helm: Helm) -> None:
    rendered = helm.with_values("networkPolicy.extraEgress[0].ports[0].port=3128")
    for name in ("fleet-controller", "fleet-api"):
        assert rendered.one("NetworkPolicy", name)["spec"]["egress"][-1] == {"ports": [{"port": 3128}]}


def test_the_network_is_limited_by_default_and_open_for_every_port_that_is_served(helm: Helm) -> None:
    """Probes come from the node. The API server, Ingresses and Gateways may have any address."""
    rendered = helm.template("--set", "tests.enabled=false")
    served = {"fleet-controller": [{"ports": [{"port": 8080}]}], "fleet-api": [{"ports": [{"port": 8090}]}]}
    policies = {one["metadata"]["name"]: one["spec"] for one in rendered.of("NetworkPolicy")}

    assert {name: spec["ingress"] for name, spec in policies.items()} == served
    for name, spec in policies.items():
        labels = rendered.one("Deployment", name)["spec"]["template"]["metadata"]["labels"]
        assert spec["podSelector"]["matchLabels"].items() <= labels.items()


def test_the_network_can_be_limited_further(helm: Helm) -> None:
    rendered = helm.template("--values", str(CHART / "ci" / "monitoring.yaml"), "--set", "tests.enabled=false")
    first = rendered.one("NetworkPolicy", "fleet-controller")["spec"]["egress"][0]
    assert first == {"ports": [{"port": 6443}], "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}
    (inwards,) = rendered.one("NetworkPolicy", "fleet-controller")["spec"]["ingress"]
    monitoring = {"kubernetes.io/metadata.name": "monitoring"}
    assert inwards["from"] == [{"namespaceSelector": {"matchLabels": monitoring}}]


def test_the_platform_may_choose_the_user(helm: Helm) -> None:
    chosen = "fixedUser=false", "history.type=postgresql", "history.postgresql.existingSecret=db"
    rendered = helm.with_values(*chosen)
    for kind, name in (("Deployment", "fleet-controller"), ("Deployment", "fleet-api"), ("Job", "fleet-migrate")):
        context = rendered.pod(kind, name)["securityContext"]
        assert context["runAsNonRoot"] is True
        assert {"runAsUser", "runAsGroup", "fsGroup"}.isdisjoint(context)
