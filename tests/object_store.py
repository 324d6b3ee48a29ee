"""A store of blobs that can do no more than an object store, in memory.

`Bucket` is the service: conditional put of a whole object, get, head, list, copy and delete. There
is no rename, no append, no lock, and nothing that spans two objects. `ObjectBlobs` is the port over
it. A test can end the process before or after any request.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from holdfast.errors import DamageError
from holdfast.model.archive import Blob


class EndedError(BaseException):
    """The process ended here. Nothing catches this."""


class Bucket:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests = 0
        #: Which request is the last, and whether the service still carries it out.
        self.last: tuple[int, bool] | None = None

    def put(self, key: str, data: bytes) -> None:
        with self._request():
            if key in self.objects:
                raise FileExistsError(key)
            self.objects[key] = data

    def copy(self, key: str, new_key: str) -> None:
        with self._request():
            if key not in self.objects:
                raise FileNotFoundError(key)
            if new_key in self.objects:
                raise FileExistsError(new_key)
            self.objects[new_key] = self.objects[key]

    def get(self, key: str) -> bytes:
        with self._request():
            if key not in self.objects:
                raise FileNotFoundError(key)
            return self.objects[key]

    def head(self, key: str) -> int | None:
        with self._request():
            return len(self.objects[key]) if key in self.objects else None

    def list(self, prefix: str) -> dict[str, int]:
        with self._request():
            return {
                key: len(data)
                for key, data in self.objects.items()
                if key.startswith(prefix) and "/" not in key.removeprefix(prefix)
            }

    def delete(self, key: str) -> None:
        with self._request():
            self.objects.pop(key, None)

    @contextlib.contextmanager
    def _request(self) -> Iterator[None]:
        self.requests += 1
        is_last = self.last is not None and self.requests == self.last[0]
        if is_last and self.last is not None and not self.last[1]:
            raise EndedError
        yield
        if is_last:
            raise EndedError


class _Stream(io.RawIOBase):
    """A response: it can be read once, and knows neither its length nor a place in it."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        return self._data.readinto(buffer)


class ObjectBlobs:
    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    @property
    def place(self) -> str:
        return "memory://bucket"

    def check(self) -> bool:
        return True

    def check_usable(self) -> bool:
        return True

    def make(self) -> None:
        """A bucket exists before anybody uses it."""

    def put_new(
        self,
        name: str,
        write: Callable[[IO[bytes]], object],
        checks: Sequence[Callable[[IO[bytes]], object]] = (),
    ) -> None:
        upload = io.BytesIO()
        write(upload)
        self.bucket.put(_key(name), upload.getvalue())
        try:
            for check in checks:
                with self.get(name) as content:
                    check(content)
        except Exception:
            self.bucket.delete(name)
            raise

    def together(self, number: int) -> contextlib.AbstractContextManager[ObjectBlobs]:
        return contextlib.nullcontext(self)

    def finish(self) -> Mapping[str, OSError]:
        return {}

    def copy(self, name: str, new_name: str) -> None:
        self.bucket.copy(_key(name), _key(new_name))

    @contextlib.contextmanager
    def get(self, name: str) -> Iterator[IO[bytes]]:
        with io.BufferedReader(_Stream(self.bucket.get(_key(name)))) as stream:
            yield stream

    def find(self, name: str) -> Blob | None:
        size = self.bucket.head(_key(name))
        return None if size is None else Blob(name=name, size=size, allocated=size)

    def names(self, folder: str = "") -> Iterator[Blob]:
        listed = self.bucket.list(f"{_key(folder)}/" if folder else "")
        return (Blob(name=name, size=size, allocated=size) for name, size in listed.items())

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.bucket.delete(_key(name))

    def clear_unfinished(self) -> None:
        """The service keeps no part of an upload that did not end."""


def spool() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _key(name: str) -> str:
    if "\0" in name or not all(part not in ("", ".", "..") for part in name.split("/")):
        raise DamageError(f"{name!r} is not the name of a blob")
    return name
