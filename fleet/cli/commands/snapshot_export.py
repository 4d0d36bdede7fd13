"""`fleet snapshot export`: what the API decides on right now, as one document in a file, with names or without."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fleet.cli.client.connection import Connection
from fleet.cli.client.requests import JSON, Question, Refusal, pieces
from fleet.cli.commands.why import FINE
from fleet.errors import ConfigurationError

STDOUT: Final = "-"


def export_snapshot(connection: Connection, file: str, *, anonymize: bool = False) -> int:
    """The file is there when all of it is, and for its owner only: it says a lot about a fleet."""
    with pieces(connection, Question(path="/v1/snapshot"), accept=JSON) as received:
        found = iter([_anonymous(b"".join(received), connection.url)]) if anonymize else received
        if file == STDOUT:
            _print(found)
        else:
            size = _write(found, Path(file))
            sys.stderr.write(f"note: {size} bytes in {file}\n")
    return FINE


def _anonymous(content: bytes, url: str) -> bytes:
    import msgspec

    from fleet.explain.replay.anonymize import anonymize

    try:
        return msgspec.json.encode(anonymize(msgspec.json.decode(content)))
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        message = f"the snapshot of {url} cannot be read, so it cannot be anonymised: {error}; nothing was written"
        raise Refusal(message) from error


def _print(found: Iterator[bytes]) -> None:
    for piece in found:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.write(b"\n")
    sys.stdout.flush()


def _write(found: Iterator[bytes], path: Path) -> int:
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as out:
            size = sum(map(out.write, found))
        Path(temporary).replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return size
