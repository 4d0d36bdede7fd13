"""The words of the code are those of Kubernetes controllers and schedulers: see docs/contributing/glossary.md."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("api", "charts", "docs", "fleet", "migrations", "plugins")
    for path in (ROOT / folder).rglob("*.py")
)
_DOCUMENTS: Final = ("*.md", "docs/**/*.md", "fleet/**/*.md", "charts/fleet/*.*", "charts/fleet/templates/*")
PROSE: Final = sorted(
    path.relative_to(ROOT).as_posix() for pattern in _DOCUMENTS for path in ROOT.glob(pattern) if path.is_file()
)
IRREGULAR: Final = re.compile(
    "begun|bound|built|chosen|done|drawn|fallen|forgotten|found|frozen|given|gone|grown|heard|held|hidden|kept|known|lost|"
    "made|meant|met|said|seen|sent|shown|spoken|stood|sworn|taken|thought|thrown|told|understood|woken|won|worn|written"
)
VERBS: Final = frozenset(("embed", "exceed", "feed", "heed", "need", "proceed", "seed", "shed", "speed", "succeed"))
LOCALS: Final = frozenset(("found", "one"))
PRIVATE_DIALECT: Final = re.compile(r"\b(nobody|whoever|somebody|told|said)\b", re.IGNORECASE)
HEAD: Final = re.compile(r"(What|Which|Who|Whoever|Whom|Whose)\b")

EXCEPTIONS: Final[dict[str, str]] = {}
"""By finding, the reason why it may stay. No more than ten."""


def is_participle(name: str) -> bool:
    word = name.strip("_")
    return bool(IRREGULAR.fullmatch(word)) or ("_" not in word and word.endswith("ed") and word not in VERBS)


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(decorator, ast.Name) and decorator.id in ("property", "cached_property")
        for decorator in node.decorator_list
    )


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if is_participle(node.name) and not is_property(node):
                yield node.lineno, f"function {node.name}: name it by a verb"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in LOCALS:
            yield node.lineno, f"local {node.id}: name the thing"
        elif isinstance(node, ast.arg) and node.arg in LOCALS:
            yield node.lineno, f"parameter {node.arg}: name the thing"


def words_of(source: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, f"text: {match}") for match in PRIVATE_DIALECT.findall(node.value))
    if not PRIVATE_DIALECT.search(source):
        return  # tokenizing costs more than all the rest
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from ((token.start[0], f"comment: {match}") for match in PRIVATE_DIALECT.findall(token.string))


def findings(source: str) -> list[str]:
    tree = ast.parse(source)
    head = ast.get_docstring(tree) or ""
    heads = [(1, f"module head: {head.split()[0]} … is no noun phrase")] if HEAD.match(head) else []
    return [f"{line}: {text}" for line, text in sorted({*heads, *names_of(tree), *words_of(source, tree)})]


def without_reason(path: str, texts: list[str]) -> list[str]:
    return [text for text in texts if f"{path}: {text.partition(': ')[2]}" not in EXCEPTIONS]


def test_code_speaks_plainly() -> None:
    wrong = {path: without_reason(path, findings((ROOT / path).read_text(encoding="utf-8"))) for path in CODE}
    assert {path: texts for path, texts in wrong.items() if texts} == {}


def test_documents_speak_plainly() -> None:
    wrong = {}
    for path in PROSE:
        lines = enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), start=1)
        texts = [f"{number}: {word}" for number, line in lines for word in PRIVATE_DIALECT.findall(line)]
        wrong[path] = without_reason(path, texts)
    assert {path: texts for path, texts in wrong.items() if texts} == {}


def test_a_public_class_name_means_one_thing() -> None:
    """A kind and its narrow view on the watch path are the same thing in two forms."""
    places: dict[str, set[str]] = defaultdict(set)
    for path in CODE:
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add("fleet/model" if path.startswith("fleet/model/") else path)
    twice = {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if f"class {name}" not in EXCEPTIONS} == {}


def test_exceptions_are_few_and_have_reasons() -> None:
    assert len(EXCEPTIONS) <= 10
    assert all(len(reason) > 20 for reason in EXCEPTIONS.values())


@pytest.mark.parametrize(
    "source",
    [
        '"""What wakes whom."""',
        "def told(): ...",
        "async def _remembered(): ...",
        "for one in (): ...",
        "def show(found): ...",
        "x = 1  # nobody knows",
        '"""The hub.\n\nWhoever asks.\n"""',
        "raise ValueError('nothing was said')",
    ],
)
def test_the_private_dialect_is_found(source: str) -> None:
    assert len(findings(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Event handlers."""',
        "def feed(): ...",
        "class A:\n    @property\n    def closed(self): ...",
        "def load_attempt(): ...",
        "for cluster in (): ...",
        "x = 1  # retried after backoff",
    ],
)
def test_plain_words_are_left_alone(source: str) -> None:
    assert findings(source) == []
