"""The chart of a release, as Helm pulls it from a registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from charts.package import package_chart
from tests.chart.helm import CHART, Helm
from tests.unit.release.registry_server import Manifest, a_registry, digest_of

VERSION = "org.opencontainers.image.version"
REPOSITORY = "bridge/charts/fleet"


@pytest.mark.parametrize("tag", ["v0.20.10", "v0.20.1001", "v0.0.2026111501"])
def test_helm_pulls_a_published_chart_by_its_tag_and_renders_it(helm: Helm, tmp_path: Path, tag: str) -> None:
    layout = tmp_path / "layout"
    package_chart(CHART, {VERSION: tag}, layout)
    (entry,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    blobs = [file.read_bytes() for file in (layout / "blobs" / "sha256").iterdir()]
    with a_registry() as registry:
        registry.blobs[REPOSITORY] = {digest_of(blob): blob for blob in blobs}
        manifest = registry.blobs[REPOSITORY][entry["digest"]]
        registry.put_manifest(REPOSITORY, tag, Manifest(manifest, entry["mediaType"]))
        source = f"oci://{registry.host}/{REPOSITORY}"
        pulled = helm.run("pull", source, "--version", tag, "--plain-http", "--destination", str(tmp_path))
        assert pulled.returncode == 0, pulled.stderr
        assert entry["digest"] in pulled.stdout + pulled.stderr
        rendered = helm.run("template", "fleet", source, "--version", tag, "--plain-http")
    assert rendered.returncode == 0, rendered.stderr
    assert [file.name for file in tmp_path.glob("*.tgz")] == [f"fleet-{tag}.tgz"]
    assert f":{tag}" in rendered.stdout, "the image has the tag of the chart"
