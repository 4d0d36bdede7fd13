"""What one request may cost: patches, rules, patterns, objects and watchers are bounded, and the hub goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from fleet.errors import PatchError, RequestRefused
from fleet.hub.apply import patches
from fleet.hub.apply.patches import json_patch
from fleet.hub.listwatch import watches
from fleet.hub.listwatch.selectors import ObjectSelector
from fleet.hub.listwatch.watches import Watch
from fleet.hub.schema.cel.budget import BUDGET, SPENT
from fleet.hub.schema.cel.rules import compile_rules
from fleet.hub.schema.field_errors import SchemaFinding
from fleet.hub.schema.patterns import compile_pattern
from fleet.hub.storage import store as storing
from fleet.hub.storage.entries import encode_entry
from fleet.hub.wire.bodies import decode_object
from fleet.hub.wire.options import ListOptions
from fleet.nesting import is_nested_deeper
from tests.unit.hub.asking import CONFIG_MAPS, DEFINITIONS, THINGS, Asker, a_config_map, a_definition, a_thing

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


# --- patches ----------------------------------------------------------------------------------------------------------


def doublings(count: int) -> list[dict[str, Any]]:
    begin = {"op": "add", "path": "/data", "value": {"a": "x" * 1000}}
    return [begin, *({"op": "copy", "from": "/data", "path": f"/data/b{number}"} for number in range(count))]


def test_a_small_patch_does_not_multiply_an_object(ask: Asker) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a", kept="1"))
    refused = ask("PATCH", f"{CONFIG_MAPS}/a", doublings(40), media_type=JSON_PATCH)
    assert refused.refusal[:2] == (422, "Invalid")
    assert ask("GET", f"{CONFIG_MAPS}/a").json["data"] == {"kept": "1"}


def test_copies_within_the_bound_are_made() -> None:
    assert len(json_patch({}, doublings(5))["data"]) == 6


def test_a_copy_beyond_the_bound_is_not_made() -> None:
    with pytest.raises(PatchError, match="the copy operations of the patch add more than") as raised:
        json_patch({}, doublings(13))  # 8 MB
    assert raised.value.is_unprocessable


def test_copies_do_not_nest_without_end() -> None:
    deeper = [{"op": "copy", "from": "/a", "path": "/a/b"}, {"op": "move", "from": "/a/b", "path": "/c"}]
    nest: list[dict[str, Any]] = [{"op": "add", "path": "/a", "value": {}}]
    for _ in range(2000):
        nest += [*deeper, {"op": "add", "path": "/a", "value": {}}, {"op": "move", "from": "/c", "path": "/a/d"}]
    with pytest.raises(PatchError) as raised:
        json_patch({}, nest)
    assert raised.value.is_unprocessable


def test_long_lists_are_not_shifted_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "MOST_SHIFTED", 1000)
    document = {"list": [0] * 300}
    insert, append = {"op": "add", "path": "/list/0", "value": 1}, {"op": "add", "path": "/list/-", "value": 1}
    assert len(json_patch(document, [insert] * 3)["list"]) == 303
    assert len(json_patch(document, [append] * 100)["list"]) == 400
    with pytest.raises(PatchError, match="long lists"):
        json_patch(document, [insert] * 4)


def test_yaml_that_takes_long_to_load_is_refused(ask: Asker) -> None:
    head = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    accepted = ask("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", head + b"data: {a: b}\n", media_type=APPLY)
    assert accepted.code == 201
    for body, text in [
        (b"data: [" + b"[]," * 60_000 + b"]", "send the object as JSON"),
        (b"data: " + b"[" * 100_000, "nested more than"),
        (b"data: &a {}\nbinaryData: *a\n", "aliases are not accepted"),
    ]:
        refused = ask("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", head + body, media_type=APPLY).refusal
        assert (refused[0], text in refused[2]) == (400, True), refused


@pytest.mark.parametrize("siblings", [0, 1_000])
def test_documents_are_nested_300_levels_deep_at_most(siblings: int) -> None:
    """With brackets in texts that seem to end levels, or to begin some."""

    def of_depth(deepest: int) -> bytes:
        nested = b'["]}[{",' * (deepest - 2) + b"0" + b"]" * (deepest - 2)
        return b'{"list":[' + b'{"text":["[{"]},' * siblings + nested + b"]}"

    assert len(decode_object(of_depth(300), expected="Thing")["list"]) == siblings + 1
    with pytest.raises(RequestRefused, match="nested more than 300 levels deep"):
        decode_object(of_depth(301), expected="Thing")


def test_the_last_level_of_a_document_is_not_visited_unless_it_may_be_too_deep() -> None:
    class Leaf(dict[str, Any]):
        def values(self) -> Any:
            raise AssertionError("it was visited")

    document = {"list": [Leaf() for _ in range(1_000)]}

    assert not is_nested_deeper(document, 300, containers=1_002)
    with pytest.raises(AssertionError):
        is_nested_deeper(document, 300)


# --- objects ----------------------------------------------------------------------------------------------------------


def of_size(name: str, size: int) -> dict[str, Any]:
    return a_config_map(name, text="x" * size)


def test_objects_are_as_large_as_in_etcd_at_most(ask: Asker) -> None:
    with_schema(ask, {"type": "object", "properties": {"n": {"type": "string"}}})
    assert ask("POST", THINGS, a_thing("fits", n="x" * 1500 * 1024)).code == 201
    refused = ask("POST", THINGS, a_thing("large", n="x" * 1536 * 1024)).refusal
    assert refused[:2] == (413, "RequestEntityTooLarge")
    assert "the limit is 1572864" in refused[2]
    assert ask.names(THINGS) == ["fits"]


def test_an_object_that_is_too_large_since_long_can_shrink_and_go(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a", text="x" * 2000))
    ask("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": ["example.com/wait"]}}, media_type=MERGE)
    monkeypatch.setattr(storing, "LARGEST_OBJECT", 1000)
    larger = ask("PATCH", f"{CONFIG_MAPS}/a", {"data": {"more": "y" * 100}}, media_type=MERGE)
    assert larger.code == 413
    smaller = ask("PATCH", f"{CONFIG_MAPS}/a", {"data": {"text": "x" * 1500}}, media_type=MERGE)
    assert smaller.code == 200
    assert ask("DELETE", f"{CONFIG_MAPS}/a").code == 200
    ask("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, media_type=MERGE)
    assert ask.names(CONFIG_MAPS) == []


# --- rules and patterns -----------------------------------------------------------------------------------------------


def with_schema(ask: Asker, spec: dict[str, Any]) -> None:
    definition = a_definition()
    version = definition["spec"]["versions"][0]
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    del version["subresources"], version["additionalPrinterColumns"]
    assert ask("POST", DEFINITIONS, definition).code == 201


def of_numbers(rule: str) -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": "integer"}}
    return {"type": "object", "properties": {"n": numbers}, "x-kubernetes-validations": [{"rule": rule}]}


@pytest.mark.cel
def test_a_rule_that_takes_too_many_steps_is_an_error_of_the_object(ask: Asker) -> None:
    with_schema(ask, of_numbers("self.n.all(a, self.n.all(b, a + b >= 0))"))
    refused = ask("POST", THINGS, a_thing("a", n=list(range(300)))).refusal
    assert refused[:2] == (422, "Invalid")
    assert "no further validation rules will be run due to call cost exceeds limit for rule: self.n.all" in refused[2]
    assert ask("POST", THINGS, a_thing("a", n=list(range(30)))).code == 201


@pytest.mark.cel
@pytest.mark.parametrize(
    "rule, most",
    [
        ("self.n.all(a, (self.n + self.n).size() > 0)", 5_000),
        ("self.n.all(a, a in self.n)", 9_990),
        ("self.n.map(a, a).size() > 0", 9_990),
        ("cel.bind(n, self.n, self.n.all(a, a in n))", 9_990),
        ("self.n.all(a, a >= 0 && '.map(self)' != '')", 9_999),
    ],
)
def test_a_loop_whose_steps_read_all_of_a_large_object_is_not_begun(rule: str, most: int) -> None:
    small, large = list(range(100)), list(range(most + 100))
    assert findings(of_numbers(rule), {"n": small}) == []
    (error,) = findings(of_numbers(rule), {"n": large})
    assert "call cost exceeds limit for rule: " in error


@pytest.mark.cel
@pytest.mark.parametrize("rule", ["self.n.filter(a, a > 0).size() > 0", "self . n.map(a, a).size() > 0"])
def test_what_a_loop_copies_is_bounded_by_the_list_that_it_goes_through(rule: str) -> None:
    """Not by what the object has beside: a policy may have megabytes."""
    schema = of_numbers(rule)
    schema["properties"]["others"] = schema["properties"]["n"]
    assert findings(schema, {"n": list(range(100)), "others": list(range(100_000))}) == []
    (error,) = findings(schema, {"n": list(range(10_100)), "others": []})
    assert "call cost exceeds limit for rule: " in error


@pytest.mark.cel
def test_long_texts_count_in_such_loops_too() -> None:
    rule = {"rule": "self.n.all(a, self.t.contains(a))"}
    schema: dict[str, Any] = {"type": "object", "x-kubernetes-validations": [rule]}
    schema["properties"] = {"n": {"type": "array", "items": {"type": "string"}}, "t": {"type": "string"}}
    assert findings(schema, {"n": ["x"] * 10, "t": "x" * 100_000}) == []
    (error,) = findings(schema, {"n": ["x"] * 10, "t": "y" * 1_000_000})
    assert "call cost exceeds limit" in error


@pytest.fixture
def impatient() -> Iterator[list[float]]:
    """A clock by which every look takes a tenth of a second."""
    readings = [0.0]

    def look() -> float:
        readings[0] += 0.1
        return readings[0]

    clock, BUDGET.clock = BUDGET.clock, look
    yield readings
    BUDGET.clock = clock


def findings(schema: dict[str, Any], value: Any) -> list[str]:
    collected: list[SchemaFinding] = []
    check = compile_rules(schema)
    assert check is not None
    check(value, None, None, collected)
    return [str(finding.as_field_error()) for finding in collected]


@pytest.mark.cel
@pytest.mark.usefixtures("impatient")
def test_the_rules_of_one_object_end_when_its_budget_is_spent() -> None:
    item = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= 0"}]}
    schema = {"type": "array", "items": item}
    assert findings(schema, [1, 2, 3]) == []
    assert findings(schema, [-1, *range(100)])[-1].endswith(SPENT)
    assert len(findings(schema, [1] * 1000)) == 1, "it is reported once"


@pytest.mark.cel
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("rule", ["sets.contains(self.n, self.n)", "self.n.all(a, self.n.sum() > a)"])
def test_a_function_that_takes_long_ends_too(rule: str) -> None:
    (error,) = [text for text in findings(of_numbers(rule), {"n": list(range(1, 90))}) if "rule:" in text]
    assert SPENT in error


@pytest.mark.cel
@pytest.mark.parametrize(
    "rule",
    [
        "self.find('(a+)+b') == ''",
        "self.find('a?a?a?a?a?aaaaa') == ''",
        "self.find('(a|a)(a|a)(a|a)b') == ''",
        "self.findAll('a*a*b').size() == 0",
        "self.isInteger()",
        "self.sign() == 1",
    ],
)
def test_functions_on_hostile_texts_are_refused(rule: str) -> None:
    schema = {"type": "string", "x-kubernetes-validations": [{"rule": rule}]}
    (error,) = findings(schema, "1e999999999" if "find" not in rule else "a" * 100_000)
    assert "rule: " in error


@pytest.mark.cel
@pytest.mark.parametrize(
    "pattern, text, matches",
    [
        ("^[a-z]*[a-z]*$", "a" * 2_000_000 + "!", False),
        ("^" + "a?" * 40 + "a" * 40 + "$", "a" * 40, True),
        ("^(a|b|ab)*$", "ab" * 100_000 + "!", False),
        ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a" * 2_000_000 + "!", False),
        ("(x+x+)+y", "x" * 100_000, False),
    ],
)
def test_patterns_take_linear_time(pattern: str, text: str, matches: bool) -> None:  # noqa: FBT001 - drawn
    assert bool(compile_pattern(pattern)(text)) == matches


# --- changes and watchers ---------------------------------------------------------------------------------------------


def test_what_is_kept_of_many_changes_fits_beside_the_objects_in_the_memory_of_a_laptop(ask: Asker) -> None:
    """The bound itself: thousands of changes of large objects would be gigabytes."""
    ask("POST", f"{CONFIG_MAPS}", a_config_map("a"))
    for number in range(50):
        ask("PUT", f"{CONFIG_MAPS}/a", a_config_map("a", n=str(number), text="x" * 900_000))

    kept = sum(change.size for collection in ask.hub.store.collections for change in collection.changes)
    assert kept <= 32 * 1024 * 1024


def test_a_watcher_that_is_behind_takes_no_more_changes_at_once_than_it_was_given(ask: Asker) -> None:
    ask("POST", f"{CONFIG_MAPS}", a_config_map("a"))
    before = ask.hub.store.revision
    for number in range(30):
        ask("PUT", f"{CONFIG_MAPS}/a", a_config_map("a", n=str(number), text="x" * 10_000))
    collection = ask.hub.store.collection("configmaps")

    taken = collection.changes_since(before, most_bytes=100_000)

    assert sum(change.size for change in taken[:-1]) < 100_000 <= sum(change.size for change in taken)
    assert [change.revision for change in taken] == list(range(before + 1, before + 1 + len(taken)))


def test_changes_are_forgotten_by_their_bytes(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "BYTES_KEPT", 100_000)
    store = ask.hub.store
    ask("POST", f"{CONFIG_MAPS}", a_config_map("a"))
    before = store.revision
    ask("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "small"}})
    for number in range(30):
        ask("PUT", f"{CONFIG_MAPS}/a", a_config_map("a", n=str(number), text="x" * 10_000))
    kept = sum(change.size for collection in store.collections for change in collection.changes)
    assert kept == store._bytes_kept <= 100_000
    expired = ask("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={before}").events
    assert [event["object"]["code"] for event in expired] == [410]
    others = ask("GET", f"/api/v1/namespaces/default/secrets?watch=1&timeoutSeconds=1&resourceVersion={before}").events
    assert [event["object"]["metadata"]["name"] for event in others] == ["small"], "other kinds keep their changes"


def test_states_that_cannot_be_listed_any_more_are_not_kept(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "EVENTS_KEPT", 3)
    for number in range(3):
        ask("POST", CONFIG_MAPS, a_config_map(f"c{number}"))
        ask("GET", f"{CONFIG_MAPS}?limit=1&resourceVersionMatch=Exact&resourceVersion={ask.hub.store.revision}")
    collection = ask.hub.store.collection("configmaps")
    assert len(collection._snapshots) == 3
    for number in range(3, 8):
        ask("POST", CONFIG_MAPS, a_config_map(f"c{number}"))
    assert not collection._snapshots


def test_a_long_backlog_is_sent_in_small_chunks(
    ask: Asker, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "_LARGEST_CHUNK", 2000)
    revision = ask.hub.store.revision
    for number in range(20):
        ask("POST", CONFIG_MAPS, a_config_map(f"c{number}", text="x" * (10_000 if number == 7 else 100)))
    kind = ask.hub.registry.find("", "v1", "configmaps")
    assert kind is not None

    async def chunks(revision: str) -> list[bytes]:
        watch = Watch(ask.hub.store, kind, ObjectSelector(), ListOptions(revision=revision, timeout=60))
        sent: list[bytes] = []
        stream = watch.chunks()
        assert isinstance(stream, AsyncGenerator)
        async with aclosing(stream):
            async for chunk in stream:
                sent.append(chunk)
                if b"".join(sent).count(b"\n") == 20:
                    break
        return sent

    for start in (str(revision), ""):
        sent = runner.run(chunks(start))
        assert max(map(len, sent)) <= 2000
        assert b"".join(sent).count(b"\n") == 20


def test_watchers_share_what_they_hold(ask: Asker) -> None:
    """Two slow watchers of one large object hold its bytes once."""
    entry = encode_entry(of_size("a", 100_000) | {"metadata": {"name": "a"}}, 5)
    deleted = storing.StoreChange("configmaps", 6, None, entry)
    assert deleted.body is deleted.body
    kind = ask.hub.registry.find("", "v1", "configmaps")
    assert kind is not None
    watch = Watch(ask.hub.store, kind, ObjectSelector(), ListOptions())
    (line,) = watch._selected_events([deleted])
    assert line[1] is deleted.body


@pytest.mark.parametrize("is_new", [True, False])
def test_watchers_of_a_large_object_take_turns_with_everything_else(
    ask: Asker,
    runner: asyncio.Runner,
    is_new: bool,  # noqa: FBT001 - drawn
) -> None:
    kind = ask.hub.registry.find("", "v1", "configmaps")
    assert kind is not None
    revision = str(ask.hub.store.revision) if is_new else ""
    ask("POST", CONFIG_MAPS, a_config_map("large", text="x" * 900_000))
    turns = [0]

    async def read() -> None:
        watch = Watch(ask.hub.store, kind, ObjectSelector(), ListOptions(revision=revision, timeout=60))
        stream = watch.chunks()
        assert isinstance(stream, AsyncGenerator)
        async with aclosing(stream):
            async for chunk in stream:
                if chunk.endswith(b"\n"):
                    return

    async def count_turns() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def main() -> None:
        counting = asyncio.create_task(count_turns())
        await asyncio.gather(*(read() for _ in range(5)))
        counting.cancel()

    runner.run(main())
    assert turns[0] > 900_000 // watches._LARGEST_CHUNK
