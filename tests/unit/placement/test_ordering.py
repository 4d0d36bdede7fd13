from __future__ import annotations

import random

from fleet.placement.selection.ordering import sort_position


def key(api_version: str, kind: str, name: str = "x", namespace: str = "") -> tuple[int, str, str]:
    return sort_position(api_version=api_version, kind=kind, namespace=namespace, name=name)


IN_ORDER = [
    key("scheduling.k8s.io/v1", "PriorityClass"),
    key("v1", "Namespace", "a"),
    key("v1", "Namespace", "b"),
    key("v1", "ConfigMap", "b", "a"),
    key("v1", "ConfigMap", "a", "b"),
    key("v1", "PersistentVolumeClaim", "x", "a"),
    key("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    key("serving.example.com/v1", "Service", "x", "a"),
    key("v1", "Service", "x", "a"),
    key("apps/v1", "Deployment", "x", "a"),
    key("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    key("v1", "Binding", "x", "a"),
    key("a.example.com/v1", "Zebra"),
    key("b.example.com/v1", "Ant"),
    key("b.example.com/v1", "Bee", "a"),
    key("b.example.com/v1", "Bee", "a", "a"),
]


def test_known_kinds_by_rank_then_unknown_ones_by_group_version_and_kind() -> None:
    shuffled = list(IN_ORDER)
    random.Random(7).shuffle(shuffled)
    assert sorted(shuffled) == IN_ORDER


def test_ranks_end_with_the_last_known_kind() -> None:
    assert key("scheduling.k8s.io/v1", "PriorityClass")[0] == 0
    assert key("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")[0] == 31
    assert key("example.com/v1", "Widget")[0] == 32
