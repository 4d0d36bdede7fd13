"""Settings as texts: names that exist, values that fit, and what becomes of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError
from fleet.scheduler.profiles.frameworks import build_compiled_profiles
from fleet.settings import Settings, read_settings
from fleet.settings.loading import deciding_settings
from fleet.settings.names import render_value
from plugins.default_profile import compile_default

DOCUMENTATION = Path(__file__).resolve().parents[3] / "docs" / "simulate.md"


def complaint(*assignments: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(assignments)
    return str(caught.value)


def test_untouched_settings_leave_the_default_profile_as_it_is() -> None:
    assert build_compiled_profiles(Settings()).default.config_hash == compile_default().config_hash


@pytest.mark.parametrize("name", deciding_settings())
def test_every_setting_says_what_it_means(name: str) -> None:
    assert deciding_settings()[name].meaning.endswith(".")


@pytest.mark.parametrize(
    "assignment",
    [
        "eligibility.heartbeatTimeout=10m",
        "eligibility.unhealthyTimeout=90s",
        "eligibility.retention=0",
        "status.unselectedBudget=0",
        "status.maxDecisions=5",
        "spread.missingKey=Exclude",
        "spread.usableDomainsOnly=true",
        "downscale.order=SpreadAware",
        "sorter.population=PassedClusters",
        "evaluation.percentageOfClustersToScore=50",
    ],
)
def test_every_setting_reaches_the_profile(assignment: str) -> None:
    settings = read_settings([assignment])

    assert build_compiled_profiles(settings).default.config_hash != compile_default().config_hash
    assert list(settings.collect_changes()) == [assignment.partition("=")[0]]


def test_every_setting_is_tested_above() -> None:
    """Those of `selection` reject placements; a test of their own starts `fleet simulate` with one."""
    assert len([name for name in deciding_settings() if not name.startswith("selection.")]) == 10


def test_of_two_values_the_last_counts() -> None:
    assert read_settings(["status.maxDecisions=5", "status.maxDecisions=7"]).status.max_decisions == 7


@pytest.mark.parametrize(
    "assignment, want",
    [
        (
            "eligibility.hartbeatTimeout=3m",
            "no setting named 'eligibility.hartbeatTimeout'; did you mean eligibility.heartbeatTimeout?",
        ),
        ("STATUS.maxdecisions=3", "no setting named 'STATUS.maxdecisions'; did you mean status.maxDecisions?"),
        ("status.maxDecisions", "setting 'status.maxDecisions' has no value: write status.maxDecisions=VALUE"),
        (
            "eligibility.retention=15",
            "setting eligibility.retention: '15' should be a duration such as 90s, 5m or 1h30m",
        ),
        ("status.maxDecisions=0", "setting status.maxDecisions: '0' should be greater than or equal to 1"),
        ("status.maxDecisions=x", "setting status.maxDecisions: 'x' should be a whole number"),
        ("spread.usableDomainsOnly=x", "setting spread.usableDomainsOnly: 'x' should be true or false"),
        ("spread.missingKey=x", "setting spread.missingKey: 'x' should be 'Neutral' or 'Exclude'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_told_with_what_would(assignment: str, want: str) -> None:
    assert complaint(assignment) == want


def test_a_setting_that_resembles_none_is_told_with_all_of_them() -> None:
    assert complaint("x=1").endswith(", ".join(deciding_settings()))


def test_a_setting_of_the_controller_is_refused_where_it_would_do_nothing() -> None:
    assert complaint("workers=3") == ("setting workers has no influence on a decision: it is one of `fleet controller`")


def test_everything_wrong_is_told_at_once() -> None:
    assert complaint("status.maxDecisions=x", "spread.missingKey=y").count("setting ") == 2


@pytest.mark.parametrize("text", ["0", "90s", "5m", "1h30m", "250ms", "1.5h"])
def test_durations_that_plugins_understand_are_accepted(text: str) -> None:
    assert build_compiled_profiles(read_settings([f"eligibility.retention={text}"])).default.config_hash


def test_the_documentation_lists_every_setting_with_its_default() -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+\.\w+)` \| `(.+?)` \|", text, re.MULTILINE))
    defaults = {
        name: render_value(known.default)
        for name, known in deciding_settings().items()
        if known.default not in (None, ())
    }

    assert listed == defaults
