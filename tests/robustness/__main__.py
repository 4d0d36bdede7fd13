"""Clients, watchers and controllers on a hub whose processes, clocks, disk, power and network fail: `make robustness`.

After etcd's robustness tests. Everything that clients ask and hear is recorded; after each round the history has to be
linearizable, no acknowledged write may be lost, watches must have no gaps, and a controller and an API that are killed
too have to arrive at what placements ask for. Prints one table, and ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.robustness.faults import HubProcess
from tests.robustness.fleet import fleet_on
from tests.robustness.forwarder import forwarding
from tests.robustness.rounds import Report, run_round


async def run(folder: Path, *, seed: int, rounds: int, faults: int) -> list[Report]:
    rng = Random(seed)
    async with forwarding() as forwarder:
        hub = HubProcess(folder, forwarder)
        try:
            await hub.start()
            async with fleet_on(folder, hub) as fleet:
                reports = []
                for number in range(1, rounds + 1):
                    report = await run_round(hub, fleet, rng, number=number, faults=faults)
                    reports.append(report)
                    found = f"{report.operations} operations, {len(report.violations)} violations"
                    sys.stderr.write(f"round {number} of {rounds}: {found}, {report.seconds:.0f} s\n")
                return reports
        finally:
            forwarder.release()
            hub.server.stop()


def render(reports: list[Report], *, seed: int) -> str:
    names = sorted({name for report in reports for name in report.faults})
    head = ["round", *names, "operations", "acknowledged", "unknown", "watch events", "relists", "lost"]
    head += ["not linearizable", "watch violations", "unexpected", "not placed", "seconds"]
    rows = [[str(cell) for cell in _list_cells(report, names)] for report in reports]
    total = ["all", *(str(sum(int(row[i]) for row in rows)) for i in range(1, len(head) - 1)), ""]
    total[-1] = f"{sum(report.seconds for report in reports):.0f}"
    widths = [max(len(row[i]) for row in (head, *rows, total)) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |"
             for row in (head, ["-" * width for width in widths], *rows, total)]  # fmt: skip
    violations = [f"round {report.number}: {text}" for report in reports for text in report.violations]
    return "\n".join([f"seed {seed}", *lines, *violations])


def _list_cells(report: Report, names: list[str]) -> list[object]:
    return [
        report.number,
        *(report.faults.get(name, 0) for name in names),
        report.operations,
        report.acknowledged,
        report.unknown,
        report.events,
        report.relists,
        len(report.lost),
        len(report.not_linearizable),
        len(report.watch_violations),
        len(report.unexpected),
        len(report.not_placed),
        f"{report.seconds:.0f}",
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.robustness", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the faults and of what clients do")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--faults", type=int, default=10, help="in each round")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="robustness-") as folder:
        work = run(Path(folder), seed=options.seed, rounds=options.rounds, faults=options.faults)
        reports = asyncio.run(work)
    sys.stdout.write(render(reports, seed=options.seed) + "\n")
    return 1 if any(report.violations for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
