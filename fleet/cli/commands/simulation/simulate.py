"""The command `fleet simulate`: read, check, decide, print.

Imported only when the command runs, so that `fleet --help` does not wait for numpy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.cli.input.holds import note_holds
from fleet.cli.input.problems import Findings
from fleet.cli.input.simulation import Moment, Simulation, moment_of, read_moment, simulate
from fleet.cli.input.simulation_inputs import SimulationInputs, leave_foreign, read_inputs
from fleet.cli.output.console import page_of
from fleet.cli.output.report import build_report, format_json, format_yaml
from fleet.cli.output.simulation_text import render_simulation
from fleet.cli.progress import show_progress
from fleet.errors import ConfigurationError, InputError
from fleet.placement.selection.resource_filter import build_resource_filter
from fleet.scheduler.profiles.configuration import find_more_problems
from fleet.scheduler.profiles.frameworks import CompiledProfiles, build_compiled_profiles
from fleet.settings import Settings, read_settings
from fleet.settings.document.substitution import NO_SOURCES, NamedSources
from fleet.similarity import did_you_mean

FINE: Final = 0
UNFULFILLED: Final = 1
FAILED: Final = 3
BAD_INPUT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    files: Sequence[str]
    output: str
    why: Sequence[str]
    expect_fulfilled: bool
    now: str | None
    now_from: str = "--now"
    settings: Sequence[str]
    config: Path | None = None
    sources: NamedSources = NO_SOURCES
    asks_extenders: bool = False
    verbose: bool


def run_simulate(options: SimulateOptions) -> int:
    """Returns the exit code. All problems, of files and of the command line, are reported at once."""
    findings = Findings()
    settings, profiles = read_given_settings(options.settings, findings, options.config, options.sources)
    moment = read_given_moment(options.now, options.now_from, findings)
    inputs = read_inputs(options.files, findings, resource_filter=build_resource_filter(settings))
    _check_input_is_complete(inputs, findings)
    _check_names(options.why, inputs, findings)
    if not findings.problems:
        inputs = leave_foreign(inputs, profiles, findings)
        note_holds(inputs, profiles, findings)
    report_findings(findings, verbose=options.verbose, outcome="nothing was decided")
    if findings.problems:
        return BAD_INPUT
    with show_progress("deciding"):
        simulation = simulate(
            inputs,
            profiles,
            moment or moment_of(inputs),
            feeds=settings.feeds,
            extenders=settings.extenders if options.asks_extenders else (),
        )
    _print_result(simulation, settings, options)
    if simulation.has_failed:
        return FAILED
    is_expected = simulation.is_fulfilled or not options.expect_fulfilled
    return FINE if is_expected and not simulation.has_invalid_policy else UNFULFILLED


def read_given_settings(
    assignments: Iterable[str],
    findings: Findings,
    file: Path | None = None,
    sources: NamedSources = NO_SOURCES,
) -> tuple[Settings, CompiledProfiles]:
    """The settings, and the profiles that they describe."""
    try:
        settings = read_settings(assignments, file, os.environ, find_more=find_more_problems, sources=sources)
        return settings, build_compiled_profiles(settings)
    except ConfigurationError as error:
        for line in str(error).splitlines():
            findings.add(line if file is not None else f"--set: {line}")
        return Settings(), build_compiled_profiles(Settings())


def read_given_moment(now: str | None, source: str, findings: Findings) -> Moment | None:
    try:
        return read_moment(now, source=source)
    except InputError as error:
        findings.add(str(error))
        return None


def _check_input_is_complete(inputs: SimulationInputs, findings: Findings) -> None:
    if findings.problems:
        return  # what seems to be missing may be what is broken
    if not inputs.placements:
        findings.add("there is nothing to decide: the files hold no placement and no latest policy snapshot")
    elif not inputs.clusters:
        findings.note("there is no MemberCluster in the files: the fleet is empty")


def _check_names(names: Iterable[str], inputs: SimulationInputs, findings: Findings) -> None:
    if findings.problems:
        return
    known = inputs.cluster_names()
    for name in names:
        if name not in known:
            findings.add(f"--why: no cluster named {name!r} in the files{did_you_mean(name, known)}")


def report_findings(findings: Findings, *, verbose: bool, outcome: str) -> None:
    """On standard error, with what became of the command if there are problems."""
    notes = [*findings.notes, *(findings.details if verbose else ())]
    for note in notes:
        sys.stderr.write(f"note: {note}\n")
    for problem in findings.in_order():
        sys.stderr.write(f"error: {problem}\n")
    if findings.problems:
        count = len(findings.problems)
        sys.stderr.write(f"{count} {'problem' if count == 1 else 'problems'}, {outcome}\n")


def _print_result(simulation: Simulation, settings: Settings, options: SimulateOptions) -> None:
    if options.output == "table":
        sys.stdout.write(render_simulation(simulation, list(dict.fromkeys(options.why)), page_of(sys.stdout)))
        return
    report = build_report(simulation, settings)
    sys.stdout.write((format_json(report) if options.output == "json" else format_yaml(report)) + "\n")
