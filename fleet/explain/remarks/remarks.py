"""Remarks about a policy: its mistakes, with the names and counts there are instead, and a sentence for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from fleet.checkpoint import check
from fleet.explain.facts.redaction import Redaction
from fleet.explain.remarks.mistakes import FleetNames, Mistake, find_other_mistakes, find_unknown_names
from fleet.explain.remarks.nearest import find_nearest
from fleet.explain.remarks.remark import NameCount, Remark
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest
from fleet.snapshot.frame import Frame

VALUES_SHOWN: Final = 5
MOST_REMARKS: Final = 200


def find_remarks(
    request: PlacementRequest, frame: Frame, profile: CompiledProfile, redaction: Redaction | None = None
) -> tuple[Remark, ...]:
    """The first of them, of very many what follows from the policy alone before unknown names: it may have thousands.
    A name that a redaction hides is neither compared nor mentioned."""
    rows = -1 if redaction is None else ~redaction.rows
    names = find_unknown_names(request, frame, profile, rows=rows)
    if redaction is not None:
        hides = redaction.hides
        names = (name for name in names if name.kind != "unknown-cluster" or not hides(name.subject))
    first_names, others = list(islice(names, MOST_REMARKS)), find_other_mistakes(request, frame, profile, rows=rows)
    further_names = sum(1 for _ in names)
    more = len(first_names) + further_names + len(others) - MOST_REMARKS
    mistakes = (*first_names, *others) if more <= 0 else (*others, *first_names)[:MOST_REMARKS]
    remarks = describe_mistakes(mistakes, frame, rows=rows)
    if more > 0:
        remarks += (Remark(kind="further", field="spec.policy", more=more, message=f"{more} further remarks"),)
    return remarks


def describe_mistakes(mistakes: Sequence[Mistake], frame: Frame, *, rows: int = -1) -> tuple[Remark, ...]:
    describer = _Describer(FleetNames(frame, frame.valid & rows), sees_all=not frame.valid & ~rows)
    return tuple(describer.describe(mistake) for mistake in mistakes)


class _Describer:
    def __init__(self, names: FleetNames, *, sees_all: bool) -> None:
        self._names = names
        self._nowhere = "no cluster" if sees_all else "no cluster that you may read"

    def describe(self, mistake: Mistake) -> Remark:
        check()
        match mistake.kind:
            case "unknown-label":
                return self._describe_label(mistake)
            case "unknown-label-value":
                values = self._names.count_label_values(mistake.subject)
                return self._describe_value(mistake, f"{mistake.subject}={mistake.value}", values)
            case "unknown-property":
                return self._describe_name(mistake, "has property", self._names.properties)
            case "unknown-taint":
                return self._describe_name(mistake, "has taint", self._names.taint_keys)
            case "unknown-taint-value":
                text = f"taint {mistake.subject}={mistake.value}"
                return self._describe_value(mistake, text, self._names.taints[mistake.subject])
            case "unknown-namespace":
                return self._describe_name(mistake, "has namespace", self._names.namespaces)
            case "unknown-cluster":
                return self._describe_cluster(mistake)
        return self._build(mistake, mistake.note)

    def _describe_label(self, mistake: Mistake) -> Remark:
        labels = self._names.labels
        near = find_nearest(mistake.subject, labels) or ""
        parts = [f"{self._nowhere} has label {mistake.subject}{f', so {mistake.note}' if mistake.note else ''}"]
        counts: tuple[NameCount, ...] = ()
        more = 0
        if near:
            parts.append(f"did you mean {near}, which is on {self._of(labels[near])}?")
            counts, more = _list_counts(self._names.count_label_values(near))
        return self._build(mistake, "; ".join(parts), near, labels[near], counts, more)

    def _describe_name(self, mistake: Mistake, has: str, known: Counter[str]) -> Remark:
        near = find_nearest(mistake.subject, known) or ""
        hint = f"; did you mean {near}, which is on {self._of(known[near])}?" if near else ""
        return self._build(mistake, f"{self._nowhere} {has} {mistake.subject}{hint}", near, known[near])

    def _describe_value(self, mistake: Mistake, text: str, known: Counter[str]) -> Remark:
        near = find_nearest(mistake.value, known) or ""
        counts, more = _list_counts(known)
        listed = ", ".join([f"{count.value or '(empty)'} {count.clusters}" for count in counts])
        parts = [f"{self._nowhere} has {text}", f"{mistake.subject} has {listed}{f' and {more} more' if more else ''}"]
        parts += [f"did you mean {near}?"] if near else []
        return self._build(mistake, "; ".join(parts), near, known[near], counts, more)

    def _describe_cluster(self, mistake: Mistake) -> Remark:
        near = self._names.cluster_names.find_nearest(mistake.subject) or ""
        hint = f"; did you mean {near}?" if near else ""
        return self._build(mistake, f"{self._nowhere} is named {mistake.subject}{hint}", near, int(bool(near)))

    def _of(self, count: int) -> str:
        return f"{count} of {self._names.clusters}"

    def _build(
        self,
        mistake: Mistake,
        message: str,
        near: str = "",
        near_clusters: int = 0,
        counts: tuple[NameCount, ...] = (),
        more: int = 0,
    ) -> Remark:
        return Remark(
            kind=mistake.kind,
            field=mistake.field,
            subject=mistake.subject,
            value=mistake.value,
            near=near,
            near_clusters=near_clusters if near else 0,
            counts=counts,
            more=more,
            clusters=self._names.clusters,
            message=message,
        )


def _list_counts(values: Counter[str]) -> tuple[tuple[NameCount, ...], int]:
    """The most frequent first, then by name; and how many are left out."""
    ordered = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    return tuple(NameCount(*item) for item in ordered[:VALUES_SHOWN]), max(len(ordered) - VALUES_SHOWN, 0)


def describe_unknown_object(field: str, kind: str, name: str, known: Iterable[str]) -> Remark:
    """A selected object that the hub does not have. `known` are the names of this kind that it has."""
    near = find_nearest(name, known) or ""
    hint = f"; did you mean {near}?" if near else ""
    message = f"the hub has no {kind} named {name}, so nothing is selected by it{hint}"
    return Remark(kind="unknown-object", field=field, subject=f"{kind} {name}", near=near, message=message)
