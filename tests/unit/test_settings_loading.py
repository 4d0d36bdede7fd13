"""Settings from three places: what holds, whose word it is, and everything that is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import ConfigurationError
from fleet.settings import Effective, Settings, load_settings
from fleet.settings.document.extenders import TlsOptions
from fleet.settings.document.feeds import HttpSource
from fleet.settings.document.substitution import SecretValues
from fleet.settings.loading import Flag
from fleet.settings.names import known_settings, render_value
from fleet.settings.tree import SHARES

NOTHING: Mapping[str, str] = {}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fleet.yaml"


def from_file(file: Path, text: str) -> Effective:
    file.write_text(text, encoding="utf-8")
    return load_settings(file, NOTHING, ())


def problems(
    file: Path | None = None, environ: Mapping[str, str] = NOTHING, assignments: Sequence[str] = ()
) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(file, environ, assignments)
    folder = f"{file.parent}/" if file else "/"
    return [line.removeprefix(folder) for line in str(caught.value).split("\n")]


def problems_of(file: Path, text: str) -> list[str]:
    file.write_text(text, encoding="utf-8")
    return problems(file)


# --- what holds -------------------------------------------------------------------------------------------------------


def test_nothing_said_leaves_the_defaults() -> None:
    found = load_settings(None, NOTHING, ())
    assert found.settings.collect_changes() == {}
    assert set(found.origins.values()) == {"default"}
    assert found.origins.keys() == known_settings().keys()


def test_the_command_line_beats_the_environment_beats_the_file(file: Path) -> None:
    file.write_text("queue:\n  burst: 1\n  rate: 1/s\nworkers: 1\nmaxFleetSize: 7\n", encoding="utf-8")
    environ = {"FLEET_QUEUE__RATE": "2/s", "FLEET_WORKERS": "2"}
    found = load_settings(file, environ, ["workers=3"])
    assert found.settings.collect_changes() == {"queue.burst": 1, "queue.rate": "2/s", "workers": 3, "maxFleetSize": 7}
    assert {name: found.origins[name] for name in found.settings.collect_changes()} == {
        "queue.burst": f"{file}:2",
        "queue.rate": "env:FLEET_QUEUE__RATE",
        "workers": "--set",
        "maxFleetSize": f"{file}:5",
    }


@pytest.mark.parametrize(
    "given,told",
    [
        ("postgresql://fleet:s3cret@db.example/history", "postgresql://fleet:***@db.example/history"),
        ("postgresql://fleet:s3/cr@et@db.example/history", "postgresql://fleet:***@db.example/history"),
        ("postgresql://db.example/history?password=s3cret", "postgresql://db.example/history?password=***"),
        ("sqlite:////var/lib/fleet/history.sqlite", "sqlite:////var/lib/fleet/history.sqlite"),
    ],
)
def test_what_is_told_about_settings_holds_no_secrets(given: str, told: str) -> None:
    found = load_settings(None, {"FLEET_HISTORY__URL": given}, ())
    assert found.settings.collect_changes() == {"history.url": told}
    assert found.settings.history.url == given


def test_an_option_of_its_own_beats_set() -> None:
    found = load_settings(
        None, NOTHING, ["health.address=:1"], flags=[Flag("--health-address", "health.address", ":2")]
    )
    assert found.settings.health.address.port == 2
    assert found.origins["health.address"] == "--health-address"


def test_a_default_that_is_said_aloud_is_somebodys_word() -> None:
    assert load_settings(None, {"FLEET_QUEUE__BURST": "100"}, ()).origins["queue.burst"] == "env:FLEET_QUEUE__BURST"


LISTS = {"Kinds": "apps", "Namespaces": "a", "Suites": "TLS_AES_128_GCM_SHA256"}
"""An element, by a part of the setting's name."""


@pytest.mark.parametrize("name", known_settings())
def test_every_setting_can_be_set_in_each_of_the_three_places(name: str, file: Path) -> None:
    known = known_settings()[name]
    value = render_value(known.default) or next((text for part, text in LISTS.items() if part in name), "7")
    *sections, leaf = name.split(".")
    lines = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    file.write_text("\n".join([*lines, f"{'  ' * len(sections)}{leaf}: {value}"]), encoding="utf-8")

    assert load_settings(file, NOTHING, ()).origins[name] == f"{file}:{len(sections) + 1}"
    assert load_settings(None, {known.variable: value}, ()).origins[name] == f"env:{known.variable}"
    assert load_settings(None, NOTHING, [f"{name}={value}"]).origins[name] == "--set"


