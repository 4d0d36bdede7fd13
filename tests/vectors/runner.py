"""Runs an engine over a folder of vectors and prints every difference.

    python -m tests.vectors.runner tests/vectors/data --engine oracle --ignore "retention dotted-names"

The last line reads `N passed, M failed, K skipped`; the exit status is 1 if anything failed. Where Fleet differs on
purpose (see data/README.md) the oracle says what is expected; with the oracle itself as the engine such scenarios count
as skipped, because they would be compared with themselves.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tests.vectors.comparison import (
    LIMITED,
    Difference,
    Json,
    Outcome,
    Rules,
    compare_bindings,
    compare_decisions,
    compare_outcomes,
    compare_with_want,
)

Engine = Callable[[Json], Outcome]

ENGINES = ("fleet", "oracle")

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def engine_named(name: str) -> Engine:
    if name == "oracle":
        from tests.oracle.reference import decide_scenario

        return decide_scenario
    from tests.vectors.engine import run

    return run


def read_vectors(folder: Path) -> Iterator[Json]:
    files = sorted([*folder.glob("*.jsonl.gz"), *folder.glob("*.jsonl")])
    if not files:
        raise SystemExit(f"{folder} holds no *.jsonl.gz and no *.jsonl files")
    for file in files:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for line in content.splitlines():
            if line.strip():
                yield msgspec.json.decode(line)


def differences(vector: Json, engine: Engine, oracle: Engine) -> list[Difference] | None:
    """None: there is nothing to compare with, because the engine is the oracle and `want` does not bind it."""
    tags = set(vector["divergence"])
    found: list[Difference] | None
    if not tags - LIMITED:
        found = compare_with_limits(vector, engine, oracle)
    elif engine is oracle:
        found = None
    else:
        found = compare_outcomes(oracle(vector["scenario"]), engine(vector["scenario"]))
    if "retention" in tags and tags <= LIMITED | {"retention"}:
        found = (found or []) + compare_with_limits(without_retention(vector), engine, oracle)
    return found


def compare_with_limits(vector: Json, engine: Engine, oracle: Engine) -> list[Difference]:
    """Against `want`, and against the oracle in the fields that a tag of limited scope exempts."""
    rules, got = Rules.of(vector), engine(vector["scenario"])
    found = compare_with_want(vector["want"], got, rules)
    if engine is oracle or (rules.previous_state and rules.unselected):
        return found
    expected, strict = oracle(vector["scenario"]), Rules(ordered=rules.ordered)
    exempt = [
        *compare_bindings(expected.bindings, got.bindings, strict),
        *compare_decisions(expected.decisions, got.decisions, strict),
    ]
    return found + [difference for difference in exempt if difference not in found]


def without_retention(vector: Json) -> Json:
    scenario = vector["scenario"]
    return {**vector, "scenario": {**scenario, "options": {**scenario["options"], "retentionSeconds": 0}}}


def judge(vector: Json, *, engine: Engine, oracle: Engine, ignored: frozenset[str]) -> tuple[str, list[Difference]]:
    if ignored & set(vector["divergence"]):
        return SKIPPED, []
    try:
        found = differences(vector, engine, oracle)
    except Exception as error:
        return FAILED, [Difference("engine", "a result", f"{type(error).__name__}: {error}")]
    if found is None:
        return SKIPPED, []
    return (FAILED, found) if found else (PASSED, [])


def run_folder(folder: Path, *, engine: Engine, oracle: Engine, ignored: frozenset[str]) -> dict[str, Counter[str]]:
    """Prints the differences as they are found; returns the verdicts per category."""
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    for vector in read_vectors(folder):
        verdict, found = judge(vector, engine=engine, oracle=oracle, ignored=ignored)
        tally[vector["category"]][verdict] += 1
        for difference in found:
            print(f"{vector['id']} {difference}")
    return tally


def report(tally: dict[str, Counter[str]]) -> None:
    total: Counter[str] = Counter()
    for category, verdicts in sorted(tally.items()):
        print(f"{category:<16} {summary(verdicts)}")
        total += verdicts
    print(summary(total))


def summary(verdicts: Counter[str]) -> str:
    return ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in (PASSED, FAILED, SKIPPED))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", choices=("fleet", "oracle"), default="fleet")
    parser.add_argument("--ignore", default="", metavar="TAGS", help="skip scenarios with any of these tags")
    options = parser.parse_args(arguments)
    tally = run_folder(
        options.folder,
        engine=engine_named(options.engine),
        oracle=engine_named("oracle"),
        ignored=frozenset(options.ignore.replace(",", " ").split()),
    )
    report(tally)
    return 1 if any(verdicts[FAILED] for verdicts in tally.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
