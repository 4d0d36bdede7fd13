"""`fleet version`: what this command was built from."""

from __future__ import annotations

import sys

from fleet.cli.output.console import write_json
from fleet.release.build_info import load_build_info


def show_version(form: str) -> int:
    build = load_build_info()
    if form == "json":
        info = {"version": build.name, "description": build.description}
        write_json({**info, "revision": build.revision, "created": build.created, "tag": build.tag.to_json()})
        return 0
    sys.stdout.write(f"fleet {build.name}\n{build.description}\n")
    if build.revision:
        sys.stdout.write(f"revision {build.revision}\n")
    return 0
