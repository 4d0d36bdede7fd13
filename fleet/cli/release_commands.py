"""Options of `fleet release`."""

from __future__ import annotations

import datetime as dt
import enum
from pathlib import Path
from typing import Annotated, Final

import typer

from fleet.cli.parsing import MORE, CommandLine


class ReleaseOutput(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


class ClaimOutput(enum.StrEnum):
    TEXT = "text"
    JSON = "json"
    LABELS = "labels"


Form = Annotated[ReleaseOutput, typer.Option("--output", "-o", help="Output format.")]
Folder = Annotated[Path, typer.Option("--repository", "-C", metavar="DIR", help="Clone of the sources.")]
Remote = Annotated[str, typer.Option("--remote", metavar="NAME", help="Git remote that has the tags.")]
Branch = Annotated[
    str | None,
    typer.Option("--branch", metavar="BRANCH", help="main or release-MAJOR.MINOR (default: the present branch)."),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why upstream's image does not do.")]
Rebuild = Annotated[
    str, typer.Option("--rebuild-reason", metavar="TEXT", help="Why a commit that has a tag is built again.")
]
BuiltAt = Annotated[
    str | None, typer.Option("--built-at", metavar="TIME", help="Time of the build, RFC 3339 (default: now).")
]
Upstream = Annotated[
    str,
    typer.Option(
        "--upstream-registry",
        metavar="HOST/PATH",
        envvar="FLEET_RELEASE_UPSTREAM",
        help="Registry of upstream's images (default: $FLEET_RELEASE_UPSTREAM).",
        show_envvar=False,
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--registry",
        metavar="HOST/PATH",
        envvar="FLEET_RELEASE_REGISTRY",
        help="Repository of bridge builds; repeatable (default: $FLEET_RELEASE_REGISTRY).",
        show_envvar=False,
    ),
]
_NEXT: Final = """
    fleet release next --branch release-0.20 --reason "crash with empty selectors"
"""
_CLAIM: Final = """
    fleet release claim --reason "crash with empty selectors" -o json
"""
_PUBLISH: Final = """
    fleet release publish v0.20.1001 build/fleet=registry.example.com/bridge/fleet
"""
_VERIFY: Final = """
    fleet release verify registry.example.com/bridge/fleet:v0.20.1001
"""
_AUDIT: Final = """
    fleet release audit registry.example.com/bridge
"""
_ADVISE: Final = """
    fleet release advise --contains 1f3870be274f
"""
_SUPERSEDE: Final = """
    fleet release supersede registry.example.com/bridge/fleet
"""
_PARSE: Final = """
    fleet release parse v0.20.1001
"""
_COMPARE: Final = """
    fleet release compare v0.20.1001 v0.20.11
"""


def add_to(app: CommandLine) -> None:
    release = CommandLine(name="release", help="Claim, publish and check release tags of bridge builds.")
    release.add(MORE, examples=_PARSE)(parse)
    release.add(MORE, name="next", examples=_NEXT)(show_next)
    release.add(MORE, examples=_CLAIM)(claim)
    release.add(MORE, examples=_PUBLISH)(publish)
    release.add(MORE, examples=_VERIFY)(verify)
    release.add(MORE, examples=_AUDIT)(audit)
    release.add(MORE, examples=_ADVISE)(advise)
    release.add(MORE, examples=_SUPERSEDE)(supersede)
    release.add(MORE, examples=_COMPARE)(compare)
    app.add_typer(release, name="release", rich_help_panel=MORE)


def parse(
    tag: Annotated[str, typer.Argument(metavar="TAG", help="A release tag, such as v0.20.1001.")],
) -> None:
    """Show the parts of a tag as JSON, or the part that is wrong.

    Exit codes: 0 valid, 2 invalid.
    """
    from fleet.cli.commands.release import show_tag

    raise typer.Exit(show_tag(tag))


def compare(
    left: Annotated[str, typer.Argument(metavar="A", help="A release tag.")],
    right: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    *,
    output: Form = ReleaseOutput.TEXT,
) -> None:
    """Compare two tags: -1 if the first is older, 0 if they are equal, 1 if it is newer. SemVer orders them otherwise.

    Exit codes: 0 compared, 2 a tag is invalid or has no order.
    """
    from fleet.cli.commands.release import show_comparison

    raise typer.Exit(show_comparison(left, right, output.value))


def show_next(
    *,
    folder: Folder = Path(),
    remote: Remote = "origin",
    branch: Branch = None,
    reason: Reason = "",
    rebuild_reason: Rebuild = "",
    built_at: BuiltAt = None,
    targets: Targets = None,
    upstream: Upstream = "",
) -> None:
    """Show the tag that `fleet release claim` would claim, and on standard error why.

    Exit codes: 0 shown, 2 git or a registry failed, 3 refused.
    """
    from fleet.cli.commands.release import ClaimOptions, show_next_tag

    options = ClaimOptions(
        folder=folder,
        remote=remote,
        branch=branch,
        reason=reason,
        rebuild_reason=rebuild_reason,
        built_at=_read_time(built_at),
        targets=tuple(targets or ()),
        upstream=upstream,
    )
    raise typer.Exit(show_next_tag(options))


def claim(
    *,
    folder: Folder = Path(),
    remote: Remote = "origin",
    branch: Branch = None,
    reason: Reason = "",
    rebuild_reason: Rebuild = "",
    built_at: BuiltAt = None,
    targets: Targets = None,
    upstream: Upstream = "",
    base_image: Annotated[
        str, typer.Option("--base-image", metavar="NAME@DIGEST", help="Image that the build starts from.")
    ] = "",
    upstream_prs: Annotated[
        list[str] | None,
        typer.Option("--upstream-pr", metavar="URL", help="Pull request that brings a patch upstream; repeatable."),
    ] = None,
    output: Annotated[ClaimOutput, typer.Option("--output", "-o", help="Output format.")] = ClaimOutput.TEXT,
) -> None:
    """Claim the next tag: push an annotated git tag, without force, before building.
    Prints the tag; with -o json also the labels that the image has to bear, with -o labels these as lines NAME=VALUE.

    Exit codes: 0 claimed, 2 git or a registry failed, 3 refused, 4 other claims were faster 20 times.
    """
    from fleet.cli.commands.release import ClaimOptions, claim_next_tag

    options = ClaimOptions(
        folder=folder,
        remote=remote,
        branch=branch,
        reason=reason,
        rebuild_reason=rebuild_reason,
        built_at=_read_time(built_at),
        targets=tuple(targets or ()),
        upstream=upstream,
        base_image=base_image,
        upstream_prs=tuple(upstream_prs or ()),
        output=output.value,
    )
    raise typer.Exit(claim_next_tag(options))


def publish(
    tag: Annotated[str, typer.Argument(metavar="TAG", help="A claimed tag.")],
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE=TARGET",
            help="Folder with an OCI image layout, or HOST/PATH@DIGEST, and the repository that gets the image.",
        ),
    ],
    *,
    folder: Folder = Path(),
    remote: Remote = "origin",
    upstream: Upstream = "",
) -> None:
    """Push the images of a claimed tag: by digest first, then the tag, which is never moved.
    The images have to bear the labels that the tag was claimed with.

    Exit codes: 0 published, 2 git or a registry failed, 3 refused.
    """
    from fleet.cli.commands.release import publish_tag

    raise typer.Exit(publish_tag(folder, remote, tag, images, upstream))


