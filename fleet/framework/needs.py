"""Requests of a placement by row: what is requested per node counts as often as a cluster has nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fleet.framework.request import PlacementRequest
from fleet.model.keys import NODE_COUNT
from fleet.snapshot.columns.bitset import Int64Array
from fleet.snapshot.frame import Frame

_MOST_NODES: Final = 2**20


def read_amounts(req: PlacementRequest, frame: Frame) -> dict[str, Int64Array]:
    """By resource, of every row; a cluster that does not report its nodes counts as one."""
    needs = req.needs
    amounts = {name: np.full(frame.size, amount, dtype=np.int64) for name, amount in needs.fixed.items()}
    if needs.per_node:
        reported = frame.property(NODE_COUNT).values
        nodes = np.clip(np.where(np.isnan(reported), 1.0, reported), 0, _MOST_NODES).astype(np.int64)
        for name, amount in needs.per_node.items():
            amounts[name] = amounts.get(name, 0) + nodes * amount
    return amounts


def read_row(req: PlacementRequest, frame: Frame, row: int | None) -> Mapping[str, int]:
    """Of one row; of a cluster with one node where there is no row."""
    if row is None or not req.node_requests:
        return req.needs.on(1)
    return {name: int(amounts[row]) for name, amounts in read_amounts(req, frame).items()}
