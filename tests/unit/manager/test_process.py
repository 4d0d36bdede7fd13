"""What a controller loads before it works: every restart waits for it. Told by modules: a clock would tell little."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

OF_OTHERS: Final = (
    "alembic",
    "api",
    "cel",
    "cel_expr_python",
    "fastapi",
    "fleet.demo",
    "fleet.explain.answer.simulate",
)
"""Of the embedded hub, the API and `fleet up`."""
OF_THE_HISTORY: Final = ("fleet.history", "psycopg", "sqlalchemy")
OF_THE_HUB: Final = ("fleet.hub", "starlette", "uvicorn")


def loaded_by(*modules: str) -> set[str]:
    program = f"import sys, {', '.join(modules)}\nprint(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return set(told.stdout.split())


def test_a_controller_loads_nothing_of_what_others_need() -> None:
    loaded = loaded_by("fleet.cli.commands.serve.controller", "fleet.manager.process")

    assert "fleet.scheduler.scheduler" in loaded
    assert not loaded & {*OF_OTHERS, *OF_THE_HISTORY, *OF_THE_HUB}


def test_the_history_is_loaded_with_its_database() -> None:
    """Or the test above would not notice that it had become something else."""
    assert {"fleet.history", "sqlalchemy"} <= loaded_by("fleet.recorder.recorder")
