"""The spec of a large object that a write leaves as it is is not decoded, and everything else is as if it were."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from random import Random
from typing import Any, Final

import msgspec
import pytest

from fleet.hub.hub import Hub
from fleet.hub.objects import update_rules
from fleet.hub.storage import conversion, entries
from fleet.hub.wire import bodies
from tests.unit.hub.asking import DEFINITIONS, NOON, THINGS, TOKENS, Answer, Asker, a_definition, a_thing

Json = dict[str, Any]

DEFINITION = f"{DEFINITIONS}/things.example.com"
THING = f"{THINGS}/a"
MERGE = "application/merge-patch+json"
LONG: Final = ["x" * 100] * 1_000


def schema_of(spec: Json, **root: Any) -> Json:
    base = {"n": {"type": "integer"}, "long": {"type": "array", "items": {"type": "string"}}}
    spec = {"type": "object", **spec, "properties": {**base, **spec.get("properties", {})}}
    status = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    return {"type": "object", "properties": {"spec": spec, "status": status}, **root}


def define(ask: Asker, schema: Json) -> None:
    known = ask("GET", DEFINITION)
    definition = known.json if known.code == 200 else a_definition()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    written = ask("PUT", DEFINITION, definition) if known.code == 200 else ask("POST", DEFINITIONS, definition)
    assert written.code in (200, 201), written.content


def encode(document: Json) -> bytes:
    """As the hub writes it: a text in another form is another one."""
    return msgspec.json.encode(document)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of what is decoded."""
    lengths: list[int] = []

    def decode(text: Any) -> Any:
        lengths.append(len(bytes(text)))
        return msgspec.json.decode(text)

    for module in (bodies, conversion, entries, update_rules):
        monkeypatch.setattr(module, "decode_bytes", decode)
    return lengths


def write_long(ask: Asker, **spec: Any) -> Json:
    thing = a_thing("a", finalizers=["example.com/one"]) | {"spec": {"n": 1, "long": LONG, **spec}}
    written = ask("POST", THINGS, encode(thing))
    assert written.code == 201, written.content
    document: Json = written.json
    return document


def put(ask: Asker, document: Json, at: str = THING, *, want: int = 200) -> Json:
    answer = ask("PUT", at, encode(document))
    assert answer.code == want, answer.content
    written: Json = answer.json
    return written


@pytest.mark.parametrize("what", ["labels", "finalizers of what is deleted", "status", "status without a spec"])
def test_what_is_left_as_it_is_is_not_decoded(ask: Asker, decoded: list[int], what: str) -> None:
    define(ask, schema_of({}))
    document = write_long(ask)
    at = THING
    match what:
        case "labels":
            document["metadata"]["labels"] = {"a": "b"}
        case "status":
            document["status"], at = {"ready": True}, f"{THING}/status"
        case "status without a spec":
            del document["spec"]
            document["status"], at = {"ready": True}, f"{THING}/status"
        case _:
            document = ask("DELETE", THING).json
            document["metadata"]["finalizers"] = []
    decoded.clear()
    assert put(ask, document, at)["spec"]["long"] == LONG
    assert max(decoded) < 10_000


def test_a_stale_write_of_it_is_refused_without_decoding_it(ask: Asker, decoded: list[int]) -> None:
    define(ask, schema_of({}))
    document = write_long(ask)
    put(ask, document | {"metadata": {**document["metadata"], "labels": {"a": "b"}}})
    decoded.clear()
    put(ask, document, want=409)
    assert max(decoded) < 10_000


def test_rules_look_once_at_what_does_not_change(ask: Asker, decoded: list[int]) -> None:
    define(ask, schema_of({"x-kubernetes-validations": [{"rule": "self.n >= oldSelf.n"}]}))
    document = write_long(ask)
    sizes = []
    for turn in range(3):
        document["metadata"]["labels"] = {"turn": str(turn)}
        decoded.clear()
        document = put(ask, document)
        sizes.append(max(decoded))
    assert [size > 100_000 for size in sizes] == [True, False, False]


def test_a_rule_that_holds_for_changes_only_is_told_each_time(ask: Asker) -> None:
    define(ask, schema_of({"x-kubernetes-validations": [{"rule": "self.n > oldSelf.n"}]}))
    document = write_long(ask)
    for turn in range(3):
        document["metadata"]["labels"] = {"turn": str(turn)}
        refused = put(ask, document, want=422)
        assert refused["details"]["causes"][0]["field"] == "spec"


