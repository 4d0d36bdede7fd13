"""Completion for `kubectl fleet`: kubectl runs the program `kubectl_complete-fleet` for candidates."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from typing import Final

from fleet.cli.main import app

_PROGRAM: Final = "fleet"
_COMPLETE: Final = "_FLEET_COMPLETE"
_NO_FILES: Final = ":4"
"""Kubectl's directive for a complete list: no file names."""


def run() -> None:
    """The arguments are the words after `kubectl fleet`, the unfinished one last."""
    *before, unfinished = sys.argv[1:] or [""]
    os.environ["COMP_WORDS"] = shlex.join([_PROGRAM, *before, *([unfinished] if unfinished else [])])
    os.environ["COMP_CWORD"] = str(len(before) + 1)
    os.environ[_COMPLETE] = "complete_bash"
    with contextlib.suppress(SystemExit):
        app(prog_name=_PROGRAM)
    sys.stdout.write(f"{_NO_FILES}\n")
