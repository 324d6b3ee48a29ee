"""One archived session as one file: a compressed tar that any `tar` can read.

    beside.json      facts about the session, and the sha256 of the other members
    session.jsonl    the session as an export writes it
    files/<name>     its files, with their modes and times

The files of a session that stays in the store can be archived too: such a bundle has no
session.jsonl.

Reading trusts nothing: a bundle may be damaged, or made by hand.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Protocol

from holdfast.errors import UNREADABLE, DamageError, StorageError, in_words
from holdfast.model.archive import Holds
from holdfast.stores.archive.bundle_manifest import BundleManifest, PackedFile
from holdfast.stores.archive.codec import CORRUPT, Codec
from holdfast.value import dataclass

MANIFEST = "beside.json"
LINE = "session.jsonl"
FILES = "files/"
_CHUNK = 1024 * 1024
_LARGEST_MANIFEST = 64 * 1024 * 1024
_PRIVATE = 0o600
_NANO = 10**9


class ChangedError(DamageError):
    """The source changed while it was packed."""


class TooLongError(DamageError):
    """A session whose line is longer than an import accepts."""


class FileStatus(Protocol):
    """The part of `os.stat_result` that a bundle records. An archive can be in any store of blobs,
    so this module does not import `os`."""

    @property
    def st_mode(self) -> int: ...

    @property
    def st_mtime_ns(self) -> int: ...

    @property
    def st_uid(self) -> int: ...

    @property
    def st_gid(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file to be packed. `open` opens its content; a symbolic link has only `link`. `version`
    shows whether the file changed since it was found."""

    name: str
    status: FileStatus
    open: Callable[[], IO[bytes]]
    link: str | None = None
    version: str = ""


class Measuring(io.RawIOBase):
    """Measures a stream while another function reads it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def read(self, size: int = -1, /) -> bytes:
        piece = self._stream.read(size)
        self.size += len(piece)
        self._digest.update(piece)
        return piece

    def rest(self) -> None:
        """Read the rest of the stream."""
        while self.read(_CHUNK):
            pass


class OneLine:
    """The first line of a stream. Anything after it is not part of the session."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream: IO[bytes] | None = stream

    def readline(self, size: int = -1, /) -> bytes:
        if self._stream is None:
            return b""
        line = self._stream.readline(size)
        if not line or line.endswith(b"\n"):
            self._stream = None
        return line


