"""A merge patch between two documents makes the one out of the other, and says nothing when they are equal."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.objects import build_merge_patch

names = st.sampled_from(["a", "b", "c/d"])
scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.text(max_size=2))
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(names, inner)), max_leaves=6
)
documents = st.dictionaries(names, values)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@given(old=documents, new=documents)
def test_a_patch_between_two_documents_leads_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merged(old, build_merge_patch(old, new)) == new


@given(document=documents)
def test_nothing_is_sent_when_nothing_differs(document: dict[str, Any]) -> None:
    assert build_merge_patch(document, document) == {}
