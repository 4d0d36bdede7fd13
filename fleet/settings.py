"""What operators may set, as one typed tree, read from `name=value` texts.

Names are those of the documentation, such as `eligibility.heartbeatTimeout`. A setting that nobody knows is refused
with the nearest one that exists. Building a scheduler from settings is left to whoever runs one: this module knows
names and values, not plugins.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from fleet.errors import ConfigurationError

Duration = Annotated[str, Field(pattern=r"^(0|(\d+(\.\d+)?(h|ms|m|s))+)$")]
"""Such as 90s, 5m or 1h30m; 0 is allowed without a unit."""

_EXPECTED: Final = {
    "string_pattern_mismatch": "should be a duration such as 90s, 5m or 1h30m",
    "bool_parsing": "should be true or false",
    "int_parsing": "should be a whole number",
}


class Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Eligibility(Section):
    """When a cluster counts as connected."""

    heartbeat_timeout: Annotated[Duration, Field(description="Longest silence of a connected member agent.")] = "5m"
    unhealthy_timeout: Annotated[Duration, Field(description="How long a cluster may report itself unhealthy.")] = "5m"
    retention: Annotated[
        Duration, Field(description="How long a cluster that dropped out keeps its place over a policy change; 0: not.")
    ] = "15m"


class Status(Section):
    """How much of a decision is published."""

    unselected_budget: Annotated[
        int, Field(ge=0, le=1000, description="Published clusters that were not selected.")
    ] = 20
    max_decisions: Annotated[int, Field(ge=1, le=1000, description="Published clusters in all.")] = 1000


class Spread(Section):
    """Topology spread constraints."""

    missing_key: Annotated[
        Literal["Neutral", "Exclude"], Field(description="What becomes of clusters without the label.")
    ] = "Neutral"
    usable_domains_only: Annotated[
        bool, Field(description="Whether domains without a usable cluster are left out of the counting.")
    ] = False


class Downscale(Section):
    """Wanting fewer clusters."""

    order: Annotated[Literal["StoredScore", "SpreadAware"], Field(description="Which clusters go first.")] = (
        "StoredScore"
    )


class Sorter(Section):
    """Property sorters."""

    population: Annotated[
        Literal["AllClusters", "PassedClusters"], Field(description="Whose values span the range of a sorter.")
    ] = "AllClusters"


class Settings(Section):
    eligibility: Eligibility = Eligibility()
    status: Status = Status()
    spread: Spread = Spread()
    downscale: Downscale = Downscale()
    sorter: Sorter = Sorter()

    def profile_changes(self) -> dict[str, Any]:
        """The keyword arguments for `plugins.default_profile.default_profile`, except its limits.

        Only what differs from the defaults, so that settings nobody touched leave the profile and its hash alone.
        """
        args = {
            "ClusterAffinity": _given(self.sorter, population="sorterPopulation"),
            "ClusterEligibility": _given(self.eligibility),
            "TopologySpreadConstraints": _given(self.spread),
        }
        found: dict[str, Any] = {"args": {plugin: values for plugin, values in args.items() if values}}
        return found if self.downscale == Downscale() else found | {"downscale_order": self.downscale.order}

    def published_limits(self) -> dict[str, int]:
        """The fields of `fleet.framework.profile.Limits`."""
        return self.status.model_dump()

    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults, by name."""
        tree = self.model_dump(by_alias=True, exclude_defaults=True)
        return {f"{section}.{field}": value for section, values in tree.items() for field, value in values.items()}


def known_settings() -> dict[str, str]:
    """Every setting with its description."""
    return {
        f"{section}.{field.alias}": field.description or ""
        for section, model in _sections()
        for field in model.model_fields.values()
    }


def read_settings(assignments: Iterable[str]) -> Settings:
    """Settings from `name=value` texts; of several for one name the last counts."""
    tree: dict[str, dict[str, str]] = {}
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise ConfigurationError(f"setting {assignment!r} has no value: write {assignment}=VALUE")
        if name not in known_settings():
            raise ConfigurationError(f"no setting named {name!r}{_suggestion(name)}")
        section, _, field = name.partition(".")
        tree.setdefault(section, {})[field] = value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise ConfigurationError("; ".join(_complaints(error))) from error


def _complaints(error: ValidationError) -> Iterator[str]:
    for found in error.errors(include_url=False):
        name = ".".join(str(part) for part in found["loc"])
        expected = _EXPECTED.get(found["type"]) or found["msg"].replace("Input should", "should")
        yield f"setting {name}: {found['input']!r} {expected}"


def _suggestion(name: str) -> str:
    known = list(known_settings())
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[near[0]]}?" if near else f"; known settings are {', '.join(known)}"


def _sections() -> Iterator[tuple[str, type[Section]]]:
    for name, field in Settings.model_fields.items():
        assert isinstance(field.annotation, type)
        assert issubclass(field.annotation, Section)
        yield name, field.annotation


def _given(section: Section, **renamed: str) -> dict[str, Any]:
    """What differs from the defaults, under the names plugins have for it."""
    values = section.model_dump(by_alias=True, exclude_defaults=True)
    return {renamed.get(name, name): value for name, value in values.items()}
