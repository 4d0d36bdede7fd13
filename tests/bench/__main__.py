"""Checks the picks, then measures the decision core: `python -m tests.bench`.

Exits with 1 when a pick is wrong, a target is missed, or a figure is worse than the baseline by more than its
tolerance. docs/benchmarks.md says how to read the figures.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.bench import machine
from tests.bench.figures import Figure, Origin, Report, violations
from tests.bench.groups import NAMES, QUICK_NAMES, in_fresh_process, measured
from tests.bench.picks import how_many_are_checked, wrong_picks
from tests.bench.rows import rows_table
from tests.bench.tables import as_json, from_json, heading, page_with, tables

BASELINE = Path(__file__).parent / "baseline.json"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.page:
        _renew_page()
        return 0
    wrong = in_fresh_process(wrong_picks)
    if wrong:
        print(*wrong, "Nothing was measured: the picks are wrong.", sep="\n")
        return 1
    baseline = None if options.baseline is None else from_json(options.baseline.read_bytes())
    report = _report(options)
    print(f"{heading(report)}\n\n{tables(report, baseline)}\n")
    if rows := rows_table(report):
        print(f"Rows of docs/acceptance.md:\n\n{rows}\n")
    if options.json:
        options.json.write_bytes(as_json(report, baseline))
    if options.record:
        _record(with_other_groups(report, baseline) if options.is_partial and baseline else report, baseline)
    return _judge(report, None if options.record else baseline)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="few repetitions, and of the groups only those with targets"
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures; the file can be a baseline")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="compare with another run")
    parser.add_argument(
        "--record", action="store_true", help="make this run the baseline, or its part of it, and renew the page"
    )
    parser.add_argument("--page", action="store_true", help="renew the page from the baseline and measure nothing")
    options = parser.parse_args(arguments)
    if options.record and options.quick:
        parser.error("--record wants a thorough run: leave out --quick")
    if options.baseline is not None and not options.baseline.exists():
        parser.error(f"--baseline: there is no file {options.baseline}")
    if options.baseline is None and BASELINE.exists():
        options.baseline = BASELINE
    options.is_partial = bool(options.only)
    options.only = options.only or (QUICK_NAMES if options.quick else NAMES)
    return options


def _report(options: argparse.Namespace) -> Report:
    load = machine.load()
    figures: list[Figure] = []
    for name in options.only:
        print(f"measuring: {name}", file=sys.stderr)
        figures += measured(name, quick=options.quick)
    return Report(
        origin=Origin(day=datetime.now(UTC).date().isoformat(), machine=machine.this_machine(), load=load),
        quick=options.quick,
        picks=how_many_are_checked(),
        figures=tuple(figures),
    )


def _record(report: Report, baseline: Report | None) -> None:
    BASELINE.write_bytes(as_json(keeping_tolerances(report, baseline)))
    _renew_page()


def with_other_groups(report: Report, baseline: Report) -> Report:
    """The baseline with the figures of the measured groups in place of its own, which keep their origin."""
    origins = {figure.group: report.origin for figure in report.figures}
    others = (figure for figure in baseline.figures if figure.group not in origins)
    figures = sorted((*others, *report.figures), key=lambda figure: NAMES.index(figure.group))
    return msgspec.structs.replace(baseline, groups=baseline.groups | origins, figures=tuple(figures))


def _renew_page() -> None:
    page = page_with(PAGE.read_text(encoding="utf-8"), from_json(BASELINE.read_bytes()))
    PAGE.write_text(page, encoding="utf-8")


def keeping_tolerances(report: Report, baseline: Report | None) -> Report:
    """A tolerance that somebody changed by hand outlives the figure it was written for."""
    known = {} if baseline is None else {figure.id: figure.tolerance for figure in baseline.figures}
    figures = (msgspec.structs.replace(one, tolerance=known.get(one.id, one.tolerance)) for one in report.figures)
    return msgspec.structs.replace(report, figures=tuple(figures))


def _judge(report: Report, baseline: Report | None) -> int:
    groups = {figure.group for figure in report.figures}
    machines = set() if baseline is None else {baseline.origin_of(group).machine for group in groups}
    for elsewhere in sorted(map(str, machines - {report.origin.machine})):
        print(f"Times that the baseline has from another machine are not compared: {elsewhere}.")
    found = list(violations(report, baseline))
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(report.figures)} figures, {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
