"""Decoding in steps gives what decoding at once gives, and no step is large."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleet.checkpoint import interruptible
from fleet.kube.cache import stepwise
from fleet.kube.cache.stepwise import decode_in_steps, run_steps
from fleet.model.views import Placement, PolicySnapshot
from tests.bench.hostile import SHAPES, build_policy
from tests.pieces import note_pieces

Json = dict[str, Any]
TEXTS = st.sampled_from(["", "a", "some longer text", ",", '"', '","', "},{", "]", "}", "\\", '\\","', "ä"])
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "matchLabels": st.none() | st.dictionaries(TEXTS, TEXTS),
                "matchExpressions": st.lists(
                    st.fixed_dictionaries(
                        {"key": TEXTS, "operator": TEXTS}, optional={"values": st.lists(TEXTS), "more": TEXTS}
                    )
                ),
            },
        ),
        "propertySelector": st.just({"matchExpressions": [{"name": "a", "operator": "Gt", "values": ["1"]}] * 3}),
    },
)
REQUIRED = st.fixed_dictionaries({"clusterSelectorTerms": st.lists(TERMS)})
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "placementType": TEXTS | st.integers(),
        "clusterNames": st.none() | st.lists(TEXTS | st.integers(0, 9)),
        "affinity": st.fixed_dictionaries(
            {
                "clusterAffinity": st.none()
                | st.fixed_dictionaries({"requiredDuringSchedulingIgnoredDuringExecution": REQUIRED})
            }
        ),
        "tolerations": st.lists(st.dictionaries(st.sampled_from(["key", "value", "effect", "other"]), TEXTS)),
        "unheardOf": st.lists(st.dictionaries(TEXTS, TEXTS)),
    },
)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.just(1.5) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner) | st.lists(inner).map(lambda each: each * 3),
)


def run_at_once(text: bytes, kind: Any) -> tuple[Any, int]:
    steps, number = decode_in_steps(text, kind), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, number
        number += 1


def decode(text: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


@pytest.fixture(params=[4, 10, 40, 200])
def small_steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepwise, "_STEP", request.param)
    monkeypatch.setattr(stepwise, "_LONGEST_PIECE", 2 * request.param)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("kind", [PolicySnapshot, Placement])
@given(policy=POLICIES, cut=st.none() | st.integers(0, 400), indented=st.booleans())
@example(policy={"clusterNames": ["a", ",", '","', "b"] * 3}, cut=None, indented=False)
def test_all_documents_are_decoded_as_at_once(kind: Any, policy: Json, cut: int | None, indented: bool) -> None:  # noqa: FBT001
    text = msgspec.json.encode({"metadata": {"name": "web"}, "spec": {"policy": policy}, "status": {"conditions": []}})
    text = msgspec.json.format(text, indent=1) if indented else text
    text = text[:cut]
    expected = decode(text, kind)
    if expected is not None:
        assert run_at_once(text, kind)[0] == expected
        return
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError, TypeError)):
        run_at_once(text, kind)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(
    "options", [{}, {"separators": (",", ":")}, {"indent": 1}], ids=["blanks", "tight", "indented"]
)
@given(value=VALUES, cut=st.none() | st.integers(0, 200), more=st.sampled_from(["", " ", "]", "}", ","]))
@example(value=[{"a": 1, "b": [",", '"']}] * 9, cut=None, more="")
@example(value=dict.fromkeys(map(str, range(50)), "x,"), cut=None, more="")
@example(value=[[1, 2], [3]] * 20, cut=None, more="")
def test_untyped_values_are_decoded_as_at_once(options: Any, value: Any, cut: int | None, more: str) -> None:
    text = (json.dumps(value, **options)[:cut] + more).encode()
    try:
        expected = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
            run_steps(decode_in_steps(text, Any))
        return
    assert json.dumps(run_steps(decode_in_steps(text, Any))) == json.dumps(expected)


@pytest.mark.parametrize(
    "text",
    [
        b"\x0b" + msgspec.json.encode({"a": "x" * 200}),
        msgspec.json.encode({"a": "x" * 200}) + b"\x0c",
        b"{" + b" " * 400 + b',"a":1}',
        b"[" + b"1," * 200 + b"]",
        b'{"a":1' + b" " * 400 + b",}",
    ],
)
@pytest.mark.usefixtures("small_steps")
def test_blanks_and_commas_make_no_value(text: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        run_steps(decode_in_steps(text, Any))


@pytest.mark.parametrize("opening, closing", [(b'{"a":', b"}"), (b"[", b"]")], ids=["mappings", "lists"])
def test_what_is_nested_deeply_is_read_a_few_times_only(
    opening: bytes, closing: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, read = 200_000, list[int]()
    for name in ("read_fields", "_read_items"):
        monkeypatch.setattr(stepwise, name, partial(note_size, getattr(stepwise, name), read))
    text = opening * 400 + b'"' + b"x" * size + b'"' + closing * 400

    assert run_steps(decode_in_steps(text, Any)) == msgspec.json.decode(text)
    assert len(read) == stepwise._DEEPEST


def note_size(call: Any, sizes: list[int], text: bytes) -> Any:
    sizes.append(len(text))
    return call(text)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_step_decodes_more_than_a_piece(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = note_pieces(monkeypatch)
    policy = build_policy(shape, None, most_bytes=700_000)
    text = msgspec.json.encode({"metadata": {"name": "web"}, "spec": {"policy": policy}})
    for kind in (PolicySnapshot, Any):
        value, steps = run_at_once(text, kind)
        passed = Counter[str]()
        with interruptible(partial(passed.update, ["checkpoint"])):
            assert run_steps(decode_in_steps(text, kind)) == value
        assert passed["checkpoint"] == steps
        assert value == msgspec.json.decode(text, type=kind)
        assert max(decoded) <= stepwise._LONGEST_PIECE
        assert steps > 10
