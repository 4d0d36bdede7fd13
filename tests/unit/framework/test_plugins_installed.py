"""Plugins of other distributions: found by entry point, refused with their origin named, and used like any other.

The example package under tests/plugin_package is really built and installed, into a folder of its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs
from fleet.framework.profiles.discovery import GROUP, register_installed
from fleet.framework.profiles.profile import CompiledProfile, PluginRef
from fleet.framework.profiles.registry import Registry
from fleet.framework.testing.conformance import SpecimenOptions, check
from fleet.model.timestamps import SECOND
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.builders import NOW, a_cluster, a_frame, a_policy
from tests.doubles import chosen, decided
from tests.installed import EXAMPLE_PACKAGE, install_example_package, the_example_package

MANUAL = Path(__file__).parents[3] / "docs" / "plugins.md"
REGION = "topology.acme.example/region"
START = "acme.example/maintenance-start"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site-packages")
    install_example_package(folder)
    return folder


@pytest.fixture
def registry(installed: Path) -> Iterator[Registry]:
    """In-tree plugins and those of the example package."""
    with the_example_package(installed):
        found = in_tree_registry()
        register_installed(found)
        yield found


def profile_of(registry: Registry, *filters: str) -> CompiledProfile:
    args: dict[str, dict[str, Any]] = {
        "RegionQuarantine": {"regions": ["south"]},
        "MaintenanceWindow": {"notice_minutes": 10},
    }
    plugins = {**DEFAULT_PLUGINS, "filter": tuple(PluginRef(name) for name in filters)}
    return compile_default(default_profile(args=args, plugins=plugins), registry=registry)


@pytest.fixture
def profile(registry: Registry) -> CompiledProfile:
    """The default profile with both plugins after its own filters; the per-cluster one last."""
    own = (one.name for one in DEFAULT_PLUGINS["filter"])
    return profile_of(registry, *own, "RegionQuarantine", "MaintenanceWindow")


# --- the example package ----------------------------------------------------------------------------------------------


def test_installed_plugins_are_registered_under_their_entry_points(registry: Registry) -> None:
    assert {"MaintenanceWindow", "RegionQuarantine"} == set(registry) - set(in_tree_registry())


def test_only_the_plugins_asked_for_are_loaded(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    registry = Registry()

    assert register_installed(registry, only=["Unheard", "Missing"]) == ()
    assert not any(name.startswith("acme_fleet") for name in sys.modules)


def test_a_profile_of_in_tree_and_installed_plugins_decides(profile: CompiledProfile) -> None:
    soon, over = NOW // SECOND + 5 * 60, NOW // SECOND - 61 * 60
    frame = a_frame(
        a_cluster("fine").labelled({REGION: "north"}),
        a_cluster("quarantined").labelled({REGION: "south"}),
        a_cluster("worked-on").measured({START: str(soon)}),
        a_cluster("worked-on-before").measured({START: str(over)}),
        a_cluster("later").measured({START: str(soon + 6 * 60)}),
    )

    decision = decided(frame, a_policy().pick_n(5), profile=profile)

    assert chosen(decision) == ["worked-on-before", "later", "fine"]
    assert decision.rejectors == ("MaintenanceWindow", "RegionQuarantine")
    verdicts = decision.verdicts
    assert verdicts is not None
    texts = {name: status.reasons for name in frame.names.ordered if (status := verdicts.status_by_name(name))}
    assert texts == {
        "quarantined": ("region south is in quarantine",),
        "worked-on": ("cluster is in maintenance, or soon will be",),
    }


def test_the_moment_of_the_decision_decides_about_maintenance(registry: Registry) -> None:
    frame = a_frame(a_cluster("c1").measured({START: str(NOW // SECOND)}))
    profile = profile_of(registry, "MaintenanceWindow")

    during = decided(frame, a_policy().pick_n(1), profile=profile, now=NOW)
    afterwards = decided(frame, a_policy().pick_n(1), profile=profile, now=NOW + 3600 * SECOND)

    assert (chosen(during), chosen(afterwards)) == ([], ["c1"])


def test_F3_140_the_per_cluster_filter_belongs_behind_the_vector_one(registry: Registry) -> None:
    turned = profile_of(registry, "MaintenanceWindow", "RegionQuarantine")

    assert len(turned.warnings) == 1
    assert "MaintenanceWindow" in turned.warnings[0]
    assert "RegionQuarantine" in turned.warnings[0]


def test_the_example_plugins_conform(registry: Registry) -> None:
    # The kit decides in September 2026; one of the starts lies just before, one far away.
    starts = SpecimenOptions(properties={START: ("1789999000", "1", "soon")}, labels={REGION: ("north", "south")})

    check(registry["MaintenanceWindow"], options=starts)
    check(registry["RegionQuarantine"], args=RawArgs({"regions": ["south"]}), options=starts)


def test_the_manual_shows_the_code_of_the_package() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in sorted(EXAMPLE_PACKAGE.rglob("*.py")))
    sources += (EXAMPLE_PACKAGE / "pyproject.toml").read_text(encoding="utf-8")
    shown = re.findall(r"^```(?:python|toml) from the package\n(.*?)^```", MANUAL.read_text("utf-8"), re.M | re.S)

    assert len(shown) >= 3
    for block in shown:
        assert block.strip() in sources


# --- refusals ---------------------------------------------------------------------------------------------------------


class Installed(Distribution):
    """A distribution that exists in name only."""

    def __init__(self, name: str, version: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError(path)


def listed(name: str, value: str, distribution: str = "acme") -> EntryPoint:
    entry = EntryPoint(name, value, GROUP)
    vars(entry)["dist"] = Installed(distribution, "2.1")
    return entry


def refusal(*entries: EntryPoint, registry: Registry | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        register_installed(Registry() if registry is None else registry, entries=entries)
    return str(caught.value)


@pytest.mark.parametrize(
    "value, problem",
    [
        ("acme_missing.plugins:X", "ModuleNotFoundError: No module named 'acme_missing'"),
        ("plugins.priority_sort:Missing", "AttributeError"),
        ("plugins.default_profile:SCHEDULER_NAME", "expected a factory that takes arguments and handle"),
    ],
    ids=["no module", "no such name", "no factory"],
)
def test_what_cannot_be_loaded_is_named_with_its_distribution(value: str, problem: str) -> None:
    found = refusal(listed("X", value))

    assert found.startswith(f"distribution acme 2.1, entry point X = {value}: ")
    assert problem in found


def test_nobody_can_take_the_name_of_an_in_tree_plugin() -> None:
    found = refusal(listed("TaintToleration", "plugins.priority_sort:PrioritySort"), registry=in_tree_registry())

    assert "distribution acme 2.1" in found
    assert "a plugin named TaintToleration already exists (in-tree)" in found


def test_two_distributions_cannot_share_a_name() -> None:
    found = refusal(
        listed("X", "plugins.priority_sort:PrioritySort", "b"), listed("X", "plugins.desired_batch:DesiredBatch", "a")
    )

    assert found.startswith("distribution b 2.1, entry point X = plugins.priority_sort:PrioritySort")
    assert "already exists (distribution a 2.1)" in found


def test_everything_that_is_wrong_is_said_at_once_and_nothing_is_registered() -> None:
    registry = Registry()

    found = refusal(
        listed("A", "plugins.priority_sort:PrioritySort"),
        listed("B", "acme_missing:B"),
        listed("C", "acme_missing:C"),
        registry=registry,
    )

    assert [line.split(" = ")[0] for line in found.splitlines()] == [
        "distribution acme 2.1, entry point B",
        "distribution acme 2.1, entry point C",
    ]
    assert not registry


def names(entries: Sequence[EntryPoint]) -> tuple[str, ...]:
    return register_installed(Registry(), entries=entries)


def test_plugins_are_registered_by_name_whatever_order_they_are_listed_in() -> None:
    entries = [listed(name, "plugins.priority_sort:PrioritySort") for name in "cab"]

    assert names(entries) == names(entries[::-1]) == ("a", "b", "c")


def test_an_entry_point_without_a_distribution_is_refused_all_the_same() -> None:
    assert refusal(EntryPoint("X", "acme_missing:X", GROUP)).startswith("distribution unknown, entry point X")