def test_rules_above_see_the_spec_of_each_write(ask: Asker) -> None:
    rule = {
        "rule": "!has(self.status) || !self.status.ready || !has(self.spec) || self.spec.n == 2",
        "message": "not ready yet",
    }
    define(ask, schema_of({}, **{"x-kubernetes-validations": [rule]}))
    document = write_long(ask)
    document["metadata"]["finalizers"] = []
    document = put(ask, document)
    refused = put(ask, document | {"status": {"ready": True}}, f"{THING}/status", want=422)
    assert refused["details"]["causes"][0]["message"].endswith(": not ready yet")


@pytest.mark.parametrize(
    "body", [b'{"spec":', b'{"spec":{"n":1},"metadata":{"a":nil}}', b'{"a":"\xff"}', b"[]", b"null"]
)
def test_bodies_that_cannot_be_read_are_refused_as_ever(ask: Asker, body: bytes) -> None:
    define(ask, schema_of({}))
    small = ask("PUT", f"{THINGS}/b", body)
    write_long(ask)
    large = ask("PUT", THING, body)
    assert (large.code, large.json["message"]) == (small.code, small.json["message"])


def test_a_spec_that_is_sent_twice_counts_as_the_last(ask: Asker) -> None:
    define(ask, schema_of({}))
    document = write_long(ask)
    text = encode(document["spec"])
    rest = encode({name: value for name, value in document.items() if name != "spec"})[:-1]
    written = ask("PUT", THING, rest + b',"spec":' + text + b',"spec":{"n":2}}')
    assert written.json["spec"] == {"n": 2}
    written = ask("PUT", THING, encode(written.json)[:-1] + b',"spec":' + text + b"}")
    assert written.json["spec"]["long"] == LONG


UNREADABLE: Final = {"text": b'"\xff"', "number": b"1e999"}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("query", ["", "?fieldValidation=Strict"])
@pytest.mark.parametrize("field", ["spec", "status", "metadata"])
def test_what_cannot_be_read_is_refused_beside_it_and_where_it_is_sent_twice(
    ask: Asker, field: str, query: str, value: bytes
) -> None:
    define(ask, schema_of({}))
    document = encode(write_long(ask) | {"status": {}})
    first = b'{"%b":{"a":%b},' % (field.encode(), value)
    assert ask("PUT", f"{THING}{query}", first + document[1:]).code == 400
    last = document.replace(b'"status":{}', b'"status":{"a":%b}' % value)
    assert ask("PUT", f"{THING}{query}", last).code == 400


def test_what_is_refused_depends_on_no_writes_before(ask: Asker) -> None:
    """Repeated items are refused only where the old object has none."""
    numbers = {"type": "array", "items": {"type": "integer"}}
    schemas = [schema_of({"properties": {"set": numbers | kind}}) for kind in ({}, {"x-kubernetes-list-type": "set"})]
    for schema in schemas:
        schema["properties"]["status"]["properties"]["set"] = schema["properties"]["spec"]["properties"]["set"]
    define(ask, schemas[0])
    document = write_long(ask, set=[1, 1])
    define(ask, schemas[1])
    for turn in range(3):
        document["metadata"]["labels"] = {"turn": str(turn)}
        document = put(ask, document)
        written = put(ask, document | {"status": {"set": [turn, turn]}}, f"{THING}/status")
        document["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"]


def test_what_is_nested_too_deeply_beside_it_is_refused(ask: Asker) -> None:
    define(ask, schema_of({}))
    document = write_long(ask)
    nested: Any = {}
    for _ in range(300):
        nested = {"a": nested}
    refused = ask("PUT", THING, encode(document | {"status": nested}))
    assert (refused.code, "nested more than 300 levels deep" in refused.json["message"]) == (400, True)


# --- compared with a hub that decodes everything ----------------------------------------------------------------------

