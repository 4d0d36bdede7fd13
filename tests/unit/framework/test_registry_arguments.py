"""Plugins' typed arguments: from a mapping, JSON or YAML, strictly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs, decode_into
from plugins.cluster_eligibility import ClusterEligibilityArgs

YAML = "application/yaml"


@dataclass
class Window:
    start: int = 0
    hours: int = 1


@dataclass
class WindowArgs:
    zone: str = "utc"
    windows: list[Window] = field(default_factory=list)
    default: Window | None = None
    by_region: dict[str, Window] = field(default_factory=dict)


class CamelArgs(msgspec.Struct, rename="camel"):
    max_hours: int = 4


WANT = WindowArgs(zone="cet", windows=[Window(start=2)])


@pytest.mark.parametrize(
    "raw",
    [
        RawArgs({"zone": "cet", "windows": [{"start": 2}]}),
        RawArgs('{"zone": "cet", "windows": [{"start": 2}]}'),
        RawArgs(b'{"zone": "cet", "windows": [{"start": 2}]}', "application/json"),
        RawArgs("zone: cet\nwindows:\n- start: 2\n", YAML),
    ],
    ids=["mapping", "JSON text", "JSON bytes", "YAML"],
)
def test_F3_040_arguments_are_decoded_from(raw: RawArgs) -> None:
    assert decode_into(raw, WindowArgs) == WANT


def test_F3_040_absent_arguments_leave_the_defaults() -> None:
    assert decode_into(None, WindowArgs) == WindowArgs()
    assert decode_into(None, ClusterEligibilityArgs) == ClusterEligibilityArgs()


def test_F3_040_another_content_type_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^not supported content type application/toml$"):
        decode_into(RawArgs("zone = 'cet'", "application/toml"), WindowArgs)


@pytest.mark.parametrize(
    "content, path",
    [
        ({"zonne": "cet"}, "WindowArgs.zonne"),
        ({"Zone": "cet"}, "WindowArgs.Zone"),
        ({"windows": [{}, {"begin": 2}]}, "WindowArgs.windows[1].begin"),
        ({"default": {"Hours": 2}}, "WindowArgs.default.Hours"),
        ({"by_region": {"eu": {"end": 3}}}, "WindowArgs.by_region.eu.end"),
    ],
    ids=["unknown", "other case", "in a list", "in a nested object", "in a mapping"],
)
def test_F3_040_an_unknown_field_is_refused_by_its_path(content: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        decode_into(RawArgs(content), WindowArgs)
    assert str(refused.value) == f"{path}: unknown field"


def test_F3_040_fields_go_by_their_configured_names() -> None:
    assert decode_into(RawArgs({"maxHours": 6}), CamelArgs) == CamelArgs(max_hours=6)
    with pytest.raises(ConfigurationError, match=r"CamelArgs\.max_hours: unknown field"):
        decode_into(RawArgs({"max_hours": 6}), CamelArgs)


def test_F3_040_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"WindowArgs: Expected `int`, got `str` - at `\$\.default\.hours`"):
        decode_into(RawArgs({"default": {"hours": "2"}}), WindowArgs)


@pytest.mark.parametrize("raw", [RawArgs("[1]"), RawArgs("- 1", YAML)], ids=["JSON", "YAML"])
def test_F3_040_arguments_that_are_no_mapping_are_refused(raw: RawArgs) -> None:
    with pytest.raises(ConfigurationError, match="WindowArgs: expected a mapping, got list"):
        decode_into(raw, WindowArgs)


@pytest.mark.parametrize("raw", [RawArgs("{"), RawArgs("a: [", YAML)], ids=["JSON", "YAML"])
def test_F3_040_text_that_cannot_be_read_is_refused(raw: RawArgs) -> None:
    with pytest.raises(ConfigurationError, match=f"arguments are not valid {raw.content_type}: "):
        decode_into(raw, WindowArgs)
