"""What only a store in PostgreSQL promises: many machines at once, no thread for asyncio, words for
what fails, and a user who may do little."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast import AsyncSessions
from holdfast.api.sessions import open_sessions
from holdfast.errors import ConfigError, HoldfastError, SchemaError, StorageError
from holdfast.model.checkup import Severity
from holdfast.model.session import Message, Search, Session, SessionFilter
from holdfast.stores.postgres import address, schema, search_index, search_words
from holdfast.stores.postgres.database import Db, Result, SyncWire, Values
from holdfast.stores.postgres.failure import CollisionError, translated
from holdfast.stores.postgres.search_words import vector, words
from holdfast.stores.postgres.sessions import PostgresSessionStore
from holdfast.stores.sessions.tokenizer import SmallIndex
from tests import postgres
from tests.contract.factory import HOMES, address_of, make_shared
from tests.stored import a_line

NOW = 1_800_000_000.0
ID = "20260325_112518_6995d1"


def a_store(url: str | None = None) -> contextlib.closing[PostgresSessionStore]:
    return contextlib.closing(PostgresSessionStore(url or postgres.a_database()))


def a_session(name: str = ID) -> Session:
    return Session(id=name, source="cli", started_at=NOW, last_active_at=NOW)


def a_home(root: Path) -> Path:
    root.mkdir(parents=True)
    (root / "config.toml").write_text(f'[store]\nurl = "{postgres.a_database()}"\n')
    return root


# --- Many at once ---------------------------------------------------------------------------------


def test_a_part_of_a_transaction_is_not_done_again_by_itself() -> None:
    """What the transaction did before is gone with it: only the whole can be done again."""
    done = []

    def collide(db: Db) -> None:
        done.append(db)
        raise CollisionError("in the way")

    with a_store() as store:
        store.database._patience = 0.2
        with pytest.raises(CollisionError), store.transaction():
            store.database.run(collide)
        assert len(done) == 1
        with pytest.raises(CollisionError):
            store.database.run(collide)
        assert len(done) > 2


def test_writers_to_one_session_and_to_others_lose_nothing() -> None:
    url = postgres.a_database()
    with a_store(url) as store:
        for name in ("one", "two", "three"):
            store.create(a_session(name))

    def work(own: str) -> None:
        with a_store(url) as store:
            for number in range(30):
                shared = "one" if number % 2 else own
                store.append(shared, [Message("user", f"{own} {number}", tokens=1)], now=NOW)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("two", "three")]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    with a_store(url) as store:
        said = [str(m.content) for name in ("one", "two", "three") for m in store.messages(name)]
        assert sorted(said) == sorted(f"{own} {n}" for own in ("two", "three") for n in range(30))
        assert sum(each.message_count for each in store.find(SessionFilter())) == 60
        assert sum(each.usage.tokens.input for each in store.usage_entries()) == 60
        numbers = [m.number or 0 for m in store.messages("one")]
        assert numbers == sorted(numbers)


def test_two_machines_get_the_same_session_for_a_key(tmp_path: Path) -> None:
    """Where two processes ask for the session of a routing key at once, there is one."""
    root = a_home(tmp_path / "home")
    ready = threading.Barrier(4)
    found: list[str] = []

    def ask() -> None:
        with open_sessions(root) as sessions:
            ready.wait(30)
            found.append(sessions.current("telegram:1", source="telegram").id)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(found) == 4
    assert len(set(found)) == 1


def test_a_session_that_is_being_held_is_not_pruned_and_the_other_way_round() -> None:
    url = postgres.a_database()
    with a_store(url) as store, a_store(url) as other:
        store.create(a_session())
        holding = threading.Thread(
            target=lambda: results.append(other.hold(ID, _holder(), now=NOW))
        )
        results: list[bool] = []
        with store.database.write() as db:
            db.execute("SELECT 1 FROM sessions WHERE id = %s FOR UPDATE", (ID,))
            holding.start()
            holding.join(0.3)
            assert holding.is_alive()  # it waits for what becomes of the session
            db.execute("DELETE FROM sessions WHERE id = %s", (ID,))
        holding.join(30)
        assert results == [False]


def _holder() -> Any:
    from holdfast.stores.processes import this_process

    return this_process()


def test_what_one_machine_removed_another_one_sees_gone_and_back(tmp_path: Path) -> None:
    make_shared(tmp_path / "one")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/config.toml").write_text((tmp_path / "one/config.toml").read_text())
    sample = HOMES["own-postgres"]
    with sample.open(tmp_path / "one") as one, sample.open(tmp_path / "two") as two:
        before = sample.ids(two)
        assert before == sample.ids(one)
        report = sample.plan(one).apply()
        assert sample.ids(two) == sample.ids(one) != before
        assert two.plan_prune(older_than="90d").removals == ()
        one.undo(report.operation)
        assert sample.ids(two) == before


# --- Asyncio --------------------------------------------------------------------------------------


def test_asyncio_waits_on_the_loop_and_needs_no_thread(tmp_path: Path) -> None:
    root = a_home(tmp_path / "home")
    url = address_of(root)

    async def main() -> tuple[int, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        before = threading.active_count()
        ticking = asyncio.create_task(tick())
        async with AsyncSessions(open_sessions(root)) as sessions:
            session = await sessions.create(source="cli")
            with psycopg.connect(url) as db:  # another machine is in the middle of something
                db.execute("SELECT 1 FROM holdfast.sessions FOR UPDATE")
                waiting = asyncio.ensure_future(
                    sessions.append(session, Message("user", "a zebra"))
                )
                await asyncio.sleep(0.4)
                assert not waiting.done()
                seen = ticks
                db.rollback()
            await waiting
            await asyncio.gather(
                *(sessions.append(session, Message("user", str(n))) for n in range(20))
            )
            said = [each.content async for each in sessions.messages(session)]
            assert said == ["a zebra", *map(str, range(20))]
            assert len(await sessions.search("zebra")) == 1
            with pytest.raises(HoldfastError):
                await sessions.get("nobody")
            after = threading.active_count()
        ticking.cancel()
        return seen, after - before

    ticks, threads = asyncio.run(main())
    assert ticks > 10, "the loop stood still while a call waited for the server"
    assert threads == 0


def test_a_task_that_is_cancelled_does_not_cut_a_call(tmp_path: Path) -> None:
    root = a_home(tmp_path / "home")
    url = address_of(root)

    async def main() -> list[Any]:
        async with AsyncSessions(open_sessions(root)) as sessions:
            session = await sessions.create(source="cli")
            with psycopg.connect(url) as db:
                db.execute("SELECT 1 FROM holdfast.sessions FOR UPDATE")
                waiting = asyncio.ensure_future(sessions.append(session, Message("user", "whole")))
                await asyncio.sleep(0.2)
                waiting.cancel()
                db.rollback()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return [each.content async for each in sessions.messages(session)]

    assert asyncio.run(main()) == ["whole"]


def test_a_lost_connection_is_opened_again_on_the_loop(tmp_path: Path) -> None:
    root = a_home(tmp_path / "home")

    async def main() -> int:
        async with AsyncSessions(open_sessions(root)) as sessions:
            session = await sessions.create(source="cli")
            await asyncio.to_thread(postgres.server().cut)
            await sessions.append(session, Message("user", "x"))
            return (await sessions.get(session)).message_count

    assert asyncio.run(main()) == 1


# --- Addresses and errors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:geheim@db.example.org/holdfast",
        "postgresql://db.example.org/holdfast?password=geheim",
        "postgresql://db.example.org/holdfast?sslpassword=geheim",
        "postgresql://db.example.org/holdfast?PASSWORD=geheim",
        "postgresql://db.example.org:geheim/holdfast",
        "mysql://db.example.org/geheim",
        "postgresql://[geheim/holdfast",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        address.conninfo(url)
    assert "geheim" not in refused.value.message + (refused.value.hint or "")


def test_a_password_of_the_environment_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "geheim")
    url = postgres.server().url("there_is_none")
    with pytest.raises(StorageError) as refused:
        PostgresSessionStore(url)
    shown = f"{refused.value.message} {refused.value.hint} {refused.value.__cause__}"
    assert "does not exist" in refused.value.message
    assert "geheim" not in shown


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://127.0.0.1:1/x", r"x on 127\.0\.0\.1:1 failed: Connection refused\."),
        ("postgresql://127.0.0.1,localhost:1/x?port=1,1", "failed: Connection refused\\."),
        ("postgresql://?service=nosuch", 'failed: definition of service "nosuch" not found'),
        ("postgresql://db.invalid/x", "failed: .*db.invalid"),
        ("postgresql:///x?host=/nosuch", "failed: No such file or directory\\."),
    ],
)
def test_a_connection_that_fails_says_why(url: str, reason: str) -> None:
    with pytest.raises(StorageError, match=reason):
        PostgresSessionStore(url)


def test_the_reason_of_a_failure_holds_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers may repeat what it was sent."""
    monkeypatch.setenv("PGPASSWORD", "geheim")
    said = psycopg.OperationalError('connection failed: FATAL:  "geheim" is not welcome')
    assert translated(said, "It").message == 'The connection to It failed: "…" is not welcome.'


