"""A store in PostgreSQL on bad days: the server is killed, restarted, the connection lost at any
moment. Nothing that was acknowledged is missing, nothing is stored twice, an operation is whole."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Home
from holdfast.errors import CannotUndoError, HoldfastError, StorageError
from holdfast.model.item import SESSION
from holdfast.model.report import Result
from holdfast.model.session import Message, Session
from holdfast.stores.postgres import schema
from holdfast.stores.postgres.database import Result as Rows
from holdfast.stores.postgres.database import SyncWire, Values
from holdfast.stores.postgres.failure import OutcomeUnknownError
from holdfast.stores.postgres.sessions import PostgresSessionStore
from tests import postgres, tally
from tests.contract import factory
from tests.contract.factory import NOW

ID = "20260325_112518_6995d1"


def a_session(store: PostgresSessionStore) -> None:
    store.create(Session(id=ID, source="cli", started_at=NOW, last_active_at=NOW))


def said(store: PostgresSessionStore) -> Counter[object]:
    return Counter(message.content for message in store.messages(ID))


@pytest.fixture(scope="module")
def mortal() -> Iterator[postgres.Server]:
    """A server of its own, for tests that kill it."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    try:
        server = postgres.Server(folder)
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- A commit without an answer -------------------------------------------------------------------


class LosingWire(SyncWire):
    """Loses the connection around what commits an append, as `lost` says: before, after, or not."""

    lost: list[str]

    def execute(self, statement: str, values: Values | None = None) -> Rows:
        how = self.lost.pop(0) if "append_messages" in statement and self.lost else ""
        if how == "after":
            super().execute(statement, values)
        if how:
            self._connection.pgconn.finish()
            tally.injected()
            raise psycopg.OperationalError("the connection is lost")
        return super().execute(statement, values)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_change_whose_commit_has_no_answer_is_made_once(lost: str) -> None:
    class Wire(SyncWire):
        losing = True

        def execute(self, statement: str, values: Values | None = None) -> Rows:
            if statement != "COMMIT" or not Wire.losing:
                return super().execute(statement, values)
            Wire.losing = False
            if lost == "after":
                super().execute(statement, values)
            self._connection.pgconn.finish()
            raise psycopg.OperationalError("the connection is lost")

    with contextlib.closing(PostgresSessionStore(postgres.a_database(), connect=Wire)) as store:
        a_session(store)  # a second time it would be refused
        assert store.get(ID).message_count == 0
        assert not Wire.losing


@pytest.mark.parametrize("lost", ["before", "after"])
def test_an_append_whose_commit_has_no_answer_is_stored_once(lost: str) -> None:
    class Wire(LosingWire):
        pass

    Wire.lost = [lost]
    with contextlib.closing(PostgresSessionStore(postgres.a_database(), connect=Wire)) as store:
        a_session(store)
        added = store.append(ID, [Message("user", "once", tokens=7)], now=NOW)
        assert said(store) == Counter({"once": 1})
        assert [each.number for each in store.messages(ID)] == list(added.numbers)
        assert store.get(ID).tokens.input == 7
        assert [each.usage.tokens.input for each in store.usage_entries()] == [7]
        tally.verified()


def test_a_statement_that_comes_late_is_refused() -> None:
    """A connection that its process gave up on may still have a statement on its way."""

    class Wire(LosingWire):
        lost: list[str] = []  # noqa: RUF012 - of this test
        late: list[tuple[str, Any]] = []  # noqa: RUF012 - of this test

        def execute(self, statement: str, values: Values | None = None) -> Rows:
            if "append_messages" in statement and not self.late:
                self.late.append((statement, values))
                self._connection.pgconn.finish()
                raise psycopg.OperationalError("the connection is lost")
            return super().execute(statement, values)

    url = postgres.a_database()
    with contextlib.closing(PostgresSessionStore(url, connect=Wire)) as store:
        a_session(store)
        store.append(ID, [Message("user", "once")], now=NOW)
        [(statement, values)] = Wire.late
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("SET search_path = holdfast")
            with pytest.raises(psycopg.Error, match="late"):
                other.execute(statement, values)
        assert said(store) == Counter({"once": 1})


