"""Whatever the fleet and however it changed: a recorded decision, made again from the record, is the same decision.

Fleets, policies and bindings come from random scenarios. Between decisions clusters beat, fall silent, come back,
change, join and leave; time passes, sometimes beyond the timeouts. What is kept goes through the recorder and a
database.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import compile_request
from fleet.history import History, ReplayInputs
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import SECOND, format_timestamp, parse_timestamp
from fleet.model.views import Binding, MemberCluster, Metadata, Observed, PolicySnapshot, PolicySnapshotStatus, Taint
from fleet.recorder.recorder import HistoryRecorder
from fleet.scheduler.attempt_record import AttemptRecord
from fleet.settings import Settings
from fleet.settings.tree import EligibilitySection
from fleet.settings.values import Duration
from fleet.snapshot import Table
from tests.databases import SOON, database, postgres, recording, url
from tests.doubles import carried_out
from tests.strategies import random_scenario
from tests.vectors.engine import profile_for

__all__ = ["database", "postgres", "url"]

DECISIONS: Final = 8
SCENARIOS: Final = {"sqlite": 40, "postgresql": 8}


@dataclass(frozen=True)
class Made:
    key: str
    digest: str
    profile: CompiledProfile


def decided_again(recorded: ReplayInputs, profile: CompiledProfile) -> str:
    """From nothing but the record."""
    clusters = [msgspec.json.decode(document, type=MemberCluster) for document in recorded.clusters]
    request = msgspec.json.decode(recorded.request, type=PolicySnapshot)
    asked = DecisionInput(
        frame=Table(clusters).freeze(),
        request=compile_request(request, placement_uid=recorded.placement_uid),
        bindings=[msgspec.json.decode(document, type=Binding) for document in recorded.bindings],
        profile=profile,
        now=recorded.now,
        previous=msgspec.json.decode(recorded.previous, type=PolicySnapshotStatus),
        cursor=recorded.cursor,
    )
    return decide(asked).digest


class Course:
    """A fleet over some time, and what is decided on it."""

    def __init__(self, seed: int, history: History) -> None:
        scenario = random_scenario(seed)
        self.random = Random(seed)
        self.key = f"p{seed}"
        options = scenario.get("options") or {}
        self.profile = profile_for(tuple(sorted(options.items())))
        self.recorder = HistoryRecorder(history, Settings(eligibility=eligibility_of(options)))
        self.table = Table(msgspec.convert(scenario["memberClusters"], list[MemberCluster]))
        self.clusters: dict[str, MemberCluster] = {
            cluster.metadata.name: cluster
            for cluster in msgspec.convert(scenario["memberClusters"], list[MemberCluster])
        }
        self.snapshot = msgspec.convert(scenario["policySnapshot"], PolicySnapshot)
        self.bindings = msgspec.convert(scenario["bindings"], list[Binding])
        self.uid = scenario.get("placementUid", "")
        self.now = parse_timestamp(scenario["now"])

    def made(self) -> Iterator[Made]:
        for number in range(DECISIONS):
            yield self._decide(number)
            for _ in range(self.random.choice((0, 1, 1, 5, 20))):
                self._happens()
            self.now += self.random.choice((1, 10, 60, 290, 310, 899, 1000)) * SECOND

    def _decide(self, number: int) -> Made:
        asked = DecisionInput(
            frame=self.table.freeze(),
            request=compile_request(self.snapshot, placement_uid=self.uid),
            bindings=tuple(self.bindings),
            profile=self.profile,
            now=self.now,
            previous=self.snapshot.status,
        )
        decision = decide(asked)
        key = f"{self.key}-{number}"
        self.recorder.record(
            AttemptRecord(
                key=PlacementKey.parse(key),
                started=self.now,
                snapshot=Observed(self.snapshot, b"{}"),
                inputs=asked,
                decision=decision,
                status_written=True,
            )
        )
        if self.random.random() < 0.5:
            self.bindings = carried_out(self.bindings, decision)
        return Made(key, decision.digest, self.profile)

    # --- what happens to clusters -------------------------------------------------------------------------------------

    def _happens(self) -> None:
        what = self.random.choice(
            ("beats", "beats", "beats", "beats", "changes", "tainted", "leaves", "joins", "again")
        )
        if what == "joins" or not self.clusters:
            self._put(MemberCluster(metadata=Metadata(name=f"new-{self.random.randint(0, 5)}")))
            return
        name = self.random.choice(sorted(self.clusters))
        cluster = self.clusters[name]
        match what:
            case "beats":
                self._put(heard(cluster, self.now - self.random.choice((0, 3, 200, 400)) * SECOND))
            case "changes":
                labels = {**(cluster.metadata.labels or {}), "region": self.random.choice(("eu", "us"))}
                self._put(with_metadata(cluster, labels=labels))
            case "tainted":
                spec = msgspec.structs.replace(cluster.spec, taints=(Taint("gpu", "", "NoSchedule"),))
                self._put(msgspec.structs.replace(cluster, spec=spec))
            case "leaves":
                self.table.remove(name)
                del self.clusters[name]
            case "again":
                self.table.remove(name)
                self._put(heard(cluster, self.now))

    def _put(self, cluster: MemberCluster) -> None:
        self.table.put(cluster)
        self.clusters[cluster.metadata.name] = cluster


def heard(cluster: MemberCluster, moment: int) -> MemberCluster:
    """A heartbeat, and nothing else."""
    agents = tuple(
        msgspec.structs.replace(agent, last_received_heartbeat=format_timestamp(moment))
        for agent in cluster.status.agent_status
    )
    return msgspec.structs.replace(cluster, status=msgspec.structs.replace(cluster.status, agent_status=agents))


def with_metadata(cluster: MemberCluster, **changes: Any) -> MemberCluster:
    return msgspec.structs.replace(cluster, metadata=msgspec.structs.replace(cluster.metadata, **changes))


def eligibility_of(options: dict[str, Any]) -> EligibilitySection:
    return EligibilitySection(
        heartbeat_timeout=Duration(f"{options.get('heartbeatTimeoutSeconds', 300)}s"),
        unhealthy_timeout=Duration(f"{options.get('healthTimeoutSeconds', 300)}s"),
        retention=Duration(f"{options.get('retentionSeconds', 900)}s"),
    )


def different(history: History, made: list[Made]) -> list[str]:
    wrong = []
    for one in made:
        attempt = history.latest(one.key)
        recorded = None if attempt is None else history.inputs(attempt.id)
        if recorded is None or decided_again(recorded, one.profile) != one.digest:
            wrong.append(one.key)
    return wrong


@pytest.mark.timeout(300)
def test_W_11_every_recorded_decision_is_made_again_from_its_record(url: str, database: str, *, long: bool) -> None:
    count = SCENARIOS[database] * (20 if long else 1)
    with recording(url) as history:
        made = [one for seed in range(count) for one in Course(seed, history).made()]
        assert history.flush(seconds=SOON * 4)
        assert history.counts().failed == 0
        assert different(history, made) == []


@pytest.mark.timeout(300)
def test_what_retention_keeps_can_still_be_made_again(tmp_path: Path) -> None:
    with recording(f"sqlite:///{tmp_path / 'history.sqlite'}") as history:
        made = [one for seed in range(20) for one in Course(seed, history).made()]
        assert history.flush(seconds=SOON * 4)
        size = history.size()
        gone = [one.key for number, one in enumerate(made) if number % 3]
        _forget(history, gone)
        history.run_retention()
        assert history.size() < size
        assert different(history, [one for one in made if one.key not in gone]) == []


def _forget(history: History, keys: list[str]) -> None:
    """Their placements are gone, and their attempts are old."""
    from fleet.history.storage.tables import ATTEMPTS, PLACEMENTS

    with history._database.writing() as connection:
        connection.execute(PLACEMENTS.update().where(PLACEMENTS.c.key.in_(keys)).values(deleted_at=1))
        connection.execute(ATTEMPTS.update().where(ATTEMPTS.c.key.in_(keys)).values(last_at=1))
        connection.execute(ATTEMPTS.update().where(ATTEMPTS.c.key.not_in(keys)).values(last_at=2**62))
