"""Watch a directory with FSEvents, through watchfiles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import watchfiles  # type: ignore[import-not-found,unused-ignore]

from holdfast.model.checkpoint import ChangedPaths

_STEP_MS, _LONGEST_MS, _TICK_MS = 50, 500, 1_000


class FsEvents:
    """FSEvents says that something happened; what it may have dropped on the way it does not.

    So each of its batches means a look at the whole tree.
    """

    def __init__(self, workdir: Path) -> None:
        self.blind = ""
        self._workdir = workdir
        self._batches = self._start()

    def _start(self) -> Iterator[set[tuple[watchfiles.Change, str]]]:
        return iter(
            watchfiles.watch(
                self._workdir,
                watch_filter=None,
                step=_STEP_MS,
                debounce=_LONGEST_MS,
                rust_timeout=_TICK_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
            )
        )

    def wait(self, seconds: float) -> ChangedPaths:
        try:
            told = next(self._batches)
        except StopIteration:  # it saw a signal before we did
            self._batches = self._start()
            return ChangedPaths()
        except RuntimeError:  # a name that is no UTF-8, or a watcher that broke
            self._batches = self._start()
            told = {(watchfiles.Change.modified, "")}
        return ChangedPaths(lost="something changed") if told else ChangedPaths()

    def close(self) -> None:
        """Nothing outlives the process."""
