"""The document of a scenario: what happens to a fleet, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from fleet.cli.input.documents import parse_documents
from fleet.cli.input.files import read_texts
from fleet.cli.input.problems import Findings
from fleet.errors import InputError
from fleet.model.fields import check_fields, path_text
from fleet.settings.values import Duration

KIND: Final = "FleetScenario"
API_VERSION: Final = "scheduling.fleet.dev/v1alpha1"
MOST_STEPS: Final = 1000
LONGEST: Final = 31 * 24 * 3600.0
"""Seconds of virtual time."""
_MOST_COPIES: Final = 10_000
_LONG_ENOUGH: Final = 60.0


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)


def _check_manifest(content: dict[str, Any]) -> dict[str, Any]:
    metadata = content.get("metadata")
    names = [
        content.get("apiVersion"),
        content.get("kind"),
        metadata.get("name") if isinstance(metadata, dict) else None,
    ]
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError("needs apiVersion, kind and metadata.name")
    return content


class Clusters(_Model):
    """By name or by label."""

    names: tuple[str, ...] = ()
    match_labels: dict[str, str] = {}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.names) == bool(self.match_labels):
            raise ValueError("give either names or matchLabels")
        return self

    def select(self, clusters: Iterable[dict[str, Any]]) -> list[str]:
        """Their names, in order."""
        return sorted(str(cluster["metadata"]["name"]) for cluster in clusters if self._matches(cluster["metadata"]))

    def _matches(self, metadata: dict[str, Any]) -> bool:
        if self.names:
            return metadata["name"] in self.names
        return self.match_labels.items() <= (metadata.get("labels") or {}).items()


class Deletion(_Model):
    api_version: str = "placement.kubernetes-fleet.io/v1"
    kind: str = "ClusterResourcePlacement"
    namespace: str = ""
    name: str


class Fill(_Model):
    """Copies of a placement are created, one after the other, until one of them is short of clusters."""

    placement: str
    at_most: Annotated[int, Field(ge=1, le=_MOST_COPIES)] = 100


class Expectation(_Model):
    placement: str
    clusters: tuple[str, ...] | None = None
    """All that it is on."""
    count: Annotated[int, Field(ge=0)] | None = None
    state: Literal["Scheduled", "Unscheduled"] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.clusters is None and self.count is None and self.state is None:
            raise ValueError("expects nothing: give clusters, count or state")
        return self


class Step(_Model):
    at: Duration
    """Since the start of the scenario."""
    note: str = ""
    apply: tuple[Annotated[dict[str, Any], AfterValidator(_check_manifest)], ...] = ()
    delete: tuple[Deletion, ...] = ()
    leave: Clusters | None = None
    silence: Clusters | None = None
    recover: Clusters | None = None
    fill: Fill | None = None
    expect: tuple[Expectation, ...] = ()


class ScenarioDocument(_Model):
    api_version: Literal["scheduling.fleet.dev/v1alpha1"]
    kind: Literal["FleetScenario"]
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MOST_STEPS)]
    until: Duration | None = None
    """By default a minute after the last step."""

    @property
    def end(self) -> float:
        last = self.steps[-1].at.seconds
        return last + _LONG_ENOUGH if self.until is None else max(last, self.until.seconds)


def read_scenario(file: str, findings: Findings) -> ScenarioDocument | None:
    """None, with problems in the findings, unless the file has exactly one valid scenario."""
    documents = [each for text in read_texts([file], findings) for each in parse_documents(text, findings)]
    if findings.problems:
        return None
    if len(documents) != 1:
        findings.add(f"{file}: has {len(documents)} documents, where one {KIND} is expected")
        return None
    document = documents[0]
    scenario, problems = check_fields(document.content, ScenarioDocument, read_source=document.source_text)
    for problem in problems:
        findings.report(document.at(problem.path), str(problem))
    if scenario is None or problems:
        return None
    for path, message in _find_time_problems(scenario):
        findings.report(document.at(path), message)
    return None if findings.problems else scenario


def parse_scenario(content: dict[str, Any]) -> ScenarioDocument:
    """Raises InputError with the first problem."""
    scenario, problems = check_fields(content, ScenarioDocument, most=1)
    if scenario is None or problems:
        raise InputError(problems[0].message, field=path_text(problems[0].path))
    for path, message in _find_time_problems(scenario):
        raise InputError(message, field=path_text(path))
    return scenario


def _find_time_problems(scenario: ScenarioDocument) -> Iterator[tuple[Sequence[str | int], str]]:
    before = 0.0
    for number, step in enumerate(scenario.steps):
        if step.at.seconds < before:
            message = f"steps[{number}].at: {step.at} is before the step above it: put steps in the order of time"
            yield ("steps", number, "at"), message
        before = step.at.seconds
    if scenario.end > LONGEST:
        yield ("until",), "until: a scenario may last 31 days at most"
