"""The resource definitions of the chart are those of the code, kept for ever, and fit into a release."""

from __future__ import annotations

import gzip
import json
import tarfile
from base64 import b64encode
from pathlib import Path
from typing import Final

import pytest
import yaml

from fleet.model.catalog import CATALOG
from fleet.model.crd_generator import file_name, render
from tests.chart.helm import CHART, Helm

FOLDER: Final = CHART / "files" / "crds"
LARGEST_SECRET: Final = 1024 * 1024


def test_the_definitions_are_those_of_the_code() -> None:
    files = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()}
    assert files == {file_name(one): render(one) for one in CATALOG}, "run `make gen`"


def test_they_are_rendered_as_they_are_but_kept(helm: Helm) -> None:
    rendered = helm.template(with_definitions=True)
    for one in CATALOG:
        definition = yaml.safe_load(render(one))
        found = rendered.one("CustomResourceDefinition", one.full_name)
        assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert found["metadata"]["labels"]["app.kubernetes.io/instance"] == "fleet"
        assert found["spec"] == definition["spec"]
    assert len(rendered.of("CustomResourceDefinition")) == len(CATALOG)


def test_the_release_remembers_which_it_has(helm: Helm) -> None:
    (names,) = helm.template(with_definitions=True).one("ConfigMap", "fleet-definitions")["data"].values()
    assert set(names.split(" ")) == {one.full_name for one in CATALOG}
    assert not helm.template("--set", "crds.install=false").has("ConfigMap", "fleet-definitions")


def test_files_are_called_by_the_names_that_are_looked_up() -> None:
    for file in FOLDER.iterdir():
        group, plural = file.stem.split("_")
        assert yaml.safe_load(file.read_text(encoding="utf-8"))["metadata"]["name"] == f"{plural}.{group}"


def test_they_are_somebody_elses_business_if_so_said(helm: Helm) -> None:
    assert not helm.template("--set", "crds.install=false").of("CustomResourceDefinition")


# --- the package ------------------------------------------------------------------------------------------------------


@pytest.fixture
def package(helm: Helm, tmp_path: Path) -> dict[str, bytes]:
    """Its files, by name."""
    done = helm.run("package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("fleet-*.tgz")
    with tarfile.open(archive) as tar:
        content = ((one.name.removeprefix("fleet/"), tar.extractfile(one)) for one in tar)
        return {name: file.read() for name, file in content if file}


def test_the_package_has_what_an_installation_needs(package: dict[str, bytes]) -> None:
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "README.md", "templates/NOTES.txt"} <= package.keys()
    assert {f"files/crds/{file_name(one)}" for one in CATALOG} <= package.keys()
    assert not {name for name in package if name.startswith("ci/")}


def test_a_release_fits_into_its_secret(helm: Helm, package: dict[str, bytes]) -> None:
    """As Helm keeps it: the chart's files, each in base64, and what was rendered, compressed."""
    chart = [{"name": name, "data": b64encode(content).decode()} for name, content in package.items()]
    manifest = helm.run("template", "fleet", str(CHART)).stdout
    release = json.dumps({"manifest": manifest, "chart": chart}).encode()
    assert len(b64encode(gzip.compress(release, 9))) < LARGEST_SECRET / 2
