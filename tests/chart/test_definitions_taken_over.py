"""Definitions that somebody else took over are let go, and never deleted: with them all placements would go."""

from __future__ import annotations

from typing import Final

import pytest

from tests.chart.release import PLACEMENTS, Release, a_placement, definitions_in

TAKEN: Final = "meta.helm.sh/release-name=kubefleet"
NOT_KEPT: Final = "helm.sh/resource-policy-"


@pytest.fixture
def installed(release: Release) -> Release:
    """With a placement."""
    release.install()
    release.hub.post(PLACEMENTS, a_placement()).ok()
    return release


@pytest.mark.parametrize("change", [(TAKEN,), ()], ids=["of-another-release", "not-wanted-any-more"])
def test_what_nothing_keeps_is_not_given_up_before_something_does(installed: Release, change: tuple[str, ...]) -> None:
    installed.kubectl("annotate", "crd", "--all", "--overwrite", NOT_KEPT, *change)
    values = () if change else ("--set=crds.install=false",)
    before = definitions_in(installed.hub)

    said = installed.fails("upgrade", installed.name, str(installed.chart), *values)

    assert "would be deleted, with every placement" in said
    assert definitions_in(installed.hub) == before

    (command,) = (line.partition("First run: kubectl ")[2] for line in said.splitlines() if "First run: " in line)
    installed.kubectl(*command.split())
    installed.upgrade(*values)

    assert definitions_in(installed.hub).keys() == before.keys()
    assert installed.hub.get(f"{PLACEMENTS}/web").status == 200


def test_what_is_kept_is_let_go_without_a_word(installed: Release) -> None:
    installed.kubectl("annotate", "crd", "--all", "--overwrite", TAKEN)

    installed.upgrade()

    assert installed.hub.get(f"{PLACEMENTS}/web").status == 200


def test_what_is_taken_back_needs_nobody_to_keep_it(installed: Release) -> None:
    installed.kubectl("annotate", "crd", "--all", "--overwrite", TAKEN, NOT_KEPT)

    installed.upgrade("--set=crds.adopt=true", "--take-ownership", "--force-conflicts")

    assert "helm.sh/resource-policy" in "".join(definitions_in(installed.hub).values())
