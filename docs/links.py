"""Check that every link between the documents of this tree has a target, and that the index lists every page.

Run by `make docs` and `make lint`. Only links within the tree are followed: the state of another site does not
depend on a commit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INDEX = Path("docs/index.md")
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"#{1,6} +(.+)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
ELSEWHERE = ("https://", "http://", "mailto:")


def documents() -> list[Path]:
    """All Markdown files, except those in hidden folders."""
    paths = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.parts))


def prose(document: Path) -> str:
    """The text without fenced code, line numbers kept."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return FENCE.sub(lambda fenced: "\n" * fenced.group().count("\n"), text)


def anchors(document: Path) -> set[str]:
    """The fragments that headings get when the page is rendered: lower case, dashes, no punctuation."""
    headings = (HEADING.fullmatch(line) for line in prose(document).splitlines())
    return {re.sub(r"[^\w\- ]", "", match[1].strip().lower()).replace(" ", "-") for match in headings if match}


def dead_links(document: Path) -> Iterator[str]:
    for number, line in enumerate(prose(document).splitlines(), start=1):
        for target in LINK.findall(INLINE_CODE.sub("", line)):
            complaint = "" if target.startswith(ELSEWHERE) else complaint_about(document, target)
            if complaint:
                yield f"{document}:{number}: {complaint}"


def complaint_about(document: Path, target: str) -> str:
    name, _, fragment = target.partition("#")
    leads_to = (ROOT / document.parent / name).resolve() if name else ROOT / document
    if not leads_to.is_relative_to(ROOT):
        return f"{target} leaves the tree"
    if not leads_to.exists():
        return f"{name} does not exist"
    if fragment and fragment not in anchors(leads_to.relative_to(ROOT)):
        return f"{target}: there is no heading for #{fragment}"
    return ""


def list_unlisted(pages: list[Path]) -> Iterator[str]:
    """The pages below `docs` that the index does not lead to."""
    listed = {(ROOT / INDEX.parent / target.partition("#")[0]).resolve() for target in LINK.findall(prose(INDEX))}
    for page in pages:
        if page.is_relative_to(INDEX.parent) and page != INDEX and ROOT / page not in listed:
            yield f"{page} is not in {INDEX}"


def main() -> int:
    pages = documents()
    wrong = [complaint for page in pages for complaint in dead_links(page)] + [*list_unlisted(pages)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(pages)} documents, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
