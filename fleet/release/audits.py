"""Audits: every tag of a registry is classified, and what does not belong there is listed. The judgement is pure."""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from fleet.errors import FleetError, InputError
from fleet.release.git import RemoteRefs, Repository
from fleet.release.oci import labels
from fleet.release.oci.images import RegistryImage, read_image_labels
from fleet.release.oci.references import ImageReference, ImageRepository, parse_host, parse_repository
from fleet.release.oci.registry import RegistryClient, RegistryError, RegistryUnreachable
from fleet.release.records import find_record
from fleet.release.supersession import find_successor
from fleet.release.tags import (
    OURS,
    UPSTREAM,
    Tag,
    TagError,
    TagKind,
    format_branchfix,
    format_snapshot,
    parse_tag,
)

REFERRERS: Final = "referrers"
INVALID: Final = "invalid"
_REFERRERS_TAG: Final = re.compile(r"sha256-[0-9a-f]{64}")
"""How clients list referrers in registries that cannot."""


class RegistryClass(enum.StrEnum):
    BRIDGE = "bridge"
    UPSTREAM = "upstream"


class Severity(enum.StrEnum):
    FAILURE = "failure"
    WARNING = "warning"


class AuditFinding(NamedTuple):
    severity: Severity
    image: str
    message: str


@dataclass(frozen=True, slots=True)
class AuditedTag:
    repository: ImageRepository
    text: str
    digest: str = ""
    versions: tuple[str, ...] = ()
    """Of the labels."""
    recorded: str | None = None
    """The digest that was published; empty without a record, None where git was not asked."""
    successor: str = ""
    problem: str = ""
    """Why the image cannot be read."""

    @property
    def name(self) -> str:
        return f"{self.repository}:{self.text}"

    @property
    def tag(self) -> Tag | None:
        try:
            return parse_tag(self.text)
        except TagError:
            return None

    @property
    def kind(self) -> str:
        if _REFERRERS_TAG.fullmatch(self.text):
            return REFERRERS
        return self.tag.kind.value if self.tag else INVALID


# --- reading ----------------------------------------------------------------------------------------------------------


def read_registry(address: str, source: Repository | None) -> list[AuditedTag]:
    """`HOST`, `HOST/PREFIX` or one repository. With `source`, digests are compared with the records in git."""
    host, slash, path = address.partition("/")
    client = RegistryClient(parse_host(host))
    refs = None if source is None else source.list_refs()
    if source is not None and refs is not None:
        source.fetch(refs)
    paths = [parse_repository(address).path] if slash and client.list_tags(path) else _list_paths(client, path)
    if not paths:
        raise InputError("there is no repository with tags", field=address, value=address)
    return [
        _read_tag(client, ImageRepository(host, each), text, source, refs)
        for each in paths
        for text in client.list_tags(each)
    ]


def _list_paths(client: RegistryClient, prefix: str) -> list[str]:
    try:
        return client.list_repositories(prefix)
    except RegistryError as error:
        raise RegistryError(f"{error}\nnext: many registries list no repositories; audit one by HOST/PATH") from None


def _read_tag(
    client: RegistryClient,
    repository: ImageRepository,
    text: str,
    source: Repository | None,
    refs: RemoteRefs | None,
) -> AuditedTag:
    bare = AuditedTag(repository, text)
    if bare.tag is None or bare.tag.kind not in OURS:
        return bare
    try:
        return _read_image(client, bare, source, refs)
    except RegistryUnreachable:
        raise
    except FleetError as error:
        return replace(bare, problem=str(error).partition("\n")[0])


def _read_image(
    client: RegistryClient, bare: AuditedTag, source: Repository | None, refs: RemoteRefs | None
) -> AuditedTag:
    repository, text = bare.repository, bare.text
    image = RegistryImage(client, ImageReference(repository, text))
    digest = image.get_root().digest
    versions = {actual.get(labels.VERSION, "") for actual in read_image_labels(image).values()}
    record = find_record(source, refs, text, repository) if source is not None and refs is not None else None
    recorded = None if source is None else record.digest if record else ""
    successor = find_successor(client, repository.path, digest) or ""
    return AuditedTag(repository, text, digest, tuple(sorted(versions)), recorded, successor)


