"""The product as an engine of the runner: a scenario goes through its decision function, the outcome into plain JSON.

`run` translates, and decides nothing itself:

* in: the scenario's objects become the views the product reads, its options become the product's settings (the names
  are listed in `tests.oracle.settings`), `placementUid` becomes the UID that names of new bindings depend on;
* out: the operations are applied to the scenario's bindings by sending each operation's own document through a JSON
  merge patch, so that the patches are under test as well; an object whose last finalizer goes while it is terminating
  vanishes; `tests.oracle.reference.described` and `Result` give the rest its shape.

Error classes are `none`, `input` and `transient`. Verdicts are wanted for the clusters that plugins judged (PickAll,
PickN when it schedules) and for the targets of PickFixed; otherwise there are none.
"""

from __future__ import annotations

from tests.oracle.documents import Json
from tests.oracle.reference import Result


def run(scenario: Json) -> Result:
    raise NotImplementedError("the product is not connected yet: use --engine oracle")
