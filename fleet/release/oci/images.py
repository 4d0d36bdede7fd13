"""Images as trees of manifests and blobs: in a registry, or in a folder with the OCI image layout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

from fleet.errors import InputError
from fleet.release.oci.references import DIGEST, ImageReference, parse_reference
from fleet.release.oci.registry import (
    INDEXES,
    ImageMissing,
    RegistryClient,
    StoredManifest,
    list_entries,
    open_client,
    read_annotation,
)

_ATTESTATION: Final = "vnd.docker.reference.type"


class ImageSource(Protocol):
    def get_root(self) -> StoredManifest: ...

    def get_child(self, digest: str, media_type: str) -> StoredManifest: ...

    def open_blob(self, digest: str) -> IO[bytes]: ...

    def read_document(self, digest: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class RegistryImage:
    client: RegistryClient
    reference: ImageReference

    def get_root(self) -> StoredManifest:
        return self.client.get_manifest(self.reference.repository.path, self.reference.version)

    def get_child(self, digest: str, media_type: str) -> StoredManifest:
        del media_type
        return self.client.get_manifest(self.reference.repository.path, digest)

    def open_blob(self, digest: str) -> IO[bytes]:
        return self.client.open_blob(self.reference.repository.path, digest)

    def read_document(self, digest: str) -> dict[str, Any]:
        return self.client.get_document(self.reference.repository.path, digest)


@dataclass(frozen=True, slots=True)
class LayoutImage:
    """A folder as builders write it with `--output type=oci,tar=false,dest=FOLDER`."""

    folder: Path

    def get_root(self) -> StoredManifest:
        try:
            entries = json.loads((self.folder / "index.json").read_bytes())["manifests"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"is no OCI image layout: {error}", field=str(self.folder)) from None
        if len(entries) != 1:
            raise InputError(f"should hold one image, not {len(entries)}", field=str(self.folder))
        return self.get_child(*_read_descriptor(entries[0]))

    def get_child(self, digest: str, media_type: str) -> StoredManifest:
        with self.open_blob(digest) as stream:
            manifest = StoredManifest(stream.read(), media_type)
        if manifest.digest != digest:
            raise InputError(f"the file of {digest} has other content", field=str(self.folder))
        return manifest

    def open_blob(self, digest: str) -> IO[bytes]:
        if not DIGEST.fullmatch(digest):
            raise InputError(f"{digest!r} is no digest", field=str(self.folder))
        try:
            return (self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")).open("rb")
        except OSError as error:
            raise InputError(f"the file of {digest} cannot be read: {error.strerror}", field=str(self.folder)) from None

    def read_document(self, digest: str) -> dict[str, Any]:
        return self.get_child(digest, "").document


def open_source(text: str) -> LayoutImage | RegistryImage:
    """A folder, or an image of a registry by digest: what a tag names may change while it is copied."""
    if Path(text).is_dir():
        return LayoutImage(Path(text))
    if "@" not in text:
        raise InputError("should be a folder with an OCI image layout, or HOST/PATH@sha256:…", field=text)
    reference = parse_reference(text)
    return RegistryImage(open_client(reference.repository), reference)


def list_children(source: ImageSource, manifest: StoredManifest) -> Iterator[tuple[dict[str, Any], StoredManifest]]:
    """Of an index; an image has none."""
    if manifest.media_type in INDEXES:
        for entry in list_entries(manifest.document, f"the index {manifest.digest}"):
            yield entry, source.get_child(*_read_descriptor(entry))


def read_image_labels(source: ImageSource) -> dict[str, dict[str, str]]:
    """Labels by digest of the image, for each platform. Attestations have none."""
    root = source.get_root()
    images = (
        [root]
        if root.media_type not in INDEXES
        else [child for entry, child in list_children(source, root) if read_annotation(entry, _ATTESTATION) is None]
    )
    return {image.digest: _read_labels(source, image) for image in images}


def copy_image(source: ImageSource, client: RegistryClient, path: str) -> StoredManifest:
    """By digest, contents first: what is in the registry is complete at every moment."""
    root = source.get_root()
    _copy_manifest(source, root, client, path)
    return root


def find_digest(client: RegistryClient, path: str, version: str) -> str | None:
    try:
        return client.get_manifest(path, version).digest
    except ImageMissing:
        return None


def _copy_manifest(source: ImageSource, manifest: StoredManifest, client: RegistryClient, path: str) -> None:
    for _, child in list_children(source, manifest):
        _copy_manifest(source, child, client, path)
    document = manifest.document
    for blob in (document.get("config"), *(document.get("layers") or ())):
        if blob and not client.has_blob(path, blob["digest"]):
            with source.open_blob(blob["digest"]) as stream:
                client.upload_blob(path, blob["digest"], stream, blob["size"])
    client.put_manifest(path, manifest.digest, manifest)


def _read_labels(source: ImageSource, manifest: StoredManifest) -> dict[str, str]:
    digest, _ = _read_descriptor(manifest.document.get("config"))
    config = source.read_document(digest).get("config")
    labels = config.get("Labels") if isinstance(config, dict) else None
    return {str(name): str(value) for name, value in labels.items()} if isinstance(labels, dict) else {}


def _read_descriptor(entry: Any) -> tuple[str, str]:
    digest = entry.get("digest") if isinstance(entry, dict) else None
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise InputError(f"a manifest names content without a digest: {entry!r}")
    return digest, str(entry.get("mediaType", ""))
