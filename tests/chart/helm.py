"""The chart as Helm renders it, without a cluster: `lookup` finds nothing then."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.control_plane.process import GO
from tests.control_plane.sharing import ROOT

Json = dict[str, Any]

CHART: Final = ROOT / "charts" / "fleet"
COMBINATIONS: Final = tuple(sorted(file.stem for file in (CHART / "ci").glob("*.yaml")))
RELEASE: Final = "fleet"
NAMESPACE: Final = "fleet-system"
_SECONDS: Final = 60


@dataclass(frozen=True)
class Rendered:
    """The objects of a release, those of hooks included."""

    manifests: tuple[Json, ...]

    def of(self, kind: str) -> list[Json]:
        return [one for one in self.manifests if one["kind"] == kind]

    def one(self, kind: str, name: str) -> Json:
        (found,) = (one for one in self.of(kind) if one["metadata"]["name"] == name)
        return found

    def has(self, kind: str, name: str) -> bool:
        return any(one["metadata"]["name"] == name for one in self.of(kind))

    def pods(self) -> Iterator[tuple[str, Json]]:
        """Every pod and every template of one, by what it belongs to."""
        for one in self.manifests:
            if one["kind"] in ("Deployment", "Job"):
                yield f"{one['kind']} {one['metadata']['name']}", one["spec"]["template"]
            elif one["kind"] == "Pod":
                yield f"Pod {one['metadata']['name']}", one

    def pod(self, kind: str, name: str) -> Json:
        """The spec of its pods."""
        spec: Json = self.one(kind, name)["spec"]["template"]["spec"]
        return spec

    def container(self, kind: str, name: str) -> Json:
        (found,) = self.pod(kind, name)["containers"]
        return dict(found)

    def settings(self) -> str:
        """The file that both roles read."""
        (found,) = (one for one in self.of("ConfigMap") if one["metadata"]["name"].endswith("-settings"))
        text: str = found["data"]["controller.yaml"]
        return text


@dataclass(frozen=True)
class Helm:
    """`home` is where it keeps what it likes to keep. It asks no network for anything here."""

    program: Path
    home: Path
    _known: dict[tuple[str, ...], Rendered] = field(default_factory=dict)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        folders = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [self.program, *arguments],
            env={**GO, "HOME": str(self.home), "KUBECONFIG": str(self.home / "none"), **folders},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )

    def lint(self, *options: str) -> subprocess.CompletedProcess[str]:
        return self.run("lint", "--strict", str(CHART), *options)

    def template(
        self, *options: str, release: str = RELEASE, namespace: str = NAMESPACE, with_definitions: bool = False
    ) -> Rendered:
        """Rendered once for all tests: leave the objects as they are."""
        definitions = () if with_definitions else ("--set", "crds.install=false")
        arguments = ("template", release, str(CHART), "--namespace", namespace, *options, *definitions)
        if arguments not in self._known:
            done = self.run(*arguments)
            assert done.returncode == 0, f"helm {' '.join(arguments)}:\n{done.stderr}"
            documents = yaml.load_all(done.stdout, _Loader)
            self._known[arguments] = Rendered(tuple(one for one in documents if one))
        return self._known[arguments]

    def with_values(self, *assignments: str) -> Rendered:
        return self.template(*(part for one in assignments for part in ("--set", one)))

    def combination(self, name: str) -> Rendered:
        return self.template("--values", str(CHART / "ci" / f"{name}.yaml"))

    def refusal(self, *assignments: str) -> str:
        """What it says when it renders nothing."""
        options = [part for one in assignments for part in ("--set", one)]
        done = self.run("template", RELEASE, str(CHART), *options)
        assert done.returncode != 0, f"{assignments} are accepted"
        return done.stderr


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A name that is given twice is a mistake, not a correction."""


def _unique(loader: _Loader, node: yaml.MappingNode) -> Json:
    names = [loader.construct_object(key) for key, _ in node.value]
    assert len(names) == len(set(names)), f"given twice: {node.start_mark}"
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique)


@pytest.fixture(scope="session")
def helm(cluster_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(cluster_programs / "helm", tmp_path_factory.mktemp("helm"))
