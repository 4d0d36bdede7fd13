"""Draws small wrong changes of the product and counts those that the tests notice: `python -m tests.mutants`.

The sample is the same for a seed. Each mutant is tried in a copy of the tree against the part of the suite that covers
its module, which ends at the first failure. With `--against DIR`, another checkout of the project, only lines that both
have are drawn, and each mutant that survives is tried there too: none may be killed there.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SECONDS: Final = 900
"""A run that takes longer counts as killed, and is shown: on a busy machine it may only have been slow."""
NEVER_COPIED: Final = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", ".hypothesis", "build", "dist")
SIMULATED: Final = ("tests/unit/cli/test_profile_*.py", "tests/unit/cli/test_simulated_stages.py")
AREAS: Final = {
    "framework": (["fleet/framework"], ["tests/unit/framework", "tests/property/test_plugins_*.py", *SIMULATED]),
    "plugins": (
        ["plugins"],
        [
            "tests/unit/framework",
            "tests/unit/explain/test_fixes.py",
            "tests/property/test_plugins_*.py",
            "tests/property/test_oracle_agrees.py",
            *SIMULATED,
        ],
    ),
    "snapshot": (
        ["fleet/snapshot"],
        ["tests/unit/snapshot", "tests/property/test_snapshot_*.py", "tests/unit/framework"],
    ),
    "queue": (["fleet/scheduler"], ["tests/unit/scheduler", "tests/property/test_scheduler_*.py"]),
    "placement": (
        ["fleet/placement", "fleet/controllers/placement"],
        [
            "tests/unit/placement",
            "tests/unit/controllers",
            "tests/property/test_controllers_*.py",
            "tests/property/test_placement_*.py",
        ],
    ),
    "explain": (["fleet/explain"], ["tests/unit/explain", "tests/property/test_explain_*.py"]),
    "hub": (["fleet/hub"], ["tests/unit/hub", "tests/property/test_hub_*.py", "tests/conformance"]),
}
"""By area: folders of the product, and the tests that cover them; only what exists counts."""
_SWAPPED: Final = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
    ast.And: "or", ast.Or: "and", ast.Add: "-", ast.Sub: "+", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip
_WRITTEN: Final = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
    ast.And: "and", ast.Or: "or", ast.Add: "+", ast.Sub: "-", ast.BitAnd: "&", ast.BitOr: "|",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    area: str
    file: str
    line: str
    """As it stands in the file, which has it once."""
    mutated: str


# --- drawing ----------------------------------------------------------------------------------------------------------


def mutants_of(area: str, root: Path) -> Iterator[Mutant]:
    for folder in AREAS[area][0]:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            lines = text.splitlines()
            for number, mutated in sorted(set(_changes(ast.parse(text), lines))):
                line = lines[number]
                if lines.count(line) == 1:
                    yield Mutant(area, path.relative_to(root).as_posix(), line, mutated)


def _changes(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, str]]:
    annotations = {id(part) for node in ast.walk(tree) for part in _annotation_of(node)}
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from _swap(lines, node.left, node.comparators[0], type(node.ops[0]))
        elif isinstance(node, ast.BoolOp):
            yield from _swap(lines, node.values[0], node.values[1], type(node.op))
        elif isinstance(node, ast.BinOp):
            yield from _swap(lines, node.left, node.right, type(node.op))
        elif isinstance(node, ast.Constant) and node.lineno == node.end_lineno and isinstance(node.value, int):
            other = repr(not node.value if isinstance(node.value, bool) else node.value + 1)
            yield _replace(lines, node.lineno, node.col_offset, node.end_col_offset or 0, other)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and node.lineno == node.operand.lineno:
            yield _replace(lines, node.lineno, node.col_offset, node.operand.col_offset, "")


def _annotation_of(node: ast.AST) -> Iterator[ast.AST]:
    for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        if isinstance(annotation, ast.AST):
            yield from ast.walk(annotation)


def _swap(lines: list[str], left: ast.expr, right: ast.expr, op: type[ast.AST]) -> Iterator[tuple[int, str]]:
    """Where operator and both operands stand in one line."""
    if op not in _SWAPPED or left.end_lineno != right.lineno or not lines[right.lineno - 1].isascii():
        return
    start, end = left.end_col_offset or 0, right.col_offset
    between = lines[right.lineno - 1][start:end]
    if between.count(_WRITTEN[op]) == 1:
        yield _replace(lines, right.lineno, start, end, between.replace(_WRITTEN[op], _SWAPPED[op]))


def _replace(lines: list[str], number: int, start: int, end: int, text: str) -> tuple[int, str]:
    line = lines[number - 1]
    return number - 1, line[:start] + text + line[end:]


def draw(
    seed: int, size: int, areas: list[str], root: Path, against: Path | None
) -> list[tuple[Mutant, Mutant | None]]:
    """As many from each area. A mutant's counterpart is the one change of the same line in a file of the other tree."""
    rng, share = Random(seed), -(-size // len(areas))
    drawn: list[tuple[Mutant, Mutant | None]] = []
    for area in areas:
        ours = list(mutants_of(area, root))
        candidates = (
            list(_paired(ours, list(mutants_of(area, against)))) if against else [(mutant, None) for mutant in ours]
        )
        drawn += rng.sample(candidates, min(share, len(candidates)))
    return drawn


def _paired(ours: list[Mutant], theirs: list[Mutant]) -> Iterator[tuple[Mutant, Mutant | None]]:
    known: dict[tuple[str, str], list[Mutant]] = {}
    for mutant in theirs:
        known.setdefault((mutant.line.strip(), mutant.mutated.strip()), []).append(mutant)
    counted: dict[tuple[str, str], int] = {}
    for mutant in ours:
        key = (mutant.line.strip(), mutant.mutated.strip())
        counted[key] = counted.get(key, 0) + 1
    for mutant in ours:
        key = (mutant.line.strip(), mutant.mutated.strip())
        if counted[key] == 1 and len(known.get(key, ())) == 1:
            yield mutant, known[key][0]


# --- trying -----------------------------------------------------------------------------------------------------------


class Trees:
    """Copies of a checkout, one for each mutant that is tried at a time."""

    def __init__(self, root: Path, folder: Path, count: int) -> None:
        self._root = root
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = folder / f"{root.name}-{number}"
            shutil.copytree(root, copy, ignore=NEVER_COPIED)
            self._free.put(copy)

    def is_killed(self, mutant: Mutant) -> bool:
        tree = self._free.get()
        path = tree / mutant.file
        original, begun = path.read_text(encoding="utf-8"), time.monotonic()
        try:
            path.write_text(original.replace(f"{mutant.line}\n", f"{mutant.mutated}\n"), encoding="utf-8")
            is_killed = not self._passes(tree, mutant.area, mutant.file)
            ending = "killed" if is_killed else "survives"
            print(f"  {self._root.name}: {ending} after {time.monotonic() - begun:.0f} s", file=sys.stderr)
            return is_killed
        finally:
            path.write_text(original, encoding="utf-8")
            self._free.put(tree)

    def passes(self, area: str) -> bool:
        """Without any mutant. Else all of them would seem killed."""
        tree = self._free.get()
        try:
            return self._passes(tree, area)
        finally:
            self._free.put(tree)

    def _passes(self, tree: Path, area: str, mutated: str = "") -> bool:
        found = [path for pattern in AREAS[area][1] for path in sorted(tree.glob(pattern))]
        files = [file for path in found for file in (sorted(path.rglob("test_*.py")) if path.is_dir() else (path,))]
        module = mutated.removesuffix(".py").replace("/", ".")
        files.sort(key=lambda file: module not in file.read_text(encoding="utf-8"))  # most likely to fail
        tests = [str(file.relative_to(tree)) for file in files]
        python = self._root / ".venv" / "bin" / "python"
        command = [str(python), "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(command, cwd=tree, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--size", type=int, default=119, help="how many mutants")
    parser.add_argument("--areas", nargs="+", choices=AREAS, default=list(AREAS), help="of these parts (default: all)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--against", type=Path, help="another checkout, with a .venv of its own")
    parser.add_argument("--list", action="store_true", help="only show the sample")
    options = parser.parse_args()
    sample = draw(options.seed, options.size, options.areas, ROOT, options.against)
    if not sample:
        parser.error("nothing can be drawn")
    if options.list:
        for mutant, _ in sample:
            print(json.dumps(asdict(mutant)))
        return
    with TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        ours = Trees(ROOT, Path(folder) / "ours", options.workers)
        theirs = options.against and Trees(options.against.resolve(), Path(folder) / "theirs", options.workers)

        for area in options.areas:
            if not ours.passes(area):
                parser.error(f"the tests of {area} fail without any mutant")

        def try_pair(pair: tuple[Mutant, Mutant | None]) -> str:
            if ours.is_killed(pair[0]):
                return "killed"
            return "KILLED THERE ONLY" if theirs and pair[1] and theirs.is_killed(pair[1]) else "survived"

        verdicts: Counter[str] = Counter()
        for (mutant, _), verdict in zip(sample, pool.map(try_pair, sample), strict=True):
            verdicts[verdict] += 1
            print(f"{verdict} {mutant.file}: {mutant.line.strip()} -> {mutant.mutated.strip()}", flush=True)
    print(f"of {len(sample)}: {', '.join(f'{number} {verdict}' for verdict, number in verdicts.most_common())}")
    sys.exit("KILLED THERE ONLY" in verdicts)


if __name__ == "__main__":
    main()
