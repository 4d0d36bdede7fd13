"""A clone, a registry and the command line between them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.unit.release.command import Ran, fleet
from tests.unit.release.images import write_layout
from tests.unit.release.registry_server import Registry
from tests.unit.release.repositories import Clone

TAG = "v0.20.1001"
PATH = "bridge/fleet"


class Stage(NamedTuple):
    clone: Clone
    registry: Registry
    folder: Path

    @property
    def target(self) -> str:
        return f"{self.registry.host}/{PATH}"

    @property
    def image(self) -> str:
        return f"{self.target}:{TAG}"

    def claim(self, *options: str) -> dict[str, str]:
        ran = fleet("release", "claim", "-C", str(self.clone.folder), "--reason=a crash", "-o", "json", *options)
        assert ran.code == 0, ran.err
        labels: dict[str, str] = ran.json["labels"]
        return labels

    def publish(self, *images: str, tag: str = TAG, upstream: str = "") -> Ran:
        where = ("-C", str(self.clone.folder), f"--upstream-registry={upstream}")
        return fleet("release", "publish", tag, *images, *where)

    def verify(self, image: str = "") -> Ran:
        return fleet("release", "verify", image or self.image, "-C", str(self.clone.folder))

    def failures(self, image: str = "") -> list[str]:
        ran = self.verify(image)
        assert ran.code == 5, ran.out + ran.err
        return [line for line in ran.out.splitlines() if line.startswith("FAILED")]

    def build(self, *options: str) -> str:
        """Claims and publishes HEAD, and gives the tag."""
        labels = self.claim(*options)
        tag = labels["org.opencontainers.image.version"]
        ran = self.publish(f"{write_layout(self.folder / tag, labels, content=tag.encode())}={self.target}", tag=tag)
        assert ran.code == 0, ran.err
        return tag
