"""What the library logs, as lines on stderr: for commands in which nobody may be watching."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

from holdfast.model.text import one_line, printable


class _Line(logging.Formatter):
    """One line, whatever is in it; a stack trace only for those who asked for it."""

    def __init__(self, *, dated: bool, debug: bool) -> None:
        super().__init__()
        self._dated = dated
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        when = f"{self.formatTime(record, '%Y-%m-%d %H:%M:%S')} " if self._dated else ""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        error = record.exc_info[1] if record.exc_info else None
        why = f": {type(error).__name__}: {error}" if error else ""
        line = when + level + one_line(record.getMessage() + why)
        if self._debug and record.exc_info:
            line += "\n" + printable(self.formatException(record.exc_info))
        return line


@contextlib.contextmanager
def log_to_stderr(*, dated: bool = False, debug: bool = False) -> Iterator[None]:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line(dated=dated, debug=debug))
    log = logging.getLogger("holdfast")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
