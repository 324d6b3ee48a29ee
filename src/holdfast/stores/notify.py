"""Runs the program that is notified of events. Whatever the program does, our run continues."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.model.maintenance import Event

VARIABLE = "HOLDFAST_EVENT"
_PAUSE = 0.1
_log = logging.getLogger("holdfast")


class NotifyProgram:
    """A program with its arguments, run in `folder` once for each event."""

    def __init__(self, program: Sequence[str], *, folder: Path, timeout: float) -> None:
        self._program = program
        self._folder = folder
        self._timeout = timeout

    def tell(self, event: Event, stop: Callable[[], bool] = lambda: False) -> None:
        """Run the program with the event on its standard input, and wait for it.

        The program is killed if it takes too long, or if `stop` returns True because there is no
        time left.
        """
        try:
            problem = self._run(event, stop)
        except (OSError, ValueError) as error:
            problem = str(getattr(error, "strerror", None) or error)
        if problem:
            _log.warning(
                "the notify command %r failed for event %r: %s",
                self._program[0],
                event.key,
                problem,
            )

    def _run(self, event: Event, stop: Callable[[], bool]) -> str | None:
        """Run the program; return what went wrong, if anything did."""
        process = subprocess.Popen(
            self._program,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            # Only passed on, so that the program has its usual environment.
            env={**os.environ, VARIABLE: event.kind.value},  # noqa: TID251
            start_new_session=True,  # so that its children are killed with it
        )
        document = json.dumps(event.to_json()).encode() + b"\n"
        try:
            return _wait(process, document, self._timeout, stop)
        finally:
            _end(process)


def _wait(
    process: subprocess.Popen[bytes], document: bytes, timeout: float, stop: Callable[[], bool]
) -> str | None:
    deadline = time.monotonic() + timeout
    given: bytes | None = document
    while True:
        left = deadline - time.monotonic()
        try:
            process.communicate(given, timeout=max(0.0, min(_PAUSE, left)))
        except subprocess.TimeoutExpired:
            given = None  # communicate() remembers its input; it must not be passed twice
            if left <= 0:
                return f"it was killed after {timeout:g} seconds"
            if stop():
                return "it was killed because this run is out of time"
        else:
            code = process.returncode
            return f"it exited with code {code}" if code else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the program and its children."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