@pytest.mark.parametrize(
    "name, variable",
    [
        ("workers", "FLEET_WORKERS"),
        ("maxFleetSize", "FLEET_MAX_FLEET_SIZE"),
        ("eligibility.heartbeatTimeout", "FLEET_ELIGIBILITY__HEARTBEAT_TIMEOUT"),
        ("leaderElection.leaderElect", "FLEET_LEADER_ELECTION__LEADER_ELECT"),
        ("api.budget.bind.qps", "FLEET_API__BUDGET__BIND__QPS"),
    ],
)
def test_variables_are_named_after_settings(name: str, variable: str) -> None:
    assert known_settings()[name].variable == variable


# --- the file ---------------------------------------------------------------------------------------------------------


def test_words_that_yaml_takes_for_truth_values_stay_words(file: Path) -> None:
    assert from_file(file, "capacity: {reservation: Off}\nmetrics: {address: off}\n").settings.metrics.address.is_off


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "queue:\n  # burst: 5\n"])
def test_a_file_may_say_nothing(file: Path, text: str) -> None:
    assert from_file(file, text).settings.collect_changes() == {}


@pytest.mark.parametrize("text", ["[team-a, team-b]", "team-a,team-b", "team-a; team-b", "\n  - team-a\n  - team-b"])
def test_lists_are_lists_or_words_with_separators(file: Path, text: str) -> None:
    found = from_file(file, f"selection:\n skippedNamespaces: {text}\n")
    assert found.settings.selection.skipped_namespaces == ("team-a", "team-b")


