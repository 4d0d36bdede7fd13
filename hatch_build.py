"""Version of the wheel, and the file `fleet/build.json` with what it was built from.

A build with a tag is made with FLEET_BUILD_TAG, and at best with FLEET_BUILD_REVISION and FLEET_BUILD_CREATED; any
other has the version of the sources. Without its v a tag is a valid version of a Python distribution.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fleet import __version__
from fleet.release.tags import OURS, UPSTREAM, parse_tag


def get_version() -> str:
    text = os.environ.get("FLEET_BUILD_TAG", "")
    if not text:
        return __version__
    tag = parse_tag(text)
    if tag.kind not in (*OURS, *UPSTREAM):
        raise ValueError(f"FLEET_BUILD_TAG: {text} is a {tag.kind} tag, which no build has")
    if tag.kind in UPSTREAM and tag.base != __version__:
        raise ValueError(f"FLEET_BUILD_TAG: {text} is a release of {tag.base}, but fleet/__init__.py has {__version__}")
    return text.removeprefix("v")


class BuildInfoHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        tag = os.environ.get("FLEET_BUILD_TAG", "")
        if not tag or version == "editable":
            return
        names = ("revision", "created")
        info = {"tag": tag, **{name: os.environ.get(f"FLEET_BUILD_{name.upper()}", "") for name in names}}
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, "build.json")
        file.write_text(json.dumps(info) + "\n", encoding="utf-8")
        build_data["force_include"][str(file)] = "fleet/build.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del version, build_data, artifact_path
        if hasattr(self, "_folder"):
            self._folder.cleanup()
