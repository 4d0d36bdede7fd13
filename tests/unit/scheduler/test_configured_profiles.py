"""Profiles of a document: merged as kube-scheduler merges them, and refused with the line of every mistake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError
from fleet.framework.profiles import discovery
from fleet.framework.profiles.profile import METHODS, Profile, config_hash, encode_profile, parse_profile
from fleet.scheduler.profiles.configuration import build_profiles, describe_deviation, find_more_problems
from fleet.scheduler.profiles.frameworks import build_compiled_profiles
from fleet.settings import Settings, load_settings
from fleet.settings.document.model import HOOKS
from plugins.default_profile import default_profile
from tests.installed import lettered_plugins

HEAD = "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
WORKED_EXAMPLE = """
profiles:
- base: DefaultProfile
  plugins:
    multiPoint:
      enabled: [{name: A, weight: 2}, {name: B, weight: 1}, {name: C, weight: 3}, {name: D}, {name: F}]
    filter:
      disabled: [{name: D}]
    score:
      disabled: [{name: A}, {name: ClusterAffinity}, {name: SamePlacementAntiAffinity},
                 {name: TopologySpreadConstraints}]
      enabled: [{name: C, weight: 9}, {name: E, weight: 4}, {name: B, weight: 5}]
"""


@pytest.fixture
def letters(tmp_path: Path) -> Iterator[None]:
    folder = tmp_path / "letters"
    folder.mkdir()
    with lettered_plugins(folder):
        yield


def settings_of(folder: Path, text: str, *assignments: str) -> Settings:
    path = folder / "fleet.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return load_settings(path, {"PLACE": "there"}, assignments).settings


def profile_of(folder: Path, text: str, *assignments: str) -> Profile:
    (profile,) = build_profiles(settings_of(folder, text, *assignments))[0]
    return profile


def scores(profile: Profile) -> list[tuple[str, int]]:
    return [(ref.name, ref.weight) for ref in profile.plugins["score"]]


def complaints(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        build_profiles(settings_of(folder, text))
    return [line.replace(f"{folder}/", "") for line in str(refused.value).splitlines()]


def all_complaints(folder: Path, text: str) -> list[str]:
    """As `fleet config check` finds them."""
    path = folder / "fleet.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as refused:
        build_profiles(load_settings(path, {}, (), find_more=find_more_problems).settings)
    return [line.replace(f"{folder}/", "") for line in str(refused.value).splitlines()]


def test_hooks_of_documents_are_those_of_the_framework() -> None:
    assert tuple(METHODS) == HOOKS


# --- merging ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("letters")
def test_the_worked_example_of_merging(tmp_path: Path) -> None:
    assert scores(profile_of(tmp_path, WORKED_EXAMPLE)) == [("C", 9), ("B", 5), ("F", 1), ("E", 4)]


@pytest.mark.usefixtures("letters")
def test_without_the_defaults_of_a_hook_only_the_listed_plugins_remain(tmp_path: Path) -> None:
    text = """
profiles:
- base: ExtendedProfile
  plugins:
    multiPoint: {enabled: [{name: A}]}
    score: {disabled: [{name: "*"}], enabled: [{name: B, weight: 3}]}
"""
    assert scores(profile_of(tmp_path, text)) == [("B", 3)]


def test_distributions_are_not_searched_for_the_plugins_of_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "entry_points", lambda **_: pytest.fail("searched"))

    profile_of(tmp_path, 'profiles: [{plugins: {score: {disabled: [{name: "*"}, {name: ClusterAffinity}]}}}]')


def test_a_default_that_is_listed_again_keeps_its_place(tmp_path: Path) -> None:
    text = "profiles: [{plugins: {score: {enabled: [{name: SamePlacementAntiAffinity, weight: 5}]}}}]"

    assert scores(profile_of(tmp_path, text)) == [
        ("ClusterAffinity", 1),
        ("SamePlacementAntiAffinity", 5),
        ("TopologySpreadConstraints", 1),
    ]


def test_an_entry_that_is_disabled_and_enabled_moves_to_the_end(tmp_path: Path) -> None:
    text = """
profiles:
- plugins:
    filter:
      disabled: [{name: TaintToleration}]
      enabled: [{name: TaintToleration}]
