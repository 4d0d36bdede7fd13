"""An OCI registry on loopback: the part of the distribution API that images are pushed, listed and read with.

It refuses what real registries refuse: content that does not match its digest, manifests before their blobs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token"


class Manifest(NamedTuple):
    content: bytes
    media_type: str


class Registry:
    def __init__(self) -> None:
        self.blobs: dict[str, dict[str, bytes]] = defaultdict(dict)
        self.manifests: dict[str, dict[str, Manifest]] = defaultdict(dict)
        self.tags: dict[str, dict[str, str]] = defaultdict(dict)
        self.writes: list[str] = []
        """What was pushed, in order."""
        self.page = 2
        """Tags on a page, whatever the client wishes."""
        self.password = ""
        """`user:password`; with it, requests need a token."""
        self.is_basic = False
        """Whether requests carry the password itself, instead of a token."""
        self.store = ""
        """The host that blobs are redirected to."""
        self.authorizations: list[str | None] = []
        """Of all requests that read."""
        self.has_referrers = True
        self.next_page = ""
        """Where every list of tags continues, if not after its last tag."""
        self.host = ""

    def get_manifest(self, path: str, version: str) -> Manifest | None:
        return self.manifests[path].get(self.tags[path].get(version, version))

    def put_manifest(self, path: str, version: str, manifest: Manifest) -> str:
        """As another client would, by a tag or a digest."""
        digest = digest_of(manifest.content)
        self.manifests[path][digest] = manifest
        if version != digest:
            self.tags[path][version] = digest
        return digest


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: Registry

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        self.registry.authorizations.append(self.headers.get("Authorization"))
        if address.path == "/token":
            return self._issue_token()
        if not self._is_allowed():
            return None
        if address.path == "/v2/_catalog":
            return self._answer(200, {"repositories": sorted(path for path in self.registry.tags)})
        match = re.fullmatch(r"/v2/(.+)/(tags|manifests|blobs|referrers)/([^/]+)", address.path)
        if match is None:
            return self._refuse(404, "NAME_UNKNOWN")
        path, kind, version = match.groups()
        if kind == "tags":
            return self._list_tags(path, query.get("last", ""))
        if kind == "referrers":
            return self._list_referrers(path, version)
        if kind == "blobs" and self.registry.store:
            return self._send(307, b"", {"Location": f"http://{self.registry.store}{self.path}"})
        if kind == "blobs":
            blob = self.registry.blobs[path].get(version)
            return self._refuse(404, "BLOB_UNKNOWN") if blob is None else self._send(200, blob)
        manifest = self.registry.get_manifest(path, version)
        if manifest is None:
            return self._refuse(404, "MANIFEST_UNKNOWN")
        return self._send(200, manifest.content, {"Content-Type": manifest.media_type})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        if self._is_allowed():
            self._body()
            self._send(202, b"", {"Location": f"{urlsplit(self.path).path}session?state=1"})

    def do_PUT(self) -> None:
        content = self._body()
        if not self._is_allowed():
            return None
        address = urlsplit(self.path)
        if match := re.fullmatch(r"/v2/(.+)/blobs/uploads/session", address.path):
            return self._store_blob(match[1], parse_qs(address.query)["digest"][0], content)
        match = re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", address.path)
        assert match is not None
        return self._store_manifest(match[1], match[2], content)

    # --- storing ----------------------------------------------------------------------------------------------------

    def _store_blob(self, path: str, digest: str, content: bytes) -> None:
        if digest_of(content) != digest:
            return self._refuse(400, "DIGEST_INVALID")
        self.registry.blobs[path][digest] = content
        self.registry.writes.append(f"blob {digest}")
        return self._send(201, b"")

    def _store_manifest(self, path: str, version: str, content: bytes) -> None:
        document = json.loads(content)
        blobs = [document[part] for part in ("config",) if part in document] + document.get("layers", [])
        children = document.get("manifests", [])
        if any(blob["digest"] not in self.registry.blobs[path] for blob in blobs):
            return self._refuse(400, "MANIFEST_BLOB_UNKNOWN")
        if any(child["digest"] not in self.registry.manifests[path] for child in children):
            return self._refuse(400, "MANIFEST_UNKNOWN")
        if version.startswith("sha256:") and version != digest_of(content):
            return self._refuse(400, "DIGEST_INVALID")
        digest = self.registry.put_manifest(path, version, Manifest(content, self.headers["Content-Type"]))
        self.registry.writes.append(f"manifest {version}")
        subject = document.get("subject", {}).get("digest")
        headers = {"OCI-Subject": subject} if subject and self.registry.has_referrers else {}
        return self._send(201, b"", {"Docker-Content-Digest": digest, **headers})

    # --- listing ----------------------------------------------------------------------------------------------------

    def _list_tags(self, path: str, last: str) -> None:
        if path not in self.registry.tags:
            return self._refuse(404, "NAME_UNKNOWN")
        tags = [tag for tag in sorted(self.registry.tags[path]) if tag > last]
        page = tags[: self.registry.page]
        more = len(tags) > len(page)
        following = self.registry.next_page or (f"/v2/{path}/tags/list?last={page[-1]}" if more else "")
        link = {"Link": f'<{following}>; rel="next"'} if following else {}
        return self._answer(200, {"name": path, "tags": page}, link)

    def _list_referrers(self, path: str, digest: str) -> None:
        if not self.registry.has_referrers:
            return self._refuse(404, "UNSUPPORTED")
        entries = []
        for name, manifest in self.registry.manifests[path].items():
            document = json.loads(manifest.content)
            if document.get("subject", {}).get("digest") == digest:
                kinds = {key: document[key] for key in ("artifactType", "annotations") if key in document}
                entries.append({"digest": name, "mediaType": manifest.media_type, "size": 0, **kinds})
        return self._answer(200, {"schemaVersion": 2, "manifests": entries})

    # --- answers ----------------------------------------------------------------------------------------------------

    def _is_allowed(self) -> bool:
        basic = f"Basic {base64.b64encode(self.registry.password.encode()).decode()}"
        accepted = basic if self.registry.is_basic else f"Bearer {TOKEN}"
        if not self.registry.password or self.headers.get("Authorization") == accepted:
            return True
        realm = f'Bearer realm="http://{self.registry.host}/token",service="here"'
        self._send(401, b"{}", {"WWW-Authenticate": 'Basic realm="here"' if self.registry.is_basic else realm})
        return False

    def _issue_token(self) -> None:
        expected = f"Basic {base64.b64encode(self.registry.password.encode()).decode()}"
        if self.headers.get("Authorization") == expected:
            return self._answer(200, {"token": TOKEN})
        return self._refuse(401, "DENIED")

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _answer(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(document).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, {"errors": [{"code": code, "message": code.replace("_", " ").lower()}]})

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def a_registry() -> Iterator[Registry]:
    registry = Registry()
    handler = type("Handler", (_Handler,), {"registry": registry})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        registry.host = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
