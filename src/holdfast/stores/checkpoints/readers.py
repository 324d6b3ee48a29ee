"""Read, hash and compress many files, with several processes if there are several processors.

Threads would only take turns: for small files, most of the work is Python's own. A process that
dies or stops answering only costs time: its files are read here.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import marshal
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from holdfast.errors import StorageError
from holdfast.stores.checkpoints.read_file import Content, Left, Signature, read
from holdfast.stores.checkpoints.walk import place
from holdfast.stores.files import write_all
from holdfast.stores.git.index_file import status_bytes
from holdfast.stores.git.object import Kind, object_id
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.pack import pack_entry
from holdfast.stores.interpreter import is_python, worker_words
from holdfast.value import dataclass

#: git's mode, permissions, size, signature, stat data as in an index, id, and the packed object;
#: empty if the repository has it.
FileRead = tuple[int, int, int, Signature, bytes, bytes, bytes]
#: A string is the reason why a file cannot be captured; None means that there is no file.
Found = FileRead | str | None

#: More would only wait for the one process that writes the pack.
_MOST_WORKERS = 3
_PORTION = 32
#: Portions per worker: it reads one while we fetch the other.
_AHEAD = 2
_SILENT_MS = 20_000
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How to read files: below `root`, up to the size `limit`, in a look that began at `moment`;
    `objects` is the repository's object folder."""

    root: bytes
    limit: int | None
    moment: int
    objects: Path

    def reader(self) -> _Reader:
        return _Reader(self, Objects(self.objects))


class _Reader:
    def __init__(self, how: Reading, objects: Objects) -> None:
        self._how = how
        self._objects = objects

    def all(self, paths: Sequence[bytes]) -> list[Found]:
        return [self._one(path) for path in paths]

    def _one(self, path: bytes) -> Found:
        how = self._how
        found = read(place(how.root, path), how.limit, moment=how.moment)
        if isinstance(found, Left):
            return found.reason
        if not isinstance(found, Content):
            return None
        kind, data = found.kind, found.data
        oid = object_id(Kind.BLOB, data)
        stored = b"" if self._objects.stored(oid) else pack_entry(Kind.BLOB, data)
        status = status_bytes(found.status, kind)
        return kind, found.permissions, len(data), found.signature, status, oid, stored


class Readers:
    """Reads files with as many processes as there are processors, including this one."""

    def __init__(self, how: Reading, *, workers: int | None = None) -> None:
        self._here = how.reader()
        asked = [os.fsdecode(how.root), how.limit, how.moment, str(how.objects)]
        count = _spare_processors() if workers is None else workers
        self._workers: list[_Worker] = []
        with contextlib.suppress(OSError):  # no more processes allowed: use fewer
            for _ in range(count if is_python() else 0):
                self._workers.append(_Worker(json.dumps(asked)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def read(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, Found]]:
        """Yield what is at each path, in any order."""
        portions = _portions(paths)
        for portion in portions:
            free = next((each for each in self._workers if each.is_free), None)
            if free is None or not free.ask(portion):
                yield from self._read_here(portion)
            yield from self._answers(wait=0)
        while any(each.asked for each in self._workers):
            yield from self._answers(wait=_SILENT_MS)

    def _answers(self, wait: int) -> Iterator[tuple[bytes, Found]]:
        """Yield what workers have read. A worker that is silent for too long is dropped."""
        waiting = select.poll()
        busy = {each.output: each for each in self._workers if each.asked}
        for output in busy:
            waiting.register(output, select.POLLIN | select.POLLHUP)
        ready = [busy[output] for output, _ in waiting.poll(wait)] if busy else []
        for worker in ready or (busy.values() if wait else ()):
            answer = worker.answer() if ready else None
            if answer is not None:
                yield from answer
                continue
            self._workers.remove(worker)
            lost = list(itertools.chain.from_iterable(worker.asked))
            worker.end()
            yield from self._read_here(lost)

    def _read_here(self, paths: Sequence[bytes]) -> Iterator[tuple[bytes, Found]]:
        return zip(paths, self._here.all(paths), strict=True)


class _Worker:
    """A process that reads portions of files, one after the other."""

    def __init__(self, asked: str) -> None:
        self._process = subprocess.Popen(
            worker_words(__name__, "serve", asked),
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # a buffer that it never read would be written again at close
            start_new_session=True,  # Ctrl-C goes to us only, and we end it
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("it was started without pipes")
        self._input = self._process.stdin.fileno()
        self.output = self._process.stdout.fileno()
        self.asked: deque[Sequence[bytes]] = deque()

    @property
    def is_free(self) -> bool:
        return len(self.asked) < _AHEAD

    def ask(self, portion: Sequence[bytes]) -> bool:
        """Send a portion; return whether that worked."""
        try:
            _send(self._input, portion)
        except OSError:
            return False
        self.asked.append(portion)
        return True

    def answer(self) -> list[tuple[bytes, Found]] | None:
        """Return the oldest answer; None if the worker died."""
        try:
            found = _received(self._read)
        except (OSError, ValueError, EOFError, TypeError):
            found = None
        if found is None or len(found) != len(self.asked[0]):
            return None
        return list(zip(self.asked.popleft(), found, strict=True))

    def _read(self, size: int) -> bytes:
        """Unbuffered: a buffer could swallow the next answer, so that `poll` never reports it."""
        data = b""
        while len(data) < size and (more := os.read(self.output, size - len(data))):
            data += more
        return data

    def end(self) -> None:
        self._process.kill()
        with self._process:
            self.asked.clear()


def serve(asked: str) -> None:
    """Run as a worker until the parent closes the pipe."""
    root, limit, moment, objects = json.loads(asked)
    how = Reading(root=os.fsencode(root), limit=limit, moment=moment, objects=Path(objects))
    try:
        reader = how.reader()
        while (portion := _received(sys.stdin.buffer.read)) is not None:
            _send(sys.stdout.fileno(), reader.all(portion))
    except (OSError, StorageError):
        os._exit(1)  # the parent is gone, or will hit the same error itself


def _send(to: int, values: Any) -> None:
    data = marshal.dumps(values)
    write_all(to, len(data).to_bytes(_LENGTH_BYTES, "big") + data)


def _received(read_whole: Callable[[int], bytes]) -> list[Any] | None:
    """Return the next message from the other side; None at the end."""
    head = read_whole(_LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    data = read_whole(size)
    if len(head) < _LENGTH_BYTES or len(data) < size:
        return None
    values: list[Any] = marshal.loads(data)  # noqa: S302 - from our own process
    return values


def _portions(paths: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(paths)
    while portion := list(itertools.islice(rest, _PORTION)):
        yield portion


def _spare_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return min(count - 1, _MOST_WORKERS)
