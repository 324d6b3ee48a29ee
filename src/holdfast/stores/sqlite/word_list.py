"""The words of the search index, for finding those that contain a given part.

The index itself lists its words only together with all their places, which takes as long as reading
the whole index. So a search that had to do this keeps the words as a list, and the next one looks
through that. The list may have words that the index no longer has; they find nothing. It must not
lack a word of any message up to the number stored with it; newer messages are read.

A list is a cache. It is valid for the age that the store had when the list was made. The age is a
number that changes in any transaction that brings messages back under old numbers. The list is
dropped when removed messages are purged from the index: their words must not be readable here. A
change of what `search_text` returns for a message must drop it, too.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import zlib
from collections.abc import Iterator, Sequence

from holdfast.errors import HoldfastError
from holdfast.stores.disk import disk_room
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.schema import error_code
from holdfast.stores.sqlite.search_index import AGE, indexed
from holdfast.value import dataclass

#: FTS5 cuts off a word after 32,768 bytes: a word of this length may continue with anything.
LONG = 8_000
_BEGINNING = 100
#: With fewer messages than this, the index lists its words quickly enough.
_MANY = 10_000
#: A list may lack this many of the newest messages, or this share of those that it covers. They are
#: read, a thousand in about 15 ms; a new list takes 0.6 to 5 s for a million messages.
_FEW_BEHIND = 2_000
_SHARE_BEHIND = 100
#: A list is kept up to this size, which is some million words.
_MOST_BYTES = 32 * 1024 * 1024
_AT_ONCE = 10_000
_LEVEL = 1
#: A user who searches while the disk is full needs room, not less of it.
_LITTLE_ROOM = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A set of words: whole ones, each followed by a line break, and the beginnings of long
    ones."""

    whole: bytes
    long: Sequence[bytes] = ()

    def containing(self, part: bytes, *, at_end: bool) -> Iterator[bytes]:
        """The whole words that contain a part, or end with it."""
        wanted = part + b"\n" if at_end else part
        place = self.whole.find(wanted)
        while place >= 0:
            start = self.whole.rfind(b"\n", 0, place) + 1
            end = self.whole.index(b"\n", place)
            yield self.whole[start:end]
            place = self.whole.find(wanted, end)


class IndexWords:
    """The words of the index in one snapshot of the store. Use it inside a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._indexed = indexed(db)
        self._age = _age(db)
        self._new: bytes | None = None

    @property
    def known_to(self) -> int:
        """The number of the last message whose words are known."""
        return self._indexed if self._list is None else self._list[0]

    def keep(self, database: Database) -> None:
        """Store the list that had to be made, if no other process is writing. Call it after the
        transaction."""
        if self._new is None:
            return
        room = disk_room(database.path.parent)
        if room is not None and room.free < _LITTLE_ROOM:
            return
        with contextlib.suppress(HoldfastError):
            database.when_free(self._store, even_unwritten=True)

    def containing(
        self, part: str, most: int, *, at_end: bool
    ) -> Sequence[tuple[str, bool]] | None:
        """The words that contain a part, or end with it; None if there are more than `most`. The
        flag is True for the beginning of a long word, which may contain the part."""
        wanted = part.encode()
        found: list[tuple[str, bool]] = []
        for words in self._from_index() if self._list is None else [self._list[1]]:
            found += ((each.decode(errors="replace"), True) for each in words.long)
            for each in words.containing(wanted, at_end=at_end):
                found.append((each.decode(errors="replace"), False))
                if len(found) > most:
                    return None
        return found if len(found) <= most else None

    def _is_large(self) -> bool:
        return self._indexed >= _MANY and self._age is not None

    @functools.cached_property
    def _list(self) -> tuple[int, Words] | None:
        """The stored list, if it is recent, and the number of the last message that it covers."""
        found = _kept(self._db) if self._is_large() else None
        if found is None:
            return None
        age, known_to, words = found
        behind = self._indexed - known_to
        if age != self._age or behind > max(_FEW_BEHIND, known_to // _SHARE_BEHIND):
            return None
        return min(known_to, self._indexed), words

    def _from_index(self) -> Iterator[Words]:
        """Read the words of the index in portions. If all are read, they become a new list."""
        portions: list[bytes] = []
        long: list[bytes] = []
        size = 0
        rows = self._db.execute("SELECT CAST(term AS BLOB) FROM index_words")
        while terms := [term for (term,) in rows.fetchmany(_AT_ONCE)]:
            words = _words(terms)
            size += len(words.whole)
            if size <= _MOST_BYTES:
                portions.append(words.whole)
                long += words.long
            yield words
        if self._is_large() and size <= _MOST_BYTES:
            self._new = _packed(self._age or 0, self._indexed, portions, long)

    def _store(self, db: sqlite3.Connection) -> None:
        if _age(db) == self._age:
            db.execute(
                "INSERT OR REPLACE INTO word_list (number, words) VALUES (1, ?)", (self._new,)
            )


def _kept(db: sqlite3.Connection) -> tuple[int, int, Words] | None:
    """The stored list with its age and the last message that it covers; None if it is
    unreadable."""
    try:
        row = db.execute("SELECT words FROM word_list").fetchone()
        head, _, whole = zlib.decompress(row[0]).partition(b"\n") if row else (b"", b"", b"")
        age, known_to, *long = head.split(b" ")
        return int(age), int(known_to), Words(whole=whole, long=long)
    except (zlib.error, ValueError, TypeError):
        return None
    except sqlite3.DatabaseError as error:
        if error_code(error) != sqlite3.SQLITE_CORRUPT:
            raise
        return None  # left to `doctor` to report


def _packed(age: int, known_to: int, portions: Sequence[bytes], long: Sequence[bytes]) -> bytes:
    """Pack a list: no word contains a blank, and zlib adds a checksum."""
    head = b" ".join([b"%d %d" % (age, known_to), *long])
    return zlib.compress(b"".join([head, b"\n", *portions]), _LEVEL)


def _words(terms: Sequence[bytes]) -> Words:
    long: list[bytes] = []
    if max(map(len, terms)) > LONG:
        long = [_beginning(term) for term in terms if _is_long(term)]
        terms = [term for term in terms if not _is_long(term)]
    return Words(whole=b"\n".join([*terms, b""]), long=long)


def _age(db: sqlite3.Connection) -> int | None:
    row = db.execute("SELECT value FROM facts WHERE name = ?", (AGE,)).fetchone()
    return int(row[0]) if row else None


def _is_long(term: bytes) -> bool:
    return len(term) > LONG and len(term.decode(errors="replace")) > LONG


def _beginning(term: bytes) -> bytes:
    return term.decode(errors="replace")[:_BEGINNING].encode()
