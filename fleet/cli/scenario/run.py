"""`fleet simulate --scenario`: read, check, play, print."""

from __future__ import annotations

import sys

import msgspec

from fleet.cli.commands.simulation.simulate import (
    BAD_INPUT,
    FAILED,
    FINE,
    UNFULFILLED,
    SimulateOptions,
    read_given_moment,
    read_given_settings,
    report_findings,
)
from fleet.cli.input.objects import read_layers
from fleet.cli.input.problems import Findings
from fleet.cli.input.simulation import moment_of
from fleet.cli.input.simulation_inputs import build_inputs, parse_layers
from fleet.cli.output.console import page_of, write_document
from fleet.cli.progress import show_progress
from fleet.cli.scenario.document import read_scenario
from fleet.cli.scenario.player import Timeline, play
from fleet.cli.scenario.timeline import build_timeline_report, render_timeline
from fleet.errors import FleetError
from fleet.manager import logs


def run_scenario(file: str, options: SimulateOptions) -> int:
    """Returns the exit code."""
    findings = Findings()
    settings, _ = read_given_settings(options.settings, findings, options.config, options.sources)
    moment = read_given_moment(options.now, options.now_from, findings)
    objects = read_layers(parse_layers(options.files, findings), findings)
    scenario = read_scenario(file, findings)
    if findings.problems or scenario is None:
        report_findings(findings, verbose=options.verbose, outcome="nothing was played")
        return BAD_INPUT
    logs.configure("info" if options.verbose else "error")
    start = moment or moment_of(build_inputs(objects, Findings()))
    documents = [msgspec.json.decode(msgspec.json.encode(item.parsed.content)) for item in objects]
    try:
        with show_progress("playing the scenario"):
            timeline = play(scenario, documents, settings, start=start.nanoseconds)
    except FleetError as error:
        findings.add(f"{file}: {error}")
        report_findings(findings, verbose=options.verbose, outcome="the scenario was not played to its end")
        return BAD_INPUT
    for kind, count in timeline.ignored.items():
        findings.note(f"{count} {kind} in the files: left out, because the controllers of the scenario write their own")
    report_findings(findings, verbose=options.verbose, outcome="")
    _print(timeline, options.output)
    if timeline.has_failed:
        return FAILED
    return FINE if timeline.holds else UNFULFILLED


def _print(timeline: Timeline, output: str) -> None:
    if output == "table":
        sys.stdout.write(render_timeline(timeline, page_of(sys.stdout)))
    else:
        write_document(build_timeline_report(timeline), output)
