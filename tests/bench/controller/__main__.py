"""The scheduler on a hub, size by size: `python -m tests.bench.controller --target real --sizes 100x500,1000x200`.

For those who look into one figure; `python -m tests.bench` measures the usual sizes on both targets.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench.controller.creating import create_burst
from tests.bench.controller.group import FULL, creating_figures, joining_figures, placing_figures
from tests.bench.controller.hubs import EMBEDDED, TARGETS
from tests.bench.controller.joining import join_two
from tests.bench.controller.runs import FORMS, Measured, Plan, Size, measure
from tests.bench.figures import Figure, shown
from tests.bench.measuring import Run


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    run = Run("controller", quick=False)
    for target in options.target:
        for size in options.sizes:
            measured = asyncio.run(measure(target, size, _plan(options)))
            _tell(f"{target}: {size}", placing_figures(run, measured))
            _tell_requests(measured)
        if options.create:
            size = options.create
            created = asyncio.run(create_burst(target, clusters=size.clusters, placements=size.placements))
            _tell(f"{target}: {size}", creating_figures(run, size, created))
    if options.join:
        _tell("in memory", joining_figures(run, join_two(options.join)))
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.controller", description=__doc__)
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=[EMBEDDED])
    parser.add_argument("--sizes", type=_sizes, default=FULL.sizes, metavar="CLUSTERSxPLACEMENTS,…")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--alone", type=int, default=20, metavar="N", help="placements created one by one")
    parser.add_argument("--restart", type=int, default=0, metavar="N", help="also a restart with so many placements")
    parser.add_argument("--create", type=Size.parse, metavar="CLUSTERSxPLACEMENTS", help="also from their creation on")
    parser.add_argument("--join", type=int, default=0, metavar="N", help="also a cluster joining with so many waiting")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="cProfile of the scheduler; times are then longer")
    return parser.parse_args(arguments)


def _sizes(text: str) -> tuple[Size, ...]:
    return tuple(Size.parse(one) for one in text.split(",") if one)


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        sizes=options.sizes,
        forms=tuple(options.forms),
        restarted=options.restart,
        alone=options.alone,
        profile=options.profile,
    )


def _tell(title: str, figures: Iterator[Figure]) -> None:
    print(f"# {title}")
    for one in figures:
        print(f"{one.case}, {one.part}: {shown(one.median, one.kind)}")


def _tell_requests(measured: Measured) -> None:
    for name, bursts in {"the plain client": measured.limit, **measured.forms}.items():
        counted = ", ".join(f"{number:g} {request}" for request, number in bursts.requests.items())
        print(f"requests per placement, {name}: {counted}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
