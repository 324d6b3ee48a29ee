"""What a repair of a session store gives back, what it says is lost, and what it keeps."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter, namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import BusyError, DamageError, HoldfastError, SchemaError, StorageError
from holdfast.model.checkup import Repair, Severity
from holdfast.model.session import Message, Search, Session, SessionFilter
from holdfast.spine.carry_out import Silent
from holdfast.stores.sessions.searchable_text import search_text
from holdfast.stores.sqlite import checkup, schema
from holdfast.stores.sqlite.pages import Pages
from holdfast.stores.sqlite.repair import fold_log, repair
from holdfast.stores.sqlite.schema import pattern
from holdfast.stores.sqlite.sessions import SqliteSessionStore

pytestmark = pytest.mark.usefixtures("bad_day")

ROOT = Path(__file__).parents[2]
NOW = 1_800_000_000.0
PAGE = 4096
MANY = 3_000
SESSIONS = 40

#: Everything of a store that a user can see: sessions with their totals, messages by number.
Content = tuple[dict[str, Session], dict[int, tuple[str, Message]]]


def build(path: Path, messages: int) -> None:
    chance = random.Random(5)
    with contextlib.closing(SqliteSessionStore(path)) as store, store.transaction():
        for number in range(SESSIONS):
            store.create(
                Session(
                    id=f"s{number}",
                    source="cli",
                    title=f"title {number}",
                    started_at=NOW,
                    last_active_at=NOW,
                    parent_id=f"s{number - 1}" if number % 5 else None,
                    routing_key=f"key-{number}",
                )
            )
        for number in range(1, messages + 1):
            text = f"<{number}> " + " ".join(
                f"w{chance.randrange(3000)}" for _ in range(chance.choice((3, 20, 150)))
            )
            message = Message(role="user", content=text, tokens=2, cost=0.5)
            store.append(f"s{chance.randrange(SESSIONS)}", [message], now=NOW)


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doctor") / "sessions.db"
    build(path, MANY)
    return path


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "sessions.db"
    build(path, 800)
    return path


@pytest.fixture(scope="session")
def everything(original: Path) -> Content:
    return content(original)


@pytest.fixture
def path(tmp_path: Path, original: Path) -> Path:
    tmp_path.chmod(0o700)
    return Path(shutil.copy(original, tmp_path / "sessions.db"))


def content(path: Path) -> Content:
    with contextlib.closing(SqliteSessionStore(path, create=False)) as store:
        sessions = {session.id: session for session in store.find(SessionFilter())}
        messages = {
            message.number or 0: (session_id, message)
            for session_id in sessions
            for message in store.messages(session_id)
        }
    return sessions, messages


def mend(path: Path) -> Repair:
    return repair(path, stamp="now", progress=Silent())


def problems(path: Path) -> list[str]:
    findings = checkup.check(path, Silent())
    return [each.check for each in findings if each.severity is not Severity.OK]


def execute(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.create_function("search_text", 3, search_text, deterministic=True)
        for statement in statements:
            db.execute(statement)


def pages_of(data: bytes, *numbers: int) -> list[int]:
    """The pages on which these messages lie, by a mark in their text that is not compressed."""
    return sorted({data.index(f"<{number}> ".encode()) // PAGE for number in numbers})


def destroy(path: Path, *pages: int) -> None:
    data = bytearray(path.read_bytes())
    for page in pages:
        data[page * PAGE : (page + 1) * PAGE] = random.Random(page).randbytes(PAGE)
    path.write_bytes(data)


def short_messages(everything: Content, count: int) -> list[int]:
    """Messages whose text is readable in the file."""
    short = [number for number, (_, each) in everything[1].items() if len(str(each.content)) < 200]
    return random.Random(2).sample(short, count)


def numbers(result: Repair) -> set[int]:
    return {
        number
        for loss in result.losses
        if loss.what == "message"
        for first, last in loss.ranges
        for number in range(first, last + 1)
    }


def finds(path: Path, words: str) -> int:
    with contextlib.closing(SqliteSessionStore(path, create=False)) as store:
        return len(store.search(Search(text=words, wanted=SessionFilter(), limit=MANY)))


# --- In place -------------------------------------------------------------------------------------


def test_totals_and_index_are_made_anew(path: Path, everything: Content) -> None:
    found = finds(path, "w17")
    execute(
        path,
        "UPDATE sessions SET message_count = 1, bytes = 0, cost = 99",
        "INSERT INTO message_index (message_index, rowid, text) "
        "SELECT 'delete', number, text FROM indexed_text WHERE number % 2",
    )
    assert finds(path, "w17") < found
    assert problems(path) == ["totals", "search index"]
    result = mend(path)
    assert problems(path) == []
    assert content(path) == everything
    assert finds(path, "w17") == found
    assert result.losses == ()
    assert "recounted the totals of 40 sessions" in result.steps


@pytest.mark.parametrize(
    "broken",
    [
        "DELETE FROM message_index_data",
        "DELETE FROM message_index_config",
        "DELETE FROM message_index_docsize",
        "DELETE FROM facts",
        "DROP TABLE message_index",
        "DROP INDEX messages_by_session",
        "DROP TABLE leases",
    ],
)
def test_parts_that_can_be_made_from_others(tmp_path: Path, small: Path, broken: str) -> None:
    path = Path(shutil.copy(small, tmp_path / "sessions.db"))
    before = content(path)
    execute(path, broken)
    assert problems(path) != []
    mend(path)
    assert problems(path) == []
    assert content(path) == before
    assert finds(path, "w17")


def test_what_belongs_to_nothing_goes_to_the_backup(path: Path, everything: Content) -> None:
    execute(path, "DELETE FROM sessions WHERE id IN ('s3', 's4')")
    assert problems(path) == ["references"]
    result = mend(path)
    assert problems(path) == []
    left = {number: each for number, each in everything[1].items() if each[0] not in ("s3", "s4")}
    assert content(path)[1] == left
    with contextlib.closing(sqlite3.connect(str(result.backup))) as backup:
        assert backup.execute("SELECT count(*) FROM messages").fetchone() == (MANY,)


def test_an_unreadable_message_is_taken_out_and_named(path: Path, everything: Content) -> None:
    execute(path, "UPDATE messages SET body = zeroblob(9), form = 2 WHERE number IN (5, 6, 900)")
    result = mend(path)
    assert problems(path) == []
    [loss] = result.losses
    document = loss.to_json()
    lost = Counter(everything[1][number][0] for number in (5, 6, 900))
    assert {each["session"]: each["count"] for each in document.pop("sessions")} == lost
    assert document == {
        "what": "message",
        "count": 3,
        "exact": True,
        "ranges": [[5, 6], [900, 900]],
    }
    for session, count in lost.items():
        assert f"{count} of session {session}" in loss.describe()
    assert content(path)[1].keys() == everything[1].keys() - {5, 6, 900}


def test_the_backup_is_the_store_as_it_was_and_private(path: Path) -> None:
    execute(path, "UPDATE sessions SET cost = 99")
    before = content(path)
    backup = Path(str(mend(path).backup))
    assert backup == path.with_name("sessions.db.backup-now")
    assert backup.stat().st_mode & 0o777 == 0o600
    assert content(backup) == before
    execute(path, "UPDATE sessions SET cost = 98")
    assert mend(path).backup == f"{backup}-2"
    assert not list(path.parent.glob("*.repair-*"))


def test_writers_wait_for_a_repair_in_place(path: Path) -> None:
    execute(path, "UPDATE sessions SET cost = 99")
    acknowledged = run_with_writer(path)
    assert acknowledged
    assert problems(path) == []
    texts = {str(message.content).split()[0] for _, message in content(path)[1].values()}
    assert acknowledged <= texts


def test_a_long_log_is_folded_without_a_backup(path: Path) -> None:
    with contextlib.closing(SqliteSessionStore(path)) as store:
        store.append("s1", [Message(role="user", content="x")], now=NOW)
        assert "folded" in fold_log(path).steps[0]
        assert path.with_name("sessions.db-wal").stat().st_size == 0


# --- Anew -----------------------------------------------------------------------------------------


def test_everything_outside_a_few_destroyed_pages_is_saved(path: Path, everything: Content) -> None:
    data = path.read_bytes()
    pages = pages_of(data, *short_messages(everything, 5))
    destroy(path, *pages)
    result = mend(path)
    assert problems(path) == []
    sessions, messages = content(path)
    lost = everything[1].keys() - messages.keys()
    assert 5 <= len(lost) < 200
    assert numbers(result) == lost, "the report says what is lost, no more and no less"
    assert [(loss.what, loss.count, loss.exact) for loss in result.losses] == [
        ("message", len(lost), True)
    ]
    assert messages == {number: everything[1][number] for number in messages}
    assert sessions.keys() == everything[0].keys()
    assert sum(session.message_count for session in sessions.values()) == len(messages)
    assert all(sessions[name].title == everything[0][name].title for name in sessions)
    assert all(sessions[name].parent_id == everything[0][name].parent_id for name in sessions)
    assert all(sessions[name].routing_key == everything[0][name].routing_key for name in sessions)
    assert finds(path, f'"{max(messages)}"') == 1


def test_the_old_file_stays_as_it_was(path: Path, everything: Content) -> None:
    destroy(path, *pages_of(path.read_bytes(), *short_messages(everything, 2)))
    data = path.read_bytes()
    backup = Path(str(mend(path).backup))
    # Only its header knows that it was locked: no log belongs to it any more.
    assert backup.read_bytes()[100:] == data[100:]
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, backup.name]


def test_what_was_in_the_log_alone_is_saved(path: Path, everything: Content) -> None:
    destroy(path, *pages_of(path.read_bytes(), *short_messages(everything, 1)))
    code = f"""
