"""The embedded hub's lists and watches tell the same story, wherever a client stops reading and starts again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet.hub.access.authentication import Tokens
from fleet.hub.hub import Hub
from fleet.hub.kinds.builtin import NAMESPACES
from fleet.hub.kinds.kind import Kind
from fleet.hub.listwatch.lists import list_page
from fleet.hub.listwatch.selectors import ObjectSelector, parse_label_selector
from fleet.hub.listwatch.watches import Watch
from fleet.hub.wire.options import DeletionOptions, ListOptions, WriteOptions

SELF = WriteOptions(manager="tests")
NAMES = ("a", "b", "c", "d")
HOMES = ("default", "other")

State = dict[tuple[str, str], str]
"""Revisions by namespace and name."""


@dataclass(frozen=True)
class Step:
    """The object is created or changed to have this label, or deleted."""

    home: str
    name: str
    label: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.home, self.name


steps = st.builds(
    Step, home=st.sampled_from(HOMES), name=st.sampled_from(NAMES), label=st.sampled_from(["yes", "yes", "no", None])
)
scripts = st.lists(steps, max_size=30)
selections = st.builds(
    lambda home, selector: ObjectSelector(home, parse_label_selector(selector)),
    st.sampled_from(["", *HOMES]),
    st.sampled_from(["", "on=yes", "on!=yes", "on notin (yes, no)"]),
)


class Story:
    """A hub on which things happen to ConfigMaps."""

    def __init__(self) -> None:
        self.hub = Hub(Tokens({}), clock=lambda: 1_700_000_000.0)
        for home in HOMES:
            self.hub.objects.create(self._kind(NAMESPACES), "", {"metadata": {"name": home}}, SELF)
        self.kind = self._kind("configmaps")

    def _kind(self, plural: str) -> Kind:
        kind = self.hub.registry.find("", "v1", plural)
        assert kind is not None
        return kind

    def tell(self, step: Step) -> None:
        objects = self.hub.objects
        held = objects.head(self.kind, step.key)
        if step.label is None:
            if held is not None:
                objects.delete(self.kind, step.key, DeletionOptions())
            return
        if held is None:
            document = {"metadata": {"name": step.name, "labels": {"on": step.label}}}
            objects.create(self.kind, step.home, document, SELF)
        else:
            document = held.document()
            document["metadata"]["labels"] = {"on": step.label}
            objects.replace(self.kind, held, document | {"data": {"at": str(held.revision)}}, SELF)

    def list(self, selection: ObjectSelector, options: ListOptions | None = None) -> tuple[State, dict[str, str]]:
        found = list_page(self.hub.store, self.kind, selection, options or ListOptions())
        return {entry.key: str(entry.revision) for entry in found.entries}, found.metadata


@dataclass
class Client:
    """Lists once; after that it knows only what watches tell it."""

    story: Story
    selection: ObjectSelector
    held: State = field(default_factory=dict)
    version: str = ""

    def begin(self) -> None:
        self.held, metadata = self.story.list(self.selection)
        self.version = metadata["resourceVersion"]

    def read(self, most: int) -> None:
        """Some lines of a new watch, which is then lost."""
        hub = self.story.hub
        watch = Watch(hub.store, self.story.kind, self.selection, ListOptions(revision=self.version))
        lines: list[bytes] = []
        while changes := watch._take_changes():
            lines += [b"".join(line) for line in watch._selected_events(changes)]
        for line in lines[:most]:
            self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        metadata = event["object"]["metadata"]
        key, version = (metadata["namespace"], metadata["name"]), metadata["resourceVersion"]
        assert int(version) > int(self.version), "nothing comes twice, or in another order"
        self.version = version
        if event["type"] == "DELETED":
            del self.held[key]
        else:
            assert (event["type"] == "MODIFIED") == (key in self.held)
            self.held[key] = version


@given(before=scripts, after=st.lists(st.tuples(steps, st.none() | st.integers(0, 3))), selection=selections)
def test_a_list_is_the_fold_of_the_watch_that_follows_an_older_one(
    before: list[Step], after: list[tuple[Step, int | None]], selection: ObjectSelector
) -> None:
    story = Story()
    for step in before:
        story.tell(step)
    client = Client(story, selection)
    client.begin()
    for step, reads in after:
        story.tell(step)
        if reads is not None:
            client.read(reads)
    client.read(1_000_000)
    assert client.held == story.list(selection)[0]


@given(before=scripts, meanwhile=scripts, selection=selections, limit=st.integers(1, 4))
def test_pages_together_show_one_moment(
    before: list[Step], meanwhile: list[Step], selection: ObjectSelector, limit: int
) -> None:
    story = Story()
    for step in before:
        story.tell(step)
    then, _ = story.list(selection)
    shown, metadata = story.list(selection, ListOptions(limit=limit))
    while "continue" in metadata:
        if meanwhile:
            story.tell(meanwhile.pop())
        more, metadata = story.list(selection, ListOptions(limit=limit, token=metadata["continue"]))
        assert not shown.keys() & more.keys()
        shown |= more
    assert shown == then