@pytest.mark.parametrize(
    "text, want",
    [
        ("queue: {burst: 1, burst: 2}", "fleet.yaml:1: queue.burst is given twice; the other one is in line 1"),
        ("workers: 1\nqueue: {}\nworkers: 1", "fleet.yaml:3: workers is given twice; the other one is in line 1"),
        ("workers: '5'", "fleet.yaml:1: setting workers: '5' should stand without quotation marks"),
        ("workers: 1:30", "fleet.yaml:1: setting workers: '1:30' should be a whole number"),
        ("workers:", "fleet.yaml:1: setting workers has no value; leave the line out for its default"),
        ("workers: {a: 1}", "fleet.yaml:1: setting workers should be one value, or a list of words"),
        ("workers: [1]", "fleet.yaml:1: setting workers: should be one value, not a list"),
        ("logging: {level: [info]}", "fleet.yaml:1: setting logging.level: should be one value, not a list"),
        ("queue: 5", "fleet.yaml:1: queue should hold settings, one per line as name: value"),
        ("- queue", "fleet.yaml:1: the file should hold settings, one per line as name: value"),
        ("queue:\n  mod: simple", "fleet.yaml:2: no setting named 'queue.mod'; did you mean queue.mode?"),
        ("quue:\n  mode: simple", "fleet.yaml:1: no setting named 'quue'; did you mean queue?"),
        ("? [a]\n: b", "fleet.yaml:1: a name should be a plain word"),
        ("queue: *a", "fleet.yaml:1: is not YAML: found undefined alias 'a'"),
        ("a: [", "fleet.yaml:1: is not YAML: expected the node content, but found '<stream end>'"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_line(file: Path, text: str, want: str) -> None:
    assert problems_of(file, text) == [want]


def test_a_section_inside_itself_is_no_value(file: Path) -> None:
    assert problems_of(file, "queue: &q\n  mode: *q\n") == ["fleet.yaml:1: refers to itself by an alias"]


def test_a_section_may_stand_in_two_places(file: Path) -> None:
    file.write_text("queue: &q {}\nlogging: *q\n", encoding="utf-8")
    assert load_settings(file, {}, []).settings == Settings()


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    assert problems(file) == ["fleet.yaml: cannot be read: No such file or directory"]


def test_a_file_in_another_encoding_is_refused(file: Path) -> None:
    file.write_bytes(b"workers: \xff\n")
    assert problems(file) == ["fleet.yaml: cannot be read: it is not UTF-8"]


@pytest.mark.parametrize(
    "text, want",
    [
        ("apps", ("apps",)),
        ("apps/v1; v1/ConfigMap", ("apps/v1", "v1/ConfigMap")),
        ("apps/v1/Deployment,StatefulSet;batch", ("apps/v1/Deployment,StatefulSet", "batch")),
        ("[networking.k8s.io/v1beta1, v1]", ("networking.k8s.io/v1beta1", "v1")),
    ],
)
def test_kinds_are_named_as_kubefleet_names_them(file: Path, text: str, want: tuple[str, ...]) -> None:
    assert from_file(file, f"selection:\n  skippedKinds: {text}\n").settings.selection.skipped_kinds == want


YAML_WORDS = st.sampled_from(
    [
        *("queue", "workers", "mode", "burst", "api", "budget", "1", "1e999", "yes", "~", "&a ", "*a", "<<", "? "),
        *(":", ": ", "- ", "{", "}", "[", "]", ",", "'", '"', "|", ">", "#", "%", "@", "---", "!!int ", "!!map "),
        *("\n", "\n  ", "\t", "\x00"),
    ]
)


@given(st.one_of(st.text(), st.lists(YAML_WORDS).map("".join)))
def test_whatever_the_file_holds_it_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    with suppress(ConfigurationError):
        load_settings(file, NOTHING, ())


@pytest.mark.parametrize("text", ["[" * 5000, "a: " * 5000, "{a: " * 5000, "- " * 5000])
def test_a_file_nested_beyond_measure_is_refused(file: Path, text: str) -> None:
    (found,) = problems_of(file, text)
    assert found.startswith("fleet.yaml")


@pytest.mark.parametrize("text", ["1" * 5000, "1.5", "1e3", "0x10", "1_000_000_000"])
def test_numbers_that_are_none_or_too_large_are_refused(file: Path, text: str) -> None:
    (found,) = problems_of(file, f"workers: {text}\n")
    assert " should be " in found


# --- the environment --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variable",
    ["FLEET_LONG", "FLEET_API_SERVICE_HOST", "FLEET_API_PORT", "FLEET_API_PORT_443_TCP_ADDR", "FLEET_WORKERS_PORT"],
)
def test_variables_of_others_are_left_alone(variable: str) -> None:
    assert load_settings(None, {variable: "x", "PATH": "x", "fleet_workers": "x"}, ()).settings.collect_changes() == {}


@pytest.mark.parametrize(
    "variable, want",
    [
        ("FLEET_QUEUE__MOD", "; did you mean FLEET_QUEUE__MODE?"),
        ("FLEET_ELIGIBILITY_HEARTBEAT_TIMEOUT", "; did you mean FLEET_ELIGIBILITY__HEARTBEAT_TIMEOUT?"),
        ("FLEET_WORKER", "; did you mean FLEET_WORKERS?"),
        ("FLEET_ZZ__ZZ", "; see the names in docs/settings.md"),
    ],
)
def test_a_variable_that_was_meant_for_us_is_refused(variable: str, want: str) -> None:
    assert problems(environ={variable: "1"}) == [f"env:{variable}: no setting has this variable{want}"]


def test_a_wrong_value_names_variable_and_setting() -> None:
    assert problems(environ={"FLEET_WORKERS": "0"}) == [
        "env:FLEET_WORKERS: setting workers: '0' should be greater than or equal to 1"
    ]


# --- the command line, and all of them --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assignment, want",
    [
        ("queue.mode", "--set: setting 'queue.mode' has no value: write queue.mode=VALUE"),
        (
            "logging=debug",
            "--set: logging is a section, not a setting: give a value to one of logging.level, logging.format",
        ),
        ("Queue.Mode=simple", "--set: no setting named 'Queue.Mode'; did you mean queue.mode?"),
        ("queue.rate=5", "--set: setting queue.rate: '5' should be a rate above zero such as 10/s or 600/m"),
        ("queue.rate=0/s", "--set: setting queue.rate: '0/s' should be a rate above zero such as 10/s or 600/m"),
        ("queue.maxDelay=5", "--set: setting queue.maxDelay: '5' should be a duration such as 90s, 5m or 1h30m"),
        ("queue.maxDelay=0s", "--set: setting queue.maxDelay: '0s' should be longer than 0"),
        (
            "leaderElection.resourceName=a/b",
            "--set: setting leaderElection.resourceName: 'a/b' should be a name of lower-case letters, digits, dots "
            "and dashes",
        ),
        ("api.qps=inf", "--set: setting api.qps: 'inf' should be a number"),
        (
            "metrics.address=8080",
            "--set: setting metrics.address: '8080' should be an address such as "
            ":8080, 127.0.0.1:8080 or [::1]:8080, or off",
        ),
        (
            "selection.skippedKinds=apps;Deployment",
            "--set: setting selection.skippedKinds: 'apps;Deployment' should be group, group/version or "
            "group/version/Kind,Kind, separated by semicolons, which 'Deployment' is not",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_on_the_command_line_is_told_with_what_would_be_right(assignment: str, want: str) -> None:
    assert problems(assignments=[assignment]) == [want]


@pytest.mark.parametrize(
    "assignment, only",
    [("eviction.cooldown=1s", "0s")],
)
def test_a_setting_without_effect_yet_is_refused_and_not_ignored(assignment: str, only: str) -> None:
    name, _, value = assignment.partition("=")
    assert problems(assignments=[assignment]) == [
        f"--set: setting {name}: '{value}' would have no effect yet; only {only} is accepted"
    ]


@pytest.mark.parametrize(
    "text", ["pool=a", "pool in (a,b),!old", "example.com/pool!=a", "pool,env notin (x, y)", "pool="]
)
def test_a_selector_of_clusters_is_taken_as_it_is_written(text: str) -> None:
    assert load_settings(None, NOTHING, [f"capacity.clusterSelector={text}"]).settings.capacity.cluster_selector == text


@pytest.mark.parametrize("text", ["pool=a,", "pool in ()", "pool in a", "=a", "pool in (a", "a b"])
def test_a_selector_of_clusters_that_cannot_be_read_is_refused(text: str) -> None:
    (problem,) = problems(assignments=[f"capacity.clusterSelector={text}"])
    assert "should be labels such as pool=a,env in (test, dev),!retired" in problem


@pytest.mark.parametrize("assignment", ["eviction.cooldown=0", "capacity.reservation=Off"])
def test_its_default_is_accepted(assignment: str) -> None:
    assert load_settings(None, NOTHING, [assignment]).origins[assignment.partition("=")[0]] == "--set"


def test_every_problem_of_every_place_is_told_even_where_it_would_not_count(file: Path) -> None:
    file.write_text("workers: many\nqueue: {mod: 1}\n", encoding="utf-8")
    assert problems(file, {"FLEET_WORKERS": "few", "FLEET_ZZ__ZZ": "1"}, ["workers=5", "x=1"])[:4] == [
        "fleet.yaml:2: no setting named 'queue.mod'; did you mean queue.mode?",
        "env:FLEET_ZZ__ZZ: no setting has this variable; see the names in docs/settings.md",
        "--set: no setting named 'x'; settings begin with one of "
        + ", ".join(sorted({name.partition(".")[0] for name in known_settings()})),
        "fleet.yaml:1: setting workers: 'many' should be a whole number",
    ]


# --- together ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assignments, want",
    [
        (["queue.maxDelay=1ms"], "queue.maxDelay 1ms should not be shorter than queue.baseDelay 5ms"),
        (
            ["queue.initialBackoffSeconds=11"],
            "queue.maxBackoffSeconds 10 should not be less than queue.initialBackoffSeconds 11",
        ),
        (
            ["queue.maxInUnschedulableSeconds=29"],
            "queue.maxInUnschedulableSeconds 29 should be 30 or more, or 0 for never",
        ),
        (
            ["api.qps=250", "api.budget.bind.qps=200"],
            "the rates of api.budget should not exceed api.qps 250 together, and are 300",
        ),
        (
            ["api.budget.bind.burst=700"],
            "the bursts of api.budget should not exceed api.burst 1000 together, and are 1100",
        ),
        (
            ["selection.allowedKinds=apps", "selection.skippedKinds=batch"],
            "selection.allowedKinds and selection.skippedKinds exclude each other: set one of them",
        ),
        (
            ["leaderElection.leaseDuration=9s"],
            "leaderElection.retryPeriod should be shorter than renewDeadline, and that shorter than leaseDuration, but "
            "they are 2s, 10s and 9s",
        ),
        (["leaderElection.leaseDuration=60500ms"], "leaderElection.leaseDuration 60500ms should be whole seconds"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(assignments: list[str], want: str) -> None:
    assert problems(assignments=assignments) == [f"--set: {want}"]


def test_a_contradiction_names_every_place_that_has_a_part_in_it(file: Path) -> None:
    file.write_text("queue: {baseDelay: 2m}\n", encoding="utf-8")
    (found,) = problems(file, {"FLEET_QUEUE__MAX_DELAY": "1m"})
    assert found.startswith("fleet.yaml:1, env:FLEET_QUEUE__MAX_DELAY: queue.maxDelay 1m")


def test_a_class_may_have_a_rate_where_the_others_have_none() -> None:
    api = load_settings(None, NOTHING, ["api.budget.bind.qps=200"]).settings.api
    assert [api.rate_of(name) for name in SHARES] == [200, None, None]


def test_budgets_follow_the_limit_they_are_shares_of() -> None:
    api = load_settings(None, NOTHING, ["api.qps=100", "api.burst=10"]).settings.api
    assert [api.rate_of(one) for one in ("bind", "evict", "status")] == [60, 20, 20]
    assert [api.burst_of(one) for one in ("bind", "evict", "status")] == [6, 2, 2]


def test_values_of_secrets_stay_as_written_until_they_are_read(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
        "substitution: {fromSecret: [outside]}\nextenders: [{name: x, urlPrefix: '${URL}', filterVerb: filter}]\n"
    )

    offline = load_settings(file, {}, ())
    assert (offline.secret_names, offline.settings.extenders[0].url) == (("outside",), "${URL}")
    loaded = load_settings(file, {}, (), secrets=SecretValues({"URL": "https://budget.example.com"}))
    assert loaded.settings.extenders[0].url == "https://budget.example.com"
    assert "budget" not in repr([*loaded.settings.list_document_values()])
    (without,) = load_settings(file, {}, (), secrets=SecretValues()).settings.extenders
    assert without.problem == "${URL} has no value: no key URL in outside"


def test_what_a_profile_takes_from_a_secret_has_to_be_there(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
        "substitution: {fromSecret: [outside]}\nprofiles: [{schedulerName: '${NAME}'}]\n"
    )
    with pytest.raises(ConfigurationError, match=r"schedulerName: \$\{NAME\} has no value: no key NAME in outside"):
        load_settings(file, {}, (), secrets=SecretValues())


def test_messages_about_values_from_outside_show_the_reference(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
        "substitution: {fromSecret: [outside]}\napi: {qps: '${Q}'}\n"
    )
    with pytest.raises(ConfigurationError, match=r"setting api\.qps: '\$\{Q\}' should be a number") as refused:
        load_settings(file, {}, (), secrets=SecretValues({"Q": "hunter2"}))
    assert "hunter2" not in str(refused.value)


def test_a_token_is_read_without_a_block_of_substitutions(tmp_path: Path) -> None:
    """The example of docs/load.md."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "load.md").read_text(encoding="utf-8")
    file = tmp_path / "fleet.yaml"
    file.write_text(page.partition("```yaml\n")[2].partition("```")[0])

    offline = load_settings(file, {}, ())
    assert offline.secret_names == ("load-metrics",)
    loaded = load_settings(file, {}, (), secrets=SecretValues({"load-metrics:token": "from-outside"}))
    (feed,) = loaded.settings.feeds
    assert feed.source.bearer_token == "from-outside"  # type: ignore[union-attr]


def test_T_05_a_certificate_that_is_not_checked_leaves_the_own_one_in_use(tmp_path: Path) -> None:
    tls = "{serverName: metrics, caFile: /ca.pem, certFile: /tls.crt, keyFile: /tls.key}"
    provider = f"{{type: Prometheus, address: 'https://m.example.com', insecureSkipVerify: true, tlsConfig: {tls}}}"
    config = f"[{{name: TargetLoadPacking, args: {{metricProvider: {provider}}}}}]"
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
        f"profiles:\n- base: LoadAware\n  pluginConfig: {config}\n"
    )
    (feed,) = load_settings(file, {}, ()).settings.feeds
    assert isinstance(feed.source, HttpSource)
    assert feed.source.tls == TlsOptions(
        insecure=True, server_name="metrics", cert_file="/tls.crt", key_file="/tls.key"
    )