def write(
    raw: IO[bytes],
    codec: Codec,
    *,
    line: Iterable[str] | None,
    files: Iterable[SourceFile],
    describe: Callable[[int, str, tuple[PackedFile, ...]], BundleManifest],
    spool: Callable[[], IO[bytes]],
    longest_line: int,
) -> BundleManifest:
    """Write a bundle into `raw`. Memory is bounded, however long the session is.

    `describe` is given the size and the sha256 of the line, and the files. Without a `line` the
    bundle holds only files.
    """
    # A tar stores the size of a member before its content, so the line is written to a temporary
    # file first.
    with spool() as spooled:
        size, digest = _spool(line or (), spooled, longest_line)
        described = ((source, _packed(source)) for source in files)
        sources = [(source, file) for source, file in described if file is not None]
        manifest = describe(size, digest, tuple(packed for _, packed in sources))
        with (
            contextlib.closing(codec.writer(raw)) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            head = manifest.to_bytes()
            tar.addfile(_member(MANIFEST, len(head), manifest.archived_at), io.BytesIO(head))
            if line is not None:
                spooled.seek(0)
                tar.addfile(_member(LINE, size, manifest.archived_at), spooled)
            for source, file in sources:
                _add(tar, source, file)
    return manifest


def read_manifest(raw: IO[bytes], codec: Codec) -> BundleManifest:
    """The manifest of a bundle, without reading the rest."""
    with reading(), members(raw, codec) as found:
        return _manifest(found)


def verify(raw: IO[bytes], codec: Codec) -> BundleManifest:
    """Read a whole bundle and compare every member; raises `DamageError` naming the member."""
    return read(raw, codec).manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A bundle that was read to its end and compared. `line` is the session's line; None if there
    is none or it was too long to keep. `contents` are those of its files, by name; None if they
    were too long together."""

    manifest: BundleManifest
    line: bytes | None = None
    contents: Mapping[str, bytes] | None = None


def read(raw: IO[bytes], codec: Codec, *, keep: int = 0) -> Read:
    """Like `verify`, but keep the session's line if it has at most `keep` bytes, and the contents
    of its files if together they have at most `keep`."""
    line = None
    contents: dict[str, bytes] = {}
    room = keep
    with reading(), members(raw, codec) as found:
        manifest = _manifest(found)
        missing = {FILES + file.name: file.sha256 for file in manifest.files if file.link is None}
        if manifest.holds is Holds.SESSION:
            missing[LINE] = manifest.line_sha256
        links = {FILES + file.name: file.link for file in manifest.files if file.link is not None}
        for name, link, content in found:
            if name in links and links.pop(name) != link:
                raise DamageError(f"its {name} differs from what was archived")
            if name not in missing:
                continue  # a later version may add members
            beginning = content.read(keep if name == LINE else max(0, room))
            size, sha256 = measured(content, beginning)
            if missing.pop(name) != sha256:
                raise DamageError(f"its {name} differs from what was archived")
            is_whole = size == len(beginning)
            if name != LINE:
                contents[name.removeprefix(FILES)] = beginning
                room = room - size if is_whole else -1
            elif is_whole:
                line = beginning
        for name in (*missing, *links):
            raise DamageError(f"its {name} is not there")
    return Read(manifest=manifest, line=line, contents=contents if room >= 0 else None)


Member = tuple[str, str | None, IO[bytes]]


@contextlib.contextmanager
def members(raw: IO[bytes], codec: Codec) -> Iterator[Iterator[Member]]:
    """Each member in order: name, link target, and content, which is valid until the next
    member."""
    with (
        contextlib.closing(codec.reader(raw)) as unpacked,
        tarfile.open(fileobj=unpacked, mode="r|") as tar,
    ):
        yield _each(tar, unpacked)


@contextlib.contextmanager
def line_of(raw: IO[bytes], codec: Codec) -> Iterator[OneLine]:
    """The line of the session, as a stream."""
    with reading(), members(raw, codec) as found:
        for name, _, content in found:
            if name == LINE:
                yield OneLine(content)
                return
        raise DamageError(f"its {LINE} is not there")


def measured(content: IO[bytes], beginning: bytes = b"") -> tuple[int, str]:
    """The length of a stream and its sha256. `beginning` was read from it before."""
    size, digest = len(beginning), hashlib.sha256(beginning)
    while piece := content.read(_CHUNK):
        size += len(piece)
        digest.update(piece)
    return size, digest.hexdigest()


def digest_of(content: IO[bytes]) -> str:
    return measured(content)[1]


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Turn the errors of tar and codecs for damaged bytes into `DamageError`."""
    try:
        yield
    except (*CORRUPT, *UNREADABLE, tarfile.TarError) as error:
        raise DamageError(in_words(error)) from None


def _each(tar: tarfile.TarFile, unpacked: IO[bytes]) -> Iterator[Member]:
    seen = set()
    for member in tar:
        if member.name in seen:
            raise DamageError(f"duplicate member {member.name!r}")
        seen.add(member.name)
        if member.issym():
            yield member.name, member.linkname, io.BytesIO()
            continue
        content = tar.extractfile(member) if member.isfile() else None
        if content is not None:
            yield member.name, None, content
    while unpacked.read(_CHUNK):
        pass  # read on: the checksum is at the very end


def _manifest(found: Iterator[Member]) -> BundleManifest:
    name, _, content = next(found, ("", None, io.BytesIO()))
    if name != MANIFEST:
        raise DamageError(f"it does not begin with {MANIFEST}")
    data = content.read(_LARGEST_MANIFEST + 1)
    if len(data) > _LARGEST_MANIFEST:
        raise DamageError(f"its {MANIFEST} is too large")
    return BundleManifest.from_bytes(data)


def _spool(line: Iterable[str], spool: IO[bytes], longest: int) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    for piece in line:
        data = piece.encode("utf-8")
        size += len(data)
        if size > longest:
            raise TooLongError("it is too long to be imported again")
        digest.update(data)
        spool.write(data)
    return size, digest.hexdigest()


def _packed(source: SourceFile) -> PackedFile | None:
    """The description of a file; None if the file vanished meanwhile."""
    status = source.status
    digest, size = "", 0
    if source.link is None:
        try:
            with source.open() as content:
                size, digest = measured(content)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"its file {source.name} cannot be read: {error.strerror}") from None
    return PackedFile(
        name=source.name,
        bytes=size,
        sha256=digest,
        mode=stat.S_IMODE(status.st_mode),
        mtime_ns=status.st_mtime_ns,
        uid=status.st_uid,
        gid=status.st_gid,
        link=source.link,
    )


def _add(tar: tarfile.TarFile, source: SourceFile, file: PackedFile) -> None:
    member = _member(FILES + file.name, file.bytes, 0)
    member.mtime = file.mtime_ns // _NANO
    member.pax_headers = {"mtime": _seconds(file.mtime_ns)}
    member.mode = file.mode
    member.uid, member.gid = file.uid, file.gid
    if file.link is not None:
        member.type = tarfile.SYMTYPE
        member.linkname = file.link
        tar.addfile(member)
        return
    try:
        with source.open() as content:
            tar.addfile(member, content)
    except FileNotFoundError:
        raise ChangedError(f"{file.name} vanished while it was archived") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise ChangedError(f"{file.name} changed while it was archived") from None


def _member(name: str, size: int, mtime: float) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mtime = int(mtime)
    member.mode = _PRIVATE
    return member


def _seconds(nanoseconds: int) -> str:
    """Exact seconds in the format of a pax header: a float would lose the last digits."""
    seconds, rest = divmod(abs(nanoseconds), _NANO)
    return f"{'-' if nanoseconds < 0 else ''}{seconds}.{rest:09}"
