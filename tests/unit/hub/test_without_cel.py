"""A hub on a Python for which the CEL library has no build: as a process, since the library is imported once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.control_plane.waiting import soon
from tests.unit.hub.asking import DEFINITIONS, THINGS, a_definition, a_thing

PLAIN = {"type": "string", "pattern": "^[ab]+$"}
PROGRAM = "import sys; sys.modules['cel_expr_python'] = None; from fleet.hub.__main__ import main; main()"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("hub")
    ready, told = folder / "ready.json", folder / "stderr"
    with told.open("w") as stderr:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, f"--ready-file={ready}"], stderr=stderr)
    try:
        soon(lambda: ready.exists() or process.poll() is not None)
        yield json.loads(ready.read_text())["url"]
    finally:
        process.terminate()
        process.wait()
    assert "not checked by this hub: x-kubernetes-validations" in told.read_text()


def post(url: str, path: str, document: dict[str, Any]) -> tuple[int, str]:
    """The status, and the warning."""
    request = Request(url + path, json.dumps(document).encode(), {"content-type": "application/json"})
    try:
        with urlopen(request) as response:
            return response.status, " ".join(response.headers.get_all("warning", ()))
    except HTTPError as error:
        return error.code, ""


def an_object(kind: str, **spec: Any) -> dict[str, Any]:
    return {**a_thing("x"), "kind": kind, "spec": spec}


def define(url: str, kind: str, **schema: Any) -> str:
    definition = a_definition(names={"plural": f"{kind.lower()}s", "kind": kind})
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] |= schema
    assert post(url, DEFINITIONS, definition)[0] == 201
    return THINGS.replace("things", f"{kind.lower()}s")


@pytest.mark.parametrize(
    "kind, schema",
    [
        ("Ruled", {"x-kubernetes-validations": [{"rule": "self.n > 10"}]}),
        ("Patterned", {"properties": {"n": {"type": "integer"}, "s": {"type": "string", "pattern": "^(a|b)+$"}}}),
    ],
)
def test_what_is_not_checked_is_said_with_every_write(url: str, kind: str, schema: dict[str, Any]) -> None:
    path = define(url, kind, **schema)
    code, warning = post(url, path, an_object(kind, n=1, s="c"))
    assert code == 201
    assert "not checked by this hub: x-kubernetes-validations and patterns beyond plain ones" in warning
    assert "there is no cel-expr-python for Python 3." in warning


def test_what_can_be_checked_is(url: str) -> None:
    path = define(url, "Plain", properties={"n": {"type": "integer", "minimum": 0}, "s": PLAIN})
    assert post(url, path, an_object("Plain", n=-1))[0] == 422
    assert post(url, path, an_object("Plain", s="c"))[0] == 422
    assert post(url, path, an_object("Plain", n=1, s="a")) == (201, "")
