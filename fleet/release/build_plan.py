"""The tag of the next build, and the reasons to refuse one. Pure: facts come from git, the registry and the clock."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fleet.errors import FleetError
from fleet.release.tags import OURS, UPSTREAM, Tag, TagKind, choose_next_branchfix, choose_next_snapshot

MAIN: Final = "main"
_RELEASE_BRANCH: Final = re.compile(r"release-(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")


class ReleaseRefused(FleetError):
    """`reasons` are all that apply, each with the next step."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\nerror: ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    branch: str | None
    reason: str = ""
    rebuild_reason: str = ""
    built_at: dt.datetime
    now: dt.datetime
    targets: tuple[str, ...] = ()
    """Repositories of the registry, `host/path`."""
    upstream: str = ""
    """The upstream registry, or a part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFacts:
    head: str
    changes: tuple[str, ...] = ()
    head_tags: tuple[Tag, ...] = ()
    branch_exists: bool = True
    is_on_branch: bool = True
    other_branches: tuple[str, ...] = ()
    """Those that contain HEAD."""
    base: Tag | None = None
    """The newest upstream release that HEAD contains."""
    patches: tuple[str, ...] = ()
    used: tuple[Tag, ...] = ()
    """Tags in git and in the registry."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    tag: Tag
    why: str


def plan_build(request: BuildRequest, facts: BuildFacts) -> BuildPlan:
    reasons = list(_list_refusals(request, facts))
    if reasons:
        raise ReleaseRefused(reasons)
    head = facts.head[:12]
    if request.branch == MAIN:
        date = request.built_at.astimezone(dt.UTC).date()
        contained = f"contains upstream {facts.base.text}" if facts.base else "contains no upstream release"
        tag = choose_next_snapshot(date, facts.used)
        return BuildPlan(tag, f"build {tag.seq} of {date} (UTC) from {MAIN}: {head} {contained}")
    assert facts.base is not None
    tag = choose_next_branchfix(facts.base, facts.used)
    return BuildPlan(
        tag,
        f"{facts.base.text} is the newest upstream release that {head} on {request.branch} contains; "
        f"{len(facts.patches)} {'patch' if len(facts.patches) == 1 else 'patches'} on it, fix {tag.seq}",
    )


def is_inside(repository: str, registry: str) -> bool:
    return bool(registry) and (repository == registry or repository.startswith(f"{registry.rstrip('/')}/"))


def list_target_refusals(targets: Iterable[str], upstream: str) -> Iterator[str]:
    for target in targets:
        if is_inside(target, upstream):
            yield f"{target} is in the upstream registry {upstream}: bridge builds have a registry of their own"


def _list_refusals(request: BuildRequest, facts: BuildFacts) -> Iterator[str]:
    if facts.changes:
        first, more = facts.changes[0].strip(), len(facts.changes) - 1
        yield f"the working tree is dirty: {first}{f' and {more} more' if more else ''}; commit or stash first"
    yield from _list_tag_refusals(request, facts)
    if not request.reason.strip():
        yield "--reason is missing: say why upstream's image does not do"
    for name, text in (("--reason", request.reason), ("--rebuild-reason", request.rebuild_reason)):
        if not text.isprintable():
            yield f"{name}: should be one line, not {text!r}"
    if request.built_at > request.now:
        yield f"--built-at: {request.built_at.isoformat()} is in the future; leave it out to take the present time"
    yield from list_target_refusals(request.targets, request.upstream)
    yield from _list_branch_refusals(request, facts)


def _list_tag_refusals(request: BuildRequest, facts: BuildFacts) -> Iterator[str]:
    released = [tag.text for tag in facts.head_tags if tag.kind in UPSTREAM]
    if released:
        yield f"HEAD is upstream {released[0]}: use the upstream image"
    built = [tag.text for tag in facts.head_tags if tag.kind in OURS]
    if built and not request.rebuild_reason.strip():
        yield f"HEAD already has the tag {', '.join(built)}; to build it once more, say why with --rebuild-reason"
    if request.rebuild_reason and not built:
        yield "--rebuild-reason: HEAD has no tag yet, so this is its first build; leave it out"


def _list_branch_refusals(request: BuildRequest, facts: BuildFacts) -> Iterator[str]:
    branch = request.branch
    if branch is None:
        yield "HEAD is on no branch: name main or release-MAJOR.MINOR with --branch"
        return
    match = _RELEASE_BRANCH.fullmatch(branch)
    if branch != MAIN and match is None:
        yield f"no builds are made from branch {branch}: use main or release-MAJOR.MINOR"
        return
    if not facts.branch_exists:
        yield f"the remote has no branch {branch}; push it first"
        return
    if not facts.is_on_branch:
        where = f"it is on {', '.join(facts.other_branches)}" if facts.other_branches else "push it first"
        yield f"HEAD is not on {branch} of the remote: {where}"
        return
    if match is not None:
        yield from _list_base_refusals(branch, f"{match[1]}.{match[2]}", facts)


def _list_base_refusals(branch: str, minor: str, facts: BuildFacts) -> Iterator[str]:
    base = facts.base
    if base is None:
        yield f"HEAD contains no upstream release, so there is no base on {branch}; fetch upstream's tags to the remote"
        return
    if f"{base.major}.{base.minor}" != minor:
        yield f"branch {branch} and base disagree: the newest upstream release of HEAD is {base.text}"
    elif base.base_micro == 0:
        yield f"a fix on {base.text} cannot be expressed: ask upstream for {base.text.removesuffix('0')}1"
    elif not facts.patches and not any(tag.kind is TagKind.RELEASE for tag in facts.head_tags):
        yield f"no commits beyond {base.text}: use the upstream image"
