"""Properties that are computed once, and wait for nothing."""

from __future__ import annotations

import threading

from fleet.cached import cached_property

SOON = 60.0


class Report:
    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.computed = 0

    @cached_property
    def text(self) -> str:
        """What it says."""
        self.begun.set()
        self.may_end.wait(SOON)
        self.computed += 1
        return "done"


def test_it_is_computed_once_and_keeps_its_description() -> None:
    report = Report()
    report.may_end.set()
    assert (report.text, report.text, report.computed) == ("done", "done", 1)
    assert Report.text.__doc__ == "What it says."


def test_nobody_waits_for_the_property_of_another_object() -> None:
    slow, quick = Report(), Report()
    computing = threading.Thread(target=lambda: slow.text)
    computing.start()
    assert slow.begun.wait(SOON)
    quick.may_end.set()
    asking = threading.Thread(target=lambda: quick.text, daemon=True)
    asking.start()
    asking.join(SOON / 2)
    answered = quick.computed
    slow.may_end.set()
    computing.join(SOON)

    assert (answered, slow.computed) == (1, 1)
