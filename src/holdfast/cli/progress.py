"""Progress on a terminal for work over a second, and signals that stop work between two batches."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_QUIET_SECONDS = 1.0


class TerminalProgress:
    """Shows nothing for the first second, and nothing at all when stderr is not a terminal."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._wanted = sys.stderr.isatty()
        self._stop = False
        self._shown: RichProgress | None = None
        self._task: TaskID | None = None

    def step(self, label: str, done: int, total: int | None) -> None:
        if not self._wanted or time.monotonic() - self._started < _QUIET_SECONDS:
            return
        if self._shown is None or self._task is None:
            self._shown, self._task = _start()
        self._shown.update(self._task, description=label, completed=done, total=total)

    def stop_requested(self) -> bool:
        return self._stop

    def request_stop(self) -> None:
        self._stop = True

    def close(self) -> None:
        if self._shown is not None:
            self._shown.stop()


def _start() -> tuple[RichProgress, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    shown.start()
    return shown, shown.add_task("", total=None)


@contextlib.contextmanager
def progress(*, stoppable: bool = False) -> Iterator[TerminalProgress]:
    """Around work that can stop between two batches, the first Ctrl-C asks it to and the second
    ends it at once. Around work that only looks, the first one ends it.
    """
    shown = TerminalProgress()
    before = signal.getsignal(signal.SIGINT)

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        if shown.stop_requested():
            raise KeyboardInterrupt
        shown.request_stop()

    if stoppable:
        signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield shown
    finally:
        signal.signal(signal.SIGINT, before)
        shown.close()


class Stop:
    """A progress that shows nothing. A signal asks it to stop, and ends its sleep.

    The signal writes to a pipe, which a handler may do at any moment.
    """

    def __init__(self) -> None:
        self._requested = False
        self._asleep, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def step(self, label: str, done: int, total: int | None) -> None:
        """Nobody is watching."""

    def stop_requested(self) -> bool:
        return self._requested

    def request(self, _signal: int, _frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
        with contextlib.suppress(OSError):
            os.write(self._wake, b".")

    def sleep(self, seconds: float) -> None:
        select.select([self._asleep], [], [], seconds)

    def close(self) -> None:
        os.close(self._asleep)
        os.close(self._wake)


@contextlib.contextmanager
def until_signal() -> Iterator[Stop]:
    """SIGINT and SIGTERM stop the work after the batch at hand; a second one ends it at once."""
    stop = Stop()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, stop.request) for each in signals}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        stop.close()
