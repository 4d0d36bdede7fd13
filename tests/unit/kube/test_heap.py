"""The heap from which any key can be taken out."""

from __future__ import annotations

import random

from fleet.kube.workqueue import KeyHeap


def drained(heap: KeyHeap[str]) -> list[str]:
    found = []
    while (key := heap.pop()) is not None:
        found.append(key)
    return found


def test_keys_come_out_by_order_and_equals_as_they_went_in() -> None:
    heap: KeyHeap[str] = KeyHeap()
    for key, order in [("late", 2), ("y", 1), ("x", 1), ("early", 0)]:
        heap.push(key, order)
    assert drained(heap) == ["early", "y", "x", "late"]


def test_a_key_that_is_pushed_again_has_its_new_order_only() -> None:
    heap: KeyHeap[str] = KeyHeap()
    for key, order in [("a", 1), ("b", 2), ("a", 3)]:
        heap.push(key, order)
    assert len(heap) == 2
    assert heap.first_order() == 2
    assert drained(heap) == ["b", "a"]


def test_a_discarded_key_does_not_come_out() -> None:
    heap: KeyHeap[str] = KeyHeap()
    heap.push("a", 1)
    heap.push("b", 2)
    heap.discard("a")
    heap.discard("unknown")
    assert heap.first_order() == 2
    assert drained(heap) == ["b"]


def test_an_empty_heap_has_no_first() -> None:
    heap: KeyHeap[str] = KeyHeap()
    assert (heap.first_order(), heap.pop(), len(heap)) == (None, None, 0)


def test_leftovers_do_not_pile_up() -> None:
    heap: KeyHeap[str] = KeyHeap()
    for number in range(10_000):
        heap.push(f"k{number}", -number)
        heap.discard(f"k{number}")
        heap.push("same", number)
    assert len(heap) == 1
    assert len(heap._heap) <= 50


def test_it_sorts_like_sorting() -> None:
    chance = random.Random(7)
    heap: KeyHeap[str] = KeyHeap()
    orders: dict[str, tuple[int, int]] = {}
    for number in range(2000):
        key = f"k{chance.randrange(300)}"
        if chance.random() < 0.3:
            heap.discard(key)
            orders.pop(key, None)
        else:
            orders[key] = (chance.randrange(50), number)
            heap.push(key, orders[key])
        assert len(heap) == len(orders)
    assert drained(heap) == sorted(orders, key=orders.__getitem__)
