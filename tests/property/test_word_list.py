"""A search for a part of a word finds the same with the list of words and without, whatever
happened to the messages in between."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from holdfast.model.session import (
    TAKEN_BACK,
    Message,
    Search,
    Session,
    SessionChange,
    SessionFilter,
)
from holdfast.spine.carry_out import Silent
from holdfast.stores.sqlite import search, search_index, space, word_list
from holdfast.stores.sqlite.bundle import BundleFolder
from holdfast.stores.sqlite.repair import repair
from holdfast.stores.sqlite.sessions import SqliteSessionStore, delete, number_of
from holdfast.stores.sqlite.store_copy import SqliteSource, SqliteTarget
from holdfast.stores.store_copy import Head, MessageRow
from tests.stored import put_rows_back

NAMES = st.sampled_from("abcd")
#: Few letters, so that parts are found in several words; some words are in one message only.
TEXTS = st.lists(st.text("xyz1é中", min_size=1, max_size=5), min_size=1, max_size=4).map(" ".join)
PARTS = ("xy", "1x", "ex", "y中", "z x")


def folded(text: str) -> str:
    return text.replace("é", "e")


@dataclass
class Gone:
    """A session that was removed, copied in both of the ways in which one comes back."""

    copy: Path
    head: Head
    rows: list[MessageRow]
    texts: list[str]


class Machine(RuleBasedStateMachine):
    """A store in which every list counts at once, and the index is always asked."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-words-"))
        self.store = self._opened()
        self.texts: dict[str, list[str]] = {}
        self.gone: dict[str, Gone] = {}
        self.moves = 0

    def _opened(self) -> SqliteSessionStore:
        store = SqliteSessionStore(self.folder / "sessions.db")
        store.database.flushes = False  # nothing here is about power
        return store

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(name=NAMES, texts=st.lists(TEXTS, min_size=1, max_size=3))
    def append(self, name: str, texts: list[str]) -> None:
        if name in self.gone:
            return
        if name not in self.texts:
            made = Session(id=name, source="cli", started_at=1.0, last_active_at=1.0, model="m")
            self.store.create(made)
            self.texts[name] = []
        said = [Message(role="user", content=text, tokens=1) for text in texts]
        self.store.append(name, said, now=1.0)
        self.texts[name] += texts

    @rule(count=st.integers(1, 4))
    def index(self, count: int) -> None:
        with self.store.database.write() as db:
            [newest] = db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
            search_index.catch_up(db, min(newest, search_index.indexed(db) + count), batch=1)

    @rule(name=NAMES, kept=st.integers(0, 2), text=TEXTS)
    def replace(self, name: str, kept: int, text: str) -> None:
        if self.texts.get(name):
            stored = [each for each in self.store.messages(name) if not each.taken_back]
            after = stored[kept - 1].number or 0 if 0 < kept <= len(stored) else 0
            new = [Message(role="user", content=text)]
            self.store.replace(name, new, after=after, mark=TAKEN_BACK, now=1.0)
            self.texts[name] = [*self.texts[name][: kept if after else 0], text]

    @rule(name=NAMES, model=st.sampled_from("mn"))
    def change(self, name: str, model: str) -> None:
        if name in self.texts:
            self.store.update(name, SessionChange(model=model))

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        if name in self.texts:
            self.moves += 1
            with contextlib.closing(SqliteSource(self.store.database.path)) as source:
                [head] = [each for each in source.heads() if name in each]
                rows = list(source.messages([head[0]]))
            with self.store.database.read() as db:
                number = number_of(db, name)
                copy = BundleFolder(self.folder / "trash").write(
                    db, [number], self.moves, self.moves
                )
            with self.store.database.write() as db:
                delete(db, [number])
            self.gone[name] = Gone(copy=copy, head=head, rows=rows, texts=self.texts.pop(name))

    @rule(name=NAMES)
    def undo(self, name: str) -> None:
        if name in self.gone:
            gone = self.gone.pop(name)
            put_rows_back(self.store, gone.copy, name)
            self.texts[name] = gone.texts

    @rule(name=NAMES)
    def fill(self, name: str) -> None:
        """As `store copy` brings a session from another store, with its numbers."""
        with self.store.database.read() as db:
            taken = {number for (number,) in db.execute("SELECT number FROM sessions")}
        if name in self.gone and self.gone[name].head[0] not in taken:
            gone = self.gone.pop(name)
            with contextlib.closing(SqliteTarget(self.store.database.path)) as target:
                target.put([gone.head], gone.rows)
            self.texts[name] = gone.texts

    @rule()
    def give_back(self) -> None:
        space.give_back(self.store.database)

    @rule()
    def renew(self) -> None:
        space.renew_index(self.store.database)

    @rule()
    def repair(self) -> None:
        if self.texts:
            self.store.close()
            repair(self.store.database.path, stamp=f"{self.moves}", progress=Silent())
            self.store = self._opened()

    @invariant()
    def finds_the_same(self) -> None:
        said = [text for texts in self.texts.values() for text in texts]
        for part in PARTS:
            wanted = sorted(text for text in said if part in folded(text))
            asked = Search(text=part, wanted=SessionFilter(), limit=1_000, substring=True)
            found = sorted(str(hit.message.content) for hit in self.store.search(asked))
            assert found == wanted, part


@pytest.mark.parametrize("behind", [0, 3])
def test_with_the_list_a_search_finds_what_it_finds_without(
    monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    monkeypatch.setattr(search, "_READ_FIRST", 0)
    monkeypatch.setattr(word_list, "_MANY", 1)
    monkeypatch.setattr(word_list, "_FEW_BEHIND", behind)
    run_state_machine_as_test(Machine, settings=settings(stateful_step_count=25))
