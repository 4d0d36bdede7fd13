"""`fleet simulate --live`: a simulation by the API, of the fleet as it is now or was at an attempt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.names import PlacementName
from fleet.cli.client.requests import ApiRequest, fetch_json
from fleet.cli.commands.why import exit_code, print_text, read_state
from fleet.cli.input.edits import read_edits
from fleet.cli.output.console import write_document
from fleet.errors import InputError

_PLACEMENTS: Final = ("ClusterResourcePlacement", "ResourcePlacement")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSimulation:
    """The options of the command line."""

    placements: Sequence[str] = ()
    files: Sequence[str] = ()
    edits: Sequence[str] = ()
    attempt: str | None = None
    clusters: Sequence[str] = ()
    everything: bool = False
    fixes: str | None = None
    impact: bool = False
    output: str = "table"


def simulate_live(connection: ApiConnection, supposition: LiveSimulation) -> int:
    """Returns the exit code: whether the placement would be scheduled."""
    question = ApiRequest(path="/v1/simulate", body=build_body(supposition))
    if supposition.output == "table":
        return exit_code(print_text(connection, question))
    answer = fetch_json(connection, question)
    write_document(answer, supposition.output)
    return exit_code(read_state(answer, connection))


def build_body(supposition: LiveSimulation) -> dict[str, Any]:
    """The body of the request."""
    body: dict[str, Any] = {
        "placement": _build_placement(supposition),
        "from": supposition.attempt or "current",
        "edits": read_edits(supposition.edits),
        "explain": "all" if supposition.everything else "first",
    }
    if len(supposition.clusters) > 1:
        raise InputError("with --live, give one cluster", field="--why")
    if supposition.clusters:
        body["cluster"] = supposition.clusters[0]
    if supposition.fixes is not None:
        body["fixes"] = supposition.fixes
    return body | ({"impact": True} if supposition.impact else {})


def _build_placement(supposition: LiveSimulation) -> dict[str, Any]:
    if bool(supposition.files) is bool(supposition.placements) or len(supposition.placements) > 1:
        raise InputError("name one placement, or give a new one with -f FILE", field="--live")
    if supposition.placements:
        return {"ref": PlacementName.parse(supposition.placements[0]).key}
    return read_placement(supposition.files)


def read_placement(files: Sequence[str]) -> dict[str, Any]:
    """The single placement in these files."""
    from fleet.cli.input.documents import parse_documents
    from fleet.cli.input.files import read_texts
    from fleet.cli.input.objects import read_objects
    from fleet.cli.input.problems import Findings

    findings = Findings()
    objects = read_objects(
        (document for text in read_texts(files, findings) for document in parse_documents(text, findings)), findings
    )
    if findings.problems:
        raise InputError("\n".join(map(str, findings.in_order())))
    placements = [item for item in objects if item.kind in _PLACEMENTS]
    if len(placements) != 1:
        raise InputError(f"the files should contain one placement, not {len(placements)}", field="-f")
    others = sorted({str(item) for item in objects} - {str(placements[0])})
    if others:
        left_out = ", ".join(others)
        sys.stderr.write(f"note: --live takes the placement alone: left out {left_out}; `fleet diff` reads them, too\n")
    content: dict[str, Any] = placements[0].parsed.content
    return content
