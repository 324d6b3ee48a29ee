"""Threads for work that waits for the disk. `concurrent.futures` would load `logging`, which takes
longer than these threads save."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

_Part = TypeVar("_Part")
_Answer = TypeVar("_Answer")


class BackgroundCall:
    """One call at a time, in a thread of its own, while the caller goes on."""

    def __init__(self) -> None:
        #: Set when the call has ended. `Thread.join` is not enough: after a Ctrl-C inside it,
        #: Python before 3.13 takes the thread for ended, and the next `join` returns at once.
        self._done: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._error: BaseException | None = None

    def begin(self, call: Callable[[], object]) -> None:
        """Raises `RuntimeError` if the system has no thread left; then nothing was begun."""
        self.end()
        done = self._done = threading.Event()
        self._process = os.getpid()
        thread = threading.Thread(target=self._run, args=(call, done), name="holdfast-background")
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            self._done = self._thread = None
            raise

    def _run(self, call: Callable[[], object], done: threading.Event) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised by `end`
            self._error = error
        finally:
            done.set()

    def wait(self) -> None:
        """Wait until the call has ended. After a Ctrl-C in between, wait again."""
        # A forked child has no such thread.
        if self._done is not None and self._process == os.getpid():
            self._done.wait()
            if self._thread is not None:
                self._thread.join()  # it has nothing left to do

    def end(self) -> bool:
        """Wait for the call, and raise what it raised. Return False if none was begun."""
        self.wait()
        begun = self._done is not None and self._process == os.getpid()
        error, self._error = self._error, None
        self._done = self._thread = None
        if error is not None:
            raise error
        return begun


def in_threads(
    work: Callable[[_Part], _Answer], parts: Sequence[_Part], hands: int
) -> Sequence[_Answer]:
    """Return what `work` returns for each part, with `hands` threads. After an error no further
    part is begun, and those that were begun have ended when it is raised."""
    if hands == 1 or len(parts) == 1:
        return [work(each) for each in parts]
    answers: dict[int, _Answer] = {}
    left = deque(enumerate(parts))

    def run() -> None:
        try:
            for place, part in _taken(left):
                answers[place] = work(part)
        except BaseException:
            left.clear()
            raise

    every = [BackgroundCall() for _ in range(min(hands, len(parts)))]
    try:
        try:
            for each in every:
                each.begin(run)
        except RuntimeError:  # no thread is left: this one works as well
            run()
        for each in every:
            each.end()
    finally:
        left.clear()
        for each in every:
            each.wait()
    return [answers[place] for place in range(len(parts))]


def _taken(left: deque[_Part]) -> Iterator[_Part]:
    """Yield what is left; the other threads take from it as well."""
    with suppress(IndexError):
        while True:
            yield left.popleft()
