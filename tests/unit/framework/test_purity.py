"""F3-120: the decision core reaches for nothing: no clock, no chance, no file, no socket, no thread, no log.

Read from the source: what the core imports, directly or not. And tried: the recorded vectors are decided once more with
every function of the forbidden modules replaced by one that raises.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fleet.framework.cycle.cycle import decide
from tests.oracle.documents import Json
from tests.oracle.reference import Result
from tests.vectors.engine import decision_input, result_of
from tests.vectors.runner import PASSED, engine_named, judge, read_vectors

ROOT = Path(__file__).resolve().parents[3]
VECTORS = ROOT / "tests" / "vectors" / "data"
ENTRANCES = (
    "fleet.framework.cycle.cycle",
    "fleet.framework.cycle.inspection",
    "plugins.default_profile",
    "plugins.extended_profile",
    "plugins.load_aware_profile",
)
FIRST_PARTY = ("fleet", "plugins", "api", "migrations")
FORBIDDEN = {
    *(
        "time",
        "datetime",
        "zoneinfo",
        "calendar",
        "sched",
        "random",
        "secrets",
        "uuid",
        "os",
        "io",
        "pathlib",
        "shutil",
    ),
    *("tempfile", "glob", "mmap", "socket", "ssl", "select", "selectors", "urllib", "http", "threading", "_thread"),
    *(
        "queue",
        "asyncio",
        "multiprocessing",
        "concurrent",
        "contextvars",
        "signal",
        "subprocess",
        "logging",
        "warnings",
    ),
    *("importlib", "ctypes", "locale", "getpass", "pydantic", "typer", "rich", "yaml"),
}
ENDS_ONLY = {"fleet.checkpoint": {"contextvars"}}
"""A checkpoint can end a decision that is not wanted any more; nothing that is decided depends on it."""
CALLS = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint"}

OF_NUMPY = ("random", "load", "save", "memmap", "fromfile")

# The shell of the framework: it may lock, wait and look around, and the core must not know it.
SHELL = (
    "fleet.framework.runtime.locks",
    "fleet.framework.profiles.discovery",
    "fleet.framework.runtime.framework",
    "fleet.framework.runtime.purity_guard",
)

CLIENT = "fleet.kube.api"
"""With it a plugin that prepares a cluster before a binding asks the hub. No hook of a decision has a hub."""
WITH_EFFECTS = {"plugins.acting.namespace_preparation"}


# --- what the core imports --------------------------------------------------------------------------------------------


@cache
def source_of(module: str) -> Path | None:
    """The file of a first-party module; None for names that are no modules."""
    base = ROOT.joinpath(*module.split("."))
    found = (one for one in (base.with_suffix(".py"), base / "__init__.py") if one.is_file())
    return next(found, None)


@cache
def tree_of(module: str) -> ast.Module:
    path = source_of(module)
    assert path is not None
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(module: str) -> Iterator[str]:
    """Every module that importing or running this one may import; what is for type checkers only does not count."""
    for node in executed(tree_of(module)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert node.level == 0, f"{module} imports relatively"
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield from executed(child)


def with_packages(module: str) -> Iterator[str]:
    parts = module.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def closure(*entrances: str) -> set[str]:
    """The entrances and all first-party modules they lead to, packages included, but for the client of the hub."""
    found: set[str] = set()
    left = list(entrances)
    while left:
        for module in with_packages(left.pop()):
            if module not in found and module != CLIENT and source_of(module) is not None:
                found.add(module)
                left += [one for one in imported(module) if one.partition(".")[0] in FIRST_PARTY]
    return found


@cache
def core() -> list[str]:
    return sorted(closure(*ENTRANCES))


def test_the_closure_holds_the_whole_core_and_every_in_tree_plugin() -> None:
    files = [
        one.relative_to(ROOT).with_suffix("") for one in (ROOT / "plugins").rglob("*.py") if one.stem != "__init__"
    ]
    plugins = {".".join(one.parts) for one in files}

    expected = {"fleet.framework.cycle.runner", "fleet.snapshot.table", "fleet.model.quantity", "fleet.errors"}

    assert expected | plugins <= set(core())


def test_the_walk_finds_what_is_imported_inside_functions_and_in_packages() -> None:
    assert "fleet.manager.logs" in set(imported("fleet.cli.commands.serve.controller"))
    assert {"fleet", "fleet.snapshot"} <= closure("fleet.snapshot.columns.bitset")


def test_F3_120_only_plugins_with_effects_know_the_client_of_the_hub() -> None:
    assert {module for module in core() if CLIENT in set(imported(module))} == WITH_EFFECTS


def test_F3_120_the_core_imports_no_clock_chance_file_socket_thread_loop_or_log() -> None:
    found = {module: {one.partition(".")[0] for one in imported(module)} & FORBIDDEN for module in core()}

    assert {module: names for module, names in found.items() if names} == ENDS_ONLY


def test_F3_120_the_core_opens_prints_and_evaluates_nothing() -> None:
    called = {
        (module, node.func.id)
        for module in core()
        for node in executed(tree_of(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }

    assert [(module, name) for module, name in called if name in CALLS] == []


def test_F3_120_the_core_uses_no_chance_and_no_files_of_numpy() -> None:
    used = {
        (module, node.attr)
        for module in core()
        for node in executed(tree_of(module))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
    }

    assert {"array", "zeros"} <= {name for _, name in used}
    assert [(module, name) for module, name in used if name.startswith(OF_NUMPY)] == []


@pytest.mark.parametrize("module", SHELL)
def test_F3_120_the_shell_is_not_part_of_the_core(module: str) -> None:
    assert source_of(module) is not None
    assert module not in core()


@pytest.mark.parametrize(
    "module",
    ["fleet.framework.testing.conformance", "fleet.framework.testing.observation", "fleet.framework.testing.specimens"],
)
def test_the_conformance_kit_is_as_pure_as_what_it_judges(module: str) -> None:
    for one in closure(module):
        assert {name.partition(".")[0] for name in imported(one)} & FORBIDDEN == ENDS_ONLY.get(one, set()), one


# --- what the core does -----------------------------------------------------------------------------------------------

MODULES = (
    *("time", "random", "secrets", "uuid", "socket", "os", "io", "shutil", "tempfile", "glob", "threading", "asyncio"),
    *("concurrent.futures", "multiprocessing", "signal", "logging", "subprocess"),
)
CLASSES = (
    *("random.Random", "random.SystemRandom", "socket.socket", "io.FileIO", "threading.Thread", "threading.Lock"),
    *("concurrent.futures.ThreadPoolExecutor", "subprocess.Popen", "uuid.UUID", "logging.Logger"),
)
BUILTINS = ("open", "print", "input", "breakpoint")


class Impure(BaseException):
    """Not an Exception: nothing in the core may swallow it."""


def trap(name: str, real: Any) -> Any:
    """Raises for whoever runs on this thread; the test runner's own threads go on undisturbed."""
    current, sealed_thread = threading.get_ident, threading.get_ident()

    def raising(*args: object, **named: object) -> Any:
        if current() != sealed_thread:
            return real(*args, **named)
        raise Impure(name)

    return raising


