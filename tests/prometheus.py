"""A server on loopback that speaks the query API of Prometheus over TLS, for those who have its token."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import trustme


@dataclass
class RunningPrometheus:
    server: ThreadingHTTPServer
    authority: Path
    token: str
    """The one that is accepted; others are sent back with the refusal."""
    vectors: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """By query, the number of each cluster."""
    asked: list[str] = field(default_factory=list)
    answers: dict[str, object] = field(default_factory=dict)
    """Of other services, by path."""
    header: str = "Authorization"
    prefix: str = "Bearer "

    @property
    def url(self) -> str:
        return f"https://localhost:{self.server.server_address[1]}"

    def answer(self, query: str) -> object:
        self.asked.append(query)
        result = [
            {"metric": {"cluster": name}, "value": [0, str(number)]}
            for name, number in self.vectors.get(query, {}).items()
        ]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}


@contextmanager
def a_prometheus(folder: Path, token: str) -> Iterator[RunningPrometheus]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get(running.header, "")
            path = urlsplit(self.path)
            if given != f"{running.prefix}{running.token}":
                self.send_response(401, f"no good: {given}")
                content = json.dumps({"status": "error", "error": given}).encode()
            elif path.path in running.answers:
                self.send_response(200)
                content = json.dumps(running.answers[path.path]).encode()
            elif path.path != "/api/v1/query":
                self.send_response(404)
                content = b""
            else:
                self.send_response(200)
                content = json.dumps(running.answer(parse_qs(path.query)["query"][0])).encode()
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None: ...

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "prometheus-ca.crt"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    running = RunningPrometheus(server, folder / "prometheus-ca.crt", token)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