"""
    assert [ref.name for ref in profile_of(tmp_path, text).plugins["filter"]][-1] == "TaintToleration"


def test_the_extended_profile_weighs_every_score(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, "profiles: [{base: ExtendedProfile}]")

    assert (profile.ranking, profile.tie_break) == ("weighted", "nameAscending")
    assert scores(profile) == [
        ("ClusterAffinity", 2),
        ("SamePlacementAntiAffinity", 1),
        ("ResourceFit", 1),
        ("TopologySpreadConstraints", 2),
        ("PlacementAffinity", 2),
        ("BalancedAllocation", 1),
        ("DataLocality", 1),
    ]
    assert "ranking weighted" in describe_deviation(profile)


@pytest.mark.parametrize("text", ["", "profiles: []", "profiles: [{}]", "queue: {maxDelay: 20s}\nprofiles: [{}]"])
def test_a_document_that_changes_nothing_leaves_the_hash_as_it_is(tmp_path: Path, text: str) -> None:
    profile = profile_of(tmp_path, text)

    assert config_hash(profile) == config_hash(default_profile())
    assert describe_deviation(profile) == ""


def test_later_fields_of_an_extender_leave_earlier_hashes_as_they_are(tmp_path: Path) -> None:
    text = "extenders: [{name: a, urlPrefix: 'http://here', filterVerb: filter%s}]\n"
    plain = profile_of(tmp_path, text % "")
    earlier = b'"filters":true,"ignorable":false,"name":"a","names_only":false,"prioritizes":false,"weight":1'
    assert b'"extenders":[{%s}]' % earlier in encode_profile(plain)
    for more in ("bindVerb: bind", "managedResources: [{name: gpu}]"):
        changed = profile_of(tmp_path, text % f", {more}")
        assert config_hash(changed) != config_hash(plain)
        assert parse_profile(encode_profile(changed), scheduler_name="x").extenders == changed.extenders


def test_settings_reach_the_plugins_unless_the_profile_gives_other_arguments(tmp_path: Path) -> None:
    text = "profiles: [{pluginConfig: [{name: ClusterEligibility, args: {heartbeatTimeout: 7m}}]}]"
    assignments = ("eligibility.heartbeatTimeout=9m", "eligibility.retention=1m")
    (args,) = [
        raw.content
        for name, raw in profile_of(tmp_path, text, *assignments).plugin_config
        if name == "ClusterEligibility"
    ]

    assert args == {"heartbeatTimeout": "7m", "retention": "1m"}


@pytest.mark.usefixtures("letters")
def test_the_package_of_a_plugin_is_part_of_the_hash(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, "profiles: [{plugins: {score: {enabled: [{name: A}]}}}]")

    assert profile.packages == {"A": "plugins_of_letters 1.0"}
    assert config_hash(profile) != config_hash(default_profile(plugins=profile.plugins))


def test_variables_are_substituted_where_the_document_allows_it(tmp_path: Path) -> None:
    text = """
