"""The manifest of a bundle, which is its first member, `beside.json`.

It holds the sha256 of every other member, and everything that the line of an export leaves out. So
the catalogue can be rebuilt from the bundles alone.
"""

from __future__ import annotations

import json

from holdfast.errors import DamageError, UsageError
from holdfast.model.archive import Holds, session_from_json
from holdfast.model.arguments import check_foreign_id
from holdfast.model.json_value import TOO_LARGE, JsonValue, Reader
from holdfast.model.session import Session
from holdfast.value import dataclass

FORMAT = 2
#: The format that versions before bundles of files can read.
_FORMAT_OF_SESSIONS = 1
_MODES = 0o7777
#: The largest number means "leave unchanged" to the system calls that change owners.
_OWNERS = 2**32 - 1


class NewerBundleError(DamageError):
    """Written by a newer version; not damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFile(JsonValue):
    """A file of the session: its name, checksum and metadata.

    `link` is the target of a symbolic link, which has no content.
    """

    name: str
    bytes: int
    sha256: str
    mode: int
    mtime_ns: int
    uid: int
    gid: int
    link: str | None = None

    @classmethod
    def from_json(cls, value: object) -> PackedFile:
        read = Reader(value, "file of a bundle", DamageError)
        mtime = read.value("mtime_ns")
        if not isinstance(mtime, int) or isinstance(mtime, bool) or abs(mtime) >= TOO_LARGE:
            raise DamageError("`mtime_ns` of a file of a bundle is not a valid time of a file")
        return cls(
            name=_plain(read.text("name")),
            bytes=read.whole("bytes"),
            sha256=read.text("sha256"),
            mode=read.whole("mode") & _MODES,
            mtime_ns=mtime,
            uid=owner(read, "uid"),
            gid=owner(read, "gid"),
            link=None if read.value("link") is None else read.text("link"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleManifest:
    """The manifest of a bundle. `line_bytes` and `line_sha256` describe `session.jsonl`, which a
    bundle of files alone does not have.

    `first_message` is the number of the session's first message in the store. Numbers are never
    reused, so it distinguishes this session from a later one with the same id.
    """

    operation: str
    number: int
    archived_at: float
    session: Session
    children: tuple[str, ...]
    line_bytes: int
    line_sha256: str
    first_message: int | None = None
    files: tuple[PackedFile, ...] = ()
    holds: Holds = Holds.SESSION

    def to_bytes(self) -> bytes:
        whole = self.holds is Holds.SESSION
        document = {
            "format": _FORMAT_OF_SESSIONS if whole else FORMAT,
            "holds": self.holds.value,
            "operation": self.operation,
            "number": self.number,
            "archived_at": self.archived_at,
            "session": self.session.to_json(),
            "children": list(self.children),
            "first_message": self.first_message,
            "line": {"bytes": self.line_bytes, "sha256": self.line_sha256},
            "files": [file.to_json() for file in self.files],
        }
        # One line for each field, for readability: Python's encoder is ten times slower when it
        # indents.
        lines = ",\n".join(
            f" {json.dumps(name)}: {json.dumps(document[name])}" for name in document
        )
        return f"{{\n{lines}\n}}\n".encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> BundleManifest:
        try:
            return _read(Reader(json.loads(data), "bundle", DamageError))
        except (ValueError, RecursionError) as error:
            raise DamageError(f"its beside.json is not JSON: {error}") from None
        except UsageError as error:
            raise DamageError(error.message) from None


def _read(read: Reader) -> BundleManifest:
    if read.whole("format") > FORMAT:
        raise NewerBundleError(
            f"the bundle has format {read.whole('format')}; this version reads up to {FORMAT}",
            hint="Upgrade Holdfast.",
        )
    line = Reader(read.value("line"), "line of a bundle", DamageError)
    files = tuple(PackedFile.from_json(each) for each in read.array("files"))
    if len({file.name for file in files}) != len(files):
        raise DamageError("two files in the bundle have the same name")
    return BundleManifest(
        operation=read.text("operation"),
        number=read.whole("number"),
        archived_at=read.number("archived_at"),
        session=session_from_json(read.value("session")),
        children=tuple(_id(each) for each in read.array("children")),
        line_bytes=line.whole("bytes"),
        line_sha256=line.text("sha256"),
        first_message=None if read.value("first_message") is None else read.whole("first_message"),
        files=files,
        holds=read.choice("holds", Holds) if "holds" in read else Holds.SESSION,
    )


def _id(value: object) -> str:
    if not isinstance(value, str):
        raise DamageError("a child of a bundle must be an id")
    return check_foreign_id(value)


def owner(read: Reader, key: str) -> int:
    """A user or group id that a system call accepts."""
    number = read.whole(key)
    if number >= _OWNERS:
        raise DamageError(f"`{key}` of a file of a bundle is not a user or group id")
    return number


def _plain(name: str) -> str:
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise DamageError(f"{name!r} is not a file name")
    return name
