"""A session in the archive, or only its files, as the catalogue of the archive lists it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

from holdfast.errors import DamageError
from holdfast.model.arguments import check_foreign_id
from holdfast.model.guard import guarded_from_json, tokens_from_json
from holdfast.model.item import ARCHIVED, ARCHIVED_FILES, Item, Problem
from holdfast.model.json_value import Reader, fields_to_json
from holdfast.model.session import Hit, Json, Relation, Session, Tokens
from holdfast.model.text import format_bytes
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """`size` is the length of the content, `allocated` the disk space that deleting it frees."""

    name: str
    size: int
    allocated: int


class Holds(StrEnum):
    """What a bundle holds: a session that left the store, with its files, or only the files of a
    session that stays there."""

    SESSION = "session"
    FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedSession:
    """The session as it was when it was archived, and its bundle.

    `file` is the name of the bundle, `archive_bytes` and `sha256` are its size and checksum, and
    `operation` is the operation that archived it.
    """

    session: Session
    archived_at: float
    operation: str
    file: str
    archive_bytes: int
    sha256: str
    holds: Holds = Holds.SESSION

    @property
    def home(self) -> str:
        """The folder of the home that archived it, if several homes share an archive."""
        return self.file.rpartition("/")[0]

    @property
    def kind(self) -> str:
        """Its kind as an item of a plan."""
        return ARCHIVED if self.holds is Holds.SESSION else ARCHIVED_FILES

    @property
    def moment(self) -> tuple[float, int]:
        """When it was archived. Two operations may have the same time, so their numbers decide."""
        number = int(self.operation) if self.operation.isdecimal() else 0
        return self.archived_at, number

    def to_json(self) -> dict[str, Any]:
        return self.session.to_json() | fields_to_json(self, without=("session",))

    @classmethod
    def from_json(cls, value: object) -> ArchivedSession:
        read = Reader(value, "catalogue line", DamageError)
        return cls(
            session=session_from_json(value),
            archived_at=read.number("archived_at"),
            operation=read.text("operation"),
            file=read.text("file"),
            archive_bytes=read.whole("archive_bytes"),
            sha256=read.text("sha256"),
            # Earlier versions did not write this field.
            holds=read.choice("holds", Holds) if "holds" in read else Holds.SESSION,
        )

    def as_item(self, allocated: int) -> Item:
        """The bundle as an item that a policy can judge. Its age is its time in the archive."""
        return Item(
            kind=self.kind,
            id=self.file,
            source=self.session.source,
            session=self.session.id,
            bytes=allocated,
            last_active_at=self.archived_at,
            version=self.sha256,
            pinned=self.session.pinned,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveHits:
    """What a search of the archive found, and the bundles that it could not read."""

    hits: tuple[Hit, ...]
    problems: tuple[Problem, ...] = ()


def session_from_json(value: object) -> Session:
    """The session that `Session.to_json` wrote; raises `DamageError` or `UsageError`."""
    read = Reader(value, "session", DamageError)
    relation = _text(read, "relation")
    tokens = tokens_from_json(read, "tokens")
    cost = read.number("cost")
    extra = read.value("extra")
    if not isinstance(extra, dict):
        raise DamageError("`extra` of a session must be an object")
    active = read.number("last_active_at")
    ended = None if read.value("ended_at") is None else read.number("ended_at")
    return Session(
        id=check_foreign_id(read.text("id")),
        source=read.text("source"),
        started_at=read.number("started_at"),
        last_active_at=active if ended is None else max(active, ended),  # older bundles lack that
        parent_id=_text(read, "parent_id"),
        relation=None if relation is None else read.choice("relation", Relation),
        title=_text(read, "title"),
        cwd=_text(read, "cwd"),
        model=_text(read, "model"),
        ended_at=ended,
        end_reason=_text(read, "end_reason"),
        pinned=read.flag("pinned"),
        routing_key=_text(read, "routing_key"),
        message_count=read.whole("message_count"),
        tool_call_count=read.whole("tool_call_count"),
        tokens=tokens,
        cost=cost,
        unpriced=_unpriced(read, tokens, cost),
        bytes=read.whole("bytes"),
        extra=cast("Mapping[str, Json]", extra),
        guarded=guarded_from_json(
            read.value("guarded") if "guarded" in read else None, DamageError
        ),
    )


def _unpriced(read: Reader, tokens: Tokens, cost: float) -> Tokens:
    """Lines of earlier versions lack the field. There, a cost of 0 means that no cost was known."""
    if "unpriced_in" not in read:
        return Tokens() if cost else tokens
    return tokens_from_json(read, "unpriced")


def _text(read: Reader, key: str) -> str | None:
    return None if read.value(key) is None else read.text(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveWeight:
    """What an archive takes on the disk without its trash, and what could not be read."""

    bytes: int
    trash_bytes: int = 0
    problems: tuple[Problem, ...] = ()


def size_words(archived: Sequence[ArchivedSession], on_disk: int) -> str:
    """`22.2 MB of messages in 269.9 kB`. `on_disk` is what the bundles take on the disk, which is
    more than their length. It is 0 if the archive is on another disk; then their length is used."""
    were = format_bytes(sum(each.session.bytes for each in archived))
    are = on_disk or sum(each.archive_bytes for each in archived)
    return f"{were} of messages in {format_bytes(are)}"