def ways_out() -> Iterator[tuple[Any, str]]:
    """Every public function of the forbidden modules, some classes, and the builtins that reach outside."""
    for module in map(importlib.import_module, MODULES):
        public = ((name, value) for name, value in vars(module).items() if not name.startswith("_"))
        for name, value in public:
            if inspect.isroutine(value) or f"{module.__name__}.{name}" in CLASSES:
                yield module, name
    yield from ((builtins, name) for name in BUILTINS)


@contextmanager
def sealed() -> Iterator[None]:
    """No way out of the process, and no time and no chance in it."""
    traps = [(owner, name, getattr(owner, name)) for owner, name in WAYS_OUT]
    replaced = [(owner, name, trap(f"{owner.__name__}.{name}", real)) for owner, name, real in traps]
    for owner, name, raising in replaced:
        setattr(owner, name, raising)
    try:
        yield
    finally:
        for owner, name, real in traps:
            setattr(owner, name, real)


WAYS_OUT = list(ways_out())


def decided_in_isolation(scenario: Json) -> Result:
    inp = decision_input(scenario)
    with sealed():
        decision = decide(inp)
        digest, published = decision.digest, decision.published
    assert len(digest) == 32
    assert published is decision.published
    return result_of(scenario, decision)


@pytest.mark.parametrize("file", sorted(VECTORS.glob("*.jsonl.gz")), ids=lambda file: file.name.partition(".")[0])
def test_F3_120_the_vectors_pass_with_every_way_out_closed(file: Path, tmp_path: Path) -> None:
    (tmp_path / file.name).write_bytes(file.read_bytes())
    oracle = engine_named("oracle")

    for vector in read_vectors(tmp_path):
        verdict, found = judge(vector, engine=decided_in_isolation, oracle=oracle, ignored=frozenset())
        assert verdict == PASSED, (vector["id"], [str(one) for one in found])


@pytest.mark.parametrize(
    "call",
    [
        "time.time()",
        "time.monotonic()",
        "random.random()",
        "os.getcwd()",
        "open('x')",
        "print('x')",
        "logging.info('x')",
        "socket.socket()",
        "threading.Thread()",
        "uuid.uuid4()",
        "asyncio.run(None)",
        "subprocess.run(['x'])",
    ],
)
def test_the_ways_out_are_really_closed_and_opened_again(call: str) -> None:
    modules = {
        name: importlib.import_module(name) for name in ("time", "random", "os", "logging", "socket", "threading")
    }
    modules |= {name: importlib.import_module(name) for name in ("uuid", "asyncio", "subprocess")}
    caught = None

    with sealed():
        try:
            eval(call, modules)
        except Impure as impure:
            caught = impure

    assert caught is not None
    assert modules["time"].time() > 0
