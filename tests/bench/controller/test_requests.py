"""What a placement costs the hub, in requests, and that the bench counts them right. No test here looks at a clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.bench.controller.counting_hub import subject
from tests.bench.controller.documents import PICKS
from tests.bench.controller.group import placing_figures
from tests.bench.controller.hubs import EMBEDDED, Hub
from tests.bench.controller.placing import is_read, is_write
from tests.bench.controller.runs import FORMS, Measured, Plan, Size, measure
from tests.bench.measuring import Run

pytestmark = pytest.mark.servers  # processes of the benchmarks

BINDINGS = "POST clusterresourcebindings"
FINALIZER = "PUT clusterresourceplacements"
STATUS = "PUT clusterschedulingpolicysnapshots/status"
EVENT = "POST events"


@pytest.fixture(scope="module")
def measured() -> Measured:
    """A small fleet, half of which qualifies: enough for the picks and for the constraints."""
    size = Size(40, 4)
    return asyncio.run(measure(EMBEDDED, size, Plan(sizes=(size,), restarted=12, most_bursts=1, alone=1)))


@pytest.mark.parametrize("form", FORMS)
def test_a_placement_costs_its_bindings_two_more_writes_and_an_event(measured: Measured, form: str) -> None:
    writes = {name: number for name, number in measured.forms[form].requests.items() if is_write(name)}

    assert writes == {BINDINGS: PICKS, FINALIZER: 1, STATUS: 1, EVENT: 1}


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_read_to_place_something(measured: Measured, form: str) -> None:
    assert not [name for name in measured.forms[form].requests if is_read(name)]


def test_the_plain_client_writes_the_same_without_the_event(measured: Measured) -> None:
    writes = {name: number for name, number in measured.limit.requests.items() if is_write(name)}

    assert writes == {BINDINGS: PICKS, FINALIZER: 1, STATUS: 1}


def test_a_restart_writes_nothing(measured: Measured) -> None:
    restarted = measured.restarted

    assert restarted is not None
    assert restarted.placements == 12
    assert restarted.writes == 0


def test_every_figure_has_a_name_of_its_own(measured: Measured) -> None:
    figures = list(placing_figures(Run("controller", quick=True), measured))

    assert len({one.id for one in figures}) == len(figures)


# --- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, expected",
    [
        ("/apis/group/v1/things", "things"),
        ("/apis/group/v1/things/a", "things"),
        ("/apis/group/v1/things/a/status", "things/status"),
        ("/apis/group/v1/namespaces/here/things/a/status", "things/status"),
        ("/api/v1/namespaces/here/events", "events"),
        ("/api/v1/namespaces/here", "namespaces"),
    ],
)
def test_a_path_is_counted_under_its_kind_and_subresource(path: str, expected: str) -> None:
    assert subject(path) == expected


def test_the_figures_of_an_api_server_are_added_up_whatever_was_answered() -> None:
    labels = 'component="apiserver",dry_run="",group="g",resource="things",scope="resource",subresource="status"'
    metrics = "\n".join(
        f'apiserver_request_total{{code="{code}",{labels},verb="PUT",version="v1"}} {count}'
        for code, count in (("200", "3"), ("409", "2"))
    )

    hub = Hub("", Path(), counts_path="/metrics")

    assert hub.counted(f"# TYPE apiserver_request_total counter\n{metrics}\n") == {"PUT things/status": 5}
