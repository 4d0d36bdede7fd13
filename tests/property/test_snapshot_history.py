"""Whatever happened to a fleet, its frame answers as one built anew from the same clusters, and old frames stay old.

A random history of writes, moments and questions runs against a plain dictionary. Questions are part of the history:
a column that was asked before a write is corrected by it, one that was not is built afterwards, and both must agree.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fleet.model.quantity import parse_quantity
from fleet.model.views import MemberCluster
from fleet.snapshot import Frame, Table
from fleet.snapshot.columns.numbers import OPERATORS
from fleet.snapshot.sidedata import PlacedBinding
from fleet.snapshot.table import overlay
from tests.builders import NOW, ClusterBuilder, a_cluster, names_in

KEYS = ("region", "zone")
VALUES = ("", "eu", "us", "mars")
NUMBERS = ("0", "1", "1000m", "4000000.000000001", "4000000", "9007199254740993", "9007199254740992", "odd", "-1e400")
RESOURCES = (("allocatable", "cpu"), ("available", "cpu"))
TAINTS = ((), (("gpu", ""),), (("gpu", ""), ("spot", "yes")))
NAMES = [f"c{number:02d}" for number in range(8)]


@st.composite
def a_member(draw: st.DrawFn) -> ClusterBuilder:
    cluster = a_cluster(draw(st.sampled_from(NAMES)))
    cluster = cluster.labelled(draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))))
    for key, value in draw(st.sampled_from(TAINTS)):
        cluster = cluster.tainted(key, value)
    if draw(st.booleans()):
        cluster = cluster.measured({"p": draw(st.sampled_from(NUMBERS))})
    if draw(st.booleans()):
        amounts: tuple[str | int, ...] = ("1", "500m", 3, "x")
        allocatable, available = draw(st.sampled_from(amounts)), draw(st.sampled_from(amounts))
        cluster = cluster.having(allocatable={"cpu": allocatable}, available={"cpu": available})
    if draw(st.booleans()):
        cluster = cluster.with_namespaces(*draw(st.sampled_from((("shop",), ()))), confirmed=draw(st.booleans()))
    change = draw(st.sampled_from(("none", "none", "heard", "silent", "agentless", "unhealthy", "leaving")))
    return troubled(cluster, change)


def troubled(cluster: ClusterBuilder, change: str) -> ClusterBuilder:
    match change:
        case "heard":
            return cluster.heard(3)
        case "silent":
            return cluster.never_heard()
        case "agentless":
            return cluster.without_agent()
        case "unhealthy":
            return cluster.healthy("False", since_seconds=60)
        case "leaving":
            return cluster.leaving()
    return cluster


# --- every question a frame can be asked, by names and values, without rows -------------------------------------------

ASKED = ("labels", "taints", "numbers", "signals", "namespace", "cells", "orders")


def asked(frame: Frame, what: str) -> Any:
    rows = {frame.name(row): row for row in frame.names.order.tolist()}
    match what:
        case "labels":
            return {key: about_label(frame, key, rows) for key in KEYS}
        case "taints":
            values = {name: frame.taints.value(row) for name, row in rows.items()}
            return values, {taints: names_in(frame, found) for taints, found in frame.taints.distinct()}
        case "numbers":
            columns = [frame.property("p"), *(frame.usage(kind, resource) for kind, resource in RESOURCES)]
            return [about_numbers(frame, column, rows) for column in columns]
        case "signals":
            return {name: frame.signals.of(row) for name, row in rows.items()}
        case "namespace":
            return {name: frame.namespace("shop").value(row) for name, row in rows.items()}
        case "cells":
            return {keys: about_cells(frame, keys, rows) for keys in ((KEYS[0],), KEYS, KEYS[::-1])}
    return [[frame.name(row) for row in frame.scan_order(key).tolist()] for key in (None, *KEYS)]


def about_label(frame: Frame, key: str, rows: dict[str, int]) -> Any:
    column, domains = frame.labels(key), frame.labels(key).domains()
    of_name = {name: int(domains.of_row[row]) for name, row in rows.items()}
    return {
        "values": {name: column.value(row) for name, row in rows.items()},
        "equal": {value: names_in(frame, column.eq(value)) for value in VALUES},
        "within": names_in(frame, column.isin(["eu", "mars"])),
        "exists": names_in(frame, column.exists()),
        "distinct": {value: names_in(frame, found) for value, found in column.distinct()},
        "domains": {name: None if domain < 0 else column.domain_value(domain) for name, domain in of_name.items()},
        "domain count": domains.count,
    }


def about_numbers(frame: Frame, column: Any, rows: dict[str, int]) -> Any:
    bounds = [parse_quantity(number) for number in NUMBERS if number != "odd"]
    return {
        "values": repr({name: float(column.values[row]) for name, row in rows.items()}),
        "bounds": repr(column.bounds()),
        "unreadable": names_in(frame, column.unreadable),
        "compared": {
            (operator, bound): names_in(frame, column.compare(operator, bound, frame.clusters))
            for operator in OPERATORS
            for bound in bounds
        },
    }


def about_cells(frame: Frame, keys: tuple[str, ...], rows: dict[str, int]) -> Any:
    cells = frame.cells(keys)
    found: dict[int, set[str]] = {}
    for name, row in rows.items():
        found.setdefault(int(cells.of_row[row]), set()).add(name)
    return {
        tuple(_value(frame, key, int(domains[cell])) for key, domains in zip(keys, cells.domains, strict=True)): members
        for cell, members in found.items()
    }


def _value(frame: Frame, key: str, domain: int) -> str | None:
    return None if domain < 0 else frame.labels(key).domain_value(domain)


# --- the history ------------------------------------------------------------------------------------------------------


class History(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.known: dict[str, MemberCluster] = {}
        self.rows: dict[str, int] = {}
        self.booked: dict[str, int] = {}
        self.sampled: dict[str, float] = {}
        self.placed: dict[str, set[str]] = {}
        self.moments: list[tuple[Frame, dict[str, MemberCluster], int]] = []

    @initialize(members=st.lists(a_member(), max_size=5))
    def start(self, members: list[ClusterBuilder]) -> None:
        self.known = {one.cluster.metadata.name: one.cluster for one in members}
        self.table = Table(one.cluster for one in members)

    @rule(member=a_member())
    def put(self, member: ClusterBuilder) -> None:
        self.known[member.cluster.metadata.name] = member.cluster
        self.table.put(member.cluster)

    @rule(member=a_member())
    def put_between_two_moments(self, member: ClusterBuilder) -> None:
        before, generation = self.known.get(member.cluster.metadata.name), self.table.freeze().generation
        self.put(member)
        raised = self.table.freeze().generation > generation
        assert raised == (before is None or without_heartbeat(before) != without_heartbeat(member.cluster))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.known)))
        self.table.remove(name)
        for mapping in (self.known, self.rows, self.booked, self.sampled, self.placed):
            mapping.pop(name, None)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), amount=st.integers(-3, 3))
    def book(self, data: st.DataObject, amount: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.known)))
        self.table.book("quota", name, amount)
        self.booked[name] = self.booked.get(name, 0) + amount

    @rule(samples=st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1), max_size=4))
    def feed(self, samples: dict[str, float]) -> None:
        self.table.feed("load", {"cpu": samples}, sampled_at=dict.fromkeys(samples, NOW))
        self.sampled = {name: value for name, value in samples.items() if name in self.known}

    @precondition(lambda self: self.known)
    @rule(data=st.data(), placement=st.sampled_from(("web", "db")), here=st.booleans())
    def place(self, data: st.DataObject, placement: str, *, here: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.known)))
        if here:
            self.table.place(name, PlacedBinding(placement))
            self.placed.setdefault(name, set()).add(placement)
        else:
            self.table.displace(name, placement)
            self.placed.get(name, set()).discard(placement)

    @rule(what=st.sampled_from(ASKED))
    def ask(self, what: str) -> None:
        """Builds columns now, so that later writes have to keep them right."""
        asked(self.table.freeze(), what)

    @rule(edited=a_member(), gone=st.sampled_from(NAMES))
    def what_if(self, edited: ClusterBuilder, gone: str) -> None:
        """F3-134: whatever is asked of an overlay, the fleet knows nothing of it."""
        over = overlay(self.table.freeze(), put=[edited.cluster], remove=[gone])
        members = {**self.known, edited.cluster.metadata.name: edited.cluster}
        members.pop(gone, None)
        assert asked(over, "labels") == asked(Table(members.values()).freeze(), "labels")

    @rule()
    def freeze(self) -> None:
        frame = self.table.freeze()
        self.moments = [*self.moments[-3:], (frame, dict(self.known), frame.generation)]

    @precondition(lambda self: self.moments)
    @rule(data=st.data(), what=st.sampled_from(ASKED))
    def ask_the_past(self, data: st.DataObject, what: str) -> None:
        frame, known, generation = data.draw(st.sampled_from(self.moments))
        assert asked(frame, what) == asked(anew(known), what)
        assert frame.generation == generation

    @rule()
    def look_at_rows_and_side_data(self) -> None:
        frame = self.table.freeze()
        self.rows = {name: frame.names.names.index(name) for name in self.known} | self.rows
        assert {name: frame.row_of(name) for name in self.known} == self.rows
        assert frame.valid.bit_count() == frame.count == len(self.known)
        load = frame.feeds.get("load")
        for name, row in self.rows.items():
            assert frame.ledger("quota")[row] == self.booked.get(name, 0)
            assert {one.placement for one in frame.placed[row]} == self.placed.get(name, set())
            if load is not None:
                assert repr(float(load.columns["cpu"][row])) == repr(self.sampled.get(name, float("nan")))

    def teardown(self) -> None:
        self.look_at_rows_and_side_data()
        for frame, known, _ in [*self.moments, (self.table.freeze(), self.known, 0)]:
            for what in ASKED:
                assert asked(frame, what) == asked(anew(known), what)


def anew(known: dict[str, MemberCluster]) -> Frame:
    """The same clusters, in another order of rows."""
    return Table(known[name] for name in sorted(known, reverse=True)).freeze()


def without_heartbeat(cluster: MemberCluster) -> Any:
    """Everything a decision may depend on: whether the agent was ever heard, but not when."""
    agents = [
        msgspec.structs.replace(one, last_received_heartbeat="heard" if one.last_received_heartbeat else None)
        for one in cluster.status.agent_status
    ]
    return msgspec.structs.replace(cluster, status=msgspec.structs.replace(cluster.status, agent_status=tuple(agents)))


TestHistory = History.TestCase
# A history is many steps, so the long run has fewer of them than other properties have examples.
TestHistory.settings = settings(stateful_step_count=30, max_examples=min(settings().max_examples, 500))