def test_a_user_who_does_not_exist_is_named_and_nothing_is_created() -> None:
    url = postgres.server().database()
    with pytest.raises(StorageError, match=r"no user 'nosuch' in .*; nothing was changed"):
        schema.create(url, role="nosuch")
    with pytest.raises(StorageError, match="There is no session store"):
        PostgresSessionStore(url)
    assert schema.create(url) == schema.LATEST


@pytest.mark.parametrize("what", ["server", "tables"])
def test_a_store_that_is_not_there_is_a_warning_of_the_checkup(tmp_path: Path, what: str) -> None:
    url = "postgresql://127.0.0.1:1/x" if what == "server" else postgres.server().database()
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home/config.toml").write_text(f'[store]\nurl = "{url}"\n')
    with holdfast.open(tmp_path / "home") as home:
        found = home.doctor()
    wrong = [each for each in found.findings if each.severity is not Severity.OK]
    assert [(each.check, each.severity) for each in wrong] == [("session store", Severity.WARNING)]
    assert wrong[0].advice
    assert found.ok
    assert {"archive", "checkpoint store"} <= {each.check for each in found.findings}


def test_a_database_without_a_store_says_how_to_make_one(tmp_path: Path) -> None:
    url = postgres.server().database()
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.toml").write_text(f'[store]\nurl = "{url}"\n')
    with holdfast.open(tmp_path / "home") as home, pytest.raises(StorageError) as refused:
        home.sessions.find()
    assert refused.value.hint == "`holdfast.api.store.init_store(path)` creates one."
    assert schema.create(url) == schema.create(url) == schema.LATEST
    with holdfast.open(tmp_path / "home") as home:
        assert home.sessions.find() == []


