"""Kills of processes at random moments: `python -m tests.robustness.kills --process all --kills 1000`.

One of `fleet up`, `fleet controller`, `fleet api`, etcd under a real API server and the PostgreSQL of the history is
killed again and again, often while it starts; every fifth kill of `fleet up` also loses what it had not synced, and a
third of those of PostgreSQL stop it for a while instead. Placements are edited and a client writes meanwhile. At
checkpoints nothing may be lost that was acknowledged, and every placement has to be on as many clusters as its last
policy asks for, on none twice.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

from tests.robustness.killed import NAMES, KillReport, staged
from tests.robustness.writer import Writer

ALL: Final = "all"
EVERY: Final = 20
"""Kills between two checkpoints."""


async def run(
    folder: Path, *, process: str, kills: int, seed: int, seconds: float = float("inf"), most: float = float("inf")
) -> KillReport:
    """Ends earlier when the time is over. A checkpoint that takes more than `most` seconds is a violation."""
    report, rng, begun = KillReport(), Random(seed), time.monotonic()
    async with staged(folder, process, rng) as stage:
        fleet, writer = stage.fleet, Writer(stage.world.api)
        writing = asyncio.create_task(writer.work())
        while report.kills < kills and time.monotonic() - begun < seconds:
            editing = asyncio.create_task(fleet.edit(Random(rng.random())))
            for _ in range(min(EVERY, kills - report.kills)):
                await stage.killed.kill(report)
                report.kills += 1
            editing.cancel()
            await asyncio.wait({editing})
            settling = time.monotonic()
            await stage.killed.settle()
            report.violations += await fleet.check()
            settled = time.monotonic() - settling
            report.slowest = max(report.slowest, settled)
            if settled > most:
                report.violations.append(f"a checkpoint took {settled:.1f} s")
            report.violations += await stage.killed.check()
            report.violations += await writer.find_lost_writes()
            report.checkpoints += 1
            report.acknowledged, report.seconds = writer.count, time.monotonic() - begun
            sys.stderr.write(f"{process}: {report.describe()}\n")
            await stage.killed.resume()
        writing.cancel()
        await asyncio.wait({writing})
    return report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.robustness.kills", description=__doc__)
    parser.add_argument("--process", choices=(ALL, *NAMES), default=ALL)
    parser.add_argument("--kills", type=int, default=1000, help="of each process its share, with `all`")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="ends earlier after these")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=float("inf"), help="seconds that a checkpoint may take")
    options = parser.parse_args(arguments)
    processes = NAMES if options.process == ALL else (options.process,)
    is_wrong = False
    for number, process in enumerate(processes):
        kills = (options.kills + number) // len(processes)
        limits = {"seconds": options.seconds / len(processes), "most": options.most}
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            report = asyncio.run(run(Path(folder), process=process, kills=kills, seed=options.seed, **limits))
        summary = f"{process}, seed {options.seed}: {report.describe()}"
        sys.stdout.write("\n".join([summary, *report.violations[:20], ""]))
        sys.stdout.flush()
        is_wrong = is_wrong or bool(report.violations)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
