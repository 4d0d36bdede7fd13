"""Images as builders leave them: folders with the OCI image layout."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def write_layout(folder: Path, labels: Mapping[str, str], *, platforms: int = 1, content: bytes = b"layer") -> Path:
    """With several platforms, or with an attestation beside one, the root is an index."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def store(data: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def store_json(document: Any, media_type: str) -> dict[str, Any]:
        return store(json.dumps(document).encode(), media_type)

    layer = store(content, "application/vnd.oci.image.layer.v1.tar")
    images = []
    for number in range(platforms):
        config = {"architecture": f"arch{number}", "os": "linux", "config": {"Labels": dict(labels)}}
        parts = {"config": store_json(config, "application/vnd.oci.image.config.v1+json"), "layers": [layer]}
        images.append(store_json({"schemaVersion": 2, "mediaType": MANIFEST, **parts}, MANIFEST))
    root = images[0]
    if platforms > 1:
        empty = {"config": store_json({"os": "unknown"}, "application/vnd.oci.image.config.v1+json"), "layers": []}
        attestation = store_json({"schemaVersion": 2, "mediaType": MANIFEST, **empty}, MANIFEST)
        attestation["annotations"] = {"vnd.docker.reference.type": "attestation-manifest"}
        root = store_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [*images, attestation]}, INDEX)
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [root]}), encoding="utf-8")
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    return folder
