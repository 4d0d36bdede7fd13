"""Of a large document only what differs from the known one is decoded, and the result is that of decoding all of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet.errors import UnreadableAnswer
from fleet.kube.cache.large_documents import LARGE
from fleet.kube.cache.reflector import Reflector
from fleet.kube.cache.store import Store, build_codec
from fleet.kube.objects import Objects
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.views import Observed, Placement, PolicySnapshot, View
from fleet.operator.operator import NamedObject
from tests.fake_hub import Answered, FakeHub
from tests.faults.scripted import ScriptedApi
from tests.faults.virtual import VirtualClock, virtual

Json = dict[str, Any]
T = TypeVar("T")

POLICY: Json = {
    "placementType": "PickFixed",
    "clusterNames": [f"cluster-{number:06}" for number in range(LARGE // 10)],
}
BOTH = pytest.mark.parametrize("kind", [Placement, PolicySnapshot])


def a_document(version: int, *, name: str = "web", status: object = None, policy: Json = POLICY) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Any",
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)},
        "spec": {"policy": policy},
        "status": {"conditions": [{"type": "Scheduled", "status": "True"}]} if status is None else status,
    }


def encode(document: Json) -> bytes:
    return msgspec.json.encode(document)


def a_store(kind: type[View], *documents: bytes) -> Store[Observed[Any]]:
    store: Store[Observed[Any]] = Store(build_codec(kind))
    for document in documents:
        store.apply_event(read(store, document))
    return store


def decoded(kind: type[View], document: bytes, present: Observed[Any]) -> Observed[Any]:
    """As a whole. Where its spec is does not matter."""
    return replace(build_codec(kind).read(document), spec_span=present.spec_span)


def read(store: Store[Observed[Any]], document: bytes) -> Observed[Any]:
    return follow(store.read(document))[0]


def follow(steps: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """What comes out, and after how many turns of an event loop."""
    turns = 0
    while True:
        try:
            steps.send(None)
        except StopIteration as end:
            return end.value, turns
        turns += 1


def is_same_spec(one: Observed[Any], other: Observed[Any]) -> bool:
    return one.view.spec.policy is other.view.spec.policy


def test_a_policy_that_is_known_is_not_decoded_again() -> None:
    store = a_store(PolicySnapshot, encode(a_document(1)))
    changed = encode(a_document(2, status={"observedCRPGeneration": 7}))

    changed_one = read(store, changed)

    assert changed_one == decoded(PolicySnapshot, changed, changed_one)
    assert changed_one.view.status.observed_crp_generation == 7
    assert changed_one.raw is changed
    assert is_same_spec(changed_one, store.get("web"))  # type: ignore[arg-type]


def test_others_have_their_turn_while_a_new_policy_is_decoded() -> None:
    store = a_store(PolicySnapshot)
    document = encode(a_document(1))
    present, turns = follow(store.read(document))

    assert present == Observed(msgspec.json.decode(document, type=PolicySnapshot), document, present.spec_span)
    assert turns > 3
    store.apply_event(present)
    assert follow(store.read(encode(a_document(2))))[1] == 0


def test_a_list_of_a_server_that_was_set_back_changes_only_what_is_another_object() -> None:
    documents = [encode(a_document(version, name=name)) for version, name in ((1, "web"), (2, "shop"))]
    store, told = a_store(PolicySnapshot, *documents), list[str]()
    store.subscribe(lambda _, new: told.append(new.view.metadata.name if new else ""))
    told.clear()
    relist = store.relist()
    relist.begin("1")
    for document in (documents[0], encode(a_document(1, name="shop"))):
        relist.add(read(store, bytes(bytearray(document))))
    relist.end()

    assert told == ["shop"]


def test_one_change_after_the_other_is_read_around_the_first_spec() -> None:
    store = a_store(PolicySnapshot, *(encode(a_document(version)) for version in (1, 2)))
    first = store.get("web")
    store.apply_event(read(store, encode(a_document(3))))

    assert is_same_spec(store.get("web"), first)  # type: ignore[arg-type]


def test_a_spec_that_is_kept_as_text_does_not_keep_the_former_document() -> None:
    first = encode(a_document(1))
    store = a_store(Placement, first)
    store.apply_event(read(store, encode(a_document(2))))

    assert sys.getrefcount(first) == 2  # the variable, and the argument
    present = store.get("web")
    assert present is not None
    assert present == decoded(Placement, encode(a_document(2)), present)


@BOTH
def test_another_spec_is_decoded(kind: type[View]) -> None:
    store = a_store(kind, encode(a_document(1)))
    longer = {**POLICY, "clusterNames": [*POLICY["clusterNames"], "one-more"]}
    same_length = {**POLICY, "clusterNames": [*POLICY["clusterNames"][:-1], "cluster-other"]}
    for policy in (longer, same_length):
        document = encode(a_document(2, policy=policy))
        present = read(store, document)
        assert present == decoded(kind, document, present)


@BOTH
def test_another_object_with_the_same_spec_is_decoded_as_a_whole(kind: type[View]) -> None:
    store = a_store(kind, encode(a_document(1)))
    other = encode(a_document(2, name="other"))
    present = read(store, other)
    assert present == decoded(kind, other, present)


def odd_documents() -> dict[str, bytes]:
    document, spec = a_document(2), {"policy": POLICY}
    text, written, metadata = encode(document), encode(spec), document["metadata"]
    head = b'{"metadata":' + encode(metadata)
    other = encode({"policy": {**POLICY, "clusterNames": [*POLICY["clusterNames"][:-1], "cluster-other"]}})
    labels = {**metadata, "labels": {"a": "b", "spec": "c"}}
    noted = {**metadata, "annotations": {"a": ',"spec":{"policy":{}}'}}
    return {
        "spec first": encode({"spec": spec, **document}),
        "status first": encode({"metadata": metadata, "status": {}, "spec": spec}),
        "a label named spec": encode({**document, "metadata": labels}),
        "an annotation with a spec": encode({**document, "metadata": noted}),
        "a spec within metadata": encode({**document, "metadata": {**metadata, "a": 1, "spec": spec}}),
        "a spec within something": head + b',"a":{"a":1,"spec":%b},"spec":%b}' % (other, written),
        "a spec within the status": b'{"spec":%b,' % other + head[1:] + b',"status":{"a":1,"spec":%b}}' % written,
        "indented": msgspec.json.format(text, indent=2),
        "nulls": encode({**document, "status": None}),
        "no spec": encode(
            {name: part for name, part in document.items() if name != "spec"} | {"more": written.decode()}
        ),
        "two specs": text[:-1] + b',"spec":{"policy":{"placementType":"PickAll"}}}',
        "two specs of one length": head + b',"spec":%b,"spec":%b}' % (written, other),
        "an empty spec as well": text[:-1] + b',"spec":{}}',
        "an escaped spec as well": text[:-1] + b',"sp\\u0065c":{}}',
        "no metadata": encode({name: part for name, part in document.items() if name != "metadata"}),
        "metadata again": text[:-1] + b',"metadata":{"name":"other"}}',
        "namespaced": encode({**document, "metadata": {**metadata, "namespace": "shop"}}),
    }


@BOTH
@pytest.mark.parametrize("form", odd_documents())
def test_documents_in_other_forms_are_read_as_ever(kind: type[View], form: str) -> None:
    """After one of the usual form, and the other way round."""
    odd, usual = odd_documents()[form], encode(a_document(1))
    assert len(odd) >= LARGE
    for earlier, document in ((usual, odd), (odd, odd), (odd, usual)):
        store: Store[Observed[Any]] = Store(build_codec(kind))
        store._objects["web"] = read(store, earlier)
        present = read(store, document)
        assert present == decoded(kind, document, present)


@BOTH
@pytest.mark.parametrize(
    "end",
    [b"", b"}}", b",", b"]}", b',"status":}', b',"status":1}', b',"a":"\xff"}', b',"a":' + b"[" * 10_000],
    ids=repr,
)
def test_what_is_broken_after_the_spec_is_broken_as_ever(kind: type[View], end: bytes) -> None:
    store = a_store(kind, encode(a_document(1)))
    text = encode(a_document(2))
    broken = text[: text.index(b',"status"')] + end
    assert error_of(lambda: read(store, broken)) == error_of(lambda: build_codec(kind).read(broken))


@pytest.mark.parametrize("text", [b"\xff", b"[" * 100_000], ids=["not UTF-8", "nested"])
def test_metadata_that_cannot_be_read_are_an_error_as_ever(text: bytes) -> None:
    store = a_store(PolicySnapshot, encode(a_document(1)))
    broken = encode(a_document(2)).replace(b'"name":"web"', b'"name":"web","annotations":{"a":%b}' % text)
    assert error_of(lambda: read(store, broken)) == error_of(lambda: build_codec(PolicySnapshot).read(broken))


def error_of(function: Callable[[], object]) -> str:
    """Nothing where there is none."""
    try:
        function()
    except Exception as error:
        return repr(error)
    return ""


def test_a_view_without_a_spec_is_read_as_a_whole() -> None:
    store = a_store(NamedObject, encode(a_document(1)))
    document = encode(a_document(2))
    assert read(store, document) == build_codec(NamedObject).read(document)


_VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.sampled_from(["", '"', ',"spec":', "spec", "{}"]),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.sampled_from(["spec", "status", "a"]), parts),
    max_leaves=8,
)


@BOTH
@given(
    parts=st.permutations(["metadata", "spec", "status", "more"]),
    more=_VALUES,
    counts=st.lists(st.integers(0, 3), min_size=2, max_size=4),
)
def test_any_two_documents_are_read_as_if_there_were_no_store(
    kind: type[View], parts: list[str], more: object, counts: list[int]
) -> None:
    store = a_store(kind)
    for version, count in enumerate(counts):
        whole = {**a_document(version, policy={**POLICY, "numberOfClusters": count}), "more": more}
        document = encode({part: whole[part] for part in parts})
        present = read(store, document)
        assert present == decoded(kind, document, present)
        store.apply_event(present)


# --- the watch --------------------------------------------------------------------------------------------------------


def a_reflector(store: Store[Observed[Any]]) -> Reflector[Observed[Any]]:
    api = ScriptedApi.__new__(ScriptedApi)  # never asked
    return Reflector(api, CLUSTER_SCOPED.policy_snapshot, store, clock=VirtualClock(), jitter=lambda: 0.5)


def a_line(kind: str, document: bytes) -> bytes:
    return b'{"type":"%b","object":%b}' % (kind.encode(), document)


@virtual
async def test_events_of_large_objects_are_those_of_all_others() -> None:
    store = a_store(PolicySnapshot)
    reflector, told = a_reflector(store), list[tuple[bool, bool]]()
    store.subscribe(lambda old, new: told.append((old is not None, new is not None)))
    for kind, version in (("ADDED", 1), ("MODIFIED", 2), ("DELETED", 3)):
        await reflector._apply_lines(iter([a_line(kind, encode(a_document(version)))]))
        assert store.version == str(version)

    assert told == [(False, True), (True, True), (True, False)]
    assert reflector.counts.events == 3
    assert not len(store)


@virtual
async def test_an_own_write_is_read_around_the_spec() -> None:
    store = a_store(PolicySnapshot, encode(a_document(1)))
    first = store.get("web")
    hub = FakeHub(lambda _: Answered(encode(a_document(2, status={"observedCRPGeneration": 7}))))
    objects = Objects(hub, CLUSTER_SCOPED.policy_snapshot, store.codec, store=store)

    written = await objects.merge_patch("web", {"status": {}}, subresource="status")

    assert written.view.status.observed_crp_generation == 7
    assert is_same_spec(written, first)  # type: ignore[arg-type]
    assert store.get("web") is written


@virtual
async def test_a_deleted_object_in_another_form_is_deleted() -> None:
    store = a_store(PolicySnapshot, encode(a_document(1)))
    reflector = a_reflector(store)
    await reflector._apply_lines(iter([a_line("DELETED", odd_documents()["indented"].replace(b"\n", b""))]))
    assert not len(store)


@virtual
@pytest.mark.parametrize(
    "old, new",
    [(b'"name":"web",', b""), (b'"placementType"', b"@@@"), (b"}]", b"")],
    ids=["without a name", "not JSON", "cut off"],
)
async def test_a_broken_event_of_a_deleted_object_ends_the_watch(old: bytes, new: bytes) -> None:
    store = a_store(PolicySnapshot, encode(a_document(1)))
    line = a_line("DELETED", encode(a_document(2)).replace(old, new))
    with pytest.raises(UnreadableAnswer):
        await a_reflector(store)._apply_lines(iter([line]))
    assert len(store)
