"""The verbs of kubectl that people use every day."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.conformance.documents import CLUSTERS, Object, a_cluster, a_config_map, a_placement, pick
from tests.conformance.hub import Hub

pytestmark = pytest.mark.servers

OUT_OF_NAMESPACE = "Warning: deleting cluster-scoped resources, not scoped to the provided namespace\n"
HOW_TO_RESOLVE = "Please review the fields above--they currently have other managers."


@pytest.fixture
def cluster(hub: Hub, unique: str) -> str:
    """The name of a cluster that kubectl applied."""
    hub.kubectl("apply", "-f", "-", input=a_cluster(unique, heartbeatPeriodSeconds=44)).ok()
    return unique


def _heartbeat(hub: Hub, cluster: str) -> str:
    return hub.kubectl("get", "cluster", cluster, "-o", "jsonpath={.spec.heartbeatPeriodSeconds}").ok()


# --- create, apply, replace, diff -------------------------------------------------------------------------------------


def test_create(hub: Hub, unique: str) -> None:
    said = hub.kubectl("create", "-f", "-", input=a_cluster(unique))
    assert said.ok() == f"membercluster.cluster.kubernetes-fleet.io/{unique} created\n"


def test_create_what_is_there(hub: Hub, cluster: str) -> None:
    assert hub.kubectl("create", "-f", "-", input=a_cluster(cluster)).err == (
        'Error from server (AlreadyExists): error when creating "STDIN": '
        f'memberclusters.cluster.kubernetes-fleet.io "{cluster}" already exists\n'
    )


def test_create_with_a_generated_name(hub: Hub) -> None:
    said = hub.kubectl("create", "-f", "-", input=a_cluster(metadata={"generateName": "made-"}))
    assert said.ok().startswith("membercluster.cluster.kubernetes-fleet.io/made-")


TYPED = {
    "configmap a --from-literal=x=1": "configmap/a created",
    "secret generic a --from-literal=x=1": "secret/a created",
    "serviceaccount a": "serviceaccount/a created",
    "deployment a --image=web:1": "deployment.apps/a created",
    "service clusterip a --tcp=80:80": "service/a created",
    "role a --verb=get --resource=configmaps": "role.rbac.authorization.k8s.io/a created",
    "rolebinding a --role=a --user=bob": "rolebinding.rbac.authorization.k8s.io/a created",
}


@pytest.mark.parametrize("words", TYPED)
def test_create_a_built_in_object_from_words(hub: Hub, words: str) -> None:
    """These commands send protobuf, not JSON."""
    assert hub.kubectl("create", *words.split()).ok() == f"{TYPED[words]}\n"


def test_apply(hub: Hub) -> None:
    outcomes = [
        hub.kubectl("apply", "-f", "-", input=a_config_map("a") | {"data": data}).ok()
        for data in ({"x": "1"}, {"x": "1"}, {"y": "1"})
    ]
    assert outcomes == ["configmap/a created\n", "configmap/a unchanged\n", "configmap/a configured\n"]
    assert hub.kubectl("get", "cm", "a", "-o", "jsonpath={.data}").ok() == '{"y":"1"}'


def test_apply_what_was_created_otherwise(hub: Hub) -> None:
    hub.http.post(hub.path("configmaps"), a_config_map("a")).ok()
    said = hub.kubectl("apply", "-f", "-", input=a_config_map("a"))
    assert said.ok() == "configmap/a configured\n"
    assert said.err.startswith("Warning: resource configmaps/a is missing the kubectl.kubernetes.io/last-applied-con")


def test_apply_leaves_alone_what_others_wrote(hub: Hub, cluster: str) -> None:
    hub.kubectl("label", "cluster", cluster, "region=eu").ok()
    hub.kubectl("apply", "-f", "-", input=a_cluster(cluster, heartbeatPeriodSeconds=45)).ok()
    assert hub.kubectl("get", "cluster", cluster, "-o", "jsonpath={.metadata.labels}").ok() == '{"region":"eu"}'
    assert _heartbeat(hub, cluster) == "45"


def test_apply_on_the_server(hub: Hub, unique: str) -> None:
    said = hub.kubectl("apply", "--server-side", "-f", "-", input=a_cluster(unique))
    assert said.ok() == f"membercluster.cluster.kubernetes-fleet.io/{unique} serverside-applied\n"


def test_apply_on_the_server_what_another_manages(hub: Hub, cluster: str) -> None:
    arguments = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    wanted = a_cluster(cluster, heartbeatPeriodSeconds=45)
    said = hub.kubectl(*arguments, input=wanted)
    assert said.code == 1
    assert said.err.startswith(
        'error: Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using '
        f"cluster.kubernetes-fleet.io/v1: .spec.heartbeatPeriodSeconds\n{HOW_TO_RESOLVE}"
    )
    hub.kubectl(*arguments, "--force-conflicts", input=wanted).ok()
    assert _heartbeat(hub, cluster) == "45"


def test_apply_on_the_server_what_was_applied_from_the_client(hub: Hub, cluster: str) -> None:
    """kubectl then moves its own fields from the one manager to the other."""
    hub.kubectl("apply", "--server-side", "-f", "-", input=a_cluster(cluster)).ok()
    entries = hub.http.get(f"{CLUSTERS}/{cluster}").ok()["metadata"]["managedFields"]
    assert {(entry["manager"], entry["operation"]) for entry in entries} >= {("kubectl", "Apply")}
    assert "kubectl-client-side-apply" not in {entry["manager"] for entry in entries}
    assert _heartbeat(hub, cluster) == "60"


@pytest.mark.parametrize("verb", ["create", "apply"])
def test_dry_run(hub: Hub, unique: str, verb: str) -> None:
    said = hub.kubectl(verb, "--dry-run=server", "-f", "-", input=a_cluster(unique))
    assert said.ok() == f"membercluster.cluster.kubernetes-fleet.io/{unique} created (server dry run)\n"
    assert hub.kubectl("get", "cluster", unique).code == 1


def test_replace(hub: Hub) -> None:
    hub.kubectl("create", "-f", "-", input=a_config_map("a")).ok()
    replaced = a_config_map("a") | {"data": {"x": "1"}}
    assert hub.kubectl("replace", "-f", "-", input=replaced).ok() == "configmap/a replaced\n"
    assert hub.kubectl("replace", "-f", "-", input=a_config_map("b")).err == (
        'Error from server (NotFound): error when replacing "STDIN": configmaps "b" not found\n'
    )


def test_diff(hub: Hub, cluster: str) -> None:
    same = hub.kubectl("diff", "-f", "-", input=a_cluster(cluster, heartbeatPeriodSeconds=44))
    assert (same.code, same.out) == (0, "")
    other = hub.kubectl("diff", "-f", "-", input=a_cluster(cluster, heartbeatPeriodSeconds=45))
    assert other.code == 1
    changed = [line for line in other.out.splitlines() if line.startswith(("-  ", "+  "))]
    assert changed == [
        "-  generation: 1",
        "+  generation: 2",
        "-  heartbeatPeriodSeconds: 44",
        "+  heartbeatPeriodSeconds: 45",
    ]


def test_diff_of_something_new(hub: Hub) -> None:
    said = hub.kubectl("diff", "-f", "-", input=a_config_map("a"))
    assert said.code == 1
    assert "+kind: ConfigMap\n" in said.out


# --- patch, label, annotate, edit, scale ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, patch",
    [
        ("merge", '{"spec": {"heartbeatPeriodSeconds": 45}}'),
        ("json", '[{"op": "replace", "path": "/spec/heartbeatPeriodSeconds", "value": 45}]'),
    ],
)
def test_patch(hub: Hub, cluster: str, kind: str, patch: str) -> None:
    arguments = ("patch", "cluster", cluster, f"--type={kind}", "--patch", patch)
    assert hub.kubectl(*arguments).ok() == f"membercluster.cluster.kubernetes-fleet.io/{cluster} patched\n"
    assert hub.kubectl(*arguments).ok() == f"membercluster.cluster.kubernetes-fleet.io/{cluster} patched (no change)\n"
    assert _heartbeat(hub, cluster) == "45"


@pytest.mark.parametrize(
    "operation",
    ['{"op": "remove", "path": "/spec/nothing"}', '{"op": "test", "path": "/spec/heartbeatPeriodSeconds", "value": 1}'],
    ids=["remove nothing", "test wrongly"],
)
def test_patch_that_does_not_apply(hub: Hub, cluster: str, operation: str) -> None:
    said = hub.kubectl("patch", "cluster", cluster, "--type=json", "--patch", f"[{operation}]")
    assert said.err == "The request is invalid: the server rejected our request due to an error in our request\n"


def test_patch_of_an_unsuitable_type(hub: Hub, cluster: str) -> None:
    assert hub.kubectl("patch", "cluster", cluster, "--patch", "{}").err == (
        "error: application/strategic-merge-patch+json is not supported by cluster.kubernetes-fleet.io/v1, "
        "Kind=MemberCluster: the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml\n"
    )


def test_patch_the_status(hub: Hub, cluster: str) -> None:
    _join(hub, cluster)
    assert hub.kubectl("get", "cluster", cluster, "-o", "jsonpath={.status.conditions[0].type}").ok() == "Joined"


def _join(hub: Hub, cluster: str) -> None:
    condition = (
        '{"type": "Joined", "status": "True", "reason": "Ready", "message": "", '
        '"lastTransitionTime": "2026-01-01T00:00:00Z"}'
    )
    patch = f'{{"status": {{"conditions": [{condition}]}}}}'
    hub.kubectl("patch", "cluster", cluster, "--subresource=status", "--type=merge", "--patch", patch).ok()


def test_label(hub: Hub, cluster: str) -> None:
    mark = f"test={cluster}"
    assert hub.kubectl("label", "cluster", cluster, mark).ok().endswith(f"/{cluster} labeled\n")
    assert hub.kubectl("label", "cluster", cluster, "test=other").err == (
        f"error: 'test' already has a value ({cluster}), and --overwrite is false\n"
    )
    found = hub.kubectl("get", "cluster", "-l", mark, "-o", "name").ok()
    assert found == f"membercluster.cluster.kubernetes-fleet.io/{cluster}\n"
    assert hub.kubectl("label", "cluster", cluster, "test-").ok().endswith(f"/{cluster} unlabeled\n")


def test_annotate(hub: Hub, cluster: str) -> None:
    assert hub.kubectl("annotate", "cluster", cluster, "note=x").ok().endswith(f"/{cluster} annotated\n")


def _editor(folder: Path, old: str, new: str) -> dict[str, str]:
    """An editor that replaces a text by another."""
    return edit_by(folder, f"s/{old}/{new}/")


def edit_by(folder: Path, command: str) -> dict[str, str]:
    """An editor that does what this command of sed says."""
    script = folder / "editor"
    script.write_text(f'#!/bin/sh\nsed "{command}" "$1" > "$1.new" && mv "$1.new" "$1"\n')
    script.chmod(0o755)
    return {"KUBE_EDITOR": str(script)}


def test_edit(hub: Hub, cluster: str, tmp_path: Path) -> None:
    editor = _editor(tmp_path, "Seconds: 44", "Seconds: 45")
    edited = hub.kubectl("edit", "cluster", cluster, environment=editor)
    assert edited.ok() == f"membercluster.cluster.kubernetes-fleet.io/{cluster} edited\n"
    assert _heartbeat(hub, cluster) == "45"
    again = hub.kubectl("edit", "cluster", cluster, environment=editor)
    assert again.err == "Edit cancelled, no changes made.\n"


def test_edit_into_something_wrong(hub: Hub, cluster: str, tmp_path: Path) -> None:
    """The change is refused and offered again; the second time the editor changes nothing, so kubectl gives up."""
    said = hub.kubectl("edit", "cluster", cluster, environment=_editor(tmp_path, "Seconds: 44", "Seconds: 0"))
    assert said.code == 1
    assert said.err.startswith(f'error: memberclusters.cluster.kubernetes-fleet.io "{cluster}" is invalid\n')
    assert said.err.endswith("error: Edit cancelled, no valid changes were saved.\n")


def test_scale(hub: Hub) -> None:
    hub.kubectl("create", "deployment", "web", "--image=web:1").ok()
    assert hub.kubectl("scale", "deployment/web", "--replicas=2").ok() == "deployment.apps/web scaled\n"
    assert hub.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}").ok() == "2"


# --- get, describe, wait ----------------------------------------------------------------------------------------------


def test_get_what_is_not_there(hub: Hub) -> None:
    assert hub.kubectl("get", "cluster", "nope").err == (
        'Error from server (NotFound): memberclusters.cluster.kubernetes-fleet.io "nope" not found\n'
    )
    assert hub.kubectl("get", "cm").err == f"No resources found in {hub.namespace} namespace.\n"
    assert hub.kubectl("get", "nope").err == 'error: the server doesn\'t have a resource type "nope"\n'


def test_get_another_version(hub: Hub, cluster: str) -> None:
    kind = "memberclusters.v1beta1.cluster.kubernetes-fleet.io"
    said = hub.kubectl("get", kind, cluster, "-o", "jsonpath={.apiVersion}")
    assert said.ok() == "cluster.kubernetes-fleet.io/v1beta1"


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_get_the_whole_object(hub: Hub, cluster: str, form: str) -> None:
    document = hub.kubectl("get", "cluster", cluster, "-o", form).document
    del document["metadata"]["annotations"]
    live = hub.http.get(f"{CLUSTERS}/{cluster}").ok()
    for hidden in ("annotations", "managedFields"):
        del live["metadata"][hidden]
    assert document == live


def test_get_a_list_in_pages(hub: Hub) -> None:
    for name in ("a", "b", "c"):
        hub.http.post(hub.path("configmaps"), a_config_map(name)).ok()
    said = hub.kubectl("get", "cm", "--chunk-size=1", "-o", "name")
    assert said.ok() == "configmap/a\nconfigmap/b\nconfigmap/c\n"


def test_describe(hub: Hub, cluster: str) -> None:
    lines = hub.kubectl("describe", "cluster", cluster).ok().splitlines()
    assert lines[0].split() == ["Name:", cluster]
    assert "Kind:         MemberCluster" in lines
    assert "  Heartbeat Period Seconds:  44" in lines
    assert lines[-1].split() == ["Events:", "<none>"]


def test_wait_for_a_condition(hub: Hub, cluster: str) -> None:
    said = _waited(hub, cluster, "condition=Joined", meanwhile=partial(_join, hub, cluster))
    assert said == f"membercluster.cluster.kubernetes-fleet.io/{cluster} condition met\n"


def test_wait_in_vain(hub: Hub, cluster: str) -> None:
    said = hub.kubectl("wait", f"cluster/{cluster}", "--for=condition=Joined", "--timeout=100ms")
    assert said.code == 1
    assert said.err.splitlines()[-1] == f"error: timed out waiting for the condition on memberclusters/{cluster}"


def test_wait_for_the_end(hub: Hub, cluster: str) -> None:
    said = _waited(hub, cluster, "delete", meanwhile=partial(hub.http.delete, f"{CLUSTERS}/{cluster}"))
    assert said == f"membercluster.cluster.kubernetes-fleet.io/{cluster} condition met\n"


def _waited(hub: Hub, cluster: str, wanted: str, *, meanwhile: Callable[[], object]) -> str:
    """What kubectl prints that has found the cluster as it was, and waits while something happens to it."""
    command = hub.command("wait", f"cluster/{cluster}", f"--for={wanted}", "--timeout=80s", "-v=6")
    with subprocess.Popen(
        command, env=hub.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stderr is not None
        # Above, kubectl may tell how long it waited before this request.
        assert any(f"/{cluster}" in line and "200 OK" in line for line in waiting.stderr)
        meanwhile()
        out, errors = waiting.communicate()
    assert waiting.returncode == 0, errors
    return out


@pytest.fixture
def watching(hub: Hub) -> Iterator[subprocess.Popen[str]]:
    """`kubectl get -w` of the namespace's config maps, which has `first` already."""
    hub.http.post(hub.path("configmaps"), a_config_map("first")).ok()
    form = '-o=jsonpath={.type} {.object.metadata.name}{"\\n"}'
    command = hub.command("get", "cm", "--watch", "--output-watch-events", form)
    with subprocess.Popen(command, env=hub.environment(), stdout=subprocess.PIPE, text=True) as watch:
        yield watch
        watch.terminate()


