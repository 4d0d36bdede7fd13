from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fleet.framework.operations import build_binding_name

UID = "5d0c1b52-7f6e-4f0e-9a54-0c1f2b7a9e11"
HOLDER = "9a1d7c44-0d2c-4f8e-8a3b-6f1f5a0b2c33"
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
OBJECT_NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,80}[a-z0-9])?", fullmatch=True)


def test_the_worked_example() -> None:
    assert build_binding_name(placement="web", placement_uid=UID, cluster="c7") == "web-c7-029abe88"


def test_the_worked_example_when_the_name_is_held() -> None:
    name = build_binding_name(placement="web", placement_uid=UID, cluster="c7", holder_uid=HOLDER)
    assert name == "web-c7-d6f302cd"


def test_dots_become_dashes() -> None:
    name = build_binding_name(placement="web.shop", placement_uid=UID, cluster="east.prod-1")
    assert name.startswith("web-shop-east-prod-1-")


def test_clusters_that_look_alike_after_sanitising_have_different_names() -> None:
    dotted = build_binding_name(placement="web", placement_uid=UID, cluster="a.b")
    dashed = build_binding_name(placement="web", placement_uid=UID, cluster="a-b")
    assert dotted[:-8] == dashed[:-8]
    assert dotted != dashed


def test_long_names_are_cut_to_the_length_of_a_label() -> None:
    name = build_binding_name(placement="p" * 63, placement_uid=UID, cluster="c" * 63)
    assert name[:-8] == "p" * 26 + "-" + "c" * 27 + "-"
    assert len(name) == 63


def test_leading_dashes_go_before_the_cut() -> None:
    assert build_binding_name(placement="..web", placement_uid=UID, cluster="c").startswith("web-c-")


@given(OBJECT_NAMES, OBJECT_NAMES)
def test_every_object_name_gives_a_valid_label(placement: str, cluster: str) -> None:
    assert LABEL.fullmatch(build_binding_name(placement=placement, placement_uid=UID, cluster=cluster))


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_at_all_gives_a_valid_label(placement: str, cluster: str) -> None:
    assert LABEL.fullmatch(build_binding_name(placement=placement, placement_uid=UID, cluster=cluster))
