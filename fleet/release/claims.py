"""Claims of tags: the tag of a build is created on the git remote before anything is built.

Creating a ref that must not exist is a compare-and-swap, so that no two builds get the same tag.
"""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fleet.errors import FleetError, InputError
from fleet.release.build_plan import BuildFacts, BuildPlan, BuildRequest, is_inside, plan_build
from fleet.release.git import TAGS, RemoteRefs, Repository, TaggedCommit
from fleet.release.oci import labels
from fleet.release.oci.references import parse_repository
from fleet.release.oci.registry import open_client
from fleet.release.tags import UPSTREAM, Tag, TagError, build_order_key, parse_tag

TRIES: Final = 20
"""Tags that others may take first."""
_MOST_PUSHES: Final = 3 * TRIES
"""A push also fails while another one holds the lock of the ref, which may then come to nothing: the tag stays free."""
_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.1
"""Seconds; a push that holds the lock ends meanwhile."""


class RaceLost(FleetError):
    pass


@dataclass(frozen=True, slots=True)
class BuildDetails:
    """Parts of the labels that only the caller knows."""

    base_name: str = ""
    base_digest: str = ""
    upstream_prs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkout:
    """What is to be built. It is read once: what others claim meanwhile does not change it."""

    head: str
    changes: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class TagClaim:
    plan: BuildPlan
    labels: dict[str, str]


def list_published(request: BuildRequest) -> Iterator[Tag]:
    """Release tags of the targets: a tag that git has lost is used all the same. A target that is refused has none."""
    for repository in (
        parse_repository(target) for target in request.targets if not is_inside(target, request.upstream)
    ):
        for text in open_client(repository).list_tags(repository.path):
            try:
                yield parse_tag(text)
            except TagError:
                continue


def read_checkout(repository: Repository) -> Checkout:
    return Checkout(repository.resolve("HEAD"), tuple(repository.list_changes()), repository.get_source())


def plan_next(
    repository: Repository, checkout: Checkout, request: BuildRequest, used: Iterable[Tag]
) -> tuple[BuildPlan, BuildFacts]:
    refs = repository.list_refs()
    repository.fetch(RemoteRefs({name: sha for name, sha in refs.by_name.items() if _is_history(name)}))
    facts = gather_facts(repository, checkout, refs, request, used)
    return plan_build(request, facts), facts


def claim_tag(
    repository: Repository,
    request: BuildRequest,
    details: BuildDetails,
    used: Iterable[Tag],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> TagClaim:
    used, lost, checkout = tuple(used), set[str](), read_checkout(repository)
    for push in range(1, _MOST_PUSHES + 1):
        plan, facts = plan_next(repository, checkout, request, used)
        values = build_labels(checkout, request, details, plan, facts)
        _check_lines(values)
        # Equal objects would make the second of two equal pushes succeed without creating anything.
        message = f"{plan.tag.text}: {plan.why}\n\n{labels.render_labels(values)}\nclaim: {uuid.uuid4()}"
        sha = repository.write_tag_object(plan.tag.text, facts.head, message)
        if repository.create_remote_ref(f"{TAGS}{plan.tag.text}", sha):
            repository.add_local_tag(plan.tag.text, sha)
            return TagClaim(plan, values)
        lost.add(plan.tag.text)
        if len(lost) == TRIES:
            break
        sleep(min(_PAUSE * push, _LONGEST_PAUSE))
    raise RaceLost(f"other claims were faster, the last time for {max(lost)}\nnext: try again")


def _check_lines(values: Mapping[str, str]) -> None:
    """Labels are lines of the tag, so a line break would add another label."""
    for name, value in values.items():
        if not value.isprintable():
            raise InputError(f"should be one line of printable characters, not {value!r}", field=name, value=value)


def gather_facts(
    repository: Repository, checkout: Checkout, refs: RemoteRefs, request: BuildRequest, used: Iterable[Tag]
) -> BuildFacts:
    head = checkout.head
    tagged = list(refs.list_tags())
    base = find_base(repository, tagged, head)
    tip = refs.get_branch(request.branch) if request.branch else None
    is_on_branch = tip is not None and repository.is_ancestor(head, tip)
    others = (
        ()
        if is_on_branch
        else tuple(name for name in refs.list_branches() if repository.is_ancestor(head, refs.get_branch(name) or head))
    )
    return BuildFacts(
        head=head,
        changes=checkout.changes,
        head_tags=tuple(each.tag for each in tagged if each.commit == head),
        branch_exists=tip is not None,
        is_on_branch=is_on_branch,
        other_branches=others,
        base=base.tag if base else None,
        patches=tuple(repository.list_patches(base.commit, head)) if base else (),
        used=(*used, *(each.tag for each in tagged)),
    )


def _is_history(name: str) -> bool:
    """Whether the plan asks what the ref contains. Of a tag of ours the name says all, so that it is not fetched."""
    try:
        return not name.startswith(TAGS) or parse_tag(name.removeprefix(TAGS).removesuffix("^{}")).kind in UPSTREAM
    except TagError:
        return False


def find_base(repository: Repository, tagged: Iterable[TaggedCommit], head: str) -> TaggedCommit | None:
    """The newest upstream release among the ancestors."""
    released = [each for each in tagged if each.tag.kind in UPSTREAM]
    released.sort(key=lambda each: build_order_key(each.tag), reverse=True)
    return next((each for each in released if repository.is_ancestor(each.commit, head)), None)


def build_labels(
    checkout: Checkout, request: BuildRequest, details: BuildDetails, plan: BuildPlan, facts: BuildFacts
) -> dict[str, str]:
    reason = request.reason.strip()
    if request.rebuild_reason:
        reason = f"{reason}; built again: {request.rebuild_reason.strip()}"
    values = {
        labels.VERSION: plan.tag.text,
        labels.REVISION: facts.head,
        labels.SOURCE: checkout.source,
        labels.CREATED: f"{request.built_at.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z",
        labels.BASE_NAME: details.base_name,
        labels.BASE_DIGEST: details.base_digest,
        labels.KIND: plan.tag.kind.value,
        labels.UPSTREAM_BASE: facts.base.text if facts.base else "",
        labels.PATCH_COUNT: str(len(facts.patches)),
        labels.PATCHES: labels.list_patches_briefly(list(facts.patches)),
        labels.REASON: reason,
        labels.UPSTREAM_PR: " ".join(details.upstream_prs),
    }
    return {name: value.strip(" ") for name, value in values.items()}
