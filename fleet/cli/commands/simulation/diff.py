"""The command `fleet diff`: what files would move, compared with a hub, an export or other files. Writes nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from fleet.cli.client.hub_access import HubOptions, connect_to_hub
from fleet.cli.client.hub_objects import find_missing_namespaces, list_deciding_documents
from fleet.cli.client.names import PlacementName, find_kinds
from fleet.cli.commands.simulation.simulate import read_given_moment, read_given_settings, report_findings
from fleet.cli.commands.simulation.snapshot import read_snapshot_context
from fleet.cli.input.diff_inputs import (
    CHANGED_KINDS,
    DiffInputs,
    PlannedDeletions,
    build_changed_placements,
    read_diff_inputs,
)
from fleet.cli.input.documents import ParsedDocument
from fleet.cli.input.files import STDIN, STDIN_NAME
from fleet.cli.input.holds import may_evict, note_holds
from fleet.cli.input.object_merge import FIELD_MANAGER
from fleet.cli.input.objects import InputObject, Layer, expand_lists, read_layers, read_objects
from fleet.cli.input.problems import Findings, SourceLocation
from fleet.cli.input.simulation import Moment, decide_asking, moment_of, read_moment
from fleet.cli.input.simulation_inputs import NAMESPACED_PLACEMENT, leave_foreign, parse_layers
from fleet.cli.output.console import page_of, write_json, write_text, write_yaml
from fleet.cli.output.diff_markdown import render_markdown
from fleet.cli.output.diff_report import DiffReport, RemarkedPlacement
from fleet.cli.output.diff_text import render_diff
from fleet.cli.progress import show_progress
from fleet.errors import InputError
from fleet.explain.remarks.remarks import find_remarks
from fleet.explain.whatif.moves import ChangedPlacement, UndecidedPlacement, report_moves
from fleet.external.extender_client import ExtenderClient
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.model.timestamps import format_timestamp
from fleet.placement.selection.resource_filter import build_resource_filter
from fleet.scheduler.profiles.frameworks import CompiledProfiles
from fleet.settings import Settings
from fleet.settings.document.extenders import ExtenderDocument
from fleet.settings.document.substitution import NO_SOURCES, NamedSources

NO_MOVE: Final = 0
MOVES: Final = 1
UNDECIDED: Final = 2
_HUB: Final = "the hub"
_NOTHING_DONE: Final = "nothing was compared"
_EVICTS: Final = "it lacks clusters and may evict less important placements, which `fleet simulate` plays in a scenario"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """The options of the command line."""

    files: Sequence[str] = ()
    base: Sequence[str] = ()
    snapshot: str | None = None
    delete: Sequence[str] = ()
    prune: bool = False
    selector: str | None = None
    all: bool = False
    output: str = "text"
    now: str | None = None
    settings: Sequence[str] = ()
    config: Path | None = None
    sources: NamedSources = NO_SOURCES
    asks_extenders: bool = False
    field_manager: str = FIELD_MANAGER
    verbose: bool = False
    hub: HubOptions = field(default_factory=HubOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """What the files are compared with."""

    name: str
    objects: Sequence[InputObject]
    settings: Sequence[str] = ()
    """In the form of `--set`."""
    moment: str | None = None
    """None: the newest heartbeat."""
    moment_from: str = ""


def run_diff(options: DiffOptions) -> int:
    """Returns the exit code. All problems, of files and of the command line, are reported at once."""
    findings = Findings()
    deletions = _read_deletions(options, findings)
    layers = [list(layer) for layer in parse_layers(options.files, findings)]
    base = _read_base(options, findings)
    given = [*base.settings, *options.settings]
    settings, profiles = read_given_settings(given, findings, options.config, options.sources)
    moment = _read_moment(options, base, findings)
    resource_filter = build_resource_filter(settings)
    inputs = read_diff_inputs(
        base.objects, layers, deletions, findings, manager=options.field_manager, resource_filter=resource_filter
    )
    if not inputs.objects and not findings.problems:
        findings.add("there is nothing to compare: the files contain no placement, no options and no cluster")
    if base.name == _HUB:
        _check_namespaces(inputs, layers, options, findings)
    if not findings.problems:
        inputs = replace(
            inputs,
            before=leave_foreign(inputs.before, profiles, Findings()),
            after=leave_foreign(inputs.after, profiles, findings),
        )
        note_holds(inputs.after, profiles, findings)
    report_findings(findings, verbose=options.verbose, outcome=_NOTHING_DONE)
    if findings.problems:
        return UNDECIDED
    extenders = settings.extenders if options.asks_extenders else ()
    asked = DiffQuestion(inputs, base.name, settings, profiles, moment or moment_of(inputs.before), extenders)
    with show_progress("deciding"):
        report = build_report(asked, findings)
    _print_report(report, options.output)
    for each in report.undecided:
        sys.stderr.write(f"error: placement {each.key} cannot be decided: {each.message}\n")
    if report.undecided and settings.extenders and not options.asks_extenders:
        sys.stderr.write("note: the extenders of --config were not asked: add --ask-extenders\n")
    return UNDECIDED if report.undecided else MOVES if report.moves else NO_MOVE


@dataclass(frozen=True, slots=True)
class DiffQuestion:
    """What is compared, and how it is decided."""

    inputs: DiffInputs
    base: str
    settings: Settings
    profiles: CompiledProfiles
    moment: Moment
    extenders: Sequence[ExtenderDocument] = ()
    """Those that are asked."""


def build_report(asked: DiffQuestion, findings: Findings) -> DiffReport:
    inputs, moment = asked.inputs, asked.moment
    placements = list(build_changed_placements(inputs, asked.profiles, moment))
    client = ExtenderClient(asked.extenders)
    short: dict[str, bool] = {}

    def decide(inp: DecisionInput) -> tuple[DecisionInput, Decision]:
        inp, decision = decide_asking(inp, client)
        short[inp.request.key] = not decision.fulfilled and may_evict(inp.request, inp.profile, inputs.after)
        return inp, decision

    moves = report_moves(placements, decide)
    unanswered = {each.key for each in moves.undecided}
    evicting = [
        UndecidedPlacement(kind=each.kind, key=each.key, message=_EVICTS)
        for each in placements
        if each.after is not None and short.get(each.key) and each.key not in unanswered
    ]
    return DiffReport(
        base=asked.base,
        now=format_timestamp(moment.nanoseconds),
        now_from=moment.source,
        settings=asked.settings.collect_changes(),
        cluster_count=len(inputs.after.clusters),
        placement_count=len(inputs.after.placements),
        moves=moves.has_moves,
        objects=inputs.objects,
        placements=moves.placements,
        clusters=moves.clusters,
        undecided=(*moves.undecided, *evicting),
        remarks=tuple(_list_remarks(placements)),
        notes=tuple(findings.notes),
    )


def _list_remarks(placements: Iterable[ChangedPlacement]) -> Iterator[RemarkedPlacement]:
    for placement in placements:
        if placement.after is None or placement.change not in ("new", "changed"):
            continue
        remarks = find_remarks(placement.after.request, placement.after.frame, placement.after.profile)
        if remarks:
            yield RemarkedPlacement(kind=placement.kind, key=placement.key, remarks=remarks)


def _print_report(report: DiffReport, output: str) -> None:
    if output == "text":
        sys.stdout.write(render_diff(report, page_of(sys.stdout)))
    elif output == "markdown":
        write_text(render_markdown(report))
    elif output == "json":
        write_json(msgspec.to_builtins(report))
    else:
        write_yaml(msgspec.to_builtins(report))


# --- the base ---------------------------------------------------------------------------------------------------------


def _read_base(options: DiffOptions, findings: Findings) -> _Base:
    if options.snapshot is not None:
        context = read_snapshot_context(options.snapshot)
        objects = read_layers(parse_layers([options.snapshot], findings), findings)
        return _Base(
            name=options.snapshot,
            objects=objects,
            settings=context.settings,
            moment=context.at,
            moment_from="--snapshot",
        )
    if options.base:
        # One layer: a placement and its policy snapshot may be in different files of one hub.
        objects = read_objects((item for layer in parse_layers(options.base, findings) for item in layer), findings)
        return _Base(name=", ".join(STDIN_NAME if name == STDIN else name for name in options.base), objects=objects)
    documents = asyncio.run(_load_hub(options.hub))
    return _Base(name=_HUB, objects=read_objects(documents, findings, layer=Layer(is_checked=False)), moment="now")


async def _load_hub(hub: HubOptions) -> list[ParsedDocument]:
    async with connect_to_hub(hub) as api:
        with show_progress("reading from the hub"):
            return [ParsedDocument(SourceLocation(_HUB), document) async for document in list_deciding_documents(api)]


def _read_moment(options: DiffOptions, base: _Base, findings: Findings) -> Moment | None:
    if options.now is None and base.moment is not None:
        return read_moment(base.moment, source=base.moment_from)
    return read_given_moment(options.now, "--now", findings)


def _check_namespaces(
    inputs: DiffInputs, layers: Iterable[Iterable[ParsedDocument]], options: DiffOptions, findings: Findings
) -> None:
    """A ResourcePlacement needs its namespace on the hub or in the files."""
    added = [item for item in inputs.objects if item.kind == NAMESPACED_PLACEMENT and item.change == "new"]
    new = {item.key.partition("/")[0]: item for item in reversed(added)}
    wanted = new.keys() - _list_namespaces(layers)
    if wanted:
        for namespace in asyncio.run(_find_missing(options.hub, sorted(wanted))):
            change = new[namespace]
            findings.add(
                f"{change.place}: {change.kind} {change.key}: metadata.namespace: there is no namespace {namespace} on "
                "the hub; create it, or add it to the files"
            )


async def _find_missing(hub: HubOptions, names: Sequence[str]) -> list[str]:
    async with connect_to_hub(hub) as api:
        return await find_missing_namespaces(api, names)


def _list_namespaces(layers: Iterable[Iterable[ParsedDocument]]) -> set[str]:
    items = (item for layer in layers for parsed in layer for item in expand_lists(parsed, Findings()))
    documents = [item.content for item in items if isinstance(item.content, dict)]
    return {
        str(document["metadata"].get("name"))
        for document in documents
        if document.get("kind") == "Namespace" and isinstance(document.get("metadata"), dict)
    }


# --- deletions --------------------------------------------------------------------------------------------------------


def _read_deletions(options: DiffOptions, findings: Findings) -> PlannedDeletions:
    if options.prune and bool(options.selector) is options.all:
        findings.add("--prune: say which placements: add --selector LABELS, or --all for every one without a file")
    if not options.prune and (options.selector or options.all):
        findings.add(f"{'--selector' if options.selector else '--all'}: needs --prune")
    named = [_read_name(text, findings) for text in options.delete]
    return PlannedDeletions(
        named=[name for name in named if name is not None],
        prunes=options.prune,
        labels=None if options.selector is None else _read_labels(options.selector, findings),
    )


def _read_name(text: str, findings: Findings) -> tuple[str, str] | None:
    word, slash, key = text.partition("/")
    try:
        kinds = [kind for kind in find_kinds(word) if kind.kind in CHANGED_KINDS]
        fitting = [kind.kind for kind in kinds if kind.is_namespaced is ("/" in key)]
        if not slash or not fitting:
            raise InputError("write it as placement/web, placement/shop/web or cluster/ams-1")
        return fitting[0], PlacementName.parse(key).key
    except InputError as error:
        findings.add(f"--delete {text!r}: {error}")
        return None


def _read_labels(text: str, findings: Findings) -> dict[str, str]:
    labels = {}
    for part in text.split(","):
        key, equals, value = part.replace("==", "=").partition("=")
        if not equals or not key.strip() or key.strip().endswith("!"):
            findings.add(f"--selector {text!r}: {part!r} should be LABEL=VALUE")
        labels[key.strip()] = value.strip()
    return labels
