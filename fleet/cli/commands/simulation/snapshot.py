"""`fleet snapshot export` and `fleet simulate --snapshot`: the scheduler's inputs in a file.

An import reads the objects like those of any other file (`objects.expand_lists`). This module adds what files do not
contain: the time of the export, and the settings that differed from their defaults.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.requests import JSON, ApiRefusal, ApiRequest, open_stream
from fleet.cli.commands.why import SUCCESS
from fleet.cli.input.objects import SNAPSHOT
from fleet.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from fleet.cli.commands.simulation.simulate import SimulateOptions
API_VERSION: Final = "fleet/v1"
STDOUT: Final = "-"


def export_snapshot(connection: ApiConnection, file: str, *, anonymize: bool = False) -> int:
    """The file appears when it is complete, readable by its owner only: it describes the whole fleet."""
    with open_stream(connection, ApiRequest(path="/v1/snapshot"), accept=JSON) as received:
        chunks = iter([_anonymize(b"".join(received), connection.url)]) if anonymize else received
        if file == STDOUT:
            _print(chunks)
        else:
            size = _write(chunks, Path(file))
            sys.stderr.write(f"note: {size} bytes in {file}\n")
    return SUCCESS


def _anonymize(content: bytes, url: str) -> bytes:
    import msgspec

    from fleet.explain.replay.anonymize import anonymize

    try:
        return msgspec.json.encode(anonymize(msgspec.json.decode(content)))
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        message = f"the snapshot of {url} cannot be parsed, so it cannot be anonymized: {error}; nothing was written"
        raise ApiRefusal(message) from error


def _print(chunks: Iterator[bytes]) -> None:
    for piece in chunks:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.write(b"\n")
    sys.stdout.flush()


def _write(chunks: Iterator[bytes], path: Path) -> int:
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as out:
            size = sum(map(out.write, chunks))
        Path(temporary).replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return size


# --- import ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SnapshotContext:
    at: str
    settings: tuple[str, ...]
    """In the form of `--set`."""


def apply_snapshot(file: str, options: SimulateOptions) -> SimulateOptions:
    """Add the snapshot to the options. Explicit options take precedence over it."""
    context = read_snapshot_context(file)
    return replace(
        options,
        files=[file, *options.files],
        now=options.now or context.at,
        now_from=options.now_from if options.now else "--snapshot",
        settings=[*context.settings, *options.settings],
    )


def read_snapshot_context(file: str) -> SnapshotContext:
    try:
        document: Any = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}", field="--snapshot") from error
    except ValueError as error:
        raise InputError(f"{file} is not JSON: {error}", field="--snapshot") from error
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (API_VERSION, SNAPSHOT):
        message = f"{file} is not a {SNAPSHOT} of {API_VERSION}; create one with `fleet snapshot export FILE`"
        raise InputError(message, field="--snapshot")
    settings = document.get("settings") or {}
    return SnapshotContext(
        str(document.get("at")), tuple(f"{name}={_render_setting(value)}" for name, value in settings.items())
    )


def _render_setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
