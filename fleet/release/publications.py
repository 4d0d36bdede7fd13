"""Publication of the images of a claimed tag: contents by digest, then a record in git, then the tag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleet.release.build_plan import ReleaseRefused, is_inside, list_target_refusals
from fleet.release.git import RemoteRefs, Repository, TaggedCommit
from fleet.release.oci import labels
from fleet.release.oci.images import LayoutImage, RegistryImage, copy_image, find_digest, open_source, read_image_labels
from fleet.release.oci.references import ImageRepository
from fleet.release.oci.registry import open_client
from fleet.release.records import create_record, find_record
from fleet.release.tags import OURS, parse_tag


@dataclass(frozen=True, slots=True)
class Publication:
    """One image of a build. `source`: a folder with an OCI layout, or `HOST/PATH@sha256:…`."""

    source: str
    target: ImageRepository


def publish_images(
    repository: Repository, text: str, publications: Sequence[Publication], *, upstream: str
) -> dict[str, str]:
    """By image its digest. A publication that was interrupted can be repeated."""
    refs = repository.list_refs()
    tagged = _find_claim(refs, text)
    repository.fetch(refs)
    sources = [open_source(publication.source) for publication in publications]
    refusals = list(_list_class_refusals(publications, sources, upstream))
    if not refusals:
        claimed = repository.read_tag_object(tagged.object)
        values = labels.read_labels(claimed.message) if claimed else {}
        for publication, source in zip(publications, sources, strict=True):
            refusals += _list_label_refusals(publication, read_image_labels(source), values)
            refusals += _list_moves(repository, refs, text, publication, source.get_root().digest)
    if refusals:
        raise ReleaseRefused(refusals)
    return {
        str(publication.target): _publish(repository, refs, tagged, publication, source)
        for publication, source in zip(publications, sources, strict=True)
    }


def _find_claim(refs: RemoteRefs, text: str) -> TaggedCommit:
    tag = parse_tag(text)
    if tag.kind not in OURS:
        raise ReleaseRefused([f"{text} is a {tag.kind} tag: only claimed snapshots and branch fixes are published"])
    tagged = refs.find_tag(text)
    if tagged is None:
        raise ReleaseRefused([f"{text} is not claimed: `fleet release claim` claims a tag before the build"])
    return tagged


def _list_class_refusals(
    publications: Sequence[Publication], sources: Sequence[LayoutImage | RegistryImage], upstream: str
) -> Iterator[str]:
    yield from list_target_refusals((str(publication.target) for publication in publications), upstream)
    classes = {
        _classify(source, upstream): publication.source
        for source, publication in zip(sources, publications, strict=True)
    }
    if len(classes) > 1:
        listed = ", ".join(f"{source} ({kind})" for kind, source in sorted(classes.items()))
        yield f"the sources are of different classes: {listed}; build all images of a tag in one place"
    if "upstream" in classes:
        yield f"{classes['upstream']} is an upstream image: these are never mirrored, use it where it is"


def _classify(source: LayoutImage | RegistryImage, upstream: str) -> str:
    if isinstance(source, LayoutImage):
        return "local folder"
    return "upstream" if is_inside(str(source.reference.repository), upstream) else f"registry {source.client.host}"


def _list_label_refusals(
    publication: Publication, images: Mapping[str, Mapping[str, str]], claimed: Mapping[str, str]
) -> Iterator[str]:
    for digest, actual in images.items():
        for name in labels.NAMES:
            if actual.get(name, "") != claimed.get(name, ""):
                yield (
                    f"label {name} of {publication.source} ({digest[:19]}) is {actual.get(name, '')!r}, "
                    f"but the tag was claimed with {claimed.get(name, '')!r}"
                )


def _list_moves(
    repository: Repository, refs: RemoteRefs, tag: str, publication: Publication, digest: str
) -> Iterator[str]:
    record = find_record(repository, refs, tag, publication.target)
    if record and record.digest != digest:
        yield f"{publication.target}:{tag} was published with {record.digest}: claim a new tag for {digest}"
    stored = find_digest(open_client(publication.target), publication.target.path, tag)
    if stored and stored != digest:
        yield f"{publication.target}:{tag} exists with {stored}, and tags are never moved: claim a new tag for {digest}"


def _publish(
    repository: Repository,
    refs: RemoteRefs,
    tagged: TaggedCommit,
    publication: Publication,
    source: LayoutImage | RegistryImage,
) -> str:
    target, text = publication.target, tagged.tag.text
    client = open_client(target)
    root = copy_image(source, client, target.path)
    if find_record(repository, refs, text, target) is None and not create_record(
        repository, tagged, target, root.digest
    ):
        raise ReleaseRefused([f"{target}:{text} is being published by another process; run it again to compare"])
    client.put_manifest(target.path, text, root)
    return root.digest
