"""One server program: started on a leash, logged to a file, and open to the accidents tests are about."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.control_plane import leash

SECONDS_TO_STOP: Final = 3.0  # an API server would wait a minute for the last of its watches
SECONDS_TO_END: Final = 90.0  # for what ends by itself, or was killed: at once, where the machine has a moment for it
LINES_OF_LOG: Final = 20
GO: Final = {"GOGC": "400", "GOMEMLIMIT": "1500MiB"}
"""For servers and tools in Go: they end soon, and memory is cheaper than what collecting it takes of the processor."""
# Information (a line begins with its severity and date), and connections to etcd given up because nobody needs them.
NOISE: Final = re.compile(r"I\d{4} |.*addrConn\.createTransport")


class Startable(ABC):
    """What is started and stopped, as a context: stopped whatever happens, also while it starts."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ServerProcess:
    """A program with a fixed command line, which can be started again after it ended.

    With an `environment` it knows that and nothing of ours.
    """

    def __init__(
        self, command: Sequence[str | Path], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return Path(self.command[0]).name

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        on_leash = [sys.executable, "-E", "-S", leash.__file__, str(os.getpid()), *self.command]
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C at the terminal is for pytest, which then stops the servers in order.
            self._process = subprocess.Popen(
                on_leash,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._environment,
            )

    def wait(self) -> None:
        """Until the program ends of its own."""
        if self._process is not None:
            self._process.wait(SECONDS_TO_END)

    def stop(self) -> None:
        """Asks politely, then does not ask."""
        self.resume()
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """The program keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)
        if self._process is not None:
            # One thread takes the signal and stops the others; the parent hears of it when the last has stopped.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def last_words(self) -> str:
        return end_of(self.log)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(SECONDS_TO_END)


def end_of(log: Path) -> str:
    """The last lines of a log that matter, for messages."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join([line for line in lines if not NOISE.match(line)][-LINES_OF_LOG:])
