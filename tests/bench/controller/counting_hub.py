"""The embedded hub, which also says how many requests it was asked: `python -m tests.bench.controller.counting_hub`.

Takes what `python -m fleet.hub` takes.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any, Final

from fleet.hub.__main__ import main
from fleet.hub.http import server
from fleet.hub.http.app import Application

COUNTS: Final = "/counted-requests"


class CountingApplication:
    def __init__(self, *args: Any) -> None:
        self._serve = Application(*args)
        self._counts: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == COUNTS:
            await self._tell(send)
            return
        if scope["type"] == "http":
            self._counts[f"{scope['method']} {subject(scope['path'])}"] += 1
        await self._serve(scope, receive, send)

    async def _tell(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(self._counts).encode()})


def subject(path: str) -> str:
    """`/apis/group/version[/namespaces/name]/plural[/name[/subresource]]`: the plural, and the subresource if any."""
    parts = path.strip("/").split("/")
    parts = parts[3 if parts[0] == "apis" else 2 :]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[:1] + parts[2:])


if __name__ == "__main__":
    vars(server)["Application"] = CountingApplication  # the hub itself has no need to count
    sys.exit(main())
