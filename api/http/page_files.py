"""The files of the explorer with their headers: a strict content security policy, and lasting URLs.

Every file is held in memory, with its ETag. A page refers to files by plain paths such as `/ui/app.js`; it is served
with `/ui/~DIGEST/app.js` in their place, where the digest is that of all files. A browser keeps those for good, and
relative imports stay below the same digest, so that files of two releases never mix.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, Self

from starlette.responses import Response

MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
"""By suffix. Other files of the package are not served."""
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PAGE_SUFFIX: Final = ".html"
INDEX: Final = "index.html"
_PACKAGE: Final = "api.ui"
_REVALIDATED: Final = "no-cache"
_LASTING: Final = "public, max-age=31536000, immutable"
_REFERENCE: Final = re.compile(rb'(?<=(?:src|ref)=")/ui/(?!~)([^"?#]+)(?=")')


@dataclass(frozen=True, slots=True)
class PageFile:
    content: bytes
    media_type: str
    etag: str


class PageFiles:
    def __init__(self, contents: dict[str, bytes]) -> None:
        """By path, such as `grid/cells.js`."""
        parts = (f"{path}\0{len(content)}\0".encode() + content for path, content in sorted(contents.items()))
        self.digest = hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest()
        pages = {path: self._refer(path, content, contents) for path, content in contents.items()}
        self._files = {path: _build_file(path, content) for path, content in pages.items()}

    @classmethod
    def load(cls) -> Self:
        """Those of the installed package."""
        return cls(dict(_read_all(files(_PACKAGE), "")))

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def respond(self, path: str, *, if_none_match: str = "") -> Response | None:
        """None for a path without a file. It may begin with the digest."""
        lasting, plain = self._split(path)
        file = self._files.get(plain)
        if file is None:
            return None
        headers = {
            **SECURITY_HEADERS,
            "Cache-Control": _LASTING if lasting and not plain.endswith(PAGE_SUFFIX) else _REVALIDATED,
            "ETag": file.etag,
        }
        if file.etag in (tag.strip().removeprefix("W/") for tag in if_none_match.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers={**headers, "Content-Type": file.media_type})

    def _split(self, path: str) -> tuple[bool, str]:
        """A digest of another release leads to the present file, which is not to be kept under that URL."""
        if not path.startswith("~"):
            return False, path
        digest, _, plain = path[1:].partition("/")
        return digest == self.digest, plain

    def _refer(self, path: str, content: bytes, contents: dict[str, bytes]) -> bytes:
        if not path.endswith(PAGE_SUFFIX):
            return content

        def replace(match: re.Match[bytes]) -> bytes:
            plain = match[1].decode("utf-8", "replace")
            is_file = plain in contents and not plain.endswith(PAGE_SUFFIX)
            return b"/ui/~%s/%s" % (self.digest.encode(), match[1]) if is_file else match[0]

        return _REFERENCE.sub(replace, content)


def _build_file(path: str, content: bytes) -> PageFile:
    etag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    return PageFile(content, MEDIA_TYPES[_suffix(path)], etag)


def _read_all(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _read_all(entry, f"{path}/")
        elif _suffix(path) in MEDIA_TYPES:
            yield path, entry.read_bytes()


def _suffix(path: str) -> str:
    return path[path.rfind(".") :] if "." in path else ""
