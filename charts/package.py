"""`python -m charts.package charts/fleet LABELS FOLDER` packages the chart of a build as an OCI artifact.

LABELS is a file with the labels of the build, as `fleet release claim --output labels` prints them; its tag becomes the
version of the chart and of the images that it installs. FOLDER gets an OCI layout for `fleet release publish`. The
labels stand where images have them, which Helm ignores, so a chart is published and verified as an image is. The same
sources and labels give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import yaml

VERSION: Final = "org.opencontainers.image.version"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_VERSIONS: Final = re.compile(r"^(version|appVersion): .*$", re.MULTILINE)


def package_chart(chart: Path, labels: Mapping[str, str], folder: Path) -> None:
    description = _VERSIONS.sub(rf'\1: "{labels[VERSION]}"', (chart / "Chart.yaml").read_text(encoding="utf-8"))
    metadata = yaml.safe_load(description)
    content = _build_archive(chart, metadata["name"], description.encode())
    config = json.dumps({**metadata, "config": {"Labels": dict(labels)}}, sort_keys=True).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _write_blob(folder, _CONFIG, config),
        "layers": [_write_blob(folder, _CONTENT, content)],
        "annotations": {"org.opencontainers.image.title": metadata["name"], **labels},
    }
    entry = _write_blob(folder, _MANIFEST, json.dumps(manifest, sort_keys=True).encode())
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}), encoding="utf-8")
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")


def read_labels(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in lines}


def _build_archive(chart: Path, name: str, description: bytes) -> bytes:
    """Chart.yaml first, as Helm has it."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in ["Chart.yaml", *_list_files(chart)]:
            content = description if path == "Chart.yaml" else (chart / path).read_bytes()
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _list_files(chart: Path) -> Iterator[str]:
    lines = (chart / ".helmignore").read_text(encoding="utf-8").splitlines()
    ignored = [line for line in lines if line and not line.startswith("#")]
    for file in sorted(chart.rglob("*")):
        path = file.relative_to(chart)
        if file.is_file() and str(path) != "Chart.yaml" and not any(_is_ignored(path, each) for each in ignored):
            yield path.as_posix()


def _is_ignored(path: Path, pattern: str) -> bool:
    if pattern.endswith("/"):
        return pattern.rstrip("/") in path.parts[:-1]
    return fnmatch(path.name, pattern)


def _write_blob(folder: Path, media_type: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


if __name__ == "__main__":
    package_chart(Path(sys.argv[1]), read_labels(Path(sys.argv[2]).read_text(encoding="utf-8")), Path(sys.argv[3]))
