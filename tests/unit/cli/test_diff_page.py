"""The examples of the page about `fleet diff`: the workflow and the role that it needs."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from fleet.cli.client.hub_objects import find_missing_namespaces, list_deciding_documents
from tests.faults.edited import RecordingApi
from tests.faults.hub_api import a_hub

PAGE = Path(__file__).resolve().parents[3] / "docs" / "diff.md"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_examples() -> tuple[Any, Any]:
    workflow, role = (yaml.safe_load(block) for block in _BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    return workflow, role


def test_the_workflow_is_made_of_commands_only() -> None:
    workflow, _ = read_examples()

    (step,) = workflow["jobs"]["diff"]["steps"]
    assert "uses" not in step
    subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)
    assert "fleet diff --kubeconfig" in step["run"]


def test_the_role_allows_what_the_command_sends_and_nothing_else() -> None:
    api = RecordingApi(a_hub())

    async def main() -> None:
        _ = [document async for document in list_deciding_documents(api)]
        await find_missing_namespaces(api, ["shop"])

    asyncio.run(main())
    sent = {(str(request.method), request.path) for request in api.requests}

    _, role = read_examples()
    allowed = {
        (rule["apiGroups"][0], resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {_describe(method, path) for method, path in sent} == allowed


def _describe(method: str, path: str) -> tuple[str, str, str]:
    assert method == "GET"
    if path.startswith("/api/v1/"):
        return "", path.split("/")[3], "get"
    return path.split("/")[2], path.rpartition("/")[2], "list"
