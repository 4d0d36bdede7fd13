"""Names of the product that only tests use. `make lint` runs it: each is listed in `docs/acceptance.md`, or goes.

A name counts as used when it occurs anywhere in the product other than its definition, also in a string. Methods that
implement a protocol of the product or of a library count, too, wherever the protocol is called.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "acceptance.md"
PRODUCT: Final = ("api", "fleet", "migrations", "plugins")
SECTION: Final = "## Parts that no command reaches"
_WORD: Final = re.compile(r"[A-Za-z_]\w+")
_LISTED: Final = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
_CALLED_BY_OTHERS: Final = re.compile(
    r"__\w+__|upgrade|downgrade"  # Python, alembic
    r"|connection_(made|lost)|data_received|eof_received|on_(body|header|headers_complete)"  # asyncio, httptools
    r"|collect_usage_pieces|format_(commands|epilog|options)"  # Typer
    r"|add_handler|ignore_aliases|capture_signals|send_400_response|run_as_plugin"  # libraries, the entry point
)


def find_unreached() -> set[str]:
    sources = [path.read_text(encoding="utf-8") for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))]
    trees = [ast.parse(source) for source in sources]
    defined = Counter(name for tree in trees for name in _definitions(tree))
    words = Counter(word for source in sources for word in _WORD.findall(_without_exports(source)))
    return {name for name, times in defined.items() if words[name] <= times}


def _definitions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        registered = any(isinstance(decorator, ast.Call) for decorator in node.decorator_list)
        if not registered and not _is_protocol(node) and not _CALLED_BY_OTHERS.fullmatch(node.name):
            yield node.name


def _is_protocol(node: ast.AST) -> bool:
    """An extension point is there for authors of plugins."""
    return isinstance(node, ast.ClassDef) and any(
        isinstance(base, ast.Name) and base.id.endswith(("Protocol", "Plugin", "PluginTraits")) for base in node.bases
    )


def _without_exports(source: str) -> str:
    return re.sub(r"^__all__ = \[.*?\]", "", source, flags=re.MULTILINE | re.DOTALL)


def read_listed() -> set[str]:
    _, _, section = PAGE.read_text(encoding="utf-8").partition(SECTION)
    return set(_LISTED.findall(section.partition("\n## ")[0]))


if __name__ == "__main__":
    missing, stale = find_unreached() - read_listed(), read_listed() - find_unreached()
    for name in sorted(missing):
        print(f"{name}: only tests use it; use it, remove it, or list it in {PAGE.name} with the row it waits for")
    for name in sorted(stale):
        print(f"{name}: listed in {PAGE.name} as unreached, but the product uses it or has no such name")
    sys.exit(bool(missing or stale))
