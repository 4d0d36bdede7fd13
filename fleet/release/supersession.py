"""Marks on fix tags whose fixes a newer build has: a referrer of the image, so that nothing is changed or deleted."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from fleet.errors import InputError
from fleet.release.contents import contains_commit, list_newest_releases
from fleet.release.git import RemoteRefs, Repository, TaggedCommit
from fleet.release.oci.images import find_digest
from fleet.release.oci.references import ImageRepository
from fleet.release.oci.registry import (
    MANIFEST,
    RegistryClient,
    StoredManifest,
    compute_digest,
    open_client,
    read_annotation,
)
from fleet.release.tags import OURS, Tag, TagKind, build_order_key, parse_tag

ARTIFACT: Final = "application/vnd.fleet.superseded.v1"
SUPERSEDED_BY: Final = "dev.fleet.build/superseded-by"
_EMPTY: Final = b"{}"
_EMPTY_TYPE: Final = "application/vnd.oci.empty.v1+json"


class Supersession(NamedTuple):
    tag: str
    successor: str
    why: str
    is_new: bool


def find_successor(client: RegistryClient, path: str, digest: str) -> str | None:
    """The newest that the image is marked with. A mark that names no build is none: all who may push can set one."""
    marks = {
        build_order_key(tag): tag.text
        for entry in client.list_referrers(path, digest)
        if entry.get("artifactType") == ARTIFACT
        and (tag := _read_mark(read_annotation(entry, SUPERSEDED_BY))) is not None
    }
    return marks[max(marks)] if marks else None


def _read_mark(text: object) -> Tag | None:
    try:
        tag = parse_tag(str(text))
        build_order_key(tag)
    except InputError:
        return None
    return tag


def supersede_tags(repository: Repository, image: ImageRepository) -> Iterator[Supersession]:
    refs = repository.list_refs()
    repository.fetch(refs)
    client = open_client(image)
    fixes = [each for each in refs.list_tags() if each.tag.kind is TagKind.BRANCHFIX]
    for fix in sorted(fixes, key=lambda each: build_order_key(each.tag)):
        digest = find_digest(client, image.path, fix.tag.text)
        successor = _choose_successor(repository, refs, fix, fixes) if digest else None
        if digest and successor:
            is_new = find_successor(client, image.path, digest) != successor.tag.text
            if is_new:
                _mark(client, image, digest, successor.tag.text)
            why = "a later fix has its patches" if successor.tag.kind in OURS else "upstream ships its patches"
            yield Supersession(fix.tag.text, successor.tag.text, why, is_new)


def _choose_successor(
    repository: Repository, refs: RemoteRefs, fix: TaggedCommit, fixes: list[TaggedCommit]
) -> TaggedCommit | None:
    """Upstream's newest release of the line, else the newest fix: the first of them that has all patches."""
    base = next((each for each in refs.list_tags() if each.tag.text == f"v{fix.tag.base}"), None)
    patches = repository.list_patches(base.commit, fix.commit) if base else []
    released = [each for each in list_newest_releases(refs) if _is_newer(each, fix)]
    newer = sorted((each for each in fixes if _is_newer(each, fix)), key=lambda each: build_order_key(each.tag))
    for candidate in (*released, *reversed(newer)):
        if patches and all(contains_commit(repository, candidate, patch) for patch in patches):
            return candidate
    return None


def _is_newer(candidate: TaggedCommit, fix: TaggedCommit) -> bool:
    same_line = (candidate.tag.major, candidate.tag.minor) == (fix.tag.major, fix.tag.minor)
    return same_line and build_order_key(candidate.tag) > build_order_key(fix.tag)


def _mark(client: RegistryClient, image: ImageRepository, digest: str, successor: str) -> None:
    subject = client.get_manifest(image.path, digest)
    empty_digest = compute_digest(_EMPTY)
    empty = {"mediaType": _EMPTY_TYPE, "digest": empty_digest, "size": len(_EMPTY)}
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": ARTIFACT,
        "config": empty,
        "layers": [empty],
        "subject": {"mediaType": subject.media_type, "digest": digest, "size": len(subject.content)},
        "annotations": {SUPERSEDED_BY: successor},
    }
    mark = StoredManifest(json.dumps(document, sort_keys=True).encode(), MANIFEST)
    client.upload_blob(image.path, empty_digest, io.BytesIO(_EMPTY), len(_EMPTY))
    client.put_referrer(image.path, digest, mark)
