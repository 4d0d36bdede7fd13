"""What would be: `fleet simulate --live`, asked of the fleet as it is now or as it was at some attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.cli.client.connection import Connection
from fleet.cli.client.placement_names import PlacementName
from fleet.cli.client.requests import Question, ask_json
from fleet.cli.commands.why import exit_code, show_text, state_in, write_json, write_yaml
from fleet.cli.input.edits import read_edits
from fleet.errors import InputError

_PLACEMENTS: Final = ("ClusterResourcePlacement", "ResourcePlacement")


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposition:
    """As it stands on the command line."""

    placements: Sequence[str] = ()
    files: Sequence[str] = ()
    edits: Sequence[str] = ()
    attempt: str | None = None
    clusters: Sequence[str] = ()
    everything: bool = False
    fixes: str | None = None
    impact: bool = False
    output: str = "table"


def simulate_live(connection: Connection, supposition: Supposition) -> int:
    """The exit code says whether the placement would be where it should be."""
    question = Question(path="/v1/simulate", body=simulation(supposition))
    if supposition.output == "table":
        return exit_code(show_text(connection, question))
    found = ask_json(connection, question)
    if supposition.output == "json":
        write_json(found)
    else:
        write_yaml(found)
    return exit_code(state_in(found, connection))


def simulation(supposition: Supposition) -> dict[str, Any]:
    """The body of the request."""
    body: dict[str, Any] = {
        "placement": _placement(supposition),
        "from": supposition.attempt or "current",
        "edits": read_edits(supposition.edits),
        "explain": "all" if supposition.everything else "first",
    }
    if len(supposition.clusters) > 1:
        raise InputError("with --live, one cluster at a time", field="--why")
    if supposition.clusters:
        body["cluster"] = supposition.clusters[0]
    if supposition.fixes is not None:
        body["fixes"] = supposition.fixes
    return body | ({"impact": True} if supposition.impact else {})


def _placement(supposition: Supposition) -> dict[str, Any]:
    if bool(supposition.files) is bool(supposition.placements) or len(supposition.placements) > 1:
        raise InputError("name one placement, or give one that does not exist yet with -f FILE", field="--live")
    if supposition.placements:
        return {"ref": PlacementName.read(supposition.placements[0]).key}
    return placement_document(supposition.files)


def placement_document(files: Sequence[str]) -> dict[str, Any]:
    """The one placement in these files."""
    from fleet.cli.input.documents import parse
    from fleet.cli.input.files import read_texts
    from fleet.cli.input.objects import read_objects
    from fleet.cli.input.problems import Findings

    findings = Findings()
    objects = read_objects((one for text in read_texts(files, findings) for one in parse(text, findings)), findings)
    if findings.problems:
        raise InputError("\n".join(map(str, findings.in_order())))
    found = [one for one in objects if one.kind in _PLACEMENTS]
    if len(found) != 1:
        raise InputError(f"want one placement in the files, found {len(found)}", field="-f")
    content: dict[str, Any] = found[0].parsed.content
    return content