substitution: {fromEnv: [PLACE]}
recorder: {enabled: true}
history: {url: "sqlite:///${PLACE}.db"}
profiles: [{schedulerName: "${PLACE}"}]
"""
    settings = settings_of(tmp_path, text)

    assert settings.history.url == "sqlite:///there.db"
    assert settings.profiles[0].scheduler_name == "there"


def test_several_profiles_have_one_queue_sort(tmp_path: Path) -> None:
    text = "profiles: [{schedulerName: one}, {schedulerName: two, base: ExtendedProfile}]"

    assert list(build_compiled_profiles(settings_of(tmp_path, text)).by_name) == ["one", "two"]


# --- mistakes ---------------------------------------------------------------------------------------------------------

ONE_PROFILE = "profiles:\n- schedulerName: mine\n"
IN_SCORE = f"{ONE_PROFILE}  plugins:\n    score:\n      enabled:\n"

MISTAKES: dict[str, tuple[str, str]] = {
    "an unknown section": ("queu: {mode: batched}\n", "fleet.yaml:3: no setting named 'queu'; did you mean queue?"),
    "an unknown setting": (
        "queue:\n  mod: batched\n",
        "fleet.yaml:4: no setting named 'queue.mod'; did you mean queue.mode?",
    ),
    "a wrong value": (
        "queue: {mode: quick}\n",
        "fleet.yaml:3: setting queue.mode: 'quick' should be 'simple' or 'batched'",
    ),
    "a key that is given twice": (
        "queue: {mode: batched}\nqueue: {mode: batched}\n",
        "fleet.yaml:4: queue is given twice; the other one is in line 3",
    ),
    "profiles that are no list": (
        "profiles: {}\n",
        "fleet.yaml:3: profiles: should be a list, one entry per line as - entry",
    ),
    "a profile that is no mapping": (
        "profiles:\n- mine\n",
        "fleet.yaml:4: profiles[0]: should be a mapping, one field per line as name: value",
    ),
    "an unknown field of a profile": (
        f"{ONE_PROFILE}  plugin: {{}}\n",
        "fleet.yaml:5: profiles[0].plugin: unknown field; did you mean plugins?",
    ),
    "a field that is given twice": (
        f"{ONE_PROFILE}  schedulerName: yours\n",
        "fleet.yaml:5: profiles[0].schedulerName: is given twice; the other one is in line 4",
    ),
    "two profiles of one name": (
        f"{ONE_PROFILE}- schedulerName: mine\n",
        "fleet.yaml:5: profiles[1].schedulerName: mine is also the name of profiles[0]",
    ),
    "an empty name": ('profiles:\n- schedulerName: ""\n', "fleet.yaml:4: profiles[0].schedulerName: is empty"),
    "no name beside others": (
        f"{ONE_PROFILE}- {{}}\n",
        "fleet.yaml:5: profiles[1].schedulerName: is missing: only a single profile may go without",
    ),
    "a name that is no label": (
        "profiles:\n- schedulerName: My_Own\n",
        "fleet.yaml:4: profiles[0].schedulerName: 'My_Own' should be a DNS label: lower-case letters, digits and "
        "dashes, at most 63",
    ),
    "a name that is a number": (
        "profiles:\n- schedulerName: 5\n",
        "fleet.yaml:4: profiles[0].schedulerName: 5 should be a text",
    ),
    "an unknown base": (
        f"{ONE_PROFILE}  base: Standard\n",
        "fleet.yaml:5: profiles[0].base: 'Standard' should be one of DefaultProfile, ExtendedProfile, LoadAware, Empty",
    ),
    "an unknown ranking": (
        f"{ONE_PROFILE}  ranking: best\n",
        "fleet.yaml:5: profiles[0].ranking: 'best' should be one of lexicographic, weighted",
    ),
    "an unknown tie-break": (
        f"{ONE_PROFILE}  tieBreak: random\n",
        "fleet.yaml:5: profiles[0].tieBreak: 'random' should be one of nameDescending, nameAscending, hashed",
    ),
    "a percentage above all": (
        f"{ONE_PROFILE}  percentageOfClustersToScore: 101\n",
        "fleet.yaml:5: profiles[0].percentageOfClustersToScore: 101 should be a whole number of 0 to 100",
    ),
    "a percentage of all above all": (
        "evaluation: {percentageOfClustersToScore: 101}\n",
        "fleet.yaml:3: setting evaluation.percentageOfClustersToScore: '101' should be less than or equal to 100",
    ),
    "an unknown hook": (
        f"{ONE_PROFILE}  plugins:\n    scores: {{}}\n",
        "fleet.yaml:6: profiles[0].plugins.scores: unknown field; did you mean score?",
    ),
    "an unknown plugin": (
        f"{IN_SCORE}      - name: ClusterAfinity\n",
        "fleet.yaml:8: profiles[0].plugins.score.enabled[0].name: no plugin named ClusterAfinity exists; "
        "did you mean ClusterAffinity?",
    ),
    "a plugin without the hook": (
        f"{IN_SCORE}      - name: TaintToleration\n",
        "fleet.yaml:8: profiles[0].plugins.score.enabled[0]: TaintToleration has no score hook; it has filter",
    ),
    "a plugin that is listed twice": (
        f"{IN_SCORE}      - name: ClusterAffinity\n      - name: ClusterAffinity\n",
        "fleet.yaml:9: profiles[0].plugins.score.enabled[1].name: ClusterAffinity is listed twice",
    ),
    "an entry without a name": (
        f"{IN_SCORE}      - weight: 2\n",
        "fleet.yaml:8: profiles[0].plugins.score.enabled[0].name: is missing",
    ),
    "a weight below zero": (
        f"{IN_SCORE}      - {{name: ClusterAffinity, weight: -1}}\n",
        "fleet.yaml:8: profiles[0].plugins.score.enabled[0].weight: -1 should be a whole number of 0 to 1000000",
    ),
    "a weight with a leading zero": (
        f"{IN_SCORE}      - {{name: ClusterAffinity, weight: 010}}\n",
        "fleet.yaml:8: profiles[0].plugins.score.enabled[0].weight: 010 should stand without leading zeros, by which "
        "YAML reads it as octal",
    ),
    "a setting with a leading zero": (
        "workers: 010\n",
        "fleet.yaml:3: setting workers: 010 should stand without leading zeros, by which YAML reads it as octal",
    ),
    "everything enabled": (
        f'{IN_SCORE}      - name: "*"\n',
        "fleet.yaml:8: profiles[0].plugins.score.enabled[0].name: * may stand in disabled only",
    ),
    "an unknown argument": (
        f"{ONE_PROFILE}  pluginConfig:\n  - name: ClusterEligibility\n    args:\n      heartbeat: 5m\n",
        "fleet.yaml:8: profiles[0].pluginConfig[0].args.heartbeat: unknown field",
    ),
    "a wrong argument": (
        f"{ONE_PROFILE}  pluginConfig:\n  - name: ClusterEligibility\n    args:\n      retention: [5m]\n",
        "fleet.yaml:8: profiles[0].pluginConfig[0].args.retention: Expected `str`, got `array`",
    ),
    "arguments for a plugin twice": (
        f"{ONE_PROFILE}  pluginConfig:\n  - name: RankingSort\n  - name: RankingSort\n",
        "fleet.yaml:7: profiles[0].pluginConfig[1].name: RankingSort is listed twice",
    ),
    "no binder": (
        f'{ONE_PROFILE}  plugins:\n    bind:\n      disabled: [{{name: "*"}}]\n',
        "fleet.yaml:4: profiles[0]: at least one bind plugin is needed",
    ),
    "several orders of one queue": (
        f"{ONE_PROFILE}- schedulerName: other\n  pluginConfig:\n  - name: PrioritySort\n    args: {{a: 1}}\n",
        "fleet.yaml:5: profiles: profiles mine and other sort the one queue differently: PrioritySort and "
        "PrioritySort {'a': 1}; give both the same queueSort plugin and arguments",
    ),
    "a variable without a source": (
        "profiles:\n- schedulerName: ${NAME}\n",
        "fleet.yaml:4: profiles[0].schedulerName: ${NAME} has no source: add NAME to substitution.fromEnv",
    ),
    "a Secret that is none": (
        "substitution: {fromSecret: [Prices!]}\n",
        "fleet.yaml:3: substitution.fromSecret[0]: 'Prices!' should be the name of a Secret, or NAMESPACE/NAME",
    ),
    "a feed that is not there": (
        f"feeds: [{{name: prices, static: {{a: 1}}}}]\n{ONE_PROFILE}  plugins: {{score: {{enabled: "
        "[{name: FeedPreference}]}}\n  pluginConfig: [{name: FeedPreference, args: {feed: prizes}}]\n",
        "fleet.yaml:7: profiles[0].pluginConfig[0].args: FeedPreference: no feed named prizes exists; did you mean "
        "prices?",
    ),
    "a feed without a source": (
        "feeds: [{name: prices}]\n",
        "fleet.yaml:3: feeds[0]: should have one of static, configMap, http",
    ),
    "a token of a feed": (
        "feeds: [{name: prices, http: {url: 'http://here', bearerToken: abc}}]\n",
        "fleet.yaml:3: feeds[0].http.bearerToken: a token has to come from a variable or a Secret: write ${NAME}",
    ),
    "metrics of a feed": (
        "feeds: [{name: prices, http: {url: 'http://here', format: prometheus}}]\n",
        "fleet.yaml:3: feeds[0].http.columns: is missing: a name for each metric or query",
    ),
    "a ConfigMap of a feed": (
        "feeds: [{name: prices, configMap: {name: prices}}]\n",
        "fleet.yaml:3: feeds[0].configMap.namespace: is missing",
    ),
    "a variable without a value": (
        "substitution: {fromEnv: [NAME]}\nprofiles:\n- schedulerName: ${NAME}\n",
        "fleet.yaml:5: profiles[0].schedulerName: ${NAME} has no value: the environment has no variable NAME",
    ),
    "an alias of what it is in": (
        f"{ONE_PROFILE}  pluginConfig:\n  - name: RankingSort\n    args: &own {{a: *own}}\n",
        "fleet.yaml:7: refers to itself by an alias",
    ),
    "nothing to leave out everywhere": (
        f'{ONE_PROFILE}  plugins:\n    multiPoint:\n      disabled: [{{name: "*"}}]\n',
        "fleet.yaml:7: profiles[0].plugins.multiPoint.disabled[0]: * leaves out nothing: DefaultProfile lists it at no "
        "multiPoint; disable it at its hooks",
    ),
    "an extender that is never asked": (
        "extenders: [{urlPrefix: 'http://here'}]\n",
        "fleet.yaml:3: extenders[0]: would never be asked: give it a filterVerb, a prioritizeVerb or a bindVerb",
    ),
    "an extender without an address": (
        "extenders: [{urlPrefix: here, name: x, filterVerb: filter}]\n",
        "fleet.yaml:3: extenders[0].urlPrefix: 'here' should be an address without a password, such as "
        "https://quota.example.com/fleet",
    ),
    "a time-out of an extender": (
        "extenders: [{urlPrefix: 'http://here', filterVerb: filter, timeoutSeconds: 0}]\n",
        "fleet.yaml:3: extenders[0].timeoutSeconds: 0 should be 1 or more",
    ),
    "two extenders of one name": (
        "extenders:\n- {urlPrefix: 'http://here', filterVerb: a}\n- {urlPrefix: 'http://here', filterVerb: b}\n",
        "fleet.yaml:5: extenders[1].name: here is also the name of extenders[0]: give each its own",
    ),
    "two extenders that bind": (
        "extenders:\n- {urlPrefix: 'http://here', bindVerb: a}\n- {urlPrefix: 'http://there', bindVerb: b}\n",
        "fleet.yaml:5: extenders[1].bindVerb: extenders[0] binds already: only one may",
    ),
    "an extender that takes long to bind": (
        "extenders: [{urlPrefix: 'http://here', bindVerb: bind, timeoutSeconds: 31}]\n",
        "fleet.yaml:3: extenders[0].timeoutSeconds: 31 should be 30 or less with a bindVerb",
    ),
    "a managed resource without a name": (
        "extenders: [{urlPrefix: 'http://here', filterVerb: filter, managedResources: [{}]}]\n",
        "fleet.yaml:3: extenders[0].managedResources[0].name: is missing",
    ),
    "a managed resource that is none": (
        "extenders: [{urlPrefix: 'http://here', filterVerb: filter, managedResources: [{name: my gpu}]}]\n",
        "fleet.yaml:3: extenders[0].managedResources[0].name: 'my gpu' is no name of a resource, such as cpu or "
        "example.com/gpu",
    ),
    "a managed resource that is not compared": (
        "extenders:\n- urlPrefix: http://here\n  filterVerb: filter\n  managedResources:\n"
        "  - {name: gpu, ignoredByScheduler: true}\n",
        "fleet.yaml:7: extenders[0].managedResources[0].ignoredByScheduler: room is compared wherever members report "
        "the resource: leave it out",
    ),
    "a waiting time": (
        "maxPermitWaitSeconds: 901\n",
        "fleet.yaml:3: maxPermitWaitSeconds: 901 should be a whole number of 0 to 900",
    ),
    "no waiting time": (
        "maxPermitWaitSeconds: 0\n",
        "fleet.yaml:3: maxPermitWaitSeconds: 0 should be 1 or more",
    ),
}


def test_a_profile_without_plugins_names_all_that_are_needed(tmp_path: Path) -> None:
    assert complaints(tmp_path, f"{ONE_PROFILE}  base: Empty\n") == [
        *(f"fleet.yaml:4: profiles[0]: exactly one {hook} plugin is needed, 0 configured" for hook in
          ("queueSort", "batch", "sort")),
        "fleet.yaml:4: profiles[0]: at least one bind plugin is needed",
    ]  # fmt: skip


NO_BINDER = f'{ONE_PROFILE}  plugins:\n    bind: {{disabled: [{{name: "*"}}]}}\n'
BROKEN_RULE = "fleet.yaml:4: profiles[0]: at least one bind plugin is needed"


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(
    "more, complaint",
    [
        ("    score: {enabled: [{name: ClusterAfinity}]}\n", "no plugin named ClusterAfinity exists"),
        ("  ranking: best\n", "profiles[0].ranking: 'best' should be one of"),
        ("    filter: {enabled: [{name: RankingSort}]}\n", "RankingSort has no filter hook"),
        ("  pluginConfig: [{name: ClusterEligibility, args: {heartbeat: 5m}}]\n", "args.heartbeat: unknown field"),
        ("queue: {mode: quick}\n", "setting queue.mode"),
        ("extenders: [{urlPrefix: 'http://here'}]\n", "extenders[0]: would never be asked"),
        ("feeds: [{name: prices}]\n", "feeds[0]: should have one of"),
        ("queue: {initialBackoffSeconds: 20, maxBackoffSeconds: 10}\n", "queue.maxBackoffSeconds 10 should not be"),
        ("- schedulerName: mine\n", "profiles[1].schedulerName: mine is also"),
        (
            "- {schedulerName: other, pluginConfig: [{name: PrioritySort, args: {a: 1}}]}\n",
            "profiles mine and other sort the one queue differently",
        ),
    ],
)
def test_a_broken_rule_is_reported_beside_every_other_mistake(tmp_path: Path, more: str, complaint: str) -> None:
    found = all_complaints(tmp_path, NO_BINDER + more)
    assert BROKEN_RULE in found
    (other,) = set(found) - {BROKEN_RULE}
    assert complaint in other


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(
    "more, complaint",
    [
        (
            "    bind: {disabled: [{name: '*'}], enabled: [{name: HubBindingBindr}]}\n",
            "no plugin named HubBindingBindr",
        ),
        ("    bnd: {disabled: [{name: '*'}]}\n    bind: {disabled: [{name: '*'}]}\n", "plugins.bnd: unknown field"),
        ("  pluginConfig: [{name: RankingSort, args: [a]}]\n", "pluginConfig[0].args: should be a mapping"),
    ],
)
def test_what_may_follow_from_another_mistake_is_not_reported(tmp_path: Path, more: str, complaint: str) -> None:
    plugins = "  plugins:\n" if more.startswith("    ") else ""
    (found,) = all_complaints(tmp_path, f"{ONE_PROFILE}{plugins}{more}")
    assert complaint in found


def test_a_contradiction_of_settings_is_reported_beside_other_mistakes(tmp_path: Path) -> None:
    short = "queue: {initialBackoffSeconds: 20, maxBackoffSeconds: 10}\n"
    found = all_complaints(tmp_path, f"{short}workers: no\n")
    assert [line.partition(": ")[2] for line in found] == [
        "setting workers: 'no' should be a whole number",
        "queue.maxBackoffSeconds 10 should not be less than queue.initialBackoffSeconds 20",
    ]
    (misnamed,) = all_complaints(tmp_path, "queue: {initialBackoffSeconds: 20, maxBackofSeconds: 40}\n")
    assert "did you mean queue.maxBackoffSeconds?" in misnamed


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_with_its_line_and_path(tmp_path: Path, mistake: str) -> None:
    text, complaint = MISTAKES[mistake]

    assert complaints(tmp_path, text) == [complaint]


def test_a_value_from_the_environment_stays_out_of_messages(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    args = "pluginConfig: [{name: ClusterEligibility, args: {retention: '${WAIT}'}}]"
    path.write_text(f"{HEAD}substitution: {{fromEnv: [WAIT]}}\nprofiles:\n- {args}\n", encoding="utf-8")

    with pytest.raises(ConfigurationError) as refused:
        build_profiles(load_settings(path, {"WAIT": "hunter2"}, []).settings)

    assert "hunter2" not in str(refused.value)
    assert "${WAIT}" in str(refused.value)


def test_there_are_more_than_thirty_mistakes() -> None:
    assert len(MISTAKES) >= 30


@pytest.mark.parametrize(
    "head, complaint",
    [
        ("kind: FleetSchedulerConfiguration\n", "apiVersion: is missing; write apiVersion: scheduling.fleet.dev/v1"),
        ("apiVersion: scheduling.fleet.dev/v1\n", "kind: is missing; write kind: FleetSchedulerConfiguration"),
        (
            "apiVersion: scheduling.fleet.dev/v2\nkind: FleetSchedulerConfiguration\n",
            "apiVersion: scheduling.fleet.dev/v2 should be scheduling.fleet.dev/v1",
        ),
        ("profiles: []\n", "apiVersion: is missing; write apiVersion: scheduling.fleet.dev/v1"),
    ],
)
def test_the_envelope_is_checked(tmp_path: Path, head: str, complaint: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(head, encoding="utf-8")

    with pytest.raises(ConfigurationError) as refused:
        load_settings(path, {}, [])

    assert str(refused.value).splitlines()[0] == f"{path}:1: {complaint}"


@pytest.mark.usefixtures("letters")
def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    text = f"""queue: {{mode: quick}}
{ONE_PROFILE}  ranking: best
  plugins:
    score:
      enabled: [{{name: A, weight: x}}]