def test_what_nobody_can_tell_is_said() -> None:
    """Without an answer about a commit an append is not repeated."""

    class Wire(LosingWire):
        lost = ["after"]  # noqa: RUF012 - of this test

        def execute(self, statement: str, values: Values | None = None) -> Rows:
            if "settle_write" in statement:
                raise psycopg.OperationalError("the connection is lost")
            return super().execute(statement, values)

    url = postgres.a_database()
    with contextlib.closing(PostgresSessionStore(url, connect=Wire)) as store:
        store.database._patience = 0.2
        a_session(store)
        with pytest.raises(OutcomeUnknownError, match="not known whether"):
            store.append(ID, [Message("user", "once")], now=NOW)
        assert said(store) == Counter({"once": 1})


def test_a_transaction_of_several_calls_is_not_repeated() -> None:
    """Only the caller knows what it did in between."""
    with contextlib.closing(PostgresSessionStore(postgres.a_database())) as store:
        a_session(store)
        with pytest.raises(StorageError, match="connection"), store.transaction():  # noqa: PT012
            store.append(ID, [Message("user", "gone")], now=NOW)
            postgres.server().cut()
            store.append(ID, [Message("user", "gone as well")], now=NOW)
        assert said(store) == Counter()
        store.append(ID, [Message("user", "again")], now=NOW)
        assert said(store) == Counter({"again": 1})


def test_a_connection_that_was_lost_while_nothing_happened_is_opened_again() -> None:
    with contextlib.closing(PostgresSessionStore(postgres.a_database())) as store:
        a_session(store)
        for number in range(3):
            postgres.server().cut()
            store.append(ID, [Message("user", str(number))], now=NOW)
            postgres.server().cut()
            assert store.get(ID).message_count == number + 1
            tally.injected()
            tally.verified()


# --- A server that dies ---------------------------------------------------------------------------


def _talk(url: str, name: str, done: threading.Event, acknowledged: list[str]) -> None:
    with contextlib.closing(PostgresSessionStore(url)) as store:
        number = 0
        while not done.is_set():
            number += 1
            text = f"{name} {number}"
            store.append(ID, [Message("user", text, tokens=1)], now=NOW)
            acknowledged.append(text)


@pytest.mark.parametrize(
    ("kills", "how"), [(2, "kill"), pytest.param(12, "kill", marks=pytest.mark.deep), (2, "stop")]
)
def test_appends_go_on_when_the_server_is_back(
    mortal: postgres.Server, kills: int, how: str
) -> None:
    url = mortal.database()
    schema.create(url)
    with contextlib.closing(PostgresSessionStore(url)) as store:
        a_session(store)
    done = threading.Event()
    acknowledged: list[list[str]] = [[] for _ in range(3)]
    talkers = [
        threading.Thread(target=_talk, args=(url, f"talker {n}", done, acknowledged[n]))
        for n in range(3)
    ]
    for each in talkers:
        each.start()
    for _ in range(kills):
        done.wait(0.3)
        (mortal.kill if how == "kill" else mortal.stop)()
        tally.injected()
        mortal.start()
    done.wait(0.3)
    done.set()
    for each in talkers:
        each.join(60)
        assert not each.is_alive()
    everything = [text for each in acknowledged for text in each]
    assert len(everything) > 3 * kills
    with contextlib.closing(PostgresSessionStore(url)) as store:
        assert said(store) == Counter(everything)
        assert store.get(ID).message_count == store.get(ID).tokens.input == len(everything)
        assert sum(each.usage.tokens.input for each in store.usage_entries()) == len(everything)
    tally.verified()


