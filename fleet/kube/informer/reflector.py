"""Keeps a store equal to what the API server has, for as long as the process lives.

A paged list, then a watch from the list's version, and again whenever the watch ends. What may go wrong on the way, and
what is done about it:

- The watch closes, breaks, falls silent or says something unreadable: it is resumed from the last version that was
  understood, so nothing is lost and nothing comes twice. Three failures in a row without any progress: list again.
- The version is too old (410), or the server turns out to have been set back: list again. The store tells its
  subscribers only what is really different.
- Any of these again and again: waits grow from 0.8 to 30 seconds, longer if the server asks for it. They start over
  when a watch has made progress, but not while the server keeps declaring our versions too old.
- One object cannot be read: its last readable state stays in the store, it is reported and remembered in `unreadable`
  until it can be read or is gone, and everything else goes on.

A watch may lag behind without anybody noticing. Who must not decide on old news, such as a new leader, asks for a list
by `refresh`.

Who is newer, the watch or our own write, is left to `store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from fleet.clock import Clock
from fleet.errors import ApiError, DeadlineExceeded, DocumentError, Gone, UnreadableAnswer
from fleet.kube.api import Api, Method, Request
from fleet.kube.backoff import WATCH_BACKOFF, ExponentialBackoff, FailureBackoff, Jitter
from fleet.kube.client.failures import build_error
from fleet.kube.informer.store import Relist, Store, is_older
from fleet.kube.informer.watch import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    LineSplitter,
    plain_document,
    read_event,
    read_head,
    read_page,
    read_status,
    read_version,
)
from fleet.kube.resource import Resource, key_of

T = TypeVar("T")

_PAGE: Final = 500
_BATCH: Final = 100
"""Objects of a page between two yields to the event loop: one or two milliseconds of decoding."""
_PATIENCE: Final = 3
"""Failed watches in a row from one and the same version before it is given up."""


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Which objects of a kind; everything by default."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True)
class ReflectorTimings:
    """In seconds."""

    silence: float = 150.0
    """Longest wait for the next event or bookmark. The API server sends a bookmark about once a minute."""
    healthy: float = 10.0
    """A watch that lived this long may be resumed at once."""
    shortest_watch: float = 300.0
    """Watches are asked to end after this and up to twice this, so that those of many clients do not end together."""
    pace: ExponentialBackoff = WATCH_BACKOFF


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object that exists and cannot be read."""

    key: str
    version: str
    error: Exception


@dataclass(slots=True)
class ReflectorCounts:
    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    failures: int = 0
    unreadable: int = 0


WatchProblem = ApiError | UnreadableObject


