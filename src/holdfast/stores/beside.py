"""Threads for work that waits for the disk. Those of `concurrent.futures` take longer to load than
they save here: it loads `logging` as well."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

_Part = TypeVar("_Part")
_Answer = TypeVar("_Answer")


class Beside:
    """A call that runs beside whoever began it, one at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def begin(self, call: Callable[[], object]) -> None:
        self.end()
        self._thread = threading.Thread(target=self._run, args=(call,), name="holdfast-beside")
        self._thread.start()

    def _run(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised by `end`
            self._error = error

    def wait(self) -> None:
        """Until it is over. Ctrl-C may come in between: then it can be waited for again."""
        if self._thread is not None:
            self._thread.join()

    def end(self) -> bool:
        """Wait for it; whether there was anything to wait for. Raises what it raised."""
        self.wait()
        begun, self._thread = self._thread is not None, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return begun


def by_hands(
    work: Callable[[_Part], _Answer], parts: Sequence[_Part], hands: int
) -> Sequence[_Answer]:
    """What `work` says of each part, of which so many are worked on at a time. After an error no
    other part is begun, and those that were begun are over when it is raised."""
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

    every = [Beside() for _ in range(min(hands, len(parts)))]
    try:
        for each in every:
            each.begin(run)
        for each in every:
            each.end()
    finally:
        left.clear()
        for each in every:
            each.wait()
    return [answers[place] for place in range(len(parts))]


def _taken(left: deque[_Part]) -> Iterator[_Part]:
    """What is left, which others take from as well."""
    with suppress(IndexError):
        while True:
            yield left.popleft()
