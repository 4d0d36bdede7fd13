"""Which API is asked, and with which token."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path

import pytest

from fleet.cli.client.connection import ApiConnection, ConnectionOptions, find_connection
from fleet.cli.client.last_up import UpInstance, announce, find_latest_up
from fleet.errors import ConfigurationError


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def up_at(tmp_path: Path, port: int, token: str = "of-up") -> UpInstance:
    file = tmp_path / f"token-{port}"
    file.write_text(f"{token}\n")
    return UpInstance(api=f"http://127.0.0.1:{port}", token_file=str(file), kubeconfig=str(tmp_path / "kubeconfig"))


def refusal(wanted: ConnectionOptions, environ: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as refused:
        find_connection(wanted, environ)
    return str(refused.value)


def kubeconfig_for(file: Path, server: str) -> Path:
    content = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {}}],
    }
    file.write_text(json.dumps(content))
    return file


# --- where --------------------------------------------------------------------------------------------------------


def test_without_any_word_of_an_api_it_is_said_what_to_do(state: dict[str, str]) -> None:
    said = refusal(ConnectionOptions(), state)

    assert said.startswith("no Fleet API found\nnext: try `fleet up`, or set --kubeconfig (or KUBECONFIG), or --api")
    assert "FLEET_TOKEN_FILE" in said


def test_a_fleet_that_is_up_is_asked_with_its_own_token(tmp_path: Path, state: dict[str, str]) -> None:
    with announce(up_at(tmp_path, 8001), state):
        found = find_connection(ConnectionOptions(), state)

    assert found == ApiConnection("http://127.0.0.1:8001", "of-up", is_last_up=True)


def test_an_option_counts_more_than_the_environment_and_that_more_than_a_fleet_up(
    tmp_path: Path, state: dict[str, str]
) -> None:
    environ = state | {"FLEET_API": "https://fleet.example/api/"}
    with announce(up_at(tmp_path, 8001), state):
        assert find_connection(ConnectionOptions(), environ).url == "https://fleet.example/api"
        assert find_connection(ConnectionOptions(api="http://10.0.0.1"), environ).url == "http://10.0.0.1"


def test_a_command_that_changes_a_hub_asks_no_other_api(tmp_path: Path, state: dict[str, str]) -> None:
    kubeconfig = kubeconfig_for(tmp_path / "kubeconfig", "https://hub.example")
    environ = state | {"FLEET_API": "https://fleet.example", "KUBECONFIG": str(kubeconfig)}

    assert find_connection(ConnectionOptions(), environ).url == "https://fleet.example"
    assert find_connection(ConnectionOptions(of_hub=True), environ).url.startswith("https://hub.example/")


def test_kubectl_and_the_command_speak_of_one_hub(
    tmp_path: Path, state: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two fleets that are up, the one of the kubeconfig is asked, though the other started later."""
    for port in (9001, 9002):
        (tmp_path / str(port)).mkdir()
        kubeconfig_for(tmp_path / str(port) / "kubeconfig", f"http://127.0.0.1:{port}")
    first, second = (
        UpInstance(
            api=f"http://127.0.0.1:{port - 1000}",
            token_file=up_at(tmp_path, port).token_file,
            kubeconfig=str(tmp_path / str(port) / "kubeconfig"),
        )
        for port in (9001, 9002)
    )
    environ = state | {"KUBECONFIG": first.kubeconfig}
    with announce(first, state):
        monkeypatch.setattr(os, "getpid", lambda: 1)  # as another process
        with announce(second, state):
            assert find_connection(ConnectionOptions(), state).url == second.api
            assert find_connection(ConnectionOptions(), environ).url == first.api


def test_a_fleet_up_that_is_not_the_hub_of_the_kubeconfig_is_not_asked(tmp_path: Path, state: dict[str, str]) -> None:
    kubeconfig_for(tmp_path / "kubeconfig", "http://127.0.0.1:9001")
    elsewhere = kubeconfig_for(tmp_path / "elsewhere", "https://hub.example.com:6443")
    environ = state | {"KUBECONFIG": str(elsewhere)}
    with announce(up_at(tmp_path, 8001), state):
        connection = find_connection(ConnectionOptions(), environ)
        with_option = find_connection(ConnectionOptions(api="http://127.0.0.1:8001"), environ)

    assert connection.url == "https://hub.example.com:6443/apis/explain.fleet"
    assert connection.other_up == (
        "the running fleet up is not the hub of your kubeconfig: its hub is http://127.0.0.1:9001, and kubectl talks "
        f"to https://hub.example.com:6443\nnext: export KUBECONFIG={tmp_path}/kubeconfig, or name an API with --api "
        "(or FLEET_API)"
    )
    assert with_option.token == "of-up"


def test_a_kubeconfig_that_names_no_server_is_no_reason_to_refuse(tmp_path: Path, state: dict[str, str]) -> None:
    (tmp_path / "empty").write_text("")
    with announce(up_at(tmp_path, 8001), state):
        assert find_connection(ConnectionOptions(), state | {"KUBECONFIG": str(tmp_path / "empty")}).is_last_up


def test_a_kubeconfig_that_is_not_there_is_named_and_no_other_hub_is_asked(
    tmp_path: Path, state: dict[str, str]
) -> None:
    with announce(up_at(tmp_path, 8001), state):
        said = refusal(ConnectionOptions(), state | {"KUBECONFIG": f"{tmp_path}/kubecofnig"})

    assert f"there is no file {tmp_path}/kubecofnig; name another file with" in said


