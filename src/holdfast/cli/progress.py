"""Progress display on a terminal for work over a second, and signals that stop work between two
batches.

Work that reports steps is shown with them. For other work, a label and a moving bar are shown after
the first second.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING

from holdfast.cli.streams import looking, state

if TYPE_CHECKING:
    from threading import Timer

    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_QUIET_SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN = {signal.SIGINT: "Press Ctrl-C again", signal.SIGTERM: "Send the signal again"}


class TerminalProgress:
    """Shows nothing for the first second, and nothing at all when stderr is not a terminal."""

    def __init__(self, label: str = "") -> None:
        self._started = time.monotonic()
        self._wanted = sys.stderr.isatty() and not state.quiet
        self._stop = False
        self._shown: RichProgress | None = None
        self._task: TaskID | None = None
        self._timer = self._start_timer(label) if label and self._wanted else None

    def _start_timer(self, label: str) -> Timer:
        """Start a timer that shows something even if no step is reported."""
        from threading import Timer

        timer = Timer(_QUIET_SECONDS, self._show, (label,))
        timer.daemon = True
        timer.start()
        return timer

    def _show(self, label: str) -> None:
        if self._shown is None:
            self._shown, self._task = _start()
            self._shown.update(self._task, description=label)

    def step(self, label: str, done: int, total: int | None) -> None:
        if not self._wanted or time.monotonic() - self._started < _QUIET_SECONDS:
            return
        self._cancel_timer()
        if self._shown is None or self._task is None:
            self._shown, self._task = _start()
        self._shown.update(self._task, description=label, completed=done, total=total)

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()  # it may be about to show itself

    def stop_requested(self) -> bool:
        return self._stop

    def request_stop(self) -> None:
        self._stop = True

    def close(self) -> None:
        self._cancel_timer()
        if self._shown is not None:
            self._shown.stop()


def _start() -> tuple[RichProgress, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn
    from rich.text import Text

    class Done(MofNCompleteColumn):
        def render(self, task: Task) -> Text:
            """Empty while the total is unknown: `0/?` would look as if it were stuck."""
            return super().render(task) if task.total is not None or task.completed else Text()

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        Done(),
        console=Console(stderr=True),
        transient=True,
    )
    shown.start()
    return shown, shown.add_task("", total=None)


@contextlib.contextmanager
def progress(
    label: str = "", *, stoppable: bool = False, changes: bool | None = None
) -> Iterator[TerminalProgress]:
    """Show progress. If the work is stoppable, the first Ctrl-C or SIGTERM asks it to stop between
    two batches, and the second ends it at once. Otherwise the first one ends it. After an interrupt
    of work that `changes` something, the command explains how to continue; most stoppable work
    does."""
    shown = TerminalProgress(label)
    changing = stoppable if changes is None else changes
    if changing:
        state.change_begun = True

    def on_interrupt(number: int, _frame: FrameType | None) -> None:
        if shown.stop_requested():
            raise KeyboardInterrupt
        shown.request_stop()
        state.stop_asked = True
        # Not through `sys.stderr`, which may be in the middle of a write.
        with contextlib.suppress(OSError, ValueError):
            again = _AGAIN[signal.Signals(number)]
            said = f"Stopping after the current batch. {again} to end at once.\n"
            os.write(sys.stderr.fileno(), said.encode())

    with handling(on_interrupt) if stoppable else contextlib.nullcontext():
        try:
            with contextlib.nullcontext() if changing else looking():
                yield shown
        finally:
            shown.close()


@contextlib.contextmanager
def handling(
    handler: Callable[[int, FrameType | None], None], signals: Sequence[signal.Signals] = _SIGNALS
) -> Iterator[None]:
    """Handle these signals with `handler` in this context."""
    before = {each: signal.signal(each, handler) for each in signals}
    try:
        yield
    finally:
        for each, former in before.items():
            signal.signal(each, former)


def ending_as_interrupt() -> AbstractContextManager[None]:
    """SIGTERM does what Ctrl-C does: the command reports what was done, and how to continue.
    SIGTERM is sent when a service is stopped, by `timeout`, and at shutdown."""
    return handling(signal.default_int_handler, [signal.SIGTERM])


class Stop:
    """A progress that shows nothing. A signal requests a stop, and ends its sleep.

    The signal handler writes to a pipe, which is safe at any moment.
    """

    def __init__(self) -> None:
        self._requested = False
        self._asleep, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def step(self, label: str, done: int, total: int | None) -> None:
        """Shows nothing."""

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
    """SIGINT and SIGTERM stop the work after the current batch; a second signal ends it at once."""
    stop = Stop()
    with handling(stop.request):
        try:
            yield stop
        finally:
            stop.close()
