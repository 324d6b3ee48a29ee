"""A local file with the names of blobs to delete once their store can be reached again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.stores.files import read_file, replace, storage_errors, sync_dir


class BlobsToDelete:
    """The file. It does not exist while no blob is waiting to be deleted."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> Sequence[str]:
        try:
            found = json.loads(read_file(self._path))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError) as error:
            raise StorageError(
                f"{self._path} cannot be read: {type(error).__name__}.",
                hint="It names archived sessions that were brought back, and whose bundles were "
                "out of reach. Without it they are listed as archived again.",
            ) from None
        return tuple(str(each) for each in found) if isinstance(found, list) else ()

    def add(self, names: Iterable[str]) -> None:
        with storage_errors(f"write to {self._path.parent}"):
            replace(self._path, json.dumps(sorted({*self.names(), *names})).encode("ascii"))
            sync_dir(self._path.parent)

    def clear(self) -> None:
        with storage_errors(f"write to {self._path.parent}"):
            self._path.unlink(missing_ok=True)
            sync_dir(self._path.parent)