def test_the_token_of_a_fleet_up_goes_to_no_other_api(tmp_path: Path, state: dict[str, str]) -> None:
    with announce(up_at(tmp_path, 8001), state):
        assert find_connection(ConnectionOptions(api="http://127.0.0.1:8002"), state).token == ""
        assert find_connection(ConnectionOptions(api="http://127.0.0.1:8001/"), state).token == "of-up"


def test_a_token_file_of_the_option_counts_more_than_that_of_the_environment(
    tmp_path: Path, state: dict[str, str]
) -> None:
    (tmp_path / "one").write_text("first")
    (tmp_path / "two").write_text("second")
    environ = state | {"FLEET_API": "http://10.0.0.1", "FLEET_TOKEN_FILE": str(tmp_path / "two")}

    assert find_connection(ConnectionOptions(), environ).token == "second"
    assert find_connection(ConnectionOptions(token_file=tmp_path / "one"), environ).token == "first"


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:80", "ftp://x", "http://", "http://x:99999", "http://x?y=1", "http://a b", "http://u:p@x", "http://[x"],
)
def test_what_is_no_address_is_refused_with_an_example(url: str, state: dict[str, str]) -> None:
    assert refusal(ConnectionOptions(api=url), state) == (
        f"--api: {url!r} is not the URL of an API; write it as http://127.0.0.1:8080"
    )


def test_a_token_does_not_show_when_a_connection_is_printed() -> None:
    assert "secret" not in repr(ApiConnection("http://x", "secret"))


# --- token files --------------------------------------------------------------------------------------------------


def token_refusal(file: Path, state: dict[str, str]) -> str:
    return refusal(ConnectionOptions(api="http://x", token_file=file), state)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path, state: dict[str, str]) -> None:
    file = tmp_path / "none"

    assert token_refusal(file, state) == f"--token-file: {file} cannot be read: No such file or directory"


@pytest.mark.parametrize("content", ["", "two tokens", "one\ntwo"], ids=["nothing", "a blank", "two lines"])
def test_a_token_file_holds_one_token(content: str, tmp_path: Path, state: dict[str, str]) -> None:
    file = tmp_path / "token"
    file.write_text(content)

    assert token_refusal(file, state) == f"--token-file: {file} should contain one token and nothing else"


def test_a_token_is_ascii(tmp_path: Path, state: dict[str, str]) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe")

    assert "a token is plain ASCII" in token_refusal(file, state)


# --- fleets that are up -------------------------------------------------------------------------------------------


def test_a_fleet_that_ended_is_not_found(tmp_path: Path, state: dict[str, str]) -> None:
    with announce(up_at(tmp_path, 8001), state):
        pass

    assert find_latest_up(state) is None


def test_what_a_killed_process_left_behind_counts_for_nothing(tmp_path: Path, state: dict[str, str]) -> None:
    folder = tmp_path / "state" / "fleet" / "up"
    folder.mkdir(parents=True)
    left = {"api": "http://127.0.0.1:1", "token_file": "x", "kubeconfig": "x"}
    (folder / "1.json").write_text(json.dumps(left))

    assert find_latest_up(state) is None


def test_what_was_left_behind_is_swept_away_by_the_next_fleet(tmp_path: Path, state: dict[str, str]) -> None:
    folder = tmp_path / "state" / "fleet" / "up"
    folder.mkdir(parents=True)
    (folder / "1.json").write_text("{}")

    with announce(up_at(tmp_path, 8001), state):
        assert [one.name for one in folder.iterdir()] == [f"{os.getpid()}.json"]


def test_of_two_fleets_the_one_that_started_last_is_asked(tmp_path: Path, state: dict[str, str]) -> None:
    folder = tmp_path / "state" / "fleet" / "up"
    with announce(up_at(tmp_path, 8001), state):
        (mine,) = folder.iterdir()
        older = folder / "1.json"
        older.write_text(mine.read_text().replace("8001", "7999"))
        with older.open() as other:  # another process, older and alive
            fcntl.flock(other, fcntl.LOCK_EX)
            os.utime(older, (1, 1))
            assert find_latest_up(state) == up_at(tmp_path, 8001)
            os.utime(mine, (0, 0))
            found = find_latest_up(state)

    assert found is not None
    assert found.api == "http://127.0.0.1:7999"


def test_what_is_said_of_a_fleet_is_for_its_owner(tmp_path: Path, state: dict[str, str]) -> None:
    with announce(up_at(tmp_path, 8001), state):
        (file,) = (tmp_path / "state" / "fleet" / "up").iterdir()

        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_file_that_is_no_announcement_is_passed_over(tmp_path: Path, state: dict[str, str]) -> None:
    with announce(up_at(tmp_path, 8001), state):
        (mine,) = (tmp_path / "state" / "fleet" / "up").iterdir()
        for name, content in {"2.json": "{", "3.json": "[]", "4.json": '{"api": 1, "more": 2}'}.items():
            (mine.parent / name).write_text(content)

        assert find_latest_up(state) == up_at(tmp_path, 8001)


def test_a_fleet_runs_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    state = {"XDG_STATE_HOME": str(tmp_path / "file")}

    with announce(up_at(tmp_path, 8001), state):
        assert find_latest_up(state) is None
