"""Names of images: `registry.example.com/bridge/fleet:v0.20.1001`. Pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from fleet.errors import InputError

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?")
_PATH: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")


@dataclass(frozen=True, slots=True)
class ImageRepository:
    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.host}/{self.path}"


@dataclass(frozen=True, slots=True)
class ImageReference:
    repository: ImageRepository
    version: str
    """A tag or a digest."""

    def __str__(self) -> str:
        return f"{self.repository}{'@' if DIGEST.fullmatch(self.version) else ':'}{self.version}"


def parse_host(text: str) -> str:
    """The first part names a host if it has a dot or a port, or is localhost."""
    if not _HOST.fullmatch(text) or not ("." in text or ":" in text or text == "localhost"):
        raise InputError(f"should begin with the host of a registry, not {text!r}", field="image", value=text)
    return text


def parse_repository(text: str) -> ImageRepository:
    host, _, path = text.partition("/")
    parse_host(host)
    if not _PATH.fullmatch(path):
        raise InputError(f"should be HOST/PATH in lower case, not {text!r}", field="image", value=text)
    return ImageRepository(host, path)


def parse_reference(text: str) -> ImageReference:
    """With a tag or a digest; with both the digest counts."""
    name, at, digest = text.partition("@")
    host, slash, path = name.partition("/")
    parse_host(host)
    path, colon, tag = path.partition(":")
    if at and not DIGEST.fullmatch(digest):
        raise InputError(f"the digest should be sha256 with 64 digits, not {digest!r}", field="image", value=text)
    if not at and not (colon and tag):
        raise InputError(f"should have a tag or a digest: {text}:v0.20.1001", field="image", value=text)
    return ImageReference(parse_repository(f"{host}{slash}{path}"), digest or tag)


def is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if re.search(r":[0-9]+$", host) else host
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
