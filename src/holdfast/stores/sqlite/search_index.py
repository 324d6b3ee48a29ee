"""The full-text index: brought up to date in batches, searched with the newest messages beside it.

Indexing every message on its own would cost more than storing it. So an append indexes only when
enough have gathered; a search reads the few that have not through a small index of its own, in
memory, with the same rules. A search is therefore always complete.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from holdfast.stores.sqlite.search_text import MATCH_ENDS, MATCH_STARTS, is_word, spaced, unspaced

BATCH = 256
#: An append that finds more than this behind the index leaves the rest to the next one: nobody
#: should wait long for a message to be stored.
_MOST_AT_ONCE = 2 * BATCH
#: How text becomes words; schema_1.sql says the same of the index.
TOKENIZER = "unicode61 remove_diacritics 2"

# More words than these are not looked up one by one.
_MOST_WORDS = 1_000
_AT_ONCE = 100
# FTS5 cuts off what is behind 32,768 bytes of a word: in one of this length anything may follow.
_LONG = 8_000

#: The tokenizer's folding of each character met so far, A to Z first.
_FOLDED = {code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)}


# An index that was replaced. FTS5 keeps what it needs to open one in the first rows of its data.
_OLD = "old_message_index"
_FIRST_PAGE = 11
_ROWS_OF_OLD = 8_000
_SMALL = 25_000

_OF_SESSIONS = "session IN (SELECT value FROM json_each(?))"
_OF_NUMBERS = "number IN (SELECT value FROM json_each(?))"


def catch_up(db: sqlite3.Connection, newest: int, *, batch: int = BATCH) -> None:
    """Index what is not yet, if that is at least `batch` messages. Inside a write transaction."""
    indexed_to = indexed(db)
    if newest - indexed_to < batch:
        return
    [newest] = db.execute(
        """
        SELECT coalesce(max(number), ?2) FROM
            (SELECT number FROM messages WHERE number BETWEEN ?1 + 1 AND ?2 ORDER BY 1 LIMIT ?3)
        """,
        (indexed_to, newest, _MOST_AT_ONCE),
    ).fetchone()
    db.execute("UPDATE facts SET value = ? WHERE name = 'indexed_to'", (newest,))
    db.execute(
        """
        INSERT INTO message_index (rowid, text)
        SELECT number, search_text(form, body, fields) FROM messages
        WHERE number > ? AND number <= ?
        """,
        (indexed_to, newest),
    )


def catch_up_some(db: sqlite3.Connection) -> bool:
    """Index some of what is not yet, however little that is; says whether there is more. Inside a
    write transaction."""
    [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
    catch_up(db, newest, batch=1)
    return bool(newest > indexed(db))


def forget(db: sqlite3.Connection, sessions: Sequence[int]) -> None:
    """Take the messages of sessions out of the index. In the transaction that deletes them, and
    before it does: the index needs their text to find their words."""
    _forget(db, _OF_SESSIONS, sessions)


def forget_messages(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """The same for messages, before they are deleted or changed."""
    _forget(db, _OF_NUMBERS, numbers)


def remember(db: sqlite3.Connection, sessions: Sequence[int]) -> None:
    """Index the messages of sessions that came back, as far as the index has got; to the others
    it will come."""
    _remember(db, _OF_SESSIONS, sessions)


def remember_messages(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """The same for messages that were changed."""
    _remember(db, _OF_NUMBERS, numbers)


def _forget(db: sqlite3.Connection, condition: str, chosen: Sequence[int]) -> None:
    gone = db.execute(
        f"""
        INSERT INTO message_index (message_index, rowid, text)
        SELECT 'delete', number, search_text(form, body, fields) FROM messages
        WHERE {condition} AND number <= ?
        """,  # noqa: S608 - our own text
        (json.dumps(chosen), indexed(db)),
    ).rowcount
    if gone > 0:
        count_garbage(db, gone)


def _remember(db: sqlite3.Connection, condition: str, chosen: Sequence[int]) -> None:
    db.execute(
        f"""
        INSERT INTO message_index (rowid, text)
        SELECT number, search_text(form, body, fields) FROM messages
        WHERE {condition} AND number <= ? ORDER BY number
        """,  # noqa: S608 - our own text
        (json.dumps(chosen), indexed(db)),
    )


def count_garbage(db: sqlite3.Connection, messages: int) -> None:
    """Note how many messages left the index: their words lie in it until its parts are merged."""
    db.execute(
        """
        INSERT INTO facts (name, value) VALUES ('index_garbage', ?)
        ON CONFLICT (name) DO UPDATE SET value = value + excluded.value
        """,
        (messages,),
    )


def garbage(db: sqlite3.Connection) -> int:
    """How many messages left the index since its parts were merged."""
    row = db.execute("SELECT value FROM facts WHERE name = 'index_garbage'").fetchone()
    return int(row[0]) if row else 0


def forget_garbage(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM facts WHERE name = 'index_garbage'")


def start_over(db: sqlite3.Connection) -> None:
    """An empty index in the place of the present one, which `drop_some_of_old` then takes away.

    Emptying it in its place would keep other writers waiting, for a large one many seconds.
    """
    definitions = dict(
        db.execute(
            "SELECT name, sql FROM sqlite_schema WHERE name IN ('message_index', 'index_words')"
        ).fetchall()
    )
    db.execute("DROP TABLE index_words")
    db.execute(f"ALTER TABLE message_index RENAME TO {_OLD}")
    for name in ("message_index", "index_words"):
        db.execute(definitions[name])
    db.execute("UPDATE facts SET value = 0 WHERE name = 'indexed_to'")
    forget_garbage(db)


def has_old(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (_OLD,)).fetchone())


def drop_some_of_old(db: sqlite3.Connection) -> bool:
    """Take some of an old index away; says whether there is more.

    In a small store it goes at once, which hardly writes anything: its pages become free as they
    are. Of a large one the pages alone take long to find.
    """
    [pages] = db.execute("PRAGMA page_count").fetchone()
    [free] = db.execute("PRAGMA freelist_count").fetchone()
    if pages - free > _SMALL:
        gone = db.execute(
            f"DELETE FROM {_OLD}_data WHERE id IN"  # noqa: S608 - our own name
            f" (SELECT id FROM {_OLD}_data WHERE id >= ? LIMIT ?)",
            (_FIRST_PAGE, _ROWS_OF_OLD),
        ).rowcount
        if gone:
            return True
    db.execute(f"DROP TABLE {_OLD}")
    return False


def indexed(db: sqlite3.Connection) -> int:
    """The last message in the index."""
    [number] = db.execute("SELECT value FROM facts WHERE name = 'indexed_to'").fetchone()
    return int(number)


def matches_for_part(db: sqlite3.Connection, part: str) -> list[str] | None:
    """Queries that between them find every indexed message whose text contains a part.

    They find more than those. None: the index cannot say, every message may.
    """
    [words] = words_of([part])
    if not words:
        return None
    goes_on = _may_go_on(part[-1])
    if not _may_go_on(part[0]):
        return [_phrase(words, prefix=goes_on)]
    first, rest = words[0], words[1:]
    # To go through all words with the same first letter costs more than it narrows down.
    following = _phrase(rest, prefix=goes_on) if rest and len("".join(rest)) > 1 else None
    found = _words_with(db, first, at_end=bool(rest) or not goes_on)
    if found is None:
        return None if following is None else [following]
    starts = (" OR ".join(found[at : at + _AT_ONCE]) for at in range(0, len(found), _AT_ONCE))
    return [f"({start}) AND {following}" if following else start for start in starts]


def close_words(db: sqlite3.Connection, word: str) -> list[str]:
    """Words of the index close to one that it does not have, of those that start alike; the most
    frequent first."""
    if not word.isascii() or not word.isalnum() or _is_indexed(db, word):
        return []
    rows = db.execute(
        """
        SELECT term, doc FROM index_words
        WHERE term >= ?1 AND term < ?1 || '{' AND length(term) BETWEEN ?2 - 2 AND ?2 + 2
        """,
        (word[:2], len(word)),
    )
    messages = dict(rows.fetchall())
    close = difflib.get_close_matches(word, messages, n=10, cutoff=0.75)
    return sorted(close, key=lambda term: -messages[term])[:3]


def _is_indexed(db: sqlite3.Connection, word: str) -> bool:
    return bool(db.execute("SELECT 1 FROM index_words WHERE term = ?", (word,)).fetchone())


def _words_with(db: sqlite3.Connection, part: str, *, at_end: bool) -> list[str] | None:
    """The words of the index that contain a part, as phrases; None if they are too many."""
    condition = "substr(term, -length(?1)) = ?1" if at_end else "instr(term, ?1)"
    rows = db.execute(
        f"""
        SELECT substr(term, 1, iif(length(term) > ?2, 100, ?2)), length(term) > ?2
        FROM index_words
        WHERE {condition} OR length(term) > ?2 LIMIT ?3
        """,  # noqa: S608 - no user text
        (part, _LONG, _MOST_WORDS + 1),
    ).fetchall()
    if len(rows) > _MOST_WORDS:
        return None
    return [_phrase([word], prefix=bool(is_long)) for word, is_long in rows]


def _may_go_on(character: str) -> bool:
    """Whether a word may reach across the edge of a part that has this character there."""
    return not is_word(character) and (character.isalnum() or not character.isascii())


def _phrase(words: list[str], *, prefix: bool) -> str:
    return '"' + " ".join(words) + '"' + ("*" if prefix else "")


def words_of(texts: Sequence[str]) -> list[list[str]]:
    """The words that the index sees in each text."""
    with contextlib.closing(SmallIndex()) as small:
        small.add(enumerate(texts))
        return [small.words(number) for number in range(len(texts))]


def rarity(total: int, found: int) -> float:
    """The weight of a phrase in bm25, as FTS5 has it."""
    return max(math.log((total - found + 0.5) / (found + 0.5)), 1e-6)


def folded(text: str) -> str:
    """Text as the tokenizer folds it: case and diacritics gone, everything else as it is."""
    if text.isascii():
        return text.lower()
    unknown = {c for c in set(text) if not c.isascii() and ord(c) not in _FOLDED}
    if unknown:
        _FOLDED.update(_foldings(unknown))
    return text.translate(_FOLDED)


def folded_places(text: str) -> Mapping[int, int] | range:
    """Where in the text each character of its folded form stands."""
    if len(folded(text)) == len(text):
        return range(len(text))
    kept = [place for place, character in enumerate(text) if folded(character)]
    return dict(enumerate(kept))


class SmallIndex:
    """A few texts under the rules of the index, in memory, for as long as one search."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        try:
            self._db.execute(
                f"CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = '{TOKENIZER}')"
            )
            self._db.execute("CREATE VIRTUAL TABLE words USING fts5vocab (texts, 'instance')")
        except BaseException:  # a SQLite without full-text search
            self._db.close()
            raise
        self._numbers: set[int] = set()

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        """Texts as a person sees them, each with a number; one that is there stays."""
        self._db.execute("BEGIN")
        for number, text in texts:
            if number not in self._numbers:
                self._numbers.add(number)
                self._db.execute(
                    "INSERT INTO texts (rowid, text) VALUES (?, ?)", (number, spaced(text))
                )
        self._db.execute("COMMIT")

    def matches(self, match: str) -> set[int]:
        rows = self._db.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (match,))
        return {number for (number,) in rows}

    def weights(self, phrase: str) -> dict[int, float]:
        """What bm25 gives each text for a phrase, without the rarity of the phrase."""
        rows = self._db.execute("SELECT rowid, -rank FROM texts WHERE texts MATCH ?", (phrase,))
        scores = dict(rows.fetchall())
        common = rarity(len(self._numbers), len(scores))
        return {number: score / common for number, score in scores.items()}

    def marked(self, match: str, numbers: Iterable[int]) -> dict[int, str]:
        """Those of the texts that match, as a person sees them, with the matches marked."""
        rows = self._db.execute(
            """
            SELECT rowid, highlight(texts, 0, ?, ?) FROM texts
            WHERE texts MATCH ? AND +rowid IN (SELECT value FROM json_each(?))
            """,
            (MATCH_STARTS, MATCH_ENDS, match, json.dumps(list(numbers))),
        )
        return {number: unspaced(text) for number, text in rows}

    def words(self, number: int) -> list[str]:
        """The words of one text, in order."""
        rows = self._db.execute("SELECT term FROM words WHERE doc = ? ORDER BY offset", (number,))
        return [word for (word,) in rows]

    def first_words(self) -> dict[int, str]:
        return dict(self._db.execute("SELECT doc, term FROM words WHERE offset = 0").fetchall())

    def close(self) -> None:
        self._db.close()


def _foldings(characters: set[str]) -> dict[int, str]:
    """How the tokenizer folds characters, to one or to none. It is asked: its tables differ from
    Python's, and between versions of SQLite."""
    known = {ord(character): character for character in characters if is_word(character)}
    asked = [character for character in characters if not is_word(character)]
    with contextlib.closing(SmallIndex()) as small:
        small.add((ord(character), f"a{character}b") for character in asked)
        for code, word in small.first_words().items():
            # One word: folded, or dropped from within. Two: a separator, which stays.
            known[code] = word[1:-1] if len(word) > 1 else chr(code)
    return known
