"""What the pages for operators name exists: values, settings, alerts, metrics, files of values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from fleet.settings.names import known_settings
from tests.image.dockerfile import ROOT, stages

CHART: Final = ROOT / "charts" / "fleet"
PAGES: Final = (
    *("install", "configure", "upgrade", "high-availability", "backup", "sizing", "security"),
    *("troubleshooting", "migrating-from-kubefleet", "image"),
)
VALUES: Final = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
ALERTS: Final = {one["alert"] for one in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))}


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> str:
    return (ROOT / "docs" / f"{request.param}.md").read_text(encoding="utf-8")


def quoted(text: str) -> Iterator[str]:
    """What stands between backticks, without a value that is given after a colon."""
    for found in re.findall(r"`([^`\n]+)`", text):
        yield found.partition(": ")[0].removesuffix(".*")


def is_value(name: str) -> bool:
    found: Any = VALUES
    for part in name.split("."):
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return True


def is_setting(name: str) -> bool:
    return any(f"{known}.".startswith(f"{name}.") for known in known_settings())


def test_values_and_settings_exist(page: str) -> None:
    sections = {*VALUES, *(name.partition(".")[0] for name in known_settings())}
    named = {one for one in quoted(page) if re.fullmatch(r"[a-z][A-Za-z]*(\.[a-zA-Z]+)+", one)}
    ours = {one for one in named if one.partition(".")[0] in sections and not one.endswith(".yaml")}

    unknown = {one for one in ours if not (is_value(one) or is_setting(one.removeprefix("settings.")))}

    assert unknown == set()


def test_values_on_command_lines_exist(page: str) -> None:
    given = {name for name in re.findall(r"--set ([\w.]+)=", page) if not is_setting(name)}

    assert {name for name in given if not is_value(name) and not is_setting(name.removeprefix("settings."))} == set()


def test_alerts_exist(page: str) -> None:
    assert {one for one in quoted(page) if re.fullmatch(r"Fleet[A-Z]\w+", one)} <= ALERTS


def test_metrics_are_documented(page: str) -> None:
    documented = "".join(
        (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("controller", "history")
    )
    named = {one for one in quoted(page) if re.fullmatch(r"(fleet|workqueue|scheduling)_\w+", one)}

    assert {one for one in named if f"`{one}`" not in documented} == set()


def test_files_exist(page: str) -> None:
    named = set(re.findall(r"(?:charts|requirements|examples|tests)/[\w/.-]*\w", page))

    assert {one for one in named if not (ROOT / one).exists()} == set()


def test_every_combination_of_values_is_introduced() -> None:
    configure = (ROOT / "docs" / "configure.md").read_text(encoding="utf-8")

    assert {path.name for path in (CHART / "ci").glob("*.yaml")} == set(
        re.findall(r"^\| `([\w-]+\.yaml)`", configure, re.M)
    )


def test_arguments_of_the_image_are_explained() -> None:
    arguments = set(re.findall(r"^ARG (\w+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE))
    explained = (ROOT / "docs" / "image.md").read_text(encoding="utf-8")

    assert {one for one in arguments if f"`{one}`" not in explained} == set()


def test_the_example_of_an_image_with_plugins_has_the_same_base() -> None:
    example = (ROOT / "docs" / "image.md").read_text(encoding="utf-8")

    assert f"FROM {stages()['image'].base} AS build" in example
