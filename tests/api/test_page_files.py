"""The files of the explorer: their headers, their lasting URLs, and what is not served."""

from __future__ import annotations

import json
import re
from typing import Final

import httpx
import pytest

from api.http.page_files import MEDIA_TYPES, PageFiles
from api.openapi import openapi
from tests.api.stage import Running

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
REFERENCE: Final = re.compile(r'(?:src|href)="(/[^"#]*)"')
HTML: Final = {"Accept": "text/html"}


def ask(running: Running, path: str, **headers: str) -> httpx.Response:
    return running.call(running.stage.get(path, None, **headers))


@pytest.mark.parametrize("path", ["/ui/", "/docs", "/ui/docs/docs.js", "/ui/docs/docs.css"])
def test_every_file_has_the_strict_policy_and_an_etag(running: Running, path: str) -> None:
    answer = ask(running, path)

    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    assert "set-cookie" not in answer.headers
    again = ask(running, path, **{"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("page", ["/ui/", "/docs"])
def test_everything_that_a_page_refers_to_is_there(running: Running, page: str) -> None:
    references = [path for path in REFERENCE.findall(ask(running, page).text) if path.startswith("/ui/")]

    assert all(ask(running, path).status_code == 200 for path in references)


def test_files_that_a_page_refers_to_may_be_kept_for_good(running: Running) -> None:
    references = [path for path in REFERENCE.findall(ask(running, "/docs").text) if "/~" in path]

    assert references
    for path in references:
        assert "immutable" in ask(running, path).headers["cache-control"]
    other_release = re.sub("~[0-9a-f]+", "~0000", references[0])
    assert ask(running, other_release).headers["cache-control"] == "no-cache"


def test_the_digest_changes_with_any_file() -> None:
    page = {"index.html": b'<script src="/ui/app.js"></script>'}
    one, other = PageFiles({**page, "app.js": b"1"}), PageFiles({**page, "app.js": b"2"})

    assert one.digest != other.digest
    answer = one.respond("index.html")
    assert answer is not None
    assert answer.body == f'<script src="/ui/~{one.digest}/app.js"></script>'.encode()


def test_a_link_to_another_page_stays_as_it_is() -> None:
    links = b'<a href="/ui/placements/">x</a><a href="/ui/index.html">y</a><script src="/ui/none.js"></script>'
    answer = PageFiles({"index.html": links}).respond("index.html")

    assert answer is not None
    assert answer.body == links


@pytest.mark.parametrize("path", ["placements/-/web", "placements/shop/cache", "clusters/a.b.example", "why", "signin"])
def test_paths_of_the_explorer_are_served_its_page(running: Running, path: str) -> None:
    assert ask(running, f"/ui/{path}").content == ask(running, "/ui/").content


@pytest.mark.parametrize(
    "path",
    ["/ui/nothing.js", "/ui/__init__.py", "/ui/../app.py", "/ui/%2e%2e/app.py", "/ui/docs", "/ui/~0000/", "/ui/~"],
)
def test_nothing_else_is_served(running: Running, path: str) -> None:
    answer = ask(running, path)

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_browsers_are_led_to_the_explorer(running: Running) -> None:
    assert ask(running, "/", **HTML).headers["location"] == "/ui/"
    assert ask(running, "/ui").headers["location"] == "/ui/"
    assert ask(running, "/").status_code == 404


def test_only_known_media_types_are_loaded() -> None:
    assert ".py" not in MEDIA_TYPES
    assert "index.html" in PageFiles.load()
    assert "__init__.py" not in PageFiles.load()


def test_pages_are_no_part_of_the_description() -> None:
    assert not [path for path in json.loads(openapi())["paths"] if path.startswith(("/ui", "/docs"))]


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/placements/-/web/why", "/v1/decisions?placement=web&since=0"])
@pytest.mark.parametrize("accepted", ["text/plain", "application/json"])
def test_no_browser_takes_an_answer_for_a_page(running: Running, path: str, accepted: str) -> None:
    answer = running.call(running.stage.get(path, Accept=accepted))

    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not answer.headers["content-type"].startswith("text/html")
