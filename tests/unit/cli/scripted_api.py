"""An API that says what tests tell it to, over HTTP on a free port, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    @property
    def wants_text(self) -> bool:
        return self.headers["Accept"].startswith("text/plain")


@dataclass(frozen=True)
class Said:
    body: bytes = b""
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    promised: int = 0
    """Bytes beyond those that are sent: the connection breaks off."""


Script = Callable[[Asked], Said]


def in_json(value: Any, status: int = 200) -> Said:
    return Said(json.dumps(value).encode(), status)


def in_text(text: str, state: str = "") -> Said:
    headers = {"Fleet-State": state} if state else {}
    return Said(text.encode(), media_type="text/plain; charset=utf-8", headers=headers)


def in_lines(*values: Any) -> Said:
    return Said(b"".join(json.dumps(one).encode() + b"\n" for one in values), media_type="application/x-ndjson")


def refused(status: int, detail: str, **more: Any) -> Said:
    problem = {"title": "No", "status": status, "detail": detail, **more}
    return Said(json.dumps(problem).encode(), status, PROBLEM)


class ScriptedApi:
    """Paths without a script were never seen."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._scripts: dict[str, Script] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False  # closing it waits for all answers, so that none falls into another test
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), name="scripted-api")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def says(self, path: str, *answers: Said | Script) -> None:
        """One after the other; the last one again and again."""
        left = list(answers)

        def script(asked: Asked) -> Said:
            answer = left.pop(0) if len(left) > 1 else left[0]
            return answer(asked) if callable(answer) else answer

        self._scripts[path] = script

    def answers(self, path: str, document: Any, text: str, *, state: str = "") -> None:
        """In both forms, and with the state of the placement in a header."""
        self.says(path, lambda asked: in_text(text, state) if asked.wants_text else in_json(document))

    def _answer(self, asked: Asked) -> Said:
        self.asked.append(asked)
        script = self._scripts.get(asked.path)
        return script(asked) if script else refused(404, f"{asked.path} was never seen here")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                parts = urlsplit(self.path)
                body = json.loads(self.rfile.read(length)) if length else None
                said = answer(Asked(self.command, parts.path, dict(parse_qsl(parts.query)), self.headers, body))  # type: ignore[arg-type]
                self.send_response(said.status)
                headers = {"Content-Type": said.media_type, "Content-Length": str(len(said.body) + said.promised)}
                for name, value in {**headers, **said.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said.body)

            def __getattr__(self, name: str) -> Any:
                """Whatever the method."""
                if name.startswith("do_"):
                    return self._do
                raise AttributeError(name)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
