"""What happens to one call of a sequence: it is killed, or runs out of file size or of files."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from tests.crash.harness import die_at

KILL, SIZE, FILES = "killed", "file size", "open files"


@dataclass(frozen=True, slots=True)
class Fault:
    """`at` is the call before which it dies, the bytes a file may have, or the files left."""

    kind: str
    at: int

    def __str__(self) -> str:
        return f"{self.kind} {self.at}"


@contextlib.contextmanager
def suffering(fault: Fault | None) -> Iterator[None]:
    """The rest of this process, or of this block, has the fault."""
    if fault is None:
        yield
    elif fault.kind == KILL:
        disarm = die_at(fault.at)
        try:
            yield
        finally:
            disarm()
    else:
        # Past the limit a write fails; without this the signal would end the process first.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        what = resource.RLIMIT_FSIZE if fault.kind == SIZE else resource.RLIMIT_NOFILE
        before = resource.getrlimit(what)
        resource.setrlimit(what, (fault.at, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(what, before)
