"""Log lines: JSON or for people, with the names that operators look for, libraries included."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

import pytest
import structlog

from fleet.manager import logs
from fleet.manager.logs import configure
from tests.control_plane.waiting import SECONDS_TO_HAPPEN


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_is_an_object_with_the_important_names_first(out: io.StringIO) -> None:
    configure("info", "json", stream=out)
    structlog.get_logger("fleet.scheduler.loop").info(
        "decided", writes={"create": 2}, decision="ab12", cluster="c1", placement="web"
    )
    (line,) = lines(out)
    assert list(line) == ["timestamp", "level", "logger", "event", "placement", "cluster", "decision", "writes"]
    assert line["timestamp"].endswith("Z")
    del line["timestamp"]
    assert line == {
        "level": "info",
        "logger": "fleet.scheduler.loop",
        "event": "decided",
        "placement": "web",
        "cluster": "c1",
        "decision": "ab12",
        "writes": {"create": 2},
    }


def test_a_logger_made_before_obeys_what_is_configured_later(out: io.StringIO) -> None:
    log = structlog.get_logger("early")
    configure("info", "json", stream=out)
    log.info("hello")
    assert [line["logger"] for line in lines(out)] == ["early"]


@pytest.mark.parametrize(
    "level, want",
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_lines_below_the_level_are_left_out(level: str, want: list[str], out: io.StringIO) -> None:
    configure(level, "json", stream=out)
    log = structlog.get_logger("x")
    for one in ("debug", "info", "warning", "error"):
        getattr(log, one)("said")
        logging.getLogger("library").log(logging.getLevelNamesMapping()[one.upper()], "said")
    assert [line["level"] for line in lines(out)] == [one for one in want for _ in range(2)]


def test_a_line_below_the_level_formats_nothing(out: io.StringIO) -> None:
    class Expensive:
        def __str__(self) -> str:
            raise AssertionError("nobody needs this text")

        __repr__ = __str__

    configure("info", "json", stream=out)
    structlog.get_logger("x").debug("said", value=Expensive())
    assert not out.getvalue()


def test_libraries_take_the_same_way(out: io.StringIO) -> None:
    configure("info", "json", stream=out)
    logging.getLogger("uvicorn.error").warning("port %d is taken", 80)
    (line,) = lines(out)
    assert (line["logger"], line["level"], line["event"]) == ("uvicorn.error", "warning", "port 80 is taken")


@pytest.mark.parametrize("name", ["aiohttp.access", "kubernetes.client", "asyncio"])
def test_libraries_that_tell_every_request_are_asked_for_warnings_only(name: str, out: io.StringIO) -> None:
    configure("debug", "json", stream=out)
    logging.getLogger(name).info("GET /")
    logging.getLogger(name).warning("slow")
    assert [line["event"] for line in lines(out)] == ["slow"]


def test_a_trace_is_in_the_line_that_tells_of_the_error(out: io.StringIO) -> None:
    configure("info", "json", stream=out)
    error = ValueError("no good")
    structlog.get_logger("x").error("the attempt failed", placement="web", exc_info=error)
    (line,) = lines(out)
    assert "ValueError: no good" in line["exception"]


def test_values_that_json_does_not_know_become_texts(out: io.StringIO) -> None:
    configure("info", "json", stream=out)
    structlog.get_logger("x").info("said", value=logging, names={"a"})
    (line,) = lines(out)
    assert line["value"].startswith("<module 'logging'")
    assert line["names"] == ["a"]


def test_people_on_a_terminal_get_lines_for_people() -> None:
    out = Terminal()
    configure("info", "auto", stream=out)
    structlog.get_logger("x").info("decided", placement="web")
    assert "decided" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_elsewhere_the_same_choice_is_json(out: io.StringIO) -> None:
    configure("info", "auto", stream=out)
    structlog.get_logger("x").info("decided")
    assert [line["event"] for line in lines(out)] == ["decided"]


def test_lines_for_people_have_no_colours_in_a_file(out: io.StringIO) -> None:
    configure("info", "console", stream=out)
    structlog.get_logger("x").info("decided", placement="web")
    assert "placement=web" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_configuring_again_replaces_what_was_there(out: io.StringIO) -> None:
    configure("info", "json", stream=io.StringIO())
    configure("info", "json", stream=out)
    logging.getLogger("library").warning("said")
    assert len(lines(out)) == 1


def test_a_line_that_cannot_be_written_is_lost_and_the_next_one_is_not() -> None:
    class Full(io.StringIO):
        is_full = True

        def write(self, text: str) -> int:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(text)

    out = Full()
    configure("info", "json", stream=out)
    structlog.get_logger("fleet").info("lost")
    logging.getLogger("library").warning("lost")
    out.is_full = False
    structlog.get_logger("fleet").info("written")

    assert [line["event"] for line in lines(out)] == ["written"]


class Unwilling(io.StringIO):
    def write(self, text: str) -> int:
        raise UnicodeEncodeError("utf-8", text, 0, 1, "surrogates not allowed")


@pytest.mark.parametrize("stream", [Unwilling(), None], ids=["cannot encode it", "no standard error"])
def test_a_line_without_a_stream_that_takes_it_is_lost(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    configure()

    structlog.get_logger("x").error("a line")


# --- a reader that stalls ---------------------------------------------------------------------------------------------


@dataclass
class Pipe:
    """Its reader reads nothing until it is asked to."""

    reading: int
    writing: TextIO

    def read_until(self, last: str) -> list[dict[str, Any]]:
        text = b""
        while last.encode() not in text or not text.endswith(b"\n"):
            text += os.read(self.reading, 65536)
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        yield Pipe(reading, stream)
    os.close(reading)


def log_beside(count: int, **values: Any) -> bool:
    """Whether so many lines were logged; in a thread, which may have to wait for ever."""

    def log() -> None:
        for number in range(count):
            structlog.get_logger().info("line", number=number, **values)

    thread = threading.Thread(target=log, daemon=True)
    thread.start()
    thread.join(SECONDS_TO_HAPPEN)
    return not thread.is_alive()


def test_nothing_waits_for_a_reader_that_reads_no_more_and_it_gets_every_line_when_it_goes_on(pipe: Pipe) -> None:
    configure("info", "json", stream=pipe.writing)

    assert log_beside(300, text="é" * 3000)
    structlog.get_logger().info("the last one")

    lines = pipe.read_until("the last one")
    assert [line.get("number") for line in lines] == [*range(300), None]
    assert lines[0]["text"] == "é" * 3000


def test_of_what_is_not_read_in_time_lines_are_lost_and_counted(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_WAITING", 10_000)
    configure("info", "json", stream=pipe.writing)

    assert log_beside(1000, text="x" * 1000)

    *read, report = pipe.read_until("log lines were lost")
    assert [line["number"] for line in read] == list(range(len(read)))
    assert report["event"] == "log lines were lost: they were not read in time"
    assert 0 < report["lines"] == 1000 - len(read)
