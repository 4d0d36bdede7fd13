"""`python -m api.openapi api/openapi.json` writes the OpenAPI document of the code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from api.app import build_document


def openapi() -> str:
    return json.dumps(build_document(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("openapi.json")).write_text(
        openapi(), encoding="utf-8"
    )
