"""`fleet release`: parses, compares, claims, publishes and checks release tags."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.cli.output.console import print_rows, write_json, write_text
from fleet.cli.output.failures import describe_failure
from fleet.errors import FleetError, InputError
from fleet.release.audits import RegistryClass, Severity, audit_tags, read_registry
from fleet.release.build_plan import BuildRequest, ReleaseRefused
from fleet.release.claims import BuildDetails, RaceLost, claim_tag, list_published, plan_next, read_checkout
from fleet.release.contents import advise_tag
from fleet.release.git import Repository
from fleet.release.oci.references import DIGEST, parse_reference, parse_repository
from fleet.release.publications import Publication, publish_images
from fleet.release.supersession import supersede_tags
from fleet.release.tags import SequenceExhausted, build_order_key, compare_tags, parse_tag
from fleet.release.verification import verify_image

FINE: Final = 0
BAD_INPUT: Final = 2
REFUSED: Final = 3
RACE_LOST: Final = 4
UNSOUND: Final = 5
_CODES: Final[tuple[tuple[type[FleetError], int], ...]] = (
    (ReleaseRefused, REFUSED),
    (SequenceExhausted, REFUSED),
    (RaceLost, RACE_LOST),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOptions:
    folder: Path
    remote: str
    branch: str | None
    reason: str
    rebuild_reason: str
    built_at: dt.datetime | None
    targets: tuple[str, ...]
    upstream: str
    base_image: str = ""
    upstream_prs: tuple[str, ...] = ()
    output: str = "text"


def show_tag(text: str) -> int:
    write_json(parse_tag(text).to_json())
    return FINE


def show_comparison(left: str, right: str, form: str) -> int:
    tags = parse_tag(left), parse_tag(right)
    order, keys = compare_tags(*tags), [build_order_key(tag) for tag in tags]
    if form == "json":
        write_json(
            {"order": order, "keys": [{"tag": tag.text, "key": key} for tag, key in zip(tags, keys, strict=True)]}
        )
        return FINE
    sys.stdout.write(f"{order}\n")
    for tag, key in zip(tags, keys, strict=True):
        sys.stdout.write(f"{tag.text} {' '.join(map(str, key))}\n")
    return FINE


# --- claiming ---------------------------------------------------------------------------------------------------------


def show_next_tag(options: ClaimOptions) -> int:
    def show() -> int:
        repository = Repository(options.folder, options.remote)
        request = _build_request(repository, options)
        plan, _ = plan_next(repository, read_checkout(repository), request, tuple(list_published(request)))
        _show_choice(plan.tag.text, plan.why)
        return FINE

    return _run(show, "next")


def claim_next_tag(options: ClaimOptions) -> int:
    def claim() -> int:
        repository = Repository(options.folder, options.remote)
        name, _, digest = options.base_image.partition("@")
        if options.base_image and not (name and DIGEST.fullmatch(digest)):
            message = (
                f"should be NAME@sha256:… with 64 digits, so that the build can be repeated, not {options.base_image!r}"
            )
            raise InputError(message, field="--base-image", value=options.base_image)
        details = BuildDetails(name, digest, options.upstream_prs)
        request = _build_request(repository, options)
        claimed = claim_tag(repository, request, details, list_published(request))
        if options.output == "json":
            tag, why = claimed.plan.tag, claimed.plan.why
            write_json({"tag": tag.text, "kind": tag.kind.value, "why": why, "labels": claimed.labels})
        elif options.output == "labels":
            write_text("\n".join(f"{label}={value}" for label, value in claimed.labels.items()))
        else:
            _show_choice(claimed.plan.tag.text, claimed.plan.why)
        return FINE

    return _run(claim, "claim")


def _build_request(repository: Repository, options: ClaimOptions) -> BuildRequest:
    now = dt.datetime.now(dt.UTC)
    return BuildRequest(
        branch=options.branch or repository.get_branch(),
        reason=options.reason,
        rebuild_reason=options.rebuild_reason,
        built_at=options.built_at or now,
        now=now,
        targets=options.targets,
        upstream=options.upstream,
    )


# --- images -----------------------------------------------------------------------------------------------------------


def publish_tag(folder: Path, remote: str, tag: str, images: Sequence[str], upstream: str) -> int:
    def publish() -> int:
        digests = publish_images(
            Repository(folder, remote), tag, [_read_publication(text) for text in images], upstream=upstream
        )
        for target, digest in digests.items():
            sys.stdout.write(f"{target}:{tag}@{digest}\n")
        return FINE

    return _run(publish, "publish")


def verify_tag(folder: Path, remote: str, text: str) -> int:
    def verify() -> int:
        checks = verify_image(Repository(folder, remote), parse_reference(text))
        for check in checks:
            write_text(f"FAILED  {check.subject}: {check.problem}" if check.problem else f"ok      {check.subject}")
        return UNSOUND if any(check.problem for check in checks) else FINE

    return _run(verify, "verify")


def audit_registry(address: str, folder: Path | None, remote: str, *, is_upstream: bool, form: str) -> int:
    def audit() -> int:
        tags = read_registry(address, None if folder is None else Repository(folder, remote))
        registry_class = RegistryClass.UPSTREAM if is_upstream else RegistryClass.BRIDGE
        findings = audit_tags(tags, registry_class, dt.datetime.now(dt.UTC).date())
        if form == "json":
            listed = [{"image": each.name, "kind": each.kind, "supersededBy": each.successor} for each in tags]
            write_json({"tags": listed, "findings": [finding._asdict() for finding in findings]})
        else:
            print_rows(("IMAGE", "KIND", "SUPERSEDED BY"), [(each.name, each.kind, each.successor) for each in tags])
            for finding in findings:
                write_text(f"{finding.severity}: {finding.image}: {finding.message}")
        return UNSOUND if any(finding.severity is Severity.FAILURE for finding in findings) else FINE

    return _run(audit, "audit")


def show_advice(folder: Path, remote: str, revision: str) -> int:
    def advise() -> int:
        advice = advise_tag(Repository(folder, remote), revision)
        _show_choice(advice.tag or "none", advice.why)
        return FINE

    return _run(advise, "advise")


def mark_superseded(folder: Path, remote: str, image: str) -> int:
    def supersede() -> int:
        for tag, successor, why, is_new in supersede_tags(Repository(folder, remote), parse_repository(image)):
            before = "" if is_new else " (marked before)"
            sys.stdout.write(f"{tag} superseded by {successor}: {why}{before}\n")
        return FINE

    return _run(supersede, "supersede")


def _read_publication(text: str) -> Publication:
    source, equals, target = text.rpartition("=")
    if not equals or not source:
        raise InputError(f"should be SOURCE=TARGET, not {text!r}", field="SOURCE=TARGET", value=text)
    return Publication(source, parse_repository(target))


def _show_choice(tag: str, why: str) -> None:
    """The reason goes to standard error, so that scripts read the tag alone."""
    sys.stdout.write(f"{tag}\n")
    sys.stdout.flush()
    sys.stderr.write(f"{why}\n")


def _run(command: Callable[[], int], name: str) -> int:
    try:
        return command()
    except FleetError as error:
        sys.stderr.write(f"error: {describe_failure(error, 'fleet', ['release', name])}\n")
        return next((code for kind, code in _CODES if isinstance(error, kind)), BAD_INPUT)