# --- judging ----------------------------------------------------------------------------------------------------------


def audit_tags(tags: Iterable[AuditedTag], registry_class: RegistryClass, today: dt.date) -> list[AuditFinding]:
    tags = list(tags)
    findings = [finding for each in tags for finding in _judge_tag(each, registry_class, today)]
    if registry_class is RegistryClass.BRIDGE:
        findings += _find_duplicates(tags)
        findings += _find_gaps(tags)
    return sorted(findings, key=lambda finding: (finding.severity, finding.image, finding.message))


def _judge_tag(each: AuditedTag, registry_class: RegistryClass, today: dt.date) -> Iterator[AuditFinding]:
    def fail(message: str) -> AuditFinding:
        return AuditFinding(Severity.FAILURE, each.name, message)

    def warn(message: str) -> AuditFinding:
        return AuditFinding(Severity.WARNING, each.name, message)

    tag = each.tag
    if each.kind == REFERRERS:
        return
    if tag is None:
        yield fail("unknown shape: this is no release tag")
        return
    if tag.kind is TagKind.LOCAL:
        yield fail("a local build, which is never published")
    if registry_class is RegistryClass.UPSTREAM:
        if tag.kind in OURS:
            yield warn(f"a bridge build ({tag.kind}) in the upstream registry")
    elif tag.kind in UPSTREAM:
        yield fail("mirrored upstream image: use it where upstream keeps it")
    elif tag.kind in (TagKind.STAGING, TagKind.PRERELEASE):
        yield fail(f"a {tag.kind} tag, which is never made here")
    if tag.date is not None and tag.kind is TagKind.SNAPSHOT and tag.date > today:
        yield warn(f"{tag.date} is in the future")
    if each.problem:
        yield fail(f"the image cannot be read: {each.problem}")
    elif tag.kind in OURS:
        for version in each.versions:
            if version != each.text:
                yield fail(f"tag moved: the image was built as {version or 'something without a version'}")
        if each.recorded == "":
            yield fail("not published by this tool: git has no record of it")
        elif each.recorded is not None and each.recorded != each.digest:
            yield fail(f"tag moved: two digests, published as {each.recorded}, now {each.digest}")


def _find_duplicates(tags: Iterable[AuditedTag]) -> Iterator[AuditFinding]:
    same: dict[tuple[str, str], list[AuditedTag]] = defaultdict(list)
    for each in tags:
        if each.digest:
            same[str(each.repository), each.digest].append(each)
    for group in same.values():
        for each in group[1:]:
            yield AuditFinding(Severity.FAILURE, each.name, f"duplicate: the same image as {group[0].text}")


def _find_gaps(tags: Iterable[AuditedTag]) -> Iterator[AuditFinding]:
    """Over all repositories: one sequence counts the builds of all images. A gap is a claim without a publication."""
    used: dict[str, dict[int, AuditedTag]] = defaultdict(dict)
    for each in tags:
        tag = each.tag
        if tag is not None and tag.kind in OURS:
            used[tag.base if tag.date is None else tag.date.isoformat()][tag.seq or 0] = each
    for numbers in used.values():
        for missing in sorted(set(range(1, max(numbers))) - set(numbers)):
            each = numbers[min(number for number in numbers if number > missing)]
            yield AuditFinding(Severity.WARNING, each.name, f"gap: {_format_like(each, missing)} is not here")


def _format_like(each: AuditedTag, seq: int) -> str:
    tag = each.tag
    assert tag is not None
    return (format_snapshot(tag.date, seq) if tag.date is not None else format_branchfix(tag, seq)).text