def test_watch(hub: Hub, watching: subprocess.Popen[str]) -> None:
    output = watching.stdout
    assert output is not None
    assert output.readline().split() == ["ADDED", "first"]
    hub.http.post(hub.path("configmaps"), a_config_map("second")).ok()
    assert output.readline().split() == ["ADDED", "second"]
    hub.http.patch(hub.path("configmaps", "first"), {"data": {"x": "1"}}).ok()
    assert output.readline().split() == ["MODIFIED", "first"]
    hub.http.delete(hub.path("configmaps", "second")).ok()
    assert output.readline().split() == ["DELETED", "second"]


# --- delete -----------------------------------------------------------------------------------------------------------


def test_delete(hub: Hub, cluster: str) -> None:
    said = hub.kubectl("delete", "cluster", cluster)
    assert said.ok() == f'membercluster.cluster.kubernetes-fleet.io "{cluster}" deleted\n'
    assert hub.kubectl("delete", "cluster", cluster).err == (
        f"{OUT_OF_NAMESPACE}Error from server (NotFound): memberclusters.cluster.kubernetes-fleet.io "
        f'"{cluster}" not found\n'
    )
    assert hub.kubectl("delete", "--ignore-not-found", "cluster", cluster).ok() == ""


def test_delete_all(hub: Hub) -> None:
    for name in ("a", "b"):
        hub.http.post(hub.path("configmaps"), a_config_map(name)).ok()
    assert hub.kubectl("delete", "cm", "--all").ok() == "".join(
        f'configmap "{name}" deleted from {hub.namespace} namespace\n' for name in ("a", "b")
    )


