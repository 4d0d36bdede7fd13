"""`fleet` in this process, with its exit code and both streams."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any, NamedTuple
from unittest import mock

from fleet.cli.main import run


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def fleet(*arguments: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    code = 0
    redirected = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with mock.patch.object(sys, "argv", ["fleet", *arguments]), redirected[0], redirected[1]:
        try:
            run()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return Ran(code, out.getvalue(), err.getvalue())
