"""Objects in a folder, one JSON file for each kind."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from fleet.errors import ConfigurationError
from fleet.kube.resource import Resource
from fleet.operator.operands import MANAGED, Json
from fleet.private_files import create_private_directory, create_private_file

_SERVER_FIELDS: Final = ("uid", "generation")


class ObjectFiles:
    """What was written is read back by the next process, so that a scheduler goes on with its last good document."""

    def __init__(self, folder: Path) -> None:
        create_private_directory(folder)
        self._folder = folder
        self._objects = {resource: document for resource in MANAGED if (document := self._read(resource)) is not None}

    def __iter__(self) -> Iterator[tuple[Resource, Json]]:
        return iter(list(self._objects.items()))

    def find(self, resource: Resource) -> Json | None:
        return self._objects.get(resource)

    def write(self, resource: Resource, document: Json) -> None:
        """All of the object but its status, which is kept. Another spec has another generation."""
        before = self._objects.get(resource)
        generation = 1 if before is None else before["metadata"]["generation"]
        if before is not None and before.get("spec") != document.get("spec"):
            generation += 1
        uid = str(uuid.uuid4()) if before is None else before["metadata"]["uid"]
        metadata = {**document["metadata"], **dict(zip(_SERVER_FIELDS, (uid, generation), strict=True))}
        status = {} if before is None or "status" not in before else {"status": before["status"]}
        self._save(resource, {**document, "metadata": metadata, **status})

    def write_status(self, resource: Resource, status: Json) -> bool:
        """Whether it differs from the status before."""
        document = self._objects.get(resource)
        if document is None or document.get("status") == status:
            return False
        self._save(resource, {**document, "status": status})
        return True

    def delete(self, resource: Resource) -> None:
        self._objects.pop(resource, None)
        self._get_path(resource).unlink(missing_ok=True)

    def _save(self, resource: Resource, document: Json) -> None:
        path = self._get_path(resource)
        temporary = path.with_suffix(".new")
        create_private_file(temporary)
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(document)))
        os.replace(temporary, path)
        self._objects[resource] = document

    def _read(self, resource: Resource) -> Json | None:
        path = self._get_path(resource)
        try:
            document: Json = msgspec.json.decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise ConfigurationError(f"--state: {path} is no JSON object ({error}); delete the file") from error
        return document

    def _get_path(self, resource: Resource) -> Path:
        return self._folder / f"{resource.kind.lower()}.json"