def test_delete_by_manifest(hub: Hub) -> None:
    manifest: Object = a_config_map("a")
    hub.kubectl("create", "-f", "-", input=manifest).ok()
    assert hub.kubectl("delete", "-f", "-", input=manifest).ok() == (
        f'configmap "a" deleted from {hub.namespace} namespace\n'
    )


def test_delete_waits_for_finalizers(hub: Hub) -> None:
    hub.http.post(hub.path("configmaps"), a_config_map("a", finalizers=["example.com/hold"])).ok()
    said = hub.kubectl("delete", "cm", "a", "--timeout=3s")  # in which it has to look once
    assert said.code == 1
    assert said.err.splitlines()[-1] == "error: timed out waiting for the condition on configmaps/a"
    hub.http.patch(hub.path("configmaps", "a"), {"metadata": {"finalizers": None}}).ok()


def test_a_placement_from_start_to_end(hub: Hub, unique: str) -> None:
    """One object through the verbs, as in a tutorial."""
    for number in (2, 3):
        hub.kubectl("apply", "-f", "-", input=a_placement(unique, policy=pick(number))).ok()
    assert hub.kubectl("get", "crp", unique, "-o", "jsonpath={.metadata.generation}").ok() == "2"
    hub.kubectl("delete", "crp", unique).ok()
    assert hub.kubectl("get", "crp", unique).code == 1