def verify(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A published image, HOST/PATH:TAG.")],
    *,
    folder: Folder = Path(),
    remote: Remote = "origin",
) -> None:
    """Verify that the tag, the labels, the git tag and the digest of an image agree.

    Exit codes: 0 they agree, 2 git or the registry failed, 5 they do not.
    """
    from fleet.cli.commands.release import verify_tag

    raise typer.Exit(verify_tag(folder, remote, image))


def audit(
    registry: Annotated[str, typer.Argument(metavar="REGISTRY", help="HOST, HOST/PREFIX or one repository.")],
    *,
    upstream: Annotated[
        bool, typer.Option("--upstream", help="The registry is upstream's, not the one of bridge builds.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--repository", "-C", metavar="DIR", help="Clone of the sources, to compare with its records."),
    ] = None,
    remote: Remote = "origin",
    output: Form = ReleaseOutput.TEXT,
) -> None:
    """Classify every tag of a registry, and list what does not belong there.
    Mirrored upstream images, moved and duplicate tags and unknown shapes are failures; gaps are warnings.

    Exit codes: 0 no failures, 2 git or the registry failed, 5 failures.
    """
    from fleet.cli.commands.release import audit_registry

    raise typer.Exit(audit_registry(registry, folder, remote, is_upstream=upstream, form=output.value))


def advise(
    *,
    commit: Annotated[str, typer.Option("--contains", metavar="SHA", help="A commit of the clone.")],
    folder: Folder = Path(),
    remote: Remote = "origin",
) -> None:
    """Show the tag to use for a commit: an upstream release, else a branch fix, else a snapshot that contains it.
    Prints the tag, or `none`, and on standard error why. A commit with the same change counts as well.

    Exit codes: 0 shown, 2 git failed.
    """
    from fleet.cli.commands.release import show_advice

    raise typer.Exit(show_advice(folder, remote, commit))


def supersede(
    image: Annotated[str, typer.Argument(metavar="REPOSITORY", help="Repository of bridge builds, HOST/PATH.")],
    *,
    folder: Folder = Path(),
    remote: Remote = "origin",
) -> None:
    """Mark fix tags whose patches a newer release or fix has. The mark refers to the image; nothing is deleted.

    Exit codes: 0 done, 2 git or the registry failed.
    """
    from fleet.cli.commands.release import mark_superseded

    raise typer.Exit(mark_superseded(folder, remote, image))


def _read_time(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    time = None
    try:
        time = dt.datetime.fromisoformat(text)
        is_usable = time.tzinfo is not None and bool(time.astimezone(dt.UTC))
    except (ValueError, OverflowError):  # the second: UTC has no such day in its calendar
        is_usable = False
    if time is None or not is_usable:
        raise typer.BadParameter(
            f"should be a time with its offset, such as 2021-11-01T09:30:00Z, not {text!r}", param_hint="--built-at"
        )
    return time
