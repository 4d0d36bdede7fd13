"""Collector: samples the feeds of a document at their intervals, and keeps the last numbers while a source fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

import msgspec
import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.external.feed_sources import (
    Columns,
    UnusableFeed,
    read_answer,
    read_clusters,
    read_config_map,
    read_nodes,
    read_series,
)
from fleet.external.http_client import RefusedToken, UnusableAnswer, describe_failure, fetch, shorten
from fleet.kube.api import Api, Method, Request
from fleet.settings.document import feeds as formats
from fleet.settings.document.feeds import QUERY, ConfigMapSource, FeedDocument, HttpSource
from fleet.settings.secrets import HIDDEN
from fleet.snapshot.sidedata import FeedSample

_SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000
_WINDOW, _RESOLUTION = 900_000, 60_000
"""Of time series, in milliseconds."""
_MOST_REQUESTS: Final = 50
"""At a time."""
_LONGEST_START: Final = 10.0
"""Seconds."""

log = structlog.get_logger(__name__)

Apply = Callable[[str, FeedSample], None]
Observe = Callable[[str, str], None]
"""Called with the feed and the result."""


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class FeedState:
    """Of sampling a feed."""

    sample: FeedSample | None = None
    """The last one."""
    error: str = ""
    """Of the last attempt; empty if it succeeded."""


class FeedCollector:
    def __init__(
        self,
        feeds: Iterable[FeedDocument],
        *,
        hub: Api,
        clock: Clock,
        apply: Apply,
        observe: Observe = lambda *_: None,
    ) -> None:
        self._feeds = tuple(feeds)
        self._hub = hub
        self._clock = clock
        self._apply = apply
        self._observe = observe
        self._states: dict[str, FeedState] = {}
        self._reloaded = asyncio.Event()
        self._tried = asyncio.Event()

    @property
    def states(self) -> Mapping[str, FeedState]:
        return self._states

    def reload(self, feeds: Iterable[FeedDocument]) -> None:
        """Sample these from now on. Numbers of feeds that are gone stay as they are, and grow stale."""
        feeds = tuple(feeds)
        if feeds != self._feeds:
            self._feeds = feeds
            self._reloaded.set()

    async def run(self) -> None:
        while True:
            self._reloaded.clear()
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._sample_forever(feed), name=f"feed {feed.name}") for feed in self._feeds
                ]
                await self._reloaded.wait()
                for task in tasks:
                    task.cancel()

    async def wait_until_tried(self) -> None:
        """Until each feed was sampled once, or could not be: decisions without numbers would be made in vain. Sources
        that take long are not waited for."""
        if self._feeds:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_START):
                    await self._tried.wait()

    async def _sample_forever(self, feed: FeedDocument) -> None:
        while True:
            await self._sample(feed)
            if all(feed.name in self._states for feed in self._feeds):
                self._tried.set()
            await self._clock.sleep(feed.interval)

    async def _sample(self, feed: FeedDocument) -> None:
        columns, error = None, ""
        try:
            columns, error = await self._read(feed)
        except Exception as problem:  # whatever a source answers, it must not end the controller
            error = _describe(problem, feed.source)
        before = self._states.get(feed.name, FeedState())
        self._observe(feed.name, "error" if error else "success")
        if columns is None:
            self._states[feed.name] = FeedState(before.sample, error)
            if before.error != error:
                last = before.sample or FeedSample({}, 0, feed.max_age * _SECOND)
                self._apply(feed.name, replace(last, error=error))
                log.warning("a feed could not be sampled: its last numbers are used", feed=feed.name, error=error)
            return
        if error and before.error != error:
            log.warning("a feed could not be sampled in full", feed=feed.name, error=error)
        sample = FeedSample(columns, epoch_nanoseconds(self._clock), feed.max_age * _SECOND, error)
        self._states[feed.name] = FeedState(sample, error)
        self._apply(feed.name, sample)

    async def _read(self, feed: FeedDocument) -> tuple[Columns, str]:
        """With what a part of it failed for."""
        if feed.problem:
            raise UnusableFeed(feed.problem)
        match feed.source:
            case ConfigMapSource(namespace=namespace, name=name, key=key):
                path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(name, safe='')}"
                body = await self._hub.call(Request(Method.GET, path))
                return read_config_map(msgspec.json.decode(body, type=_ConfigMap).data, key), ""
            case HttpSource(format=formats.NODES):
                return await _read_all_nodes(feed.source)
            case HttpSource(format=formats.SERIES):
                return await _read_all_series(feed.source, epoch_nanoseconds(self._clock) // _MILLISECOND), ""
            case HttpSource():
                return await _read_http(feed.source), ""
            case values:
                return read_clusters(values), ""


def _describe(problem: BaseException, source: object) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, UnusableFeed | UnusableAnswer):
        return _describe_problem(problem, source)
    hides_address = isinstance(source, HttpSource) and source.hides_address
    return f"could not be read: {describe_failure(problem, hides_address=hides_address)}"


def _describe_problem(problem: UnusableFeed | UnusableAnswer, source: object) -> str:
    """Without the token, which a service may send back."""
    token = source.bearer_token if isinstance(source, HttpSource) else ""
    text = shorten(str(problem).replace(token, HIDDEN) if token else problem)
    if not isinstance(problem, RefusedToken):
        return text
    return f"{text}: the token may have expired" if token else f"{text}: it needs a bearerToken"


async def _read_all_nodes(source: HttpSource) -> tuple[Columns, str]:
    """Of the clusters that answer, with the failure of the first one that does not."""
    headers = _build_headers(source)

    async def read(cluster: str, address: str) -> Columns:
        async with asyncio.timeout(source.timeout), slots:
            bodies = [
                await fetch("GET", f"{address}{path}", tls=source.tls, headers=headers)
                for path in ("/apis/metrics.k8s.io/v1beta1/nodes", "/api/v1/nodes")
            ]
        return read_nodes(cluster, *bodies)

    slots = asyncio.Semaphore(_MOST_REQUESTS)
    results = await asyncio.gather(*(read(*each) for each in source.addresses.items()), return_exceptions=True)
    columns: Columns = {}
    failures = []
    for cluster, result in zip(source.addresses, results, strict=True):
        if isinstance(result, BaseException):
            failures.append(f"{cluster}: {_describe(result, source)}")
            continue
        for column, values in result.items():
            columns.setdefault(column, {}).update(values)
    more = f", and {len(failures) - 1} more clusters" if len(failures) > 1 else ""
    error = f"{failures[0]}{more}" if failures else ""
    if error and not columns:
        raise UnusableFeed(error)
    return columns, error


async def _read_all_series(source: HttpSource, now: int) -> Columns:
    columns: Columns = {}
    headers = _build_headers(source)
    async with asyncio.timeout(source.timeout):
        for column, query in source.columns.items():
            text = quote(query, safe="")
            window = f"startMs={now - _WINDOW}&endMs={now}&resolution={_RESOLUTION}"
            bodies = [
                await fetch("GET", f"{source.url}{path}", tls=source.tls, headers=headers)
                for path in (f"/v2/metrictimeseries?query={text}", f"/v1/timeserieswindow?query={text}&{window}")
            ]
            columns |= read_series(source, column, *bodies)
    return columns


def _build_headers(source: HttpSource) -> dict[str, str]:
    if not source.bearer_token:
        return {}
    if source.format == formats.SERIES:
        return {"X-SF-Token": source.bearer_token}
    return {"Authorization": f"Bearer {source.bearer_token}"}


async def _read_http(source: HttpSource) -> Columns:
    headers = _build_headers(source)
    async with asyncio.timeout(source.timeout):
        if source.format != QUERY:
            return read_answer(source, "", await fetch("GET", source.url, tls=source.tls, headers=headers))
        columns: Columns = {}
        for column, query in source.columns.items():
            url = f"{source.url.rstrip('/')}/api/v1/query?query={quote(query, safe='')}"
            columns |= read_answer(source, column, await fetch("GET", url, tls=source.tls, headers=headers))
        return columns
