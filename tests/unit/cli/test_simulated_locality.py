"""Data that clusters have already, as `fleet simulate` weighs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fast_yaml import safe_dump_all
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import NOW, Manifest, member, placement
from tests.unit.cli.profiled import Decide, deciding, row_of, score_of, simulate_profile, targets


@pytest.fixture
def decide(tmp_path: Path, fleet: Fleet) -> Decide:
    return deciding(simulate_profile(tmp_path, fleet, NOW))


def holding(name: str, **present: str) -> Manifest:
    """A cluster with so many bytes of each data set."""
    cluster = member(name)
    cluster["status"]["properties"] = {
        f"locality.fleet.dev/{data_set}": {"value": size, "observationTime": NOW} for data_set, size in present.items()
    }
    return cluster


def reading(name: str, locality: str, number: int = 1) -> Manifest:
    made = placement(name, placementType="PickN", numberOfClusters=number)
    made["metadata"]["annotations"] = {"scheduling.fleet.dev/locality": locality}
    return made


TABLE: list[tuple[str, dict[str, str], int]] = [
    ("all of it", {"models": "40Gi", "base": "10Gi"}, 100),
    ("more than it reads", {"models": "80Gi", "base": "10Gi"}, 100),
    ("one of two", {"models": "40Gi"}, 80),
    ("half of one", {"models": "20Gi"}, 40),
    ("the smaller", {"base": "10Gi"}, 20),
    ("a half, rounded up", {"models": "256Mi"}, 1),
    ("less than that", {"models": "255Mi"}, 0),
    ("another data set", {"other": "40Gi"}, 0),
    ("less than nothing", {"models": "-40Gi", "base": "10Gi"}, 20),
    ("what cannot be read", {"models": "plenty", "base": "10Gi"}, 20),
    ("nothing", {}, 0),
]


@pytest.mark.parametrize("present, score", [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_X_17_the_score_is_the_share_of_the_bytes_that_is_there(
    decide: Decide, present: dict[str, str], score: int
) -> None:
    (decided,) = decide(holding("a", **present), reading("web", "models=40Gi,base=10Gi"))

    assert score_of(decided, "a", "DataLocality") == score


def test_X_17_clusters_that_have_the_data_come_first(decide: Decide) -> None:
    clusters = holding("a"), holding("b", models="10Gi"), holding("c", models="40Gi")
    (decided,) = decide(*clusters, reading("web", "models=40Gi", 2))

    assert targets(decided) == ["c", "b"]


def test_X_17_without_locality_the_plugin_is_skipped(decide: Decide) -> None:
    (decided,) = decide(holding("a", models="10Gi"), placement("web", placementType="PickN", numberOfClusters=1))

    assert "DataLocality" not in {score["plugin"] for score in row_of(decided, "a")["scores"]}


@pytest.mark.parametrize(
    "locality, message",
    [
        ("models=lots", "'lots' is no size for models: write models=40Gi"),
        ("models", "'' is no size for models: write models=40Gi"),
        ("models=0", "0 for models is no size: write more than 0"),
        ("models=2E", "2E for models is more than any cluster has"),
        ("a/b=1", "'a/b' is no name of a data set: use letters, digits, dashes, dots and underscores"),
        (",".join(f"d{number}=1" for number in range(17)), "17 data sets are more than 16: list the largest"),
    ],
)
def test_locality_that_cannot_be_read_refuses_the_placement(decide: Decide, locality: str, message: str) -> None:
    (decided,) = decide(holding("a"), reading("web", locality))

    verdict: Any = decided["answer"]["verdict"]
    assert targets(decided) == []
    assert message in json.dumps(verdict)


def test_X_17_image_locality_of_the_other_scheduler_stands_for_it(fleet: Fleet, tmp_path: Path) -> None:
    config, files = tmp_path / "compat.yaml", tmp_path / "fleet.yaml"
    config.write_text(COMPAT, encoding="utf-8")
    manifests = holding("a"), holding("b", models="1Gi"), reading("web", "models=1Gi")
    files.write_text(safe_dump_all(manifests), encoding="utf-8")

    converted = fleet("config", "convert", str(config))
    ran = fleet("simulate", "-f", str(files), "--config", str(config), "-o", "json")

    report = [line.split() for line in converted.err.splitlines()]
    assert ["translated", "profiles[0].plugins.score.enabled[0].name:", "DataLocality"] in report
    (decided,) = json.loads(ran.out)["decisions"]
    (score,) = [each for each in row_of(decided, "b")["scores"] if each["plugin"] == "DataLocality"]
    assert (score["raw"], score["weight"]) == (100, 7)


COMPAT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: DefaultScheduler
  plugins:
    score:
      enabled: [{name: ImageLocality, weight: 7}]
"""
