"""The files of many archived sessions on their way back, which become durable together."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from typing import Self

from holdfast.homes.archive.session_files import (
    SessionFolder,
    give_name,
    is_free,
    make_unnamed,
    remove_unnamed,
)
from holdfast.stores.archive.beside import Beside, PackedFile
from holdfast.stores.blobs.together import flush_of_many
from holdfast.stores.files import lstat_at, make_private_dir

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


class FilesBack:
    """Files are whole, and have no names until `finish`.

    Write-order rule: the content of each is on the disk before the first has its name, and the
    names are before `finish` returns: only then may a bundle go. A killed run leaves temporary
    names, which follow from the files: the run that finishes it makes them again.
    """

    def __init__(self, folder: SessionFolder, sessions: int) -> None:
        """About so many `sessions` have files."""
        self._folder = folder
        self._flush = flush_of_many(sessions)
        self._fd: int | None = None
        self._unnamed: list[tuple[str, PackedFile]] = []
        self._taken: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._fd is not None:
            for _, file in self._unnamed:
                with contextlib.suppress(OSError):
                    remove_unnamed(self._fd, file)
            os.close(self._fd)

    def put(self, name: str, beside: Beside, contents: Mapping[str, bytes]) -> None:
        """Make the files of one bundle. `name` is what `finish` calls it."""
        for file in beside.files:
            self._folder.check_name(beside, file)
        for file in beside.files:
            folder = self._opened()
            if lstat_at(file.name, folder) is None:
                content = io.BytesIO(contents.get(file.name, b""))
                make_unnamed(folder, file, content, flush=self._flush is None)
                self._unnamed.append((name, file))
            elif not is_free(folder, file):
                self._taken.setdefault(name, []).append(file.name)

    def finish(self) -> Mapping[str, list[str]]:
        """Flush them and give them their names; more may follow. Returns the names that something
        else took meanwhile, by bundle. After an error, all bundles count as not brought back."""
        taken, self._taken = self._taken, {}
        if self._fd is None:
            return taken
        if self._flush is not None and self._unnamed:
            self._flush(self._fd)
        while self._unnamed:
            name, file = self._unnamed[-1]
            if not give_name(self._fd, file):
                taken.setdefault(name, []).append(file.name)
            self._unnamed.pop()
        os.fsync(self._fd)
        return taken

    def _opened(self) -> int:
        """Before the first file is written: a flush of the disk tells of what failed since then."""
        if self._fd is None:
            make_private_dir(self._folder.path)
            self._fd = os.open(self._folder.path, _FOLDER)
        return self._fd
