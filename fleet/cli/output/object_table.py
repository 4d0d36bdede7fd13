"""Output of `fleet get`: a table, names, or documents, of whole lists and of single changes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from fleet.cli.output.console import page_of, print_text, write_document
from fleet.cli.output.object_rows import key_of, listing_of
from fleet.clock import SystemClock, epoch_nanoseconds
from fleet.text_table import ColumnLayout, Page, apply_style, finish

WIDE: Final = "wide"
NAME: Final = "name"
TABLE: Final = "table"
TABLES: Final = (TABLE, WIDE)
_ELAPSED: Final = ("AGE", "HEARD")
"""Columns that change by themselves."""

Json = dict[str, Any]


class ObjectTable:
    """Rows of one kind of objects. A change that no column shows is not printed again."""

    def __init__(self, kind: str, output: str) -> None:
        self._listing = listing_of(kind)
        self._columns = self._listing.select(is_wide=output == WIDE)
        self._headings = [self._listing.headings[column] for column in self._columns]
        right = [column for column, heading in enumerate(self._headings) if heading in self._listing.numbers]
        self._layout = ColumnLayout(right=right, width=page_of(sys.stdout).width)
        self._shown: dict[tuple[str, str], list[str]] = {}
        self._has_head = False

    def print_rows(self, documents: Sequence[Json]) -> None:
        rows = [self._build_row(document) for document in documents]
        for document, row in zip(documents, rows, strict=True):
            self._shown[_identify(document)] = self._find_lasting(row)
        self._print(rows)

    def print_change(self, document: Json) -> None:
        row = self._build_row(document)
        lasting = self._find_lasting(row)
        if self._shown.get(_identify(document)) != lasting:
            self._shown[_identify(document)] = lasting
            self._print([row])

    def print_deletion(self, document: Json) -> None:
        """With its last state."""
        self._shown.pop(_identify(document), None)
        key, *others = self._build_row(document)
        self._print([[f"{finish(key, Page())} (deleted)", *others]])

    def _build_row(self, document: Json) -> list[str]:
        (row,) = self._listing.rows([document], epoch_nanoseconds(SystemClock()))
        return [row[column] for column in self._columns]

    def _find_lasting(self, row: Sequence[str]) -> list[str]:
        return [cell for cell, heading in zip(row, self._headings, strict=True) if heading not in _ELAPSED]

    def _print(self, rows: Sequence[Sequence[str]]) -> None:
        if rows and not self._has_head:
            self._has_head = True
            rows = [[apply_style(heading, "bold") for heading in self._headings], *rows]
        if rows:
            print_text(self._layout.render(rows))
            sys.stdout.flush()


def _identify(document: Json) -> tuple[str, str]:
    return str(document.get("kind")), key_of(document)


def print_names(documents: Sequence[Json]) -> None:
    """`clusterresourceplacement.placement.kubernetes-fleet.io/web`, as kubectl takes them."""
    for document in documents:
        group = str(document["apiVersion"]).partition("/")[0]
        sys.stdout.write(f"{str(document['kind']).lower()}.{group}/{document['metadata']['name']}\n")


def print_documents(documents: Sequence[Json], output: str, *, is_single: bool) -> None:
    """One object as it is, else a list of them."""
    shown = [_without_managed_fields(document) for document in documents]
    bundle: Json = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": shown}
    write_document(shown[0] if is_single and shown else bundle, output)


def print_change(document: Json, output: str) -> None:
    """A name, or a document of a stream."""
    if output == NAME:
        print_names([document])
    else:
        if output == "yaml":
            sys.stdout.write("---\n")
        print_documents([document], output, is_single=True)
    sys.stdout.flush()


def _without_managed_fields(document: Json) -> Json:
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {**document, "metadata": metadata}
