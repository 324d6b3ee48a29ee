"""Files that left a home's `sessions/` compressed: read back and compared before they go."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.stores.files import make_private_dir, storage_errors, sync_dir

_CHUNK = 1024 * 1024


class ArchiveFolder:
    """`archive/<name>.gz`, readable with any gzip."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pack(self, path: Path) -> Path:
        """Compress a file into the archive, durably; the original is only read."""
        target = self._free_name(path.name)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        with storage_errors(f"archive {path}"):
            make_private_dir(self._folder)
            try:
                self._write(path, temporary)
                if not _same(path, temporary):
                    raise StorageError(f"{path} changed while it was archived; it was left alone.")
                # A link, not a rename: it never replaces an archive of the same name.
                os.link(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
            sync_dir(self._folder)
        return target

    def _free_name(self, name: str) -> Path:
        target = self._folder / f"{name}.gz"
        number = 1
        while target.exists():
            number += 1
            target = self._folder / f"{name}.{number}.gz"
        return target

    def _write(self, path: Path, temporary: Path) -> None:
        status = path.stat()
        opener = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(opener, "wb") as raw, path.open("rb") as source:
            with gzip.GzipFile(path.name, "wb", fileobj=raw, mtime=status.st_mtime) as packed:
                shutil.copyfileobj(source, packed, _CHUNK)
            raw.flush()
            os.fsync(raw.fileno())
        os.utime(temporary, ns=(status.st_mtime_ns, status.st_mtime_ns))


def _same(path: Path, packed: Path) -> bool:
    """Read the archive back: what cannot be read is not archived."""
    try:
        with path.open("rb") as source, gzip.open(packed, "rb") as copy:
            while True:
                expected, found = source.read(_CHUNK), copy.read(_CHUNK)
                if expected != found:
                    return False
                if not expected:
                    return True
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False
