"""A local file of lines that may be lost: whoever needs them can get them again.

No lock: several processes may append at once, and one may write the file again meanwhile. What is
lost by that, or torn, is fetched again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.stores.files import PRIVATE_FILE, read_file

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class CacheFile:
    """One such file. Without its folder, nothing is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> Iterator[bytes]:
        try:
            yield from read_file(self._path).split(b"\n")
        except OSError:
            return

    def append(self, lines: Iterable[bytes]) -> None:
        # The line break first: it ends a line that a killed process tore.
        data = b"\n" + b"".join(line + b"\n" for line in lines)
        with contextlib.suppress(OSError):
            fd = os.open(self._path, _APPEND, PRIVATE_FILE)
            try:
                os.write(fd, data)
            finally:
                os.close(fd)

    def rewrite(self, lines: Iterable[bytes]) -> None:
        new = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            try:
                new.write_bytes(b"".join(line + b"\n" for line in lines))
                new.chmod(PRIVATE_FILE)
                new.replace(self._path)
            finally:
                new.unlink(missing_ok=True)
