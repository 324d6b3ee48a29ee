"""Blobs as the objects below one address of an object store.

A blob is one whole request, so it exists completely or not at all, and a kill leaves nothing to
clean up. Each blob is read back and compared before it counts as stored. If the response to a
request was lost, a look at the store shows what the request did.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import mmap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from holdfast.errors import DamageError, StorageError, UnreachableError
from holdfast.model.archive import Blob
from holdfast.stores.blobs.address import Address, Patience
from holdfast.stores.blobs.object_errors import UnansweredError, is_missing_blob, is_taken, plain

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from holdfast.stores.blobs.membership import Membership

#: Its presence shows that there is an archive.
MARKER = ".holdfast.json"
_MARKED = b'{"holdfast": "archive", "format": 1}\n'
#: Smaller data stays in memory until it is uploaded.
_IN_MEMORY = 4 * 1024 * 1024
_CHUNK = 1024 * 1024
#: Requests get the time that a connection with this many bytes a second needs.
_SLOWEST = 64 * 1024
_Answer = TypeVar("_Answer")


class ObjectBlobs:
    """The objects below an address. Its bucket must exist.

    Not every server keeps the promise that a new object replaces no other. `creates_only` is True
    if this one does; otherwise a name is looked up before it is used. That suffices as long as only
    one process at a time writes below a name.
    """

    def __init__(
        self,
        address: Address,
        *,
        member: Membership | None = None,
        temporary: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        """`member` is the home that uses the store; without one, its use is not recorded. Large
        blobs wait for their upload in the folder `temporary`."""
        self._address = address
        self._member = member
        self._temporary = temporary
        self._patience = patience or Patience()
        self._clients: dict[float, ObjectStore] = {}
        self._exists = self._made = False
        self.creates_only = member is not None and member.creates_only(self.place)

    @property
    def place(self) -> str:
        return self._address.url

    def check(self) -> bool:
        if not self._exists:
            self._exists = self._is_marked()
            if not self._exists and self._member is not None and self._member.knows(self.place):
                raise StorageError(
                    f"There is no archive at {self.place}, but this home used it before.",
                    hint="Check `url` and `endpoint` of [archive] in config.toml.",
                )
        return self._exists

    def _is_marked(self) -> bool:
        try:
            with self.get(MARKER) as content:
                said = content.read(_CHUNK)
        except FileNotFoundError:
            return False
        if said != _MARKED:
            raise StorageError(
                f"{self.place} is not an archive, or another version of Holdfast created it.",
                hint="Upgrade Holdfast, or choose another `url` of [archive].",
            )
        return True

    def check_usable(self) -> bool:
        """Like `check`: only the first write can show whether writing is allowed."""
        return self.check()

    def make(self) -> None:
        if self._made:
            return
        exists = self.check()
        if self._member is None or not self._member.knows(self.place):
            exists = exists or not self._is_refused(MARKER, _MARKED)
            # Once more: a server that accepts it again ignores the condition.
            self.creates_only = self._is_refused(MARKER, _MARKED)
        if self._member is not None:
            self._member.join(self, creates_only=self.creates_only)
        self._exists = self._made = True

    def put_new(
        self,
        name: str,
        write: Callable[[IO[bytes]], object],
        checks: Sequence[Callable[[IO[bytes]], object]] = (),
    ) -> None:
        """Store a new blob. The checks read what is sent; then what was stored is compared with
        it."""
        key = _key(name)
        with self.spool() as spooled:
            write(spooled)
            for check in checks:
                spooled.seek(0)
                check(spooled)
            spooled.seek(0)
            digest = _digest(spooled)
            size = spooled.tell()
            with _payload(spooled, size) as payload:
                self._send(key, payload, size, digest)
        if not self._holds(name, digest):
            self.delete([name])
            raise DamageError("it differs when read back; the original stays")

    def together(self, number: int) -> contextlib.AbstractContextManager[ObjectBlobs]:
        return contextlib.nullcontext(self)

    def finish(self) -> Mapping[str, OSError]:
        """Do nothing: each blob is durable by itself."""
        return {}

    def copy(self, name: str, new_name: str) -> None:
        source, target = _key(name), _key(new_name)
        if self.find(new_name) is not None:
            raise FileExistsError(new_name)
        client = self._client()
        self._ask(name, lambda: client.copy(source, target, overwrite=True))
        was, made = self._head(name), self._head(new_name)
        if (was["size"], was["e_tag"]) == (made["size"], made["e_tag"]) and was["e_tag"]:
            return
        with self.get(name) as content:
            digest = _digest(content)
        if not self._holds(new_name, digest):
            self.delete([new_name])
            raise DamageError("the copy in the object store differs from the original")

    @contextlib.contextmanager
    def get(self, name: str) -> Iterator[IO[bytes]]:
        key, client = _key(name), self._client()
        found = self._ask(name, lambda: client.get(key))
        size = found.meta["size"]
        if size > _IN_MEMORY:
            patient = self._client(size)
            found = self._ask(name, lambda: patient.get(key))
        pieces = iter(found.stream(min_chunk_size=_CHUNK))
        body = _Body(lambda: self._ask(name, lambda: next(pieces, b"")), size, self.place)
        with io.BufferedReader(body, _CHUNK) as stream:
            yield cast("IO[bytes]", stream)

    def find(self, name: str) -> Blob | None:
        try:
            size = self._head(name)["size"]
        except FileNotFoundError:
            return None
        return Blob(name=name, size=size, allocated=size)

    def names(self, folder: str = "") -> Iterator[Blob]:
        prefix, client = _key(folder) if folder else None, self._client()
        listed = self._ask(folder, lambda: client.list_with_delimiter(prefix))
        for each in listed["objects"]:
            # Some tools create an empty object to represent a folder.
            if each["path"] != folder and (folder or not each["path"].startswith(".")):
                yield Blob(name=each["path"], size=each["size"], allocated=each["size"])

    def delete(self, names: Iterable[str]) -> None:
        keys, client = [_key(name) for name in names], self._client()
        try:
            if keys:
                self._ask(keys[0], lambda: client.delete(keys))
        except FileNotFoundError:  # some services report a missing object and stop
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    self._ask(key, partial(client.delete, key))

    def clear_unfinished(self) -> None:
        """Do nothing: an unfinished upload leaves nothing."""

    def spool(self) -> IO[bytes]:
        """A temporary file."""
        folder = self._temporary
        return SpooledTemporaryFile(
            max_size=_IN_MEMORY,
            dir=str(folder) if folder is not None and folder.is_dir() else None,
        )

    # --- Requests ---------------------------------------------------------------------------------

    def _send(self, key: str, payload: object, size: int, digest: str) -> None:
        """Store a blob, even if responses get lost: then a look at the store shows what was
        done."""
        if not self.creates_only and self.find(key) is not None and not self._holds(key, digest):
            raise FileExistsError(key)
        for attempt in range(self._patience.retries + 1):
            try:
                self._put(key, payload, size)
            except FileExistsError:
                if self._holds(key, digest):
                    return  # an earlier attempt succeeded, but its response was lost
                raise
            except UnreachableError as error:
                if attempt == self._patience.retries or not isinstance(error, UnansweredError):
                    # It may have been stored all the same, and would never be found.
                    with contextlib.suppress(StorageError, OSError):
                        self.delete([key])
                    raise
                time.sleep(self._patience.longest_pause / 10 * 2**attempt)
            else:
                return

    def _put(self, key: str, payload: Any, size: int = 0) -> None:
        client = self._client(size)
        self._ask(key, lambda: client.put(key, payload, mode="create", use_multipart=False))

    def _is_refused(self, key: str, payload: bytes) -> bool:
        """True if a put is refused because the blob exists."""
        try:
            self._put(key, payload)
        except FileExistsError:
            return True
        return False

    def _holds(self, name: str, digest: str) -> bool:
        """True if a blob exists with this content."""
        try:
            with self.get(name) as content:
                return _digest(content) == digest
        except FileNotFoundError:
            return False

    def _head(self, name: str) -> Any:
        key, client = _key(name), self._client()
        return self._ask(name, lambda: client.head(key))

    def _ask(self, name: str, request: Callable[[], _Answer]) -> _Answer:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - the extra is there by now

        try:
            return request()
        except (BaseError, OSError, ValueError) as error:
            if is_missing_blob(error):
                raise FileNotFoundError(name) from None
            if is_taken(error):
                raise FileExistsError(name) from None
            raise plain(error, self._address) from None

    def _client(self, size: int = 0) -> ObjectStore:
        """A client that gives requests of this size enough time."""
        seconds = self._patience.request
        while size > seconds * _SLOWEST:
            seconds *= 2
        if seconds not in self._clients:
            self._clients[seconds] = self._address.opened(self._patience, seconds=seconds)
        return self._clients[seconds]


class _Body(io.RawIOBase):
    """The body of a response as a stream. A body that ends early is an error."""

    def __init__(self, more: Callable[[], Any], size: int, place: str) -> None:
        self._more = more
        self._left = size
        self._place = place
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._piece:
            self._piece = memoryview(self._more())
            if not self._piece and self._left:
                raise UnansweredError(f"The answer of the object store {self._place} was cut off.")
        taken = min(len(buffer), len(self._piece))
        buffer[:taken] = self._piece[:taken]
        self._piece = self._piece[taken:]
        self._left -= taken
        return taken


@contextlib.contextmanager
def _payload(spooled: IO[bytes], size: int) -> Iterator[Any]:
    """The whole payload of one request. A large one is mapped and takes no memory of its own."""
    if size <= _IN_MEMORY:
        spooled.seek(0)
        yield spooled.read()
        return
    mapped = mmap.mmap(spooled.fileno(), size, access=mmap.ACCESS_READ)
    try:
        yield mapped
    finally:
        with contextlib.suppress(BufferError):  # the library may still use it for a moment
            mapped.close()


def _digest(content: Any) -> str:
    return hashlib.file_digest(content, "sha256").hexdigest()


def _key(name: str) -> str:
    """The key of a blob. A name from a damaged catalogue must not lead elsewhere."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise StorageError(f"{name!r} cannot be the name of an object") from None
    if "\0" in name or not all(part not in ("", ".", "..") for part in name.split("/")):
        raise DamageError(f"{name!r} is not the name of a blob")
    return name
