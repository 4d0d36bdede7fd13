"""Hostile requests to the API: what its clients ask, with something else in one place; and paths, queries and bodies
that no client sends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

from tests.robustness.hostile_messages import VALUES, frame, spoil
from tests.robustness.hostile_objects import NAMES, build_sized_policy

OPENAPI: Final = Path(__file__).resolve().parents[2] / "api" / "openapi.json"
CLUSTERS: Final = tuple(f"c{number}" for number in range(12))
_KEYS: Final = ("tier", "region", "a", "x" * 63, "", "💥", "k" * 400)
_KNOWN: Final[Mapping[str, Sequence[Any]]] = {
    "cluster": CLUSTERS, "like": ("", *CLUSTERS), "name": (*NAMES, *CLUSTERS), "ns": ("-", "default"),
    "placement": (*NAMES, "default/n1", ""), "binding": ("", "n1-c1-0"), "key": _KEYS, "term": (0, 1, -1, 2**31),
    "expression": _KEYS, "value": ("gold", "0", "4Gi", "-1", "1e999999999", "9" * 400, 3, True, None, 10**9),
    "property": ("kubernetes-fleet.io/node-count", ""), "resource": ("cpu", "memory", "💥"),
    "effect": ("NoSchedule", "NoExecute", ""), "from": (*("current",) * 20, "a-1", "-1", ""),
    "since": ("", "2026-01-02T03:04:05Z", "9999-12-31T23:59:59Z", "0", "2026-02-30T00:00:00Z"),
    "limit": ("1", "1000", "-1", "9" * 30, "1.5", "0x10"), "cursor": ("", "AAAA", "💥", "e30="),
    "attempt": ("1", "-1", "a-1", ""), "diff": ("1..2", "..", "9..1", "-1"), "follow": ("true", "maybe"),
    "fixes": ("fast", "deep", "none", "x"), "explain": ("true", "💥"), "fulfilled": ("true", "false", "x"),
    "selector": ("a=b", "a in (b,", "!a,b!=c", ",".join(f"k{number}=v" for number in range(500))),
    "namespace": ("default", "", "-"), "outcome": ("Scheduled", "Partial", "💥"), "profile": ("default-scheduler", "-"),
}  # fmt: skip
"""By the name of a parameter or field."""
_BODIES: Final = (
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a":' * 5000, b"[" * 50000, b'{"placement": {"kind": 1}}', b"9" * 5000,
    b'{"edits": [{"set": null}]}', b'{"plugin": "x", "message": "\xed\xa0\x80"}',
    b'{"placement": {"spec": {"policy": []}}}', b'{"placement": ' * 63 + b"1" + b"}" * 63,
    b'{"edits": [' + b"{}," * 100_000 + b"{}]}", b'{"from": "\\ud800", "from": "current"}', b"\xef\xbb\xbf{}",
)  # fmt: skip
_SHARE_OF_CLIENTS: Final = 0.6
_SIZES: Final = (1, 1, 1, 3, 10, 100, 1000, 5000)
"""Of policies, in terms, expressions or tolerations."""


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    queries: tuple[str, ...]
    body: Mapping[str, Any] | None
    """The schema."""


class Requests:
    def __init__(self, rng: Random, tokens: Sequence[str]) -> None:
        document = json.loads(OPENAPI.read_text(encoding="utf-8"))
        self._rng, self._tokens = rng, tokens
        self._schemas: Mapping[str, Mapping[str, Any]] = document["components"]["schemas"]
        self._operations = [
            _read_operation(method, path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]
        self._with_body = [operation for operation in self._operations if operation.body is not None]

    def make(self) -> bytes:
        if self._rng.random() < _SHARE_OF_CLIENTS:
            return self._make_client_request()
        return self._make_odd_request()

    def _make_client_request(self) -> bytes:
        """As a client sends it; every third time with other values at random places."""
        rng = self._rng
        operation = rng.choice(self._with_body if rng.random() < 0.5 else self._operations)
        queries = rng.sample(operation.queries, rng.randint(0, min(2, len(operation.queries))))
        query = "&".join(f"{name}={quote(str(self._pick(name)))}" for name in queries)
        body = None if operation.body is None else self._build(operation.body, "")
        if isinstance(body, dict) and rng.random() < 0.3:
            spoil(rng, body, (*body, "placement", "edits", "spec", "policy", "from"))
        content = b"" if body is None else json.dumps(body).encode()
        start = f"{operation.method} {self._fill(operation.path, is_odd=False)}?{query}"
        kind = "application/json" if content else ""
        if rng.random() < 0.2:
            return frame(rng, start, content, self._tokens, content_type=kind)
        return frame(rng, start, content, self._tokens[:1], content_type=kind, is_whole=True)

    def _make_odd_request(self) -> bytes:
        rng, operation = self._rng, self._rng.choice(self._operations)
        names = [*operation.queries, "limit", "watch", rng.choice(VALUES)]
        query = "&".join(f"{quote(rng.choice(names))}={quote(rng.choice(VALUES))}" for _ in range(rng.randrange(4)))
        body = rng.choice(_BODIES) if rng.random() < 0.7 else rng.randbytes(rng.randrange(200))
        odd = ("PROPFIND", "HEAD", "G\x00T", "OPTIONS", "TRACE", "CONNECT", "get", "X" * 300)
        method = operation.method if rng.random() < 0.9 else rng.choice(odd)
        return frame(rng, f"{method} {self._fill(operation.path, is_odd=True)}?{query}", body, self._tokens)

    def _fill(self, path: str, *, is_odd: bool) -> str:
        while "{" in path:
            before, _, rest = path.partition("{")
            name, _, after = rest.partition("}")
            value = self._rng.choice(VALUES) if is_odd else str(self._pick(name))
            path = before + quote(value, safe="%" if is_odd else "") + after
        return path

    def _pick(self, name: str) -> Any:
        return self._rng.choice(VALUES if self._rng.random() < 0.05 else _KNOWN.get(name, VALUES))

    def _build(self, schema: Mapping[str, Any], name: str) -> Any:
        """A value that fits, mostly."""
        rng = self._rng
        if "$ref" in schema:
            return self._build(self._schemas[schema["$ref"].rpartition("/")[2]], name)
        if "anyOf" in schema:
            return self._build(rng.choice(schema["anyOf"]), name)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        match schema.get("type"):
            case "object" if name == "placement":
                return self._build_placement()
            case "object" if name == "patch":
                return build_sized_policy(rng, rng.choice(_SIZES[:5]))
            case "object":
                return self._build_object(schema)
            case "array":
                count = rng.choice((0, 0, 1, 1, 1, 2, 3, 50))
                return [self._build(schema["items"], name) for _ in range(count)]
            case "integer":
                return rng.choice((0, 1, 2, 3, 5, 100, -1, 2**31, 2**63, 2**70))
            case "boolean":
                return rng.random() < 0.5
            case "null":
                return None
        return self._pick(name)

    def _build_object(self, schema: Mapping[str, Any]) -> Any:
        required = schema.get("required", ())
        chosen = {
            name: self._build(field, name)
            for name, field in schema.get("properties", {}).items()
            if name in required or self._rng.random() < 0.5
        }
        if "properties" not in schema:
            return {self._rng.choice(_KEYS): self._rng.choice(("a", "4Gi", "-1")) for _ in range(3)}
        return chosen

    def _build_placement(self) -> Any:
        if self._rng.random() < 0.4:
            return {"ref": self._rng.choice(_KNOWN["placement"])}
        policy = build_sized_policy(self._rng, self._rng.choice(_SIZES))
        spec = {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "s"}],
            "policy": policy,
        }
        metadata = {"name": self._rng.choice((*NAMES, "new"))}
        return {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
                "metadata": metadata, "spec": spec}  # fmt: skip


def _read_operation(method: str, path: str, operation: Mapping[str, Any]) -> Operation:
    queries = tuple(each["name"] for each in operation.get("parameters", ()) if each["in"] == "query")
    content = operation.get("requestBody", {}).get("content", {})
    return Operation(method.upper(), path, queries, content.get("application/json", {}).get("schema"))