"""
    assert [line.split(": ")[0] for line in complaints(tmp_path, text)] == [
        "fleet.yaml:6",
        "fleet.yaml:9",
        "fleet.yaml:3",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{base: ExtendedProfile}",
        "{base: LoadAware, pluginConfig: [{name: TargetLoadPacking, args: {feed: load}}]}",
        "{backoffOnRejection: true}",
    ],
)
def test_rejected_placements_of_extended_profiles_back_off(tmp_path: Path, text: str) -> None:
    feeds = "feeds: [{name: load, static: {ams-1: 3}}]\n"
    assert profile_of(tmp_path, f"{feeds}profiles: [{text}]\n").backoff_on_rejection


@pytest.mark.parametrize("text", ["{base: ExtendedProfile, backoffOnRejection: false}", "{base: DefaultProfile}"])
def test_rejected_placements_of_other_profiles_do_not_back_off(tmp_path: Path, text: str) -> None:
    assert not profile_of(tmp_path, f"profiles: [{text}]\n").backoff_on_rejection


def test_placements_that_name_their_clusters_need_no_plugin(tmp_path: Path) -> None:
    text = "profiles: [{base: ExtendedProfile, plugins: {preFilter: {enabled: [{name: PickFixed}]}}}]\n"
    (complaint,) = complaints(tmp_path, text)
    named = "placements of type PickFixed get the clusters that they name in every profile"
    assert complaint.endswith(f"no plugin named PickFixed exists; {named}")


SHARED = """\
profiles:
- &first
  schedulerName: first
  base: ExtendedProfile
  plugins: {score: {disabled: [{name: BalancedAllocation}]}}
- {<<: *first, schedulerName: second, ranking: lexicographic}
- {schedulerName: third, <<: [{ranking: lexicographic}, *first]}
"""


def test_profiles_share_fields_by_merge_keys(tmp_path: Path) -> None:
    first, second, third = build_profiles(settings_of(tmp_path, SHARED))[0]
    assert [first.scheduler_name, second.scheduler_name, third.scheduler_name] == ["first", "second", "third"]
    assert scores(first) == scores(second) == scores(third)
    assert "BalancedAllocation" not in dict(scores(first))
    assert [first.ranking, second.ranking, third.ranking] == ["weighted", "lexicographic", "lexicographic"]


def test_a_merge_key_that_names_no_mapping_is_refused_with_its_line(tmp_path: Path) -> None:
    text = "profiles:\n- base: ExtendedProfile\n  <<: [yes]\n"
    assert complaints(tmp_path, text) == ["fleet.yaml:5: <<: should be a mapping, or a list of mappings"]
