"""Starts the worker process that brings a checkpoint store back within its bounds.

The worker's code is in `keep_within_bounds`, which loads the planner and much more. A take that
starts a worker needs none of that.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import subprocess
import threading
import time
from collections.abc import Sequence

from holdfast.stores.interpreter import is_python, worker_words

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from holdfast.homes.checkpoints.open_store import Bounds

_log = logging.getLogger("holdfast")


def start(bounds: Bounds) -> None:
    """Start a worker for a store."""
    try:
        _start(bounds)
    except Exception as error:  # noqa: BLE001 - law 7: the take succeeded; the next one tries again
        _log.warning("The checkpoint store %s is still above its limits: %s", bounds.folder, error)


def _start(bounds: Bounds) -> None:
    if not is_python():
        from holdfast.homes.checkpoints.keep_within_bounds import bounder_of  # noqa: PLC0415 - this process is the worker

        work = bounder_of(bounds).work
        # The log needs the wall clock.
        args = (time.time,)  # noqa: TID251
        threading.Thread(target=work, args=args, name="holdfast-bounds", daemon=True).start()
        return
    asked = [
        os.fspath(bounds.home),
        os.fspath(bounds.folder),
        bounds.max_snapshots,
        bounds.max_bytes,
    ]
    _Children.start(
        worker_words("holdfast.homes.checkpoints.keep_within_bounds", "worker", json.dumps(asked))
    )


def workers() -> frozenset[int]:
    """Return the process ids of workers that this process started and that may still run."""
    return _Children.pids()


class _Children:
    """The workers that this process started; they are polled so that none stays a zombie."""

    _running: list[subprocess.Popen[bytes]] = []  # noqa: RUF012 - one per process
    _lock = threading.Lock()

    @classmethod
    def start(cls, words: Sequence[str]) -> None:
        with cls._lock:  # so that `pids`, called meanwhile, includes the new one
            if not cls._running:
                atexit.register(cls._let_go)
            cls._running[:] = [each for each in cls._running if each.poll() is None]
            cls._running.append(
                subprocess.Popen(
                    words,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )

    @classmethod
    def pids(cls) -> frozenset[int]:
        with cls._lock:
            return frozenset(each.pid for each in cls._running if each.returncode is None)

    @classmethod
    def _let_go(cls) -> None:
        """Workers outlive this process on purpose; stop Python from warning that they still run."""
        for each in cls._running:
            if each.poll() is None:
                each.returncode = 0
