"""The words of the search index, for finding those that contain a part.

The index itself names them only together with every place where they are, which takes as long as to
read all of it. So a search that had to do this keeps the words as a list, and the next one looks
through that. It may have words that the index no longer has; they find nothing. It may not lack
a word of a message up to the number that it names; newer messages are read.

A list is a cache. It holds for the age that the store had when the list was made, a number that
changes in the transaction in which messages come back under old numbers. It is dropped when the
index is cleared of what left it: what was forgotten is not to be read here. A change of what
`search_text` gives for a message must drop it, too.
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

#: FTS5 cuts off what is behind 32,768 bytes of a word: in one of this length anything may follow.
LONG = 8_000
_BEGINNING = 100
#: In fewer messages than these the index names its words quickly enough.
_MANY = 10_000
#: A list may be behind by so many messages, or by this share of those that it knows. They are read,
#: a thousand of them in about 15 ms; a new list takes 0.6 to 5 s for a million messages.
_FEW_BEHIND = 2_000
_SHARE_BEHIND = 100
#: A list is kept up to this size, which is that of some million words.
_MOST_BYTES = 32 * 1024 * 1024
_AT_ONCE = 10_000
_LEVEL = 1
#: Who searches when the disk is full wants room, not less of it.
_LITTLE_ROOM = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Some words: whole ones, each with a line break behind it, and the beginnings of long ones."""

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
    """The words of the index in one moment of the store. Inside a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._indexed = indexed(db)
        self._age = _age(db)
        self._new: bytes | None = None

    @property
    def known_to(self) -> int:
        """The words are those of the messages up to this one."""
        return self._indexed if self._list is None else self._list[0]

    def keep(self, database: Database) -> None:
        """Keep the list that had to be made, if nobody is writing. After the transaction."""
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
        """The words that contain a part, or end with it, and whether each is only the beginning of
        a long one that may; None if they are more than `most`."""
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
        """The list that is kept, if it is recent, and the last message that it knows."""
        found = _kept(self._db) if self._is_large() else None
        if found is None:
            return None
        age, known_to, words = found
        behind = self._indexed - known_to
        if age != self._age or behind > max(_FEW_BEHIND, known_to // _SHARE_BEHIND):
            return None
        return min(known_to, self._indexed), words

    def _from_index(self) -> Iterator[Words]:
        """Portion by portion. All of them together are a new list."""
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
    """The list with its age and the last message that it knows; None if it cannot be read."""
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
        return None  # found by `doctor`, not by a search


def _packed(age: int, known_to: int, portions: Sequence[bytes], long: Sequence[bytes]) -> bytes:
    """No word has a blank in it. zlib has a checksum of its own."""
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
