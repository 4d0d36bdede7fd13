"""The rules of axe-core, on every page and every state of it."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path
from typing import Final

import pytest

from tests.api.stage import ADMIN
from tests.ui.browsing import Explorer, Visit

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time

VENDORED: Final = Path(__file__).parent / "vendored"
AXE: Final = VENDORED / "axe.min.js.gz"
ROW: Final = re.compile(r"^\| `(\S+)` \| (\S+) \| (\S+) \| ([\w.-]+) \| `([0-9a-f]{64})` \|$", re.MULTILINE)
VIOLATIONS: Final = """async () => (await axe.run(document)).violations.map(({id, nodes}) =>
    [id, ...nodes.map((node) => node.failureSummary + node.html.slice(0, 300))])"""
EDITS: Final = '[{"op":"setCount","value":4},{"op":"removeCluster","cluster":"ams-1"}]'


def test_vendored_files_are_listed_with_licence_and_hash() -> None:
    rows = ROW.findall((VENDORED / "VENDORED.md").read_text("utf-8"))
    listed = {name: (version, digest) for name, _package, version, _licence, digest in rows}
    files = {path.name for path in VENDORED.iterdir()} - {"VENDORED.md"}

    assert set(listed) == files
    for name, (version, digest) in listed.items():
        content = gzip.decompress((VENDORED / name).read_bytes())
        assert hashlib.sha256(content).hexdigest() == digest, name
        assert version.encode() in content[:200], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(explorer: Explorer, scheme: str) -> None:
    source = gzip.decompress(AXE.read_bytes()).decode("utf-8")
    found: dict[str, list[object]] = {}

    def check(visit: Visit, what: str) -> None:
        visit.page.evaluate(source)
        violations = visit.page.evaluate(VIOLATIONS)
        if violations:
            found[what] = violations

    def look(visit: Visit) -> None:
        for path in (
            "/ui/",
            "/ui/?show=short",
            "/ui/placements/-/web?cluster=osl-1",
            "/ui/placements/-/big",
            f"/ui/placements/-/web?edits={EDITS}",
            "/ui/placements/shop/cache",
            "/ui/clusters/osl-1",
            "/ui/why?placement=web&cluster=osl-1",
            "/ui/placements/-/missing",
            "/ui/signin",
        ):
            visit.open(path)
            check(visit, path)
        page = visit.open("/ui/clusters/ams-1")
        page.click("#drain-leaves")
        page.wait_for_selector("#impact-table")
        check(visit, "drain")
        page = visit.open("/ui/placements/-/web")
        page.focus(".cell")
        check(visit, "tooltip")
        page.goto(f"{explorer.url}/docs")
        page.wait_for_selector("#operations section")
        check(visit, "docs")

    explorer.visit(ADMIN, look, scheme="dark" if scheme == "dark" else "light")
    assert found == {}