def test_tables_without_their_migration_are_named_with_what_to_do() -> None:
    url = postgres.server().database()
    schema.create(url)
    postgres.execute(url, "DELETE FROM holdfast.migrations WHERE number = 2")
    with pytest.raises(SchemaError, match=r"holdfast\.boots, holdfast\.lock_holders.*and 2") as one:
        schema.create(url)
    assert "migrations (number) VALUES (2);" in (one.value.hint or "")
    postgres.execute(url, "DELETE FROM holdfast.migrations")
    with pytest.raises(SchemaError) as both:
        schema.create(url)
    hint = both.value.hint or ""
    postgres.execute(url, hint[hint.index("INSERT") : hint.index(";")])  # what it says helps
    assert schema.create(url) == schema.LATEST
    postgres.execute(url, "DELETE FROM holdfast.migrations")
    for gone in ("routes", "boots"):  # of the first, then of both
        postgres.execute(url, f"DROP TABLE holdfast.{gone}")
        with pytest.raises(SchemaError) as half:
            schema.create(url)
        assert "INSERT" not in (half.value.hint or "INSERT")


def test_a_store_of_a_later_version_is_left_alone() -> None:
    url = postgres.a_database()
    postgres.execute(url, "INSERT INTO holdfast.migrations (number) VALUES (9999)")
    for use in (PostgresSessionStore, schema.create):
        with pytest.raises(SchemaError, match="newer version of Holdfast"):
            use(url)


