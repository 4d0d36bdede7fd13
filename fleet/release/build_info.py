"""Build of this process: its tag, revision and time, as the wheel was built with them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import fleet
from fleet.release.tags import LOCAL, OURS, Tag, TagKind, parse_tag

FILE: Final = "build.json"
"""Written into the package by the build hook, where the build has a tag."""


@dataclass(frozen=True, slots=True)
class BuildInfo:
    tag: Tag
    revision: str = ""
    created: str = ""

    @property
    def name(self) -> str:
        """The tag, or the version of the sources."""
        return fleet.__version__ if self.tag.kind is TagKind.LOCAL else self.tag.text

    @property
    def description(self) -> str:
        if self.tag.kind is TagKind.LOCAL:
            return "local build, never published"
        registry = "bridge registry" if self.tag.kind in OURS else "upstream registry"
        built = f"built {self.created[:10]}" if self.created else "built at an unknown time"
        return f"{_describe_tag(self.tag)}, {built}, {registry}"


@cache
def load_build_info() -> BuildInfo:
    try:
        content = Path(fleet.__file__).with_name(FILE).read_bytes()
    except FileNotFoundError:
        return BuildInfo(LOCAL)
    document = json.loads(content)
    return BuildInfo(parse_tag(document["tag"]), document["revision"], document["created"])


def _describe_tag(tag: Tag) -> str:
    match tag.kind:
        case TagKind.SNAPSHOT:
            return f"snapshot {tag.seq} of {tag.date}"
        case TagKind.BRANCHFIX:
            return f"branch fix {tag.seq} on upstream {tag.base}"
        case TagKind.ONDEMAND:
            return f"on-demand build of upstream {tag.base}"
        case _:
            return f"upstream release {tag.base}"
