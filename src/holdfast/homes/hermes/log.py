"""The operation log of a home of Hermes: whoever is done with a change leaves the search whole."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.stores.operation_log import FileLogWriter, FileOperationLog


class HermesLog(FileOperationLog):
    """`finish` brings what a run left out of Hermes's search tables back into them: also after one
    that was stopped or failed, and before one that comes after a kill."""

    def __init__(self, folder: Path, trash: Path, finish: Callable[[], None]) -> None:
        super().__init__(folder, trash)
        self._finish = finish

    @contextlib.contextmanager
    def writing(self, command: str) -> Iterator[FileLogWriter]:
        with super().writing(command) as log:
            self._finish_if_possible()
            try:
                yield log
            finally:
                self._finish_if_possible()

    def _finish_if_possible(self) -> None:
        """What cannot be done now is noted, and the next run does it."""
        with contextlib.suppress(HoldfastError):
            self._finish()
