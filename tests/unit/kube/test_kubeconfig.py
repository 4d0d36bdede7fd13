"""What is wrong with a kubeconfig is told by file, field, value and next step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.errors import ConfigurationError
from fleet.kube.client.kubeconfig import validate_kubeconfig

ELSEWHERE = "name another file with --kubeconfig or KUBECONFIG"


def a_kubeconfig(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hub",
        "contexts": [
            {"name": "hub", "context": {"cluster": "hub", "user": "me"}},
            {"name": "prod", "context": {"cluster": "far", "user": "me"}},
            {"name": "guest", "context": {"cluster": "hub", "user": "nobody"}},
            {"name": "anonymous", "context": {"cluster": "hub"}},
        ],
        "clusters": [{"name": "hub", "cluster": {"server": "https://127.0.0.1:6443"}}],
        "users": [{"name": "me", "user": {}}],
        **changes,
    }


def a_hub(**cluster: str) -> dict[str, Any]:
    return a_kubeconfig(clusters=[{"name": "hub", "cluster": cluster}])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config"


def refusal(file: Path, content: dict[str, Any] | str, context: str | None = None) -> str:
    """Without the folder."""
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        validate_kubeconfig(file, context)
    return str(caught.value).replace(f"{file.parent}/", "")


@pytest.mark.parametrize("context", [None, "hub", "anonymous"])
def test_a_good_one_passes(context: str | None, file: Path) -> None:
    file.write_text(yaml.safe_dump(a_kubeconfig()), encoding="utf-8")
    validate_kubeconfig(file, context)


@pytest.mark.parametrize(
    "content, told",
    [
        (
            "a: [b\n",
            "config: line 2, column 1: no YAML: expected ',' or ']', but got '<stream end>'; mend it, or " + ELSEWHERE,
        ),
        ("", f"config: is not a kubeconfig: it holds nothing, not contexts, clusters and users; {ELSEWHERE}"),
        ("hello", f"config: is not a kubeconfig: it holds a text, not contexts, clusters and users; {ELSEWHERE}"),
        (a_kubeconfig(contexts="hub"), "config: contexts: should be a list of named contexts"),
        (
            a_kubeconfig(**{"current-context": ""}),
            "config: current-context: is not set; choose with --context: hub, prod, guest, anonymous",
        ),
        (
            a_kubeconfig(**{"current-context": "old"}),
            "config: current-context: 'old' is none of the contexts in config; "
            "choose one of: hub, prod, guest, anonymous",
        ),
        (a_kubeconfig(contexts=[{"name": "hub"}]), "config: contexts[hub].context: should be a mapping, not nothing"),
        (a_hub(), "config: clusters[hub].cluster.server: is not set; write it as https://hub.example.com:6443"),
        (
            a_hub(server="hub:6443"),
            "config: clusters[hub].cluster.server: 'hub:6443' is not an address of an API server; "
            "write it as https://hub.example.com:6443",
        ),
        (
            a_hub(**{"server": "https://hub", "certificate-authority": "ca.crt"}),
            "config: clusters[hub].cluster.certificate-authority: there is no file ca.crt",
        ),
        (
            a_kubeconfig(users=[{"name": "me", "user": {"client-key": "/none/key"}}]),
            "config: users[me].user.client-key: there is no file /none/key",
        ),
    ],
)
def test_says_what_is_wrong(content: dict[str, Any] | str, told: str, file: Path) -> None:
    assert refusal(file, content) == told


@pytest.mark.parametrize(
    "context, told",
    [
        (
            "staging",
            "--context: 'staging' is none of the contexts in config; choose one of: hub, prod, guest, anonymous",
        ),
        ("prod", "config: contexts[prod].context.cluster: 'far' is none of the clusters in config; choose one of: hub"),
        ("guest", "config: contexts[guest].context.user: 'nobody' is none of the users in config; choose one of: me"),
    ],
)
def test_says_what_is_wrong_with_a_context(context: str, told: str, file: Path) -> None:
    assert refusal(file, a_kubeconfig(), context) == told


def test_files_are_looked_for_beside_the_kubeconfig(file: Path) -> None:
    (file.parent / "ca.crt").write_text("x", encoding="utf-8")
    content = a_hub(**{"server": "https://hub", "certificate-authority": "ca.crt"})
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    validate_kubeconfig(file)


def test_content_counts_more_than_a_file(file: Path) -> None:
    both = {"certificate-authority": "missing", "certificate-authority-data": "eA=="}
    file.write_text(yaml.safe_dump(a_hub(server="https://hub", **both)), encoding="utf-8")
    validate_kubeconfig(file)


def test_a_missing_file(file: Path) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"there is no file {file}; {ELSEWHERE}")):
        validate_kubeconfig(file)


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot be read: Is a directory; {ELSEWHERE}"):
        validate_kubeconfig(tmp_path)


def test_a_variable_that_names_nothing_that_exists(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"there is no file {tmp_path}/a, {tmp_path}/b"):
        validate_kubeconfig(environ={"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"})


def test_several_files_are_one(tmp_path: Path) -> None:
    whole = a_kubeconfig()
    first = {key: whole[key] for key in ("contexts", "current-context")}
    second = {key: whole[key] for key in ("clusters", "users")}
    for name, part in (("a", first), ("b", second)):
        (tmp_path / name).write_text(yaml.safe_dump(part), encoding="utf-8")
    validate_kubeconfig(environ={"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/missing:{tmp_path}/b"})
