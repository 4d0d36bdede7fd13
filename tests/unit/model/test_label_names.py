from __future__ import annotations

import pytest

from fleet.model.labels import is_label_value, is_qualified_name, is_subdomain


@pytest.mark.parametrize("text", ["a", "A-b_c.d", "0", "example.com/name", "a.b-c/X_1", "x" * 63, "y" * 253 + "/x"])
def test_label_keys_that_kubernetes_accepts(text: str) -> None:
    assert is_qualified_name(text)


@pytest.mark.parametrize(
    "text",
    ["", "/", "/name", "example.com/", "a/b/c", "-a", "a-", "a b", "Example.com/x", "a..b/x", "x" * 64, "é", "a\n"],
)
def test_label_keys_that_kubernetes_refuses(text: str) -> None:
    assert not is_qualified_name(text)


@pytest.mark.parametrize("text", ["", "a", "A.b", "x" * 63])
def test_label_values_that_kubernetes_accepts(text: str) -> None:
    assert is_label_value(text)


@pytest.mark.parametrize("text", ["-", "a/b", "x" * 64, "a ", "_a"])
def test_label_values_that_kubernetes_refuses(text: str) -> None:
    assert not is_label_value(text)


def test_subdomains_are_lower_case_names_between_dots() -> None:
    assert is_subdomain("east-1.prod")
    assert not any(map(is_subdomain, ["", "A", "a_b", "a.", ".a", "-a", "a.-b"]))


def test_a_subdomain_has_at_most_253_characters() -> None:
    assert is_subdomain("a" * 253)
    assert not is_subdomain("a" * 254)