def test_the_user_of_normal_work_may_do_all_of_it_and_no_more(tmp_path: Path) -> None:
    """With the rights that `store init --role` gives, every operation works; tables stay."""
    name = f"agent_{time.monotonic_ns()}"
    owner = postgres.a_database()
    postgres.execute(owner, f"CREATE ROLE {name} LOGIN")
    schema.create(owner, role=name)
    url = owner.replace("postgresql://holdfast@", f"postgresql://{name}@")
    root = tmp_path / "home"
    root.mkdir()
    (root / "config.toml").write_text(f'[store]\nurl = "{url}"\n')
    lines = [a_line(f"s{n}", at=NOW - 1e7, tokens=1) for n in range(3)]
    try:
        with holdfast.open(root, clock=lambda: NOW) as home:
            home.import_(io.BytesIO(b"".join(json.dumps(each).encode() + b"\n" for each in lines)))
            assert home.sessions.search("zebra")
            home.prune(older_than="90d")
            home.undo_latest()
            home.archive_sessions(["s0"])
            home.undo_latest()
            home.trash.plan_empty().apply()
            home.maintain()
            home.status()
        for statement in ("DROP TABLE holdfast.leases", "DELETE FROM holdfast.migrations"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                postgres.execute(url, statement)
    finally:
        postgres.execute(owner, f"DROP OWNED BY {name}")
        postgres.execute(owner, f"DROP ROLE {name}")


def test_normal_work_runs_no_statement_that_defines_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = a_home(tmp_path / "home")
    run: list[str] = []
    real = psycopg.Connection.execute

    def noted(db: Any, query: Any, *args: Any, **how: Any) -> Any:
        run.append(str(query))
        return real(db, query, *args, **how)

    monkeypatch.setattr(psycopg.Connection, "execute", noted)
    with holdfast.open(root, clock=lambda: NOW) as home:
        home.import_(io.BytesIO(json.dumps(a_line("s", at=NOW - 1e7)).encode()))
        home.sessions.search("ebra", substring=True)
        home.prune(older_than="90d")
        home.undo_latest()
        home.maintain()
    assert run
    defining = ("CREATE", "ALTER", "DROP", "TRUNCATE", "VACUUM")
    assert [each for each in run if each.strip().upper().startswith(defining)] == []


# --- Search ---------------------------------------------------------------------------------------


def test_words_are_those_of_the_other_index() -> None:
    text = "Grüße, naïve_café! 今天天气 ½ x²y Straße 🚀 ﬁ \u0301a İstanbul ёлка १२३ a\u0300b don't"
    text += " one—two…three«four»five"  # other separators than those of ASCII
    with contextlib.closing(SmallIndex()) as small:
        small.add([(1, text)])
        assert words(text) == small.words(1)


def test_usual_texts_are_indexed_as_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a quicker way for them; what the server makes of both is the same."""
    texts = ("don't stop; e-mail ME, me: 1e5 v1.2.3", "noise " * 256, "x" * 300 + " tail", "", "..")
    quick = [vector(each) for each in texts]
    monkeypatch.setattr(search_words, "_USUAL", -1)
    slow = [vector(each) for each in texts]
    with psycopg.connect(postgres.a_database()) as db:
        for one, other in zip(quick, slow, strict=True):
            assert db.execute(
                "SELECT %s::tsvector::text = %s::tsvector::text", [one.text, other.text]
            ).fetchone() == (True,)
            assert set(one.words) == set(other.words)
            assert (one.exact, one.whole) == (other.exact, other.whole)


def test_words_of_a_step_that_was_rolled_back_are_learned_again() -> None:
    """A process remembers which words the vocabulary has: only those that were committed."""

    class Wire(SyncWire):
        failing = True

        def execute(self, statement: str, values: Values | None = None) -> Result:
            if Wire.failing and statement.startswith("DELETE FROM unindexed"):
                Wire.failing = False
                raise psycopg.errors.DeadlockDetected("another one was in the way")
            return super().execute(statement, values)

    with contextlib.closing(PostgresSessionStore(postgres.a_database(), connect=Wire)) as store:
        store.create(Session(id=ID, source="cli", started_at=NOW, last_active_at=NOW))
        store.append(ID, [Message("user", "a zebra")], now=NOW)
        search_index.catch_up_all(store.database)
        assert not Wire.failing
        assert store.close_words("zebar") == ["zebra"]
        assert store.database.known_words == {"a", "zebra"}


def test_an_import_and_maintenance_leave_nothing_for_the_index(tmp_path: Path) -> None:
    """However many there were, and with nothing in the trash; the other store does it, too."""
    root = a_home(tmp_path / "home")
    url = address_of(root)
    with holdfast.open(root, clock=lambda: NOW) as home:
        lines = [json.dumps(a_line(name, at=NOW - 1e5, messages=_LONG)) for name in ("s1", "s2")]
        home.import_(io.BytesIO("\n".join(lines).encode()))
        assert _count(url, "unindexed") == 0
        assert _count(url, "message_words") == 2 * _LONG
        with a_store(url) as store:
            assert store.close_words("zebar") == ["zebra"]
        with psycopg.connect(url) as db:  # as a version left it that did not catch up
            db.execute("DELETE FROM holdfast.message_words")
            db.execute(
                "INSERT INTO holdfast.unindexed SELECT number, session FROM holdfast.messages"
            )
        assert home.maintain(force=True).error is None
    assert _count(url, "unindexed") == 0
    assert _count(url, "message_words") == 2 * _LONG


#: Two of these are more than one batch of the index.
_LONG = 400


def _count(url: str, table: str) -> int:
    with a_store(url) as store:
        [[count]] = store.database.query(f"SELECT count(*) FROM {table}").rows  # noqa: S608
    return int(count)


def test_long_texts_are_found_beyond_what_the_server_keeps_of_them() -> None:
    """Places beyond 16,383, more than 255 of them, more words than fit."""
    many = " ".join(f"w{n}" for n in range(20_000)) + " late phrase"
    often = "noise " * 400 + "odd couple " + "noise " * 10
    large = " ".join(f"{n:x}{'y' * 30}" for n in range(25_000)) + " last straw"
    assert not vector(many).exact
    assert not vector(often).exact
    assert not vector(large).whole
    with a_store() as store:
        store.create(a_session())
        numbers = store.append(ID, [Message("user", t) for t in (many, often, large)], now=NOW)
        search_index.catch_up(store.database)
        for query, place in (('"late phrase"', 0), ('"odd couple"', 1), ('"last straw"', 2)):
            hits = store.search(Search(text=query))
            assert [hit.message.number for hit in hits] == [numbers.numbers[place]], query
        assert store.search(Search(text='"phrase late"')) == []


def test_many_matches_are_ranked_among_the_newest() -> None:
    with a_store() as store:
        store.create(a_session())
        texts = [f"common word number {n}" for n in range(900)]
        numbers = store.append(ID, [Message("user", text) for text in texts], now=NOW).numbers
        while search_index.catch_up(store.database):
            pass
        hits = store.search(Search(text="common", limit=5))
        assert len(hits) == 5
        assert min(hit.message.number or 0 for hit in hits) > numbers[400]
        assert len(store.search(Search(text="common", limit=900))) == 900
        assert [h.message.number for h in store.search(Search(text="number 7 -common"))] == []
        assert store.close_words("comon") == ["common"]
