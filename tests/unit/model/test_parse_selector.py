"""Selectors in the syntax of kubectl."""

from __future__ import annotations

import pytest

from fleet.errors import InputError
from fleet.model.selectors import matches, parse_selector

LABELS = {"env": "prod", "tier": "web", "region": ""}


@pytest.mark.parametrize(
    "text, want",
    [
        ("env=prod", True),
        ("env==prod,tier=web", True),
        ("env=staging", False),
        ("env!=staging", True),
        ("zone!=a", True),
        ("tier in (web, api)", True),
        ("tier notin (web,api)", False),
        ("zone notin (a)", True),
        ("env", True),
        ("zone", False),
        ("!zone", True),
        ("! env", False),
        ("region=", True),
        ("env in (prod), tier", True),
        ("kubernetes-fleet.io/env", False),
    ],
)
def test_a_selector_selects_as_kubectl_does(text: str, *, want: bool) -> None:
    assert matches(parse_selector(text), LABELS) is want


@pytest.mark.parametrize("text", ["", " ", "a,", ",a", "a=b=c", "a in b", "a in (b", "a in (b))", "=b", "a b", "-a=b"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_selector(text)
