"""`fleet ui`: pages for a kubeconfig, by a process in front of a hub; links of an API with an address of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from fleet.cli.client.connection import ApiConnection
from fleet.cli.commands.serve.ui import open_explorer, show_link, write_page
from tests.fast_yaml import safe_dump
from tests.unit.cli.scripted_api import Asked, Said, ScriptedApi, in_json, refused

PREFIX: Final = "/apis/explain.fleet"
TOKEN: Final = "the-own-token"
SAME: Final = {"Sec-Fetch-Site": "same-origin"}
PATIENCE: Final = 90
PROGRAM: Final = """
import sys
from fleet.cli.main import run
try:
    run()
finally:
    print("loaded sqlalchemy:", "sqlalchemy" in sys.modules)
"""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Explorer:
    process: subprocess.Popen[str]
    link: str
    cookie: str = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = HTTPConnection(urlsplit(self.link).netloc, timeout=PATIENCE)
        content = None if body is None else json.dumps(body)
        more = {"Cookie": self.cookie} if self.cookie else {}
        try:
            connection.request(method, path, content, {**more, **headers})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def without_session(self) -> Explorer:
        return Explorer(self.process, self.link)


@pytest.fixture(scope="module")
def hub() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        api.says(f"{PREFIX}/v1/session", in_json({"user": "carol", "expires": None}))
        yield api


def kubeconfig(folder: Path, server: str) -> Path:
    file = folder / "config"
    content = {
        "current-context": "hub",
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
        "clusters": [{"name": "hub", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": TOKEN}}],
    }
    file.write_text(safe_dump(content))
    return file


@pytest.fixture(scope="module")
def explorer(hub: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """Signed in by its link."""
    folder = tmp_path_factory.mktemp("ui")
    command = [sys.executable, "-m", "fleet.cli", "ui", "--no-open", f"--kubeconfig={kubeconfig(folder, hub.url)}"]
    environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True)
    try:
        assert process.stdout is not None
        link, told = process.stdout.readline().strip(), process.stdout.readline()
        assert link.startswith("http://127.0.0.1:"), link
        assert told == f"Asks context hub of {folder / 'config'} as carol. Press Ctrl-C to stop.\n"
        started = Explorer(process, link)
        signed_in = started.ask("POST", "/v1/session", {"code": link.partition("#")[2]}, **SAME)
        assert signed_in.status == 200, signed_in.body
        assert "HttpOnly; SameSite=Strict" in signed_in.headers["set-cookie"]
        started.cookie = signed_in.headers["set-cookie"].partition(";")[0]
        yield started
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def last(hub: ScriptedApi) -> Asked:
    return hub.asked[-1]


def test_pages_are_those_of_this_installation(explorer: Explorer) -> None:
    page = explorer.without_session().ask("GET", "/ui/placements/-/web")

    assert page.status == 200
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert explorer.without_session().ask("GET", "/openapi.json").json()["info"]["title"] == "Fleet"


def test_questions_go_to_the_hub_with_the_own_credentials_and_nothing_else(
    hub: ScriptedApi, explorer: Explorer
) -> None:
    answer = Said(b'{"items":[]}', headers={"ETag": '"x"', "Set-Cookie": "theirs=1", "Fleet-State": "Scheduled"})
    hub.says(f"{PREFIX}/v1/clusters", answer)

    found = explorer.ask("GET", "/v1/clusters?limit=5", Accept="application/json", **{"X-Remote-User": "admin"})

    assert (found.status, found.body) == (200, b'{"items":[]}')
    assert (found.headers["etag"], found.headers["fleet-state"]) == ('"x"', "Scheduled")
    assert "set-cookie" not in found.headers
    asked = last(hub)
    assert (asked.method, asked.query) == ("GET", {"limit": "5"})
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
    assert not {"Cookie", "X-Remote-User", "Sec-Fetch-Site"} & set(asked.headers)


def test_bodies_reach_the_api(hub: ScriptedApi, explorer: Explorer) -> None:
    hub.says(f"{PREFIX}/v1/simulate", in_json({"ok": True}))

    body = {"placement": {"ref": "web"}}
    assert explorer.ask("POST", "/v1/simulate", body, **SAME, **{"Content-Type": "application/json"}).status == 200
    assert (last(hub).method, last(hub).body) == ("POST", body)


def test_an_unchanged_answer_is_not_sent_again(hub: ScriptedApi, explorer: Explorer) -> None:
    hub.says(f"{PREFIX}/v1/matrix", Said(status=304, headers={"ETag": '"m"'}))

    assert explorer.ask("GET", "/v1/matrix", **{"If-None-Match": '"m"'}).status == 304
    assert last(hub).headers["If-None-Match"] == '"m"'


def test_a_stream_resumes_and_says_that_it_has_no_end(hub: ScriptedApi, explorer: Explorer) -> None:
    hub.says(f"{PREFIX}/v1/decisions", Said(b"id: 8\nevent: decision\ndata: {}\n\n", media_type="text/event-stream"))

    stream = explorer.ask("GET", "/v1/decisions", Accept="text/event-stream", **{"Last-Event-ID": "7"})

    assert stream.body.startswith(b"id: 8\n")
    assert last(hub).query == {"watch": "true"}
    assert last(hub).headers["Last-Event-ID"] == "7"


def test_without_the_session_nothing_is_asked(hub: ScriptedApi, explorer: Explorer) -> None:
    before, stranger = len(hub.asked), explorer.without_session()
    answers = [
        stranger.ask("GET", "/v1/clusters"),
        stranger.ask("GET", "/v1/session"),
        stranger.ask("GET", "/v1/clusters", Authorization="Bearer x"),
        stranger.ask("POST", "/v1/session", {"code": explorer.link.partition("#")[2]}),
        Explorer(explorer.process, explorer.link, cookie="fleet-session=x").ask("GET", "/v1/clusters"),
    ]

    assert [answer.status for answer in answers] == [401] * 5
    assert "start `fleet ui` again" in answers[0].json()["next"]
    assert len(hub.asked) == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://elsewhere.example"},
    ],
)
def test_pages_of_other_origins_ask_nothing(hub: ScriptedApi, explorer: Explorer, headers: dict[str, str]) -> None:
    before = len(hub.asked)

    assert explorer.ask("GET", "/v1/clusters", **headers).status == 403
    assert explorer.ask("POST", "/v1/simulate", {}, **headers).status == 403
    assert explorer.ask("POST", "/v1/session", {"code": "x"}, **headers).status == 403
    assert len(hub.asked) == before


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../../../api/v1/secrets",
        "/v1/..%2f..%2fapi/v1/secrets",
        "/v1/%2e%2e/%2e%2e/api/v1/secrets",
        "/v1//secrets",
        "/v1/x/..",
        "/v1/x\\..\\y",
        "/api/v1/secrets",
        "/v1/session/link",
    ],
)
def test_no_path_leads_out_of_the_api(hub: ScriptedApi, explorer: Explorer, path: str) -> None:
    before = [asked.path for asked in hub.asked]

    assert explorer.ask("GET", path).status == 404
    assert [asked.path for asked in hub.asked][len(before) :] in ([], [f"{PREFIX}/v1/session/link"])


def test_errors_of_the_api_come_through_as_they_are(hub: ScriptedApi, explorer: Explorer) -> None:
    hub.says(f"{PREFIX}/v1/placements/-/none", refused(404, "placement none was never seen here"))

    answer = explorer.ask("GET", "/v1/placements/-/none")

    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["detail"] == "placement none was never seen here"


def test_errors_of_the_hub_say_what_to_do(hub: ScriptedApi, explorer: Explorer) -> None:
    hub.says(f"{PREFIX}/v1/config", Said(b"error trying to reach service", 503, "text/plain"))
    hub.says(f"{PREFIX}/v1/profiles", in_json({"kind": "Status", "message": 'User "carol" cannot get it'}, 403))
    hub.says(f"{PREFIX}/v1/bindings", in_json({"kind": "Status", "message": "Unauthorized"}, 401))

    down, forbidden, expired = (explorer.ask("GET", f"/v1/{name}") for name in ("config", "profiles", "bindings"))

    assert (down.status, forbidden.status, expired.status) == (503, 403, 503)
    assert down.json()["detail"] == "the hub cannot reach the Fleet API: error trying to reach service"
    assert "fleet-ask-carol" in forbidden.json()["next"]
    assert expired.json()["next"].startswith("log in again")


def test_an_answer_that_breaks_off_is_no_whole_answer(hub: ScriptedApi, explorer: Explorer) -> None:
    hub.says(f"{PREFIX}/v1/status", Said(b'{"at":', promised=100))

    with pytest.raises(Exception, match=r"IncompleteRead|closed|reset"):
        explorer.ask("GET", "/v1/status")
    hub.says(f"{PREFIX}/v1/status", in_json({}))
    assert explorer.ask("GET", "/v1/status").status == 200


def test_who_signs_out_has_to_start_again(hub: ScriptedApi, tmp_path: Path) -> None:
    """In a process of its own, which a signal ends in order; nothing that it prints has the token."""
    command = [sys.executable, "-c", PROGRAM, "ui", "--no-open", f"--kubeconfig={kubeconfig(tmp_path, hub.url)}"]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
    ) as process:
        stopping = threading.Timer(PATIENCE, process.kill)
        stopping.start()
        try:
            assert process.stdout is not None
            started = Explorer(process, process.stdout.readline().strip())
            signed_in = started.ask("POST", "/v1/session", {"code": started.link.partition("#")[2]})
            started.cookie = signed_in.headers["set-cookie"].partition(";")[0]
            assert started.ask("GET", "/v1/session").json() == {"user": "carol", "expires": None}
            assert started.ask("DELETE", "/v1/session", **SAME).status == 204
            assert started.ask("GET", "/v1/session").status == 401
            process.send_signal(signal.SIGINT)
            printed = process.stdout.read()
            assert process.wait() == 0
        finally:
            stopping.cancel()
    assert TOKEN not in printed
    assert "loaded sqlalchemy: False" in printed, "it relays, and needs nothing that answers"


# --- an API with an address of its own --------------------------------------------------------------------------------


def test_an_api_with_an_address_makes_the_link(hub: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    hub.says("/v1/session/link", in_json({"path": "/ui/signin#abc", "expires": "2026-03-10T09:00:00Z"}))

    code = open_explorer(ApiConnection(hub.url, TOKEN), port=0, opens=False)

    assert code == 0
    assert capsys.readouterr().out == f"{hub.url}/ui/signin#abc\n"
    assert (last(hub).method, last(hub).headers["Authorization"]) == ("POST", f"Bearer {TOKEN}")


def test_the_browser_is_started_with_a_file_that_only_its_owner_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users can see the arguments of its process."""
    opened: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", opened.append)

    show_link("http://127.0.0.1:1/ui/signin#abc", opens=True)

    page = Path(urlsplit(opened[0]).path)
    assert "abc" not in opened[0]
    assert re.search(r'url=http://127\.0\.0\.1:1/ui/signin#abc"', page.read_text())
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700


def test_an_address_cannot_add_markup_to_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert "<script>" not in write_page('http://x/"><script>').read_text()


def test_without_a_browser_the_link_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: str) -> None:
        raise webbrowser.Error("none")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", fail)

    show_link("http://127.0.0.1:1/x", opens=True)

    assert capsys.readouterr().out == "http://127.0.0.1:1/x\n"
