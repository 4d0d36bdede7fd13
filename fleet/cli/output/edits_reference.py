"""The edits that simulations and replays take: `fleet simulate --help-edits`, and the table of docs/cli.md.

`python -m fleet.cli.output.edits_reference docs/cli.md` writes the table between its marks.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from fleet.explain.whatif.edits import list_operations
from fleet.text_table import render_table

BEGIN: Final = "<!-- edits: begin -->\n"
END: Final = "<!-- edits: end -->\n"


def render_edits() -> str:
    """Examples are copied, so lines are never wrapped."""
    rows = [(op, takes, f"--edit {_quote(example)}") for op, takes, _, example in list_operations()]
    table = render_table(("EDIT", "TAKES", "EXAMPLE"), rows)
    return f"{table}\n\nA question mark: may be left out. Every edit can also be written as JSON, as the patch is."


def insert_table(page: str) -> str:
    """The page with the present table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [
        f"| `{op}` | `{takes}` | {meaning} | `--edit {_quote(example)}` |"
        for op, takes, meaning, example in list_operations()
    ]
    head = ["| Edit | Takes (?: may be left out) | Meaning | Example |", "| --- | --- | --- | --- |"]
    table = "\n".join([*head, *rows])
    return f"{before}{BEGIN}\n{table}\n\n{END}{after}"


def _quote(example: str) -> str:
    """For a shell."""
    return f'"{example}"' if "'" in example else f"'{example}'"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(insert_table(path.read_text(encoding="utf-8")), encoding="utf-8")
