"""Labels of an image, which also stand in the annotated tag of its build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_IMAGE: Final = "org.opencontainers.image."
_BUILD: Final = "dev.fleet.build/"
VERSION: Final = f"{_IMAGE}version"
REVISION: Final = f"{_IMAGE}revision"
SOURCE: Final = f"{_IMAGE}source"
CREATED: Final = f"{_IMAGE}created"
BASE_NAME: Final = f"{_IMAGE}base.name"
BASE_DIGEST: Final = f"{_IMAGE}base.digest"
KIND: Final = f"{_BUILD}kind"
UPSTREAM_BASE: Final = f"{_BUILD}upstream-base"
PATCH_COUNT: Final = f"{_BUILD}patch-count"
PATCHES: Final = f"{_BUILD}patches"
REASON: Final = f"{_BUILD}reason"
UPSTREAM_PR: Final = f"{_BUILD}upstream-pr"
NAMES: Final = (
    *(VERSION, REVISION, SOURCE, CREATED, BASE_NAME, BASE_DIGEST),
    *(KIND, UPSTREAM_BASE, PATCH_COUNT, PATCHES, REASON, UPSTREAM_PR),
)
_LISTED: Final = 50
"""Labels are copied wherever the image goes, so a long list of patches ends early."""


def list_patches_briefly(patches: list[str]) -> str:
    """Abbreviated, because they serve people; the count tells whether the list is complete."""
    return " ".join(sha[:12] for sha in patches[:_LISTED])


def render_labels(labels: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {labels[name]}" for name in NAMES)


def read_labels(message: str) -> dict[str, str]:
    """Those of the message of a tag."""
    pairs = (line.partition(":") for line in message.splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon and name in NAMES}