class Reflector(Generic[T]):
    def __init__(
        self,
        api: Api,
        resource: Resource,
        store: Store[T],
        *,
        clock: Clock,
        jitter: Jitter,
        selection: ListFilter | None = None,
        timings: ReflectorTimings | None = None,
        on_problem: Callable[[WatchProblem], None] | None = None,
    ) -> None:
        self.counts = ReflectorCounts()
        self.unreadable: dict[str, UnreadableObject] = {}
        self._api = api
        self._store = store
        self._clock = clock
        self._jitter = jitter
        self._selection = selection or ListFilter()
        self._timings = timings or ReflectorTimings()
        self._on_problem = on_problem or (lambda _: None)
        self._path = resource.collection(self._selection.namespace)
        self._backoff = FailureBackoff(self._timings.pace, jitter)
        self._needs_list = True
        self._pages_expire = False
        self._stuck = 0
        self._synced = asyncio.Event()
        self._asked: list[asyncio.Event] = []
        self._interruptible: asyncio.Timeout | None = None

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Returns once the store has held a complete list."""
        await self._synced.wait()

    async def refresh(self) -> None:
        """Returns once the store has taken a whole list that was begun after this call; for as long as `run` runs.

        A watch under way ends for it, and so does a wait. A list under way may be older than the question, so another
        has to be made: one that nobody waits for ends at once. If the list fails it is repeated, with the usual waits.
        """
        answer = asyncio.Event()
        self._asked.append(answer)
        self._needs_list = True
        if self._interruptible:
            self._interruptible.reschedule(asyncio.get_running_loop().time())
        await answer.wait()

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            wait = await self._round()
            if wait:
                await self._unless_asked(self._clock.sleep(wait))

    async def _unless_asked(self, work: Coroutine[Any, Any, None]) -> None:
        """Until it is done, or until somebody asks for a list."""
        try:
            async with asyncio.timeout(None) as self._interruptible:
                await work
        except TimeoutError:
            if not self._asked:
                raise
        finally:
            self._interruptible = None

    async def _round(self) -> float:
        """A list if one is needed, then a watch to its end. Says how long to wait before the next round."""
        problem: ApiError | None = None
        while self._needs_list:
            try:
                await (self._list() if self._asked else self._unless_asked(self._list()))
            except ApiError as error:
                self._note(error)
                return self._backoff.next_delay(at_least=error.retry_after)
        begun_at, begun_from = self._clock.elapsed(), self._store.version
        try:
            await self._unless_asked(self._watch())
        except ApiError as error:
            problem = error
            self._note(error)
        if self._asked:
            return 0.0
        return self._wait_after(
            problem,
            lived=self._clock.elapsed() - begun_at,
            progressed=self._store.version != begun_from,
        )

    def _wait_after(self, problem: ApiError | None, *, lived: float, progressed: bool) -> float:
        expired = isinstance(problem, Gone)
        healthy = lived >= self._timings.healthy
        self._stuck = 0 if progressed else self._stuck + (problem is not None)
        if expired or self._stuck >= _PATIENCE:
            self._needs_list, self._stuck = True, 0
        if healthy or (progressed and not expired):
            self._backoff.reset()
        if healthy and problem is None:
            return 0.0
        return self._backoff.next_delay(at_least=problem.retry_after if problem else None)

    def _note(self, error: ApiError) -> None:
        self.counts.failures += 1
        self._on_problem(error)

    # --- list ---------------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        self.counts.lists += 1
        asked_before = self._asked.copy()
        relist = self._store.relist()
        after = ""
        while True:
            page = read_page(await self._page_after(after))
            if not page.metadata.resource_version:
                raise UnreadableAnswer(f"the list of {self._path} has no resourceVersion")
            relist.begin(page.metadata.resource_version)
            await self._take_page(relist, page.items or [])
            after = page.metadata.continue_
            if not after:
                break
        relist.end()
        self._forget_unreadable_but(relist)
        self._pages_expire = False
        self._synced.set()
        self._answer(asked_before)

    def _answer(self, asked: list[asyncio.Event]) -> None:
        """Who asked while the list was on its way needs another: it may be older than the question."""
        for answer in asked:
            answer.set()
        self._asked = self._asked[len(asked) :]
        self._needs_list = bool(self._asked)

    async def _page_after(self, after: str) -> bytes:
        query = self._selectors()
        if not self._pages_expire:
            query.append(("limit", str(_PAGE)))
        if after:
            query.append(("continue", after))
        try:
            return await self._api.call(Request(Method.GET, self._path, query=tuple(query)))
        except Gone:
            self._pages_expire = bool(after)  # too slow, or too much is going on: next time in one piece
            raise

    async def _take_page(self, relist: Relist[T], items: list[msgspec.Raw]) -> None:
        for start in range(0, len(items), _BATCH):
            for item in items[start : start + _BATCH]:
                self._take_listed(relist, bytes(item))
            await asyncio.sleep(0)

    def _take_listed(self, relist: Relist[T], document: bytes) -> None:
        try:
            listed = self._read(document)
            relist.add(listed)
        except Exception as error:
            relist.keep(self._set_aside(document, error).key)
        else:
            self._note_readable(listed)

    def _forget_unreadable_but(self, relist: Relist[T]) -> None:
        self.unreadable = {key: one for key, one in self.unreadable.items() if relist.has(key)}

    # --- watch --------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """To its end. The limit on silence counts complete events: trickling bytes are no sign of life."""
        self.counts.watches += 1
        lines = LineSplitter()
        silence = self._timings.silence
        limit = asyncio.timeout(silence)
        loop = asyncio.get_running_loop()
        async with self._api.stream(self._watch_request()) as pieces:
            try:
                async with limit:
                    async for piece in pieces:
                        if self._take_lines(lines.feed(piece)):
                            limit.reschedule(loop.time() + silence)
            except TimeoutError as error:
                if not limit.expired():
                    raise
                raise DeadlineExceeded(f"the watch of {self._path} was silent for {silence:g} s") from error

    def _watch_request(self) -> Request:
        seconds = self._timings.shortest_watch * (1 + self._jitter())
        query = (
            *self._selectors(),
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._store.version),
            ("timeoutSeconds", str(int(seconds))),
        )
        return Request(Method.GET, self._path, query=query)

    def _selectors(self) -> list[tuple[str, str]]:
        chosen = {"labelSelector": self._selection.labels, "fieldSelector": self._selection.fields}
        return [(name, value) for name, value in chosen.items() if value]

    def _take_lines(self, lines: Iterator[bytes]) -> int:
        taken = 0
        for line in lines:
            if line:
                self._take(line)
                taken += 1
        return taken

    def _take(self, line: bytes) -> None:
        """The line as the API server always writes it needs no parsing of its own; any doubt is for the careful."""
        document = plain_document(line)
        if document is not None:
            try:
                seen = self._read(document)
            except Exception:
                self._take_carefully(line)
            else:
                self.counts.events += 1
                self._put(seen, document)
        else:
            self._take_carefully(line)

    def _take_carefully(self, line: bytes) -> None:
        event = read_event(line)
        if event.type == MODIFIED or event.type == ADDED:
            self.counts.events += 1
            self._saw(bytes(event.object))
        elif event.type == DELETED:
            self.counts.events += 1
            self._saw_deleted(bytes(event.object))
        elif event.type == BOOKMARK:
            self.counts.bookmarks += 1
            self._saw_bookmark(bytes(event.object))
        elif event.type == ERROR:
            raise build_error(read_status(event.object))
        else:
            raise UnreadableAnswer(f"an event of a watch has the unknown type {event.type!r}")

    def _saw(self, document: bytes) -> None:
        try:
            seen = self._read(document)
        except Exception as error:
            self._store.advance_version(self._set_aside(document, error).version)
        else:
            self._put(seen, document)

    def _put(self, seen: T, document: bytes) -> None:
        try:
            self._store.apply_event(seen)
        except Exception as error:  # an index could make nothing of it
            self._store.advance_version(self._set_aside(document, error).version)
        else:
            self._note_readable(seen)

    def _saw_deleted(self, document: bytes) -> None:
        head = read_head(document)
        if head is None:
            raise UnreadableAnswer(f"a watch of {self._path} says that an object without a name is gone")
        self._store.apply_delete_event(head.key, uid=head.metadata.uid, version=head.metadata.resource_version)
        self.unreadable.pop(head.key, None)

    def _saw_bookmark(self, document: bytes) -> None:
        version = read_version(document)
        if is_older(version, self._store.version):
            raise Gone(f"{self._path} is at {version} again, after {self._store.version}: the server was set back")
        self._store.advance_version(version)

    # --- objects ------------------------------------------------------------------------------------------------------

    def _read(self, document: bytes) -> T:
        found = self._store.codec.read(document)
        if not self._store.codec.metadata_of(found).name:
            raise DocumentError("the object has no name", field="metadata.name")
        return found

    def _note_readable(self, found: T) -> None:
        if self.unreadable:
            self.unreadable.pop(key_of(self._store.codec.metadata_of(found)), None)

    def _set_aside(self, document: bytes, error: Exception) -> UnreadableObject:
        """An object without even a name is none: then it is the stream that cannot be trusted."""
        head = read_head(document)
        if head is None:
            raise UnreadableAnswer(f"{self._path} has an object without a name: {error}") from error
        found = UnreadableObject(head.key, head.metadata.resource_version, error)
        self.unreadable[found.key] = found
        self.counts.unreadable += 1
        self._on_problem(found)
        return found
