"""Answers of `why` and `why-not` as text: for `Accept: text/plain`, and for the command line on a terminal."""

from __future__ import annotations

import textwrap
from typing import Final

from api.text.groups import describe_group
from api.text.waiting import describe_approvers, list_victims
from api.waiting_models import PreemptingModel
from api.why_models import QueueModel, WhyAnswer
from fleet.explain.answer.rendering import WIDTH, render, render_cluster
from fleet.explain.answer.sentences import format_moment, join_names
from fleet.framework.approvals import PLUGIN
from fleet.text_table import Page, render_table

_EVICTING: Final = "DefaultPreemption"


def render_why(answer: WhyAnswer, *, is_about_cluster: bool = False, page: Page | None = None) -> str:
    """With `is_about_cluster`, the one cluster of the answer with its verdicts."""
    next_step, page = _render_answer_needed(answer) or render_next_step(answer.queue), page or Page()
    if is_about_cluster:
        text = render_cluster(answer, next_step=next_step, fixes_of="placement", page=page)
    else:
        text = render(answer, held=_render_held(answer, page), next_step=next_step, page=page)
    return _render_evaluation(answer, page) + text


def render_why_not(answer: WhyAnswer, *, page: Page | None = None) -> str:
    page = page or Page()
    return _render_evaluation(answer, page) + render_cluster(answer, page=page)


def _render_evaluation(answer: WhyAnswer, page: Page) -> str:
    """The mark of an answer about another scheduler's decision comes first."""
    if answer.evaluation is None:
        return ""
    width = page.width or WIDTH
    return textwrap.fill(answer.evaluation.summary, width, break_long_words=False, break_on_hyphens=False) + "\n\n"


def _render_held(answer: WhyAnswer, page: Page) -> str:
    """What people keep the placement from, and the other members of its group."""
    group = "" if answer.group is None else describe_group(answer.group)
    held = "\n".join(filter(None, (_render_hold(answer, page), group)))
    return "\n\n".join(filter(None, (held, _render_denials(answer, page))))


def _render_denials(answer: WhyAnswer, page: Page) -> str:
    cells = [
        [each.cluster, each.rule, each.by, format_moment(each.at), format_moment(each.until), each.message]
        for each in answer.denials
    ]
    head = ["DENIED", "RULE", "BY", "AT", "UNTIL", "WHY"]
    return render_table(head, cells, width=page.width) if cells else ""


def _render_hold(answer: WhyAnswer, page: Page) -> str:
    if answer.preempting is not None:
        return _render_preempting(answer.preempting, page)
    if answer.gate is not None or answer.waiting is None:
        return _describe_vain(answer)
    cells = [
        [
            target.rule or target.plugin,
            target.cluster,
            format_moment(target.since),
            format_moment(target.deadline) if target.deadline else "answered",
            describe_approvers(target),
            ", ".join(target.approved_by),
        ]
        for target in answer.waiting.waiting
    ]
    head = ["WAITS FOR", "CLUSTER", "SINCE", "UNTIL", "WHO MAY APPROVE", "APPROVED BY"]
    if not any(row[-1] for row in cells):
        head, cells = head[:-1], [row[:-1] for row in cells]
    hidden = answer.waiting.redacted
    lines = [render_table(head, cells, width=page.width)] if cells else []
    lines += [f"waits for approval of clusters you may not read: {hidden}"] if hidden else []
    if not lines:
        lines = [f"chosen, and being prepared: {join_names(answer.waiting.targets, answer.waiting.redacted_targets)}"]
    return "\n".join(lines)


def _describe_vain(answer: WhyAnswer) -> str:
    """Why nothing is evicted for it. Of a group it stands in the message of that."""
    searched = answer.attempt.post_filter
    if answer.gate is not None or answer.group is not None or searched is None or searched.nomination:
        return ""
    return str(answer.attempt.notes.get(_EVICTING, {}).get("preemption", ""))


def _render_preempting(preempting: PreemptingModel, page: Page) -> str:
    cells = [
        [
            each.cluster,
            each.phase,
            format_moment(each.since),
            ", ".join(list_victims(each)) or "nothing",
            "; ".join(f"{budget.placement}: {budget.rule}, {budget.disruptions} may leave" for budget in each.budgets),
        ]
        for each in preempting.clusters
    ]
    lines = (
        [render_table(["ROOM IS MADE ON", "PHASE", "SINCE", "FOR IT LEAVE", "BUDGETS"], cells, width=page.width)]
        if cells
        else []
    )
    if preempting.redacted:
        lines.append(f"room is made on clusters you may not read: {preempting.redacted}")
    return "\n".join(lines)


def _render_answer_needed(answer: WhyAnswer) -> str:
    """Empty, unless a person has to act."""
    if answer.gate is not None and answer.gate.gates:
        commands = ", ".join(f"`fleet gates clear {_name(answer)} {gate}`" for gate in answer.gate.gates)
        return f"{commands} lets it in, for {answer.gate.cleared_by}"
    if answer.waiting is not None and any(target.plugin == PLUGIN for target in answer.waiting.waiting):
        return f"waits for an approver: `fleet approve {_name(answer)}` or `fleet deny {_name(answer)}`"
    return ""


def _name(answer: WhyAnswer) -> str:
    namespace, name = answer.placement.namespace, answer.placement.name
    return f"{namespace}/{name}" if namespace else name


def render_next_step(queue: QueueModel | None) -> str:
    """The next step of the queue, in one line."""
    if queue is None:
        return ""
    match queue.space:
        case "active":
            return "is tried as soon as a worker is free" + (f", after {queue.ahead} others" if queue.ahead else "")
        case "in_flight":
            return "an attempt is under way"
        case "backoff":
            early = ", or earlier if a worker is idle" if queue.early_pop else ""
            return f"is tried again at {_time_of(queue.backoff_until)}{early}"
        case "error":
            return f"is tried again at {_time_of(queue.backoff_until)} or soon after; each failure doubles the wait"
        case "gated":
            message = f": {queue.gate_message}" if queue.gate_message else ""
            return f"waits until {queue.gated_by} lets it in{message}"
        case "unschedulable":
            return f"tried again when {_describe_events(queue)}" + (
                f"; else at {_time_of(queue.flush_by)}" if queue.flush_by else ""
            )
        case "unknown":
            events = _describe_cluster_events(queue)
            return f"tried again when {_describe_events(queue)}. {queue.note}" if events else ""
    return ""


def _describe_events(queue: QueueModel) -> str:
    return "; ".join([*_describe_cluster_events(queue), "the placement is edited"])


def _describe_cluster_events(queue: QueueModel) -> list[str]:
    """Without deletions of clusters, which requeue every placement."""
    cluster_events = [waker for waker in queue.wakes_on if waker.event.startswith("MemberCluster/")]
    return list(dict.fromkeys(waker.when for waker in cluster_events if not waker.event.endswith("/Delete")))


def _time_of(moment: str | None) -> str:
    return format_moment(moment or "")
