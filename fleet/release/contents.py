"""Contents of tags: the commits that they contain, themselves or as copies with the same change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fleet.release.git import RemoteRefs, Repository, TaggedCommit
from fleet.release.records import list_published
from fleet.release.tags import UPSTREAM, TagKind, build_order_key


class Advice(NamedTuple):
    """`tag` is None if no build contains the commit."""

    tag: str | None
    why: str


_STEPS: Final = (
    (TagKind.BRANCHFIX, "no upstream release contains {commit} yet; this is the newest branch fix that does"),
    (TagKind.SNAPSHOT, "neither a release nor a branch fix contains {commit}; this is the newest snapshot that does"),
)


def contains_commit(repository: Repository, tagged: TaggedCommit, commit: str) -> bool:
    return repository.is_ancestor(commit, tagged.commit) or repository.has_equivalent(commit, tagged.commit)


def advise_tag(repository: Repository, revision: str) -> Advice:
    refs = repository.list_refs()
    repository.fetch(refs)
    commit = repository.resolve(revision)

    def contains(tagged: TaggedCommit) -> bool:
        return contains_commit(repository, tagged, commit)

    return choose_advice(refs, commit[:12], contains)


def choose_advice(refs: RemoteRefs, commit: str, contains: Callable[[TaggedCommit], bool]) -> Advice:
    """The upstream release of the oldest line that contains it, since that changes least; of that line the newest. Of
    our builds those that were published."""
    released = next(filter(contains, list_newest_releases(refs)), None)
    if released is not None:
        return Advice(released.tag.text, f"upstream release {released.tag.base} contains {commit}")
    published, unpublished = list_published(refs), list[TaggedCommit]()
    for kind, why in _STEPS:
        tagged = [each for each in refs.list_tags() if each.tag.kind is kind]
        tagged.sort(key=lambda each: build_order_key(each.tag), reverse=True)
        unpublished += [each for each in tagged if each.tag.text not in published]
        build = next(filter(contains, (each for each in tagged if each.tag.text in published)), None)
        if build is not None:
            return Advice(build.tag.text, why.format(commit=commit))
    claimed = next(filter(contains, unpublished), None)
    if claimed is not None:
        return Advice(None, f"no published tag contains {commit}: {claimed.tag.text} is claimed and not published yet")
    return Advice(None, f"no tag contains {commit}: wait for upstream, or claim a build")


def list_newest_releases(refs: RemoteRefs) -> list[TaggedCommit]:
    """The newest of every line, from the oldest line to the newest."""
    lines: dict[tuple[int, int], TaggedCommit] = {}
    released = [each for each in refs.list_tags() if each.tag.kind in UPSTREAM]
    for each in sorted(released, key=lambda each: build_order_key(each.tag)):
        lines[each.tag.major or 0, each.tag.minor or 0] = each
    return list(lines.values())