from tests.contract.test_doctor_repair import *
store = SqliteSessionStore(Path({str(path)!r}))
store.append("s7", [Message(role="user", content="only in the log")], now=NOW)
import os
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert path.with_name("sessions.db-wal").stat().st_size
    mend(path)
    assert finds(path, '"only in the log"') == 1


def test_lost_sessions_are_made_anew_from_what_knows_of_them(
    path: Path, everything: Content
) -> None:
    """The table of sessions is one small tree: without its pages, indexes and messages speak."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        [root] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'").fetchone()
    destroy(path, root - 1)
    result = mend(path)
    assert problems(path) == []
    sessions, messages = content(path)
    assert messages == everything[1]
    assert sessions.keys() == everything[0].keys()
    assert {loss.what: loss.count for loss in result.losses} == {"session row": SESSIONS}
    for name, session in sessions.items():
        was = everything[0][name]
        assert session.title is None
        assert (session.source, session.message_count, session.bytes, session.parent_id) == (
            was.source,
            was.message_count,
            was.bytes,
            was.parent_id,
        )


@pytest.mark.parametrize("table", ["messages", "sessions"])
def test_rows_below_a_lost_interior_page_are_saved(tmp_path: Path, table: str) -> None:
    """Without the root page no tree leads to the rows; their leaf pages still name them."""
    path = tmp_path / "sessions.db"
    build_in_blocks(path, sessions=400 if table == "sessions" else 5)
    everything = content(path)
    destroy(path, root_page(path, table))
    result = mend(path)
    assert problems(path) == []
    assert content(path) == everything
    assert result.losses == ()


@pytest.mark.parametrize("header_too", [False, True])
def test_rows_on_free_pages_stay_deleted(tmp_path: Path, header_too: bool) -> None:
    path = tmp_path / "sessions.db"
    build_in_blocks(path, sessions=5)
    execute(
        path,
        "PRAGMA secure_delete = OFF",
        "DELETE FROM messages WHERE session IN (SELECT number FROM sessions WHERE id = 'b2')",
        "DELETE FROM sessions WHERE id = 'b2'",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    )
    everything = content(path)
    assert b"<b2 message 150>" in path.read_bytes(), "the deleted rows are still in the file"
    destroy(path, root_page(path, "messages"))
    if header_too:  # which also loses the free list
        data = bytearray(path.read_bytes())
        _no_header(data)
        path.write_bytes(data)
    mend(path)
    assert problems(path) == []
    assert content(path) == everything


def build_in_blocks(path: Path, sessions: int) -> None:
    """A store in which messages of a session are neighbours, some longer than a page."""
    with contextlib.closing(SqliteSessionStore(path)) as store, store.transaction():
        for number in range(sessions):
            store.create(Session(id=f"b{number}", source="cli", started_at=NOW, last_active_at=NOW))
            texts = [f"<b{number} message {each}> " for each in range(1_500 // sessions)]
            texts.append(random.Random(number).randbytes(20_000).hex())
            messages = [Message(role="user", content=text) for text in texts]
            store.append(f"b{number}", messages, now=NOW)


def root_page(path: Path, table: str) -> int:
    with contextlib.closing(sqlite3.connect(path)) as db:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        root: int = db.execute(query, (table,)).fetchone()[0] - 1
    assert path.read_bytes()[root * PAGE] == 5, "it is an interior page"
    return root


def test_leaf_pages_say_what_the_tables_say(small: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(small, tmp_path / "sessions.db"))
    with contextlib.closing(SqliteSessionStore(path)) as store:
        long = random.Random(1).randbytes(50_000).hex()
        store.append("s1", [Message(role="user", content=long)], now=NOW + 0.5)
    with contextlib.closing(sqlite3.connect(path)) as db, path.open("rb") as file:
        pages = Pages(file, PAGE)
        for table in ("messages", "sessions"):
            told = db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - our own names
            width = len(told[0])
            read = {row[1]: row[2][1:] for row in pages.rows(range(width, width + 1))}
            assert read == {row[0]: row[1:] for row in told}
        [free] = db.execute("PRAGMA freelist_count").fetchone()
        assert len(pages.free() or ()) == free


@pytest.mark.parametrize("index_too", [False, True])
def test_numbers_with_wide_gaps(tmp_path: Path, small: Path, index_too: bool) -> None:
    """After years of removals few numbers are left, and most of a range never was a row."""
    path = Path(shutil.copy(small, tmp_path / "sessions.db"))
    execute(
        path, "UPDATE messages SET number = -number", "UPDATE messages SET number = -1000 * number"
    )
    mend(path)
    before = content(path)[1]
    pages = pages_of(path.read_bytes(), *(n // 1000 for n in short_messages(({}, before), 2)))
    if index_too:
        with contextlib.closing(sqlite3.connect(path)) as db:
            query = "SELECT rootpage FROM sqlite_schema WHERE name = 'messages_by_session'"
            pages.append(db.execute(query).fetchone()[0] - 1)
    destroy(path, *pages)
    result = repair(path, stamp="later", progress=Silent())
    assert problems(path) == []
    after = content(path)[1]
    lost = before.keys() - after.keys()
    assert 2 <= len(lost) < 100
    [loss] = result.losses
    assert (loss.what, loss.count, loss.exact) == ("message", len(lost), not index_too)
    assert lost <= numbers(result)
    assert after == {number: before[number] for number in after}


def test_numbers_of_lost_messages_are_not_used_again(path: Path, everything: Content) -> None:
    last = next(n for n in range(MANY, 0, -1) if len(str(everything[1][n][1].content)) < 200)
    destroy(path, *pages_of(path.read_bytes(), last))
    mend(path)
    with contextlib.closing(SqliteSessionStore(path)) as store:
        [number] = store.append("s1", [Message(role="user", content="new")], now=NOW).numbers
    assert number == MANY + 1


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_file_that_was_cut(path: Path, everything: Content, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    result = mend(path)
    assert problems(path) == []
    _, messages = content(path)
    lost = everything[1].keys() - messages.keys()
    assert lost <= numbers(result)
    assert sum(loss.count for loss in result.losses if loss.what == "message") == len(lost)
    assert messages == {number: everything[1][number] for number in messages}


def _no_magic(data: bytearray) -> None:
    data[:16] = bytes(16)


def _no_header(data: bytearray) -> None:
    data[:100] = bytes(100)


def _no_tables(data: bytearray) -> None:
    data[100:PAGE] = bytes(PAGE - 100)


def _no_first_page(data: bytearray) -> None:
    data[:PAGE] = random.Random(1).randbytes(PAGE)


@pytest.mark.parametrize("damage", [_no_magic, _no_header, _no_tables, _no_first_page])
def test_a_lost_first_page_is_put_back(
    path: Path, everything: Content, damage: Callable[[bytearray], None]
) -> None:
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)
    result = mend(path)
    assert problems(path) == []
    assert content(path) == everything
    assert result.losses == ()
    assert Path(str(result.backup)).read_bytes() == data
    assert not list(path.parent.glob("*.repair-*"))


def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.write_text("once upon a time " * 1000)
    with pytest.raises(DamageError, match=r"sessions\.db"):
        mend(path)
    assert path.read_text() == "once upon a time " * 1000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (f"PRAGMA user_version = {schema.LATEST + 1}", "newer"),
        ("PRAGMA application_id = 7", "not a session store"),
    ],
)
def test_stores_that_are_not_ours_are_refused(path: Path, statement: str, words: str) -> None:
    execute(path, statement)
    before = path.read_bytes()
    with pytest.raises(SchemaError, match=words):
        mend(path)
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*.*-now"))


def test_a_damaged_store_in_use_is_left_alone(
    path: Path, everything: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.sqlite.repair._WAIT", 0.1)
    destroy(path, *pages_of(path.read_bytes(), *short_messages(everything, 1)))
    with contextlib.closing(SqliteSessionStore(path)) as store:
        store.append("s1", [Message(role="user", content="while in use")], now=NOW)
        with pytest.raises(BusyError, match="open in another process") as caught:
            mend(path)
        assert "Close every program" in str(caught.value.hint)
    assert not list(path.parent.glob("*.*-now"))
    mend(path)
    assert finds(path, '"while in use"') == 1


def test_a_writer_that_waits_for_the_swap_writes_to_the_new_store_or_fails(
    path: Path, everything: Content
) -> None:
    destroy(path, *pages_of(path.read_bytes(), *short_messages(everything, 2)))
    acknowledged = run_with_writer(path)
    assert problems(path) == []
    texts = {str(message.content).split()[0] for _, message in content(path)[1].values()}
    assert acknowledged <= texts


def run_with_writer(path: Path) -> set[str]:
    """Repair, with a program that begins to write in the middle; what it was told is stored."""
    writer: list[subprocess.Popen[bytes]] = []

    class Meanwhile(Silent):
        def step(self, label: str, done: int, total: int | None) -> None:
            if not writer:
                command = [sys.executable, "-m", "tests.crash.writer", str(path), "s1", "w", "0.5"]
                writer.append(
                    subprocess.Popen(
                        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                    )
                )

    repair(path, stamp="now", progress=Meanwhile())
    out, err = writer[0].communicate(timeout=60)
    assert writer[0].returncode == 0 or b"StorageError" in err, err
    return set(out.decode().split())


def test_too_little_room_is_said_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - what shutil gives
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 10, 1_000_000))
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"needs about .* 1\.0 MB are free"):
        mend(path)
    assert path.read_bytes() == before


def test_a_new_file_that_is_not_whole_is_not_used(
    path: Path, everything: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    destroy(path, *pages_of(path.read_bytes(), *short_messages(everything, 1)))
    before = path.read_bytes()
    monkeypatch.setattr("holdfast.stores.sqlite.repair.index_in_step", lambda _: False)
    with pytest.raises(StorageError, match="the old one was left alone"):
        mend(path)
    assert path.read_bytes()[100:] == before[100:]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("seed", range(20))
def test_any_damage(tmp_path: Path, small: Path, seed: int) -> None:
    """Whatever happens to a file: a repair ends with a sound store, or with clear words."""
    path = Path(shutil.copy(small, tmp_path / "sessions.db"))
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 3, 30))):
        start = chance.randrange(len(data))
        length = chance.choice((1, 1, 8, 500, 6000))
        for place in range(start, min(len(data), start + length)):
            data[place] = chance.choice((0, 255, chance.randrange(256)))
    if chance.random() < 0.3:
        del data[chance.randrange(20 * PAGE, len(data)) :]
    path.write_bytes(data)
    checkup.check(path, Silent())
    try:
        mend(path)
    except HoldfastError as error:
        assert error.hint  # noqa: PT017 - one of two good ends
        return
    assert problems(path) == []
    content(path)


def test_the_first_page_of_every_store_says_the_same(original: Path) -> None:
    """What putting it back relies on."""
    with (
        contextlib.closing(sqlite3.connect(original)) as db,
        contextlib.closing(pattern()) as new,
    ):
        query = "SELECT name, rootpage, sql FROM sqlite_schema"
        assert db.execute(query).fetchall() == new.execute(query).fetchall()
