"""Verification of a published image: its tag, its labels, the git tag and the digest have to agree."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fleet.release.build_plan import MAIN
from fleet.release.git import RemoteRefs, Repository, TaggedCommit
from fleet.release.oci import labels
from fleet.release.oci.images import RegistryImage, read_image_labels
from fleet.release.oci.references import ImageReference
from fleet.release.oci.registry import open_client
from fleet.release.records import find_record
from fleet.release.tags import OURS, Tag, TagKind, parse_tag

_MISSING: Final = "missing"


class Check(NamedTuple):
    subject: str
    problem: str = ""


def verify_image(repository: Repository, reference: ImageReference) -> list[Check]:
    tag = parse_tag(reference.version)
    if tag.kind not in OURS:
        return [Check("tag", f"{tag.text} is a {tag.kind} tag, which this tool does not publish")]
    image = RegistryImage(open_client(reference.repository), reference)
    digest, by_platform = image.get_root().digest, read_image_labels(image)
    refs = repository.list_refs()
    repository.fetch(refs)
    tagged = refs.find_tag(tag.text)
    if tagged is None:
        return [Check("git tag", f"the remote has no tag {tag.text}")]
    claimed = repository.read_tag_object(tagged.object)
    if claimed is None:
        return [Check("git tag", f"{tag.text} is not annotated, so it was not claimed by this tool")]
    expected = labels.read_labels(claimed.message)
    return [
        *_check_labels(by_platform, expected),
        *_check_claim(tag, expected),
        *_check_history(repository, refs, tagged, expected),
        *_check_record(repository, refs, tagged, reference, digest),
    ]


def _check_labels(by_platform: Mapping[str, Mapping[str, str]], expected: Mapping[str, str]) -> Iterator[Check]:
    """The labels of every platform are those that the tag was claimed with."""
    if not by_platform:
        yield Check("labels", "the image has no platform")
    for name in labels.NAMES:
        wanted = expected.get(name) or _MISSING
        other = {actual.get(name) or _MISSING for actual in by_platform.values()} - {wanted}
        problem = f"{', '.join(map(repr, sorted(other)))} in the image, {wanted!r} in the git tag" if other else ""
        yield Check(f"label {name}", problem)


def _check_claim(tag: Tag, expected: Mapping[str, str]) -> Iterator[Check]:
    """What the tag was claimed with fits the tag itself."""
    for subject, name, wanted in (
        ("version", labels.VERSION, tag.text),
        ("kind", labels.KIND, tag.kind.value),
    ):
        actual = expected.get(name, _MISSING)
        yield Check(subject, "" if actual == wanted else f"{actual!r} in the git tag, should be {wanted!r}")
    created = expected.get(labels.CREATED, _MISSING)
    try:
        date = dt.datetime.fromisoformat(created).astimezone(dt.UTC).date()
    except ValueError:
        yield Check("created", f"{created!r} is no time")
        return
    late = tag.date is not None and tag.date != date
    yield Check("created", f"built on {date}, but the tag has {tag.date}" if late else "")


def _check_history(
    repository: Repository, refs: RemoteRefs, tagged: TaggedCommit, expected: Mapping[str, str]
) -> Iterator[Check]:
    tag, commit = tagged.tag, tagged.commit
    revision = expected.get(labels.REVISION, _MISSING)
    yield Check("revision", "" if revision == commit else f"the git tag names {commit}, it was claimed for {revision}")
    branch = MAIN if tag.kind is TagKind.SNAPSHOT else f"release-{tag.major}.{tag.minor}"
    tip = refs.get_branch(branch)
    on_branch = tip is not None and repository.is_ancestor(commit, tip)
    yield Check("branch", "" if on_branch else f"{commit[:12]} is not on {branch} of the remote")
    yield from _check_base(repository, refs, tagged, expected)


def _check_base(
    repository: Repository, refs: RemoteRefs, tagged: TaggedCommit, expected: Mapping[str, str]
) -> Iterator[Check]:
    name = expected.get(labels.UPSTREAM_BASE, _MISSING)
    if not name and tagged.tag.kind is TagKind.SNAPSHOT:
        patches: list[str] = []
    else:
        base = refs.find_tag(name)
        if base is None:
            yield Check("base", f"the remote has no tag {name}")
            return
        fits = tagged.tag.kind is TagKind.SNAPSHOT or base.tag.base == tagged.tag.base
        contained = repository.is_ancestor(base.commit, tagged.commit)
        problem = "" if contained else f"{name} is no ancestor of {tagged.commit[:12]}"
        yield Check("base", problem if fits else f"{name} is not the base of {tagged.tag.text}")
        patches = repository.list_patches(base.commit, tagged.commit)
    for subject, label, wanted in (
        ("patch count", labels.PATCH_COUNT, str(len(patches))),
        ("patches", labels.PATCHES, labels.list_patches_briefly(patches)),
    ):
        actual = expected.get(label, _MISSING)
        yield Check(subject, "" if actual == wanted else f"{actual!r} in the git tag, {wanted!r} in the history")


def _check_record(
    repository: Repository, refs: RemoteRefs, tagged: TaggedCommit, reference: ImageReference, digest: str
) -> Iterator[Check]:
    record = find_record(repository, refs, tagged.tag.text, reference.repository)
    if record is None:
        yield Check("digest", f"there is no record that {reference} was published")
        return
    yield Check("digest", "" if record.digest == digest else f"tag moved: published as {record.digest}, now {digest}")
    same = record.tag_object == tagged.object
    yield Check(
        "git tag", "" if same else f"tag moved: published for tag object {record.tag_object}, now {tagged.object}"
    )