def test_a_server_that_is_not_there_is_said_in_words(mortal: postgres.Server) -> None:
    url = mortal.database()
    schema.create(url)
    with contextlib.closing(PostgresSessionStore(url)) as store:
        a_session(store)
        store.database._patience = 0.3
        mortal.stop()
        with pytest.raises(StorageError, match=r"The connection to PostgreSQL database \w+ on"):
            store.append(ID, [Message("user", "x")], now=NOW)
        with pytest.raises(StorageError, match="connection"):
            PostgresSessionStore(url)
        mortal.start()
        store.append(ID, [Message("user", "x")], now=NOW)
        assert said(store) == Counter({"x": 1})


# --- In the middle of an operation ----------------------------------------------------------------


class _Killer:
    """Kills the server before the statement with a number, and starts it again."""

    def __init__(self, server: postgres.Server, at: int) -> None:
        self.statements = 0
        self._server = server
        self._at = at
        self._real = psycopg.Connection.execute

    def wrapped(self) -> Callable[..., Any]:
        """The method of a connection that does it."""

        def execute(db: Any, *args: Any, **how: Any) -> Any:
            self.statements += 1
            if self.statements == self._at:
                self._server.kill()
                self._server.start()
                tally.injected()
            return self._real(db, *args, **how)

        return execute


Act = Callable[[Home], object]


def _nothing(home: Home) -> None:
    """Nothing comes before it."""


def _prune(home: Home) -> None:
    home.prune(older_than="90d")


def _undo(home: Home) -> None:
    home.undo_latest()


def _archive(home: Home) -> None:
    planned = home.plan_prune(older_than="90d").removals
    home.archive_sessions([each.id for each in planned if each.kind == SESSION])


_ACTS: dict[str, tuple[Act, Act]] = {
    "prune": (_nothing, _prune),
    "undo": (_prune, _undo),
    "archive": (_nothing, _archive),
}


@pytest.mark.parametrize(
    ("act", "share"),
    [
        ("prune", 0.62),
        ("undo", 0.62),
        *(
            pytest.param(act, share / 20, marks=pytest.mark.deep)
            for act in _ACTS
            for share in range(20)
        ),
    ],
)
def test_a_server_killed_in_an_operation(
    mortal: postgres.Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: str,
    share: float,
) -> None:
    """Whatever it had done is settled: sessions are here or in the trash, and all come back."""
    before, work = _ACTS[act]
    statements = _counted(mortal, tmp_path / "tried", before, work, monkeypatch)
    root = tmp_path / "home"
    _make(root, mortal)
    sample = factory.HOMES["own-postgres"]
    with sample.open(root) as home:
        original = factory.words(sample, home)
        before(home)
        killer = _Killer(mortal, 1 + int(share * statements))
        with monkeypatch.context() as patch, contextlib.suppress(HoldfastError):
            patch.setattr(psycopg.Connection, "execute", killer.wrapped())
            work(home)
    with sample.open(root) as home:
        for operation in home.log.list():
            with contextlib.suppress(CannotUndoError):
                report = home.undo(operation)
                assert {each.result for each in report.outcomes} <= {
                    Result.BROUGHT_BACK,
                    Result.RECLAIMED,
                }
        if home.archive.count():
            home.plan_restore_sessions().apply()
        assert factory.words(sample, home) == original
        assert not factory.trash(sample, home)
    tally.verified()


def _make(root: Path, server: postgres.Server) -> None:
    url = server.database()
    schema.create(url)
    factory.make_shared(root, url)


def _counted(
    server: postgres.Server, root: Path, before: Act, work: Act, monkeypatch: pytest.MonkeyPatch
) -> int:
    """How many statements it takes when nobody kills anything."""
    _make(root, server)
    counting = _Killer(server, -1)
    with factory.HOMES["own-postgres"].open(root) as home:
        before(home)
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", counting.wrapped())
            work(home)
    return counting.statements
