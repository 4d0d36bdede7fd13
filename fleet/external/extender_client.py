"""Client of extenders: asks over HTTP what decisions wait for, with a time-out and a limit on the answer.

The documents are those of kube-scheduler's extenders, with a placement in place of the pod and member clusters in place
of nodes. A failure is an answer, too: it is recorded with the attempt, which ends as the extender is configured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fleet.external.http_client import UnusableAnswer, describe_failure, fetch, shorten
from fleet.framework.profiles.extender import (
    ACCEPTED,
    BIND,
    FILTER,
    GREATEST_PRIORITY,
    PRIORITIZE,
    REFUSAL,
    REJECTED,
    REJECTED_FOR_GOOD,
)
from fleet.framework.types import ExternalQuery, ExternalResult
from fleet.settings.document.extenders import ExtenderDocument

if TYPE_CHECKING:
    from fleet.framework.cycle.cycle import DecisionInput

_NO_REASON: Final = "rejected without a reason"

Observe = Callable[[str, str, str, float], None]
"""Called with extender, verb, result and seconds."""


class ExtenderClient:
    def __init__(self, extenders: Iterable[ExtenderDocument] = (), *, observe: Observe = lambda *_: None) -> None:
        self._by_name = {extender.name: extender for extender in extenders}
        self._observe = observe

    def reload(self, extenders: Iterable[ExtenderDocument]) -> None:
        """Attempts in flight get their answer from the extender they have asked."""
        self._by_name = {extender.name: extender for extender in extenders}

    def can_answer(self, query: ExternalQuery) -> bool:
        return query.payload.get("extender") in self._by_name

    async def answer(self, inputs: DecisionInput, query: ExternalQuery) -> DecisionInput:
        """The inputs with what the extender says. Never fails because of the extender."""
        result = await self.ask(query)
        known = inputs.query_results.get(query.key)
        if known is not None:
            result = replace(result, value={**known.value, **result.value})
        return replace(inputs, query_results={**inputs.query_results, query.key: result})

    async def ask(self, query: ExternalQuery) -> ExternalResult:
        """Never fails because of the extender."""
        name, verb = query.payload["extender"], query.payload["verb"]
        extender = self._by_name.get(name)
        if extender is None:
            return ExternalResult({}, error=f"extender {name} is no longer configured")
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            if extender.problem:
                raise UnusableAnswer(f"cannot be asked: {extender.problem}")
            async with asyncio.timeout(extender.timeout):
                body = await self._post(extender, verb, query.payload)
            result = ExternalResult(_read_answer(query.payload, body))
        except TimeoutError:
            result = ExternalResult({}, error=f"no answer within {extender.timeout} s")
        except UnusableAnswer as error:
            result = ExternalResult({}, error=str(error))
        except Exception as error:  # whatever it is, it must not end the controller
            because = describe_failure(error, hides_address=extender.hides_address)
            result = ExternalResult({}, error=f"could not be asked: {because}")
        self._observe(extender.name, verb, "error" if result.error else "success", loop.time() - started)
        return result

    async def _post(self, extender: ExtenderDocument, verb: str, payload: Mapping[str, Any]) -> bytes:
        path = {FILTER: extender.filter_verb, PRIORITIZE: extender.prioritize_verb, BIND: extender.bind_verb}[verb]
        content = msgspec.json.encode(_write_question(payload))
        return await fetch("POST", f"{extender.url}/{path}", tls=extender.tls, content=content)


# --- documents --------------------------------------------------------------------------------------------------------


def _write_question(payload: Mapping[str, Any]) -> dict[str, Any]:
    if payload["verb"] == BIND:
        fields = {"PodName": "name", "PodNamespace": "namespace", "PodUID": "uid", "Node": "cluster"}
        return {field: payload[name] for field, name in fields.items()}
    names = list(payload["clusters"].values())
    documents = payload.get("documents")
    clusters = {"NodeNames": names} if documents is None else {"Nodes": {"items": documents}}
    return {"Pod": payload["placement"], **clusters}


def _read_answer(payload: Mapping[str, Any], body: bytes) -> dict[str, Any]:
    """By cluster as it was asked about; to bind, whether it refuses."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableAnswer(f"answered no JSON: {error}") from error
    if payload["verb"] == BIND:
        refusal = _lower(document, "an object").get("error")
        return {REFUSAL: shorten(refusal)} if refusal else {}
    if payload["verb"] == FILTER:
        return _read_judgements(document, payload["clusters"])
    return _read_priorities(document, payload["clusters"])


def _read_judgements(document: object, asked: Mapping[str, str]) -> dict[str, Any]:
    fields = _lower(document, "an object")
    if fields.get("error"):
        raise UnusableAnswer(f"reports an error: {shorten(fields['error'])}")
    rejected = {
        judgement: _read_failures(fields.get(name), name)
        for name, judgement in (("failednodes", REJECTED), ("failedandunresolvablenodes", REJECTED_FOR_GOOD))
    }
    accepted = _read_accepted(fields, is_complete=any(rejected.values()))
    _require_known((*accepted, *rejected[REJECTED], *rejected[REJECTED_FOR_GOOD]), asked)
    answers: dict[str, Any] = {}
    for key, name in asked.items():
        judgement = next((each for each, failures in rejected.items() if name in failures), None)
        if judgement is not None:
            answers[key] = [judgement, rejected[judgement][name] or _NO_REASON]
        else:
            answers[key] = [ACCEPTED, ""] if name in accepted else [REJECTED, _NO_REASON]
    return answers


def _read_accepted(fields: Mapping[str, Any], *, is_complete: bool) -> frozenset[str]:
    names, nodes = fields.get("nodenames"), fields.get("nodes")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return frozenset(names)
    if isinstance(nodes, dict):
        items = _lower(nodes, "Nodes").get("items") or []
        try:
            return frozenset(item["metadata"]["name"] for item in items)
        except (KeyError, TypeError) as error:
            raise UnusableAnswer("answered Nodes without metadata.name") from error
    if is_complete or "nodenames" in fields or "nodes" in fields:
        return frozenset()
    raise UnusableAnswer("answered without NodeNames and Nodes")


def _read_failures(failures: object, name: str) -> dict[str, str]:
    if failures is None:
        return {}
    if not isinstance(failures, dict):
        raise UnusableAnswer(f"answered {name} that is no object")
    return {cluster: shorten(message) for cluster, message in failures.items()}


def _read_priorities(document: object, asked: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(document, list):
        raise UnusableAnswer("answered priorities that are no list")
    given: dict[str, int] = {}
    for entry in document:
        fields = _lower(entry, "an object for each cluster")
        name, score = fields.get("host"), fields.get("score")
        if not isinstance(score, int) or isinstance(score, bool) or not 0 <= score <= GREATEST_PRIORITY:
            said = f"gave {shorten(name)} the score {shorten(repr(score))}"
            raise UnusableAnswer(f"{said}, which is not in 0 … {GREATEST_PRIORITY}")
        given[str(name)] = score
    _require_known(given, asked)
    return {key: given.get(name, 0) for key, name in asked.items()}


def _require_known(names: Iterable[str], asked: Mapping[str, str]) -> None:
    unknown = set(names).difference(asked.values())
    if unknown:
        raise UnusableAnswer(f"answered about {shorten(min(map(str, unknown)))}, which it was not asked about")


def _lower(document: object, expected: str) -> dict[str, Any]:
    """Names in lower case: Go's decoders take any case, so extenders write several."""
    if not isinstance(document, dict):
        raise UnusableAnswer(f"answered something that is not {expected}")
    return {name.lower(): value for name, value in document.items()}