_SET: Final = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}
SETS: Final = schema_of({"properties": {"set": _SET}})
SETS["properties"]["status"]["properties"]["set"] = _SET
_SCHEMAS: Final = (
    schema_of({}),
    schema_of({"properties": {"more": {"type": "string", "default": "yes"}}}),
    schema_of({"properties": {"n": {"type": "integer", "maximum": 3}}, "required": ["n"]}),
    schema_of({"x-kubernetes-validations": [{"rule": "!has(oldSelf.n) || (has(self.n) && self.n >= oldSelf.n)"}]}),
    schema_of(
        {"properties": {"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}}}
    ),
    schema_of(
        {
            "properties": {
                "inner": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            }
        }
    ),
    SETS,
    schema_of({}, anyOf=[{"required": ["spec"]}, {"required": ["status"]}]),
    schema_of(
        {}, **{"x-kubernetes-validations": [{"rule": "!has(self.status) || has(self.spec) && has(self.spec.n)"}]}
    ),
    schema_of({"x-kubernetes-preserve-unknown-fields": True}),
)
_SPECS: Final[tuple[Json | None, ...]] = (
    {"n": 1},
    {"n": 2, "set": [1, 2]},
    {"n": 2, "set": [1, 1]},
    {"n": 4, "unknown": {"x": 1}},
    {"n": 3, "inner": {"apiVersion": "v1", "kind": "ConfigMap"}},
    {"n": 3, "inner": {"kind": "ConfigMap"}},
    {"n": True},
    {"n": 1.0},
    {},
    None,
)


class Twin:
    """The same requests to two hubs, one of which takes every object for large."""

    def __init__(self, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._askers = [Asker(_create_hub(), runner) for _ in range(2)]

    def __call__(self, method: str, url: str, body: Any = None, **options: Any) -> Answer:
        answers = []
        for asker, large in zip(self._askers, (0, 1 << 40), strict=True):
            self._monkeypatch.setattr(update_rules, "LARGE_SPEC", large)
            sent = body(asker) if callable(body) else body
            answers.append(asker(method, url, sent, **options))
        quick, slow = answers
        assert quick == slow, (method, url)
        return slow


def _create_hub() -> Hub:
    numbers = count()
    return Hub(TOKENS, clock=lambda: NOON, new_uid=lambda: f"uid-{next(numbers)}")


def change(random: Random, document: Json) -> Json:
    meta = document["metadata"]
    for _ in range(random.randint(0, 2)):
        match random.randrange(7):
            case 0:
                meta["labels"] = {"a": str(random.randrange(3))}
            case 1:
                meta["finalizers"] = random.sample(["example.com/one", "example.com/two"], random.randrange(3))
            case 2:
                document["spec"] = random.choice(_SPECS)
            case 3:
                document["status"] = random.choice(
                    [{"ready": True}, {"ready": 1}, {"other": 1}, {"set": [1, 1]}, {}, None]
                )
            case 4:
                document.pop(random.choice(["spec", "status"]), None)
            case 5:
                meta["resourceVersion"] = random.choice(["1", "", meta.get("resourceVersion", "")])
            case 6:
                meta["managedFields"] = random.choice([[], [{}], meta.get("managedFields") or []])
    return document


@pytest.mark.parametrize("seed", range(60))
def test_answers_are_those_of_a_hub_that_decodes_everything(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random, twin = Random(seed), Twin(runner, monkeypatch)
    twin("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    for _ in range(80):
        number = random.getrandbits(32)
        query = random.choice(
            ["", "", "?dryRun=All", "?fieldValidation=Strict", "?fieldManager=m", "?fieldValidation=Ignore"]
        )

        while twin("GET", THING).code == 404:
            define_in_both(twin, random.choice(_SCHEMAS))
            twin("POST", THINGS, encode(a_thing("a") | {"spec": random.choice(_SPECS)}))
        at = random.choice([THING, THING, THING, THING.replace("/v1/", "/v2/")])

        def changed(asker: Asker, at: str = at, number: int = number) -> bytes:
            return encode(change(Random(number), asker("GET", at).json))

        match random.randrange(12):
            case 0:
                define_in_both(twin, random.choice(_SCHEMAS))
            case 1:
                twin(random.choice(["DELETE", "GET"]), THING)
            case 2:
                twin("PATCH", THING, {"metadata": {"labels": {"b": "c"}}}, media_type=MERGE)
            case 3 | 4 | 5:
                twin("PUT", f"{at}/status{query}", changed)
            case _:
                twin("PUT", f"{at}{query}", changed)
    twin("GET", THINGS)


def define_in_both(twin: Twin, schema: Json) -> None:
    def definition(asker: Asker) -> bytes:
        known = asker("GET", DEFINITION)
        document = known.json if known.code == 200 else a_definition()
        for version in document["spec"]["versions"]:
            version |= {"schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
        return json.dumps(document).encode()

    if twin("GET", DEFINITION).code == 200:
        twin("PUT", DEFINITION, definition)
    else:
        twin("POST", DEFINITIONS, definition)
