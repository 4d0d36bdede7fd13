"""An extender on loopback: a real HTTP server that answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass
class RunningExtender:
    server: ThreadingHTTPServer
    asked: list[tuple[str, Json]] = field(default_factory=list)
    """Paths and bodies of all requests."""
    answer: Callable[[str, Json], object] = lambda path, asked: accept_all(asked)
    """Bytes are sent as they are, everything else as JSON."""
    status: int = 200
    released: threading.Event = field(default_factory=threading.Event)
    """While it is not set, requests get no answer."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self) -> None:
        """Nothing listens any more; connections that are open are answered no longer."""
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def names(self, position: int = -1) -> list[str]:
        """The clusters that a request was about."""
        return list_names(self.asked[position][1])


def list_names(asked: Json) -> list[str]:
    return (
        asked["NodeNames"] if "NodeNames" in asked else [each["metadata"]["name"] for each in asked["Nodes"]["items"]]
    )


def accept_all(asked: Json) -> Json:
    return {"Error": ""} if "PodName" in asked else {"NodeNames": list_names(asked)}


def forbid(*clusters: str, because: str = "over budget") -> Callable[[str, Json], object]:
    def answer(path: str, asked: Json) -> Json:
        del path
        failed = {name: because for name in list_names(asked) if name in clusters}
        return {"NodeNames": [name for name in list_names(asked) if name not in failed], "FailedNodes": failed}

    return answer


@contextmanager
def an_extender() -> Iterator[RunningExtender]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            extender.asked.append((self.path, dict(self.headers)))
            content = json.dumps(extender.answer(self.path, {})).encode()
            self.send_response(extender.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            extender.asked.append((self.path, body))
            extender.released.wait()
            answer = extender.answer(self.path, body)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            with suppress(ConnectionError):  # who has asked may have stopped to wait
                self.send_response(extender.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    extender = RunningExtender(server)
    extender.released.set()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield extender
    finally:
        extender.stop()
