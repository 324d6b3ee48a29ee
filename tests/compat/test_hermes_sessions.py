"""Sessions of a home that Hermes's newest release made: seen, removed, brought back, archived."""

from __future__ import annotations

import io
import json
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import SchemaError, UnknownSessionError, UsageError
from holdfast.homes.archive.session_rows import StoreRows
from holdfast.homes.hermes.state_db import moves
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.search_tables import is_search_due
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.registry import open_home
from holdfast.model.checkup import Severity
from holdfast.model.report import Result
from holdfast.model.session import Relation, Search, SessionFilter, SessionOrder
from holdfast.policy.rules import Policy
from holdfast.services.doctor import examine
from holdfast.services.exchange.session_import import import_sessions
from holdfast.services.exchange.session_line import session_line
from holdfast.services.plans import plan_archive
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo, undo_latest
from holdfast.stores.archive.bundle_manifest import BundleManifest
from holdfast.stores.sessions.survey import LifeSigns
from holdfast.stores.sqlite.moves import SqliteEngine
from tests.compat.hermes_sessions import (
    LIVING,
    NOW,
    OLD,
    applied,
    check,
    database,
    deleted,
    files,
    opened,
    prune_plan,
    pruned,
    recorded,
    seen,
    session_ids,
    undone,
)
from tests.stored import file_of, remove_rows, usage_of

FIRST = "20260101_101010_aaaaaa"
TITLED = "20260103_000000_titled"
PARENT, FOLLOW = "20260104_000000_parent", "20260104_000100_follow"
BRANCH, DELEGATE = "20260105_000000_branch", "20260106_000000_delega"
ODD = "api:chat/1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return recorded(tmp_path)


def test_a_home_is_known_by_what_is_in_it_and_not_by_its_name(root: Path) -> None:
    home = open_home(root, clock=lambda: NOW)
    assert (home.kind, home.state) == ("hermes", root / ".holdfast")
    assert opened(root).version == "0.19"
    assert not home.state.exists()


def test_sessions_are_read_with_all_that_hermes_knows_of_them(root: Path) -> None:
    store = opened(root).session_store()
    assert store is not None
    session = store.get(FIRST)
    assert (session.source, session.model, session.end_reason) == (
        "cli",
        "some/model",
        "cli_close",
    )
    assert (session.tokens.input, session.tokens.output, session.cost) == (1000, 50, 0.25)
    assert session.message_count == 4
    assert session.ended
    parts, text, call, result = store.messages(FIRST)
    assert isinstance(parts.content, list)
    assert text.content == "a zebra 日本語テスト"
    assert (call.tool_calls, call.reasoning, call.tokens) == (
        [{"id": "c1", "type": "function"}],
        "because",
        12,
    )
    assert (result.tool_name, result.tool_call_id) == ("terminal", "c1")


def test_sessions_are_listed_filtered_and_counted(root: Path) -> None:
    store = opened(root).session_store()
    assert store is not None
    assert {each.id for each in store.find(SessionFilter())} == {*OLD, *LIVING}
    assert [each.id for each in store.find(SessionFilter(sources=("cron",)))] == [
        "cron_backup_20260102_030405"
    ]
    assert [each.id for each in store.find(SessionFilter(title="TITLE"))] == [TITLED]
    assert store.count(SessionFilter(ended=False)) == 3
    assert store.count(SessionFilter(min_messages=4)) == 1
    assert store.find(SessionFilter(), order_by=SessionOrder.MESSAGES, limit=1)[0].id == FIRST
    stats = store.statistics(now=NOW, ages=(("any", float("inf")),))
    assert (stats.sessions, stats.open_sessions, stats.messages) == (13, 3, 26)


def test_lineage_is_told_as_hermes_marks_it(root: Path) -> None:
    store = opened(root).session_store()
    assert store is not None
    relations = {name: store.get(name).relation for name in (PARENT, FOLLOW, BRANCH, DELEGATE)}
    assert relations == {
        PARENT: None,
        FOLLOW: Relation.CONTINUATION,
        BRANCH: Relation.BRANCH,
        DELEGATE: Relation.DELEGATE,
    }


@pytest.mark.parametrize(
    ("text", "substring", "found"),
    [
        ("zebra", False, {FIRST}),
        ("zebra OR nothing", False, {FIRST}),
        ("terminal", False, {FIRST}),
        ("zebra -terminal", False, {FIRST}),
        ("ebr", True, {FIRST}),
        ("本語", True, {FIRST}),
        ("テスト", True, {FIRST}),
        ("giraffe", False, set()),
    ],
)
def test_search_finds_words_and_parts(
    root: Path, text: str, substring: bool, found: set[str]
) -> None:
    store = opened(root).session_store()
    assert store is not None
    hits = store.search(Search(text=text, substring=substring))
    assert {hit.session.id for hit in hits} == found


def test_an_id_may_be_anything_that_hermes_made_up(root: Path) -> None:
    store = opened(root).session_store()
    assert store is not None
    assert store.resolve("api:") == ODD
    for bad in ("", "x" * 301, "a\nb"):
        with pytest.raises(UsageError):
            store.resolve(bad)
    with pytest.raises(UnknownSessionError):
        store.resolve("nobody")


def test_what_hermes_does_itself_is_refused(root: Path) -> None:
    store = opened(root).session_store()
    assert store is not None
    with pytest.raises(UsageError, match="Hermes writes its sessions itself"):
        store.end(FIRST, "done", at=NOW)
    with pytest.raises(UsageError, match="no pins"):
        store.pin(FIRST, True)
    with pytest.raises(UsageError, match="titles are unique"):
        store.rename(FIRST, "A title")
    assert store.rename(FIRST, "Mine").title == "Mine"


def test_prune_takes_old_sessions_with_all_their_files_and_nothing_else(root: Path) -> None:
    before = files(root)
    report = pruned(root)
    assert report.failed == 0
    assert session_ids(root) == LIVING
    left = set(files(root))
    assert {"sessions.json", "notes.json"} < left
    gone = set(before) - left
    assert {
        f"session_{FIRST}.json",
        f"{FIRST}.jsonl",
        "session_api_chat_1_5a5c7f8235ba.json",
    } < gone
    assert all(
        any(name in file for name in LIVING) for file in left - {"sessions.json", "notes.json"}
    )
    check(root)


def test_children_and_parents_find_each_other_in_whatever_order_they_come_back(
    root: Path,
) -> None:
    before = seen(root)
    deleted(root, FOLLOW)
    deleted(root, PARENT)
    deleted(root, BRANCH)
    for _ in range(3):
        undone(root)
    assert seen(root) == before
    deleted(root, PARENT)
    deleted(root, FOLLOW)
    operations = opened(root).log.read().operations
    for operation in operations[-2:]:  # not in the order that one would
        undo(opened(root), operation.id, clock=lambda: NOW)
    assert seen(root) == before


def test_a_parent_that_goes_leaves_its_children_and_takes_a_delegate_along(root: Path) -> None:
    deleted(root, BRANCH)
    with database(root) as db:
        parents = dict(db.execute("SELECT id, parent_session_id FROM sessions"))
    assert BRANCH not in parents
    assert parents[FOLLOW] == PARENT
    assert parents.get(DELEGATE) is None
    check(root)


def test_rows_beside_go_with_their_session_or_stay_as_hermes_leaves_them(root: Path) -> None:
    with database(root) as db:
        db.execute(
            "INSERT INTO async_delegations (delegation_id, origin_session, state, "
            "dispatched_at, updated_at, delivery_state) VALUES ('d', ?, 'done', 1, 1, 'delivered')",
            (FIRST,),
        )
    deleted(root, FIRST, TITLED, PARENT)
    with database(root) as db:
        counts = {
            table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in (
                "session_model_usage",
                "telegram_dm_topic_bindings",
                "compression_locks",
                "gateway_routing",
                "async_delegations",
            )
        }
    assert counts == {
        "session_model_usage": 0,
        "telegram_dm_topic_bindings": 0,
        "compression_locks": 0,
        "gateway_routing": 1,
        "async_delegations": 1,
    }


def test_columns_that_nobody_knows_come_back_too(root: Path) -> None:
    with database(root) as db:
        db.execute('ALTER TABLE sessions ADD COLUMN "order" BLOB')
        db.execute("ALTER TABLE messages ADD COLUMN mood TEXT DEFAULT 'fine'")
        db.execute("UPDATE sessions SET \"order\" = x'00ff' WHERE id = ?", (FIRST,))
    before = seen(root)
    deleted(root, FIRST)
    undone(root)
    assert seen(root) == before


def test_messages_come_back_by_one_statement(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one, FTS5 would write a segment of its index for each."""
    before, real = seen(root), moves.insert
    one_by_one: list[str] = []

    def insert(db: sqlite3.Connection, schema: Schema, table: str, *row: Any) -> None:
        one_by_one.append(table)
        real(db, schema, table, *row)

    monkeypatch.setattr(moves, "insert", insert)
    deleted(root, FIRST, TITLED)
    undone(root)
    assert seen(root) == before
    assert "messages" not in one_by_one


def test_what_hermes_set_for_its_search_tables_stays_as_it_was(root: Path) -> None:
    """While many messages come back they have other settings, which nobody may ever see."""

    def settings() -> list[tuple[str, int]]:
        with database(root) as db:
            return [*db.execute("SELECT k, v FROM messages_fts_config ORDER BY k")]

    with database(root) as db:
        db.execute("INSERT INTO messages_fts (messages_fts, rank) VALUES ('automerge', 7)")
    before = settings()
    assert ("automerge", 7) in before
    deleted(root, FIRST, TITLED)
    undone(root)
    assert settings() == before


def test_messages_whose_numbers_were_taken_get_other_numbers(root: Path) -> None:
    def said(session_id: str) -> list[tuple[str]]:
        query = "SELECT content FROM messages WHERE session_id = ? ORDER BY id"
        with database(root) as db:
            return db.execute(query, (session_id,)).fetchall()

    before = said(FIRST)
    with database(root) as db:
        [number] = db.execute(
            "SELECT min(id) FROM messages WHERE session_id = ?", (FIRST,)
        ).fetchone()
    deleted(root, FIRST)
    with database(root) as db:  # as in a database that Hermes created again
        db.execute(
            "INSERT INTO messages (id, session_id, role, content, timestamp) "
            "VALUES (?, ?, 'user', 'new here', ?)",
            (number, PARENT, NOW),
        )
    undone(root)
    assert Counter(said(FIRST)) == Counter(before)
    assert ("new here",) in said(PARENT)
    check(root)


def test_a_title_that_was_taken_meanwhile_keeps_a_session_in_the_trash(root: Path) -> None:
    deleted(root, TITLED, FIRST)
    with database(root) as db:
        db.execute("UPDATE sessions SET title = 'A title' WHERE id = ?", (PARENT,))
    report = undone(root)
    [failure] = [each for each in report.outcomes if each.result is Result.FAILED]
    assert (failure.id, PARENT in failure.reason) == (TITLED, True)
    assert FIRST in session_ids(root)
    with database(root) as db:
        db.execute("UPDATE sessions SET title = NULL WHERE id = ?", (PARENT,))
    undone(root)
    assert TITLED in session_ids(root)
    check(root)


def test_a_session_that_changed_since_the_plan_is_left_alone(root: Path) -> None:
    plan = prune_plan(root)
    with database(root) as db:
        db.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) "
            "VALUES (?, 'user', 'x', ?)",
            (FIRST, NOW),
        )
    report = applied(root, plan)
    assert FIRST in session_ids(root)
    reasons = {each.id: each.reason for each in report.outcomes}
    assert reasons[FIRST] == "changed since the plan was made"
    check(root)


def test_archived_sessions_are_read_searched_and_restored_as_they_were(root: Path) -> None:
    before = seen(root)
    home = opened(root)
    made, _ = plan_archive(
        home,
        home.archive,
        ids=sorted(OLD),
        wanted=None,
        policy=Policy(),
        now=NOW,
        command="sessions archive",
        progress=Silent(),
    )
    report = apply(made, home, clock=lambda: NOW, progress=Silent())
    assert report.failed == 0
    assert session_ids(root) == LIVING
    assert [hit.session.id for hit in opened(root).archive.search(Search(text="zebra")).hits] == [
        FIRST
    ]
    check(root)
    assert undone(root).failed == 0
    after = seen(root)
    assert after.rows == before.rows
    assert after.searched == before.searched
    assert {name: each[0] for name, each in after.files.items()} == {
        name: each[0] for name, each in before.files.items()
    }


def take_back(root: Path, session_id: str, *, compacted: int = 0) -> None:
    """What Hermes does to the last message of a session when its user takes that back."""
    with database(root) as db:
        db.execute(
            "UPDATE messages SET active = 0, compacted = ? WHERE id = "
            "(SELECT max(id) FROM messages WHERE session_id = ?)",
            (compacted, session_id),
        )


@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_session_with_messages_taken_back_is_archived_and_restored_as_it_was(
    root: Path, times: int
) -> None:
    with database(root) as db:
        db.execute(
            "UPDATE messages SET active = 0 WHERE id IN (SELECT id FROM messages "
            "WHERE session_id = ? ORDER BY id DESC LIMIT ?)",
            (FIRST, times),
        )
    before = seen(root)
    home = opened(root)
    made, _ = plan_archive(
        home, home.archive, ids=[FIRST], policy=Policy(), now=NOW, command="sessions archive"
    )
    report = apply(made, home, clock=lambda: NOW, progress=Silent())
    assert [each.reason for each in report.outcomes if each.id == FIRST] == [""]
    assert FIRST not in session_ids(root)
    [archived] = opened(root).archive.find(SessionFilter())
    assert archived.session.message_count == 4 - times
    assert undone(root).failed == 0
    after = seen(root)
    assert after.rows == before.rows
    assert after.searched == before.searched


def test_an_own_home_counts_the_messages_of_hermes_as_hermes_does(
    root: Path, tmp_path: Path
) -> None:
    """What was taken back is kept, goes along wherever the session goes, and is not counted."""
    take_back(root, FIRST)
    take_back(root, TITLED, compacted=1)  # summed up: that was said
    theirs = opened(root).session_store()
    assert theirs is not None
    ids = [FIRST, TITLED]
    line = "".join(
        piece for each in ids for piece in session_line(theirs.get(each), theirs.messages(each))
    )
    own = HoldfastHome(tmp_path / "own", clock=lambda: NOW)
    store = own.create_session_store()
    import_sessions(own.own.importing(), io.BytesIO(line.encode()), replace=False, now=NOW)
    assert [store.get(each).message_count for each in ids] == [3, 2]
    assert store.statistics(now=NOW, ages=(("any", float("inf")),)).messages == 5

    made, _ = plan_archive(
        own, own.archive, ids=ids, policy=Policy(), now=NOW, command="sessions archive"
    )
    assert apply(made, own, clock=lambda: NOW, progress=Silent()).failed == 0
    assert store.find(SessionFilter()) == []
    assert undo_latest(own, clock=lambda: NOW)[1].failed == 0
    again = "".join(
        piece for each in ids for piece in session_line(store.get(each), store.messages(each))
    )
    assert again == line
    assert [store.get(each).message_count for each in ids] == [3, 2]
    assert {each.severity for each in examine(own, progress=Silent()).findings} == {Severity.OK}


def test_a_bundle_that_counts_what_was_taken_back_comes_into_an_own_home(tmp_path: Path) -> None:
    """Earlier versions counted that in own homes, and their bundles say so."""
    own = HoldfastHome(tmp_path / "own", clock=lambda: NOW)
    store = file_of(own.create_session_store())
    line = {
        "id": "a",
        "source": "cli",
        "started_at": NOW - 9,
        "ended_at": NOW - 1,
        "end_reason": "done",
        "messages": [
            {"role": "user", "content": "said", "timestamp": NOW - 9},
            {"role": "user", "content": "not said", "timestamp": NOW - 8, "taken_back": True},
        ],
    }
    written = json.dumps(line).encode() + b"\n"
    import_sessions(own.own.importing(), io.BytesIO(written), replace=False, now=NOW)
    session = store.get("a")
    assert session.message_count == 1
    remove_rows(store, "a")
    life = LifeSigns(is_dead=lambda _: True, abandoned_after=0)
    engine = SqliteEngine(store, lambda: NOW, life)
    rows = StoreRows(store, engine, lambda: own.own.importing(count_usage=False), lambda: NOW)
    for counted in (2, 1):
        manifest = BundleManifest(
            operation="1",
            number=0,
            archived_at=NOW,
            session=replace(session, message_count=counted),
            children=(),
            line_bytes=len(written),
            line_sha256="",
        )
        assert rows.put_back(manifest, io.BytesIO(written)) == ""
        assert store.get("a") == session
        remove_rows(store, "a")


def test_a_file_that_does_not_name_its_session_is_archived_with_it_all_the_same(
    root: Path,
) -> None:
    """It is removed with its session: what was not in the bundle would be lost."""
    for name in (f"session_{FIRST}.json", "session_api_chat_1_5a5c7f8235ba.json"):
        (root / "sessions" / name).write_text("{}")
    before = files(root)
    home = opened(root)
    made, _ = plan_archive(
        home,
        home.archive,
        ids=[FIRST, ODD],
        wanted=None,
        policy=Policy(),
        now=NOW,
        command="sessions archive",
        progress=Silent(),
    )
    assert apply(made, home, clock=lambda: NOW, progress=Silent()).failed == 0
    assert undone(root).failed == 0
    assert {name: each[0] for name, each in files(root).items()} == {
        name: each[0] for name, each in before.items()
    }


def test_files_of_sessions_that_are_gone_are_known_by_what_they_say(root: Path) -> None:
    """As Hermes's own prune leaves them: also those with another name than their id."""
    with database(root) as db:
        db.execute("DELETE FROM messages WHERE session_id = ?", (ODD,))
        db.execute("DELETE FROM sessions WHERE id = ?", (ODD,))
    (root / "sessions" / "session_nobody.json").write_text('{"session_id": "somebody"}')
    pruned(root)
    left = set(files(root))
    assert "session_api_chat_1_5a5c7f8235ba.json" not in left
    assert "session_nobody.json" in left


def test_an_exported_line_has_everything_hermes_knows(root: Path) -> None:
    store = opened(root).session_store()
    assert store is not None
    line = json.loads("".join(session_line(store.get(FIRST), store.messages(FIRST))))
    assert line["messages"][2]["hermes"]["finish_reason"] == "tool_calls"
    assert line["id"] == FIRST


def test_what_was_used_stays_known_when_its_session_is_gone(root: Path) -> None:
    def used() -> tuple[int, float]:
        store = opened(root).session_store()
        assert store is not None
        ever = usage_of(store).ever.usage
        return ever.tokens.input, ever.cost

    assert used() == (1000, 0.25)
    deleted(root, FIRST)
    assert used() == (1000, 0.25)
    undone(root)
    assert used() == (1000, 0.25)


def test_tokens_that_hermes_knows_no_price_of_are_unpriced(root: Path) -> None:
    with database(root) as db:
        db.execute("UPDATE sessions SET estimated_cost_usd = NULL, actual_cost_usd = NULL")
    store = opened(root).session_store()
    assert store is not None
    assert store.get(FIRST).unpriced.input == 1000
    [entry] = store.usage_entries()
    assert (entry.usage.unpriced.input, entry.usage.cost) == (1000, 0.0)
    deleted(root, FIRST)
    [after] = opened(root).session_store().usage_entries()  # type: ignore[union-attr]
    assert after == entry


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE schema_version SET version = 23", "version is 23"),
        ("PRAGMA user_version = 4", "user_version"),
        ("CREATE TABLE moods (session_id TEXT, mood TEXT)", "moods"),
        ("CREATE TABLE votes (who TEXT REFERENCES sessions(id))", "votes"),
        (
            "CREATE TRIGGER nosy AFTER DELETE ON messages BEGIN SELECT 1; END",
            "nosy",
        ),
        ("DROP TRIGGER messages_fts_delete", "messages_fts"),
    ],
)
def test_a_schema_that_is_not_known_is_read_and_never_written(
    root: Path, change: str, why: str
) -> None:
    with database(root) as db:
        db.execute(change)
    before = (root / "state.db").read_bytes()
    home = opened(root)
    inventory = home.scan(NOW)
    assert len([item for item in inventory.items if item.kind == "session"]) == 13
    assert any(why in problem.reason for problem in inventory.problems)
    store = home.session_store()
    assert store is not None
    assert store.search(Search(text="zebra"))
    with pytest.raises(SchemaError, match=why):
        applied(root, prune_plan(root))
    with pytest.raises(SchemaError, match=why):
        store.rename(FIRST, "x")
    assert (root / "state.db").read_bytes() == before
    assert f"session_{FIRST}.json" in files(root)


def test_what_a_newer_release_no_longer_has_reads_as_empty(root: Path) -> None:
    """And the index that all known releases have may be gone."""
    with database(root) as db:
        db.execute("UPDATE schema_version SET version = 99")
        db.execute("DROP INDEX idx_messages_session")
        db.execute("DROP INDEX idx_sessions_title_unique")
        for column in ("title", "end_reason", "tool_call_count", "output_tokens"):
            db.execute(f"ALTER TABLE sessions DROP COLUMN {column}")
        for column in ("token_count", "reasoning"):
            db.execute(f"ALTER TABLE messages DROP COLUMN {column}")
    home = opened(root)
    assert len([item for item in home.scan(NOW).items if item.kind == "session"]) == 13
    store = home.session_store()
    assert store is not None
    session = store.get(FIRST)
    assert (session.title, session.tokens.input, session.tokens.output) == (None, 1000, 0)
    assert [message.tokens for message in store.messages(FIRST)] == [None] * 4
    assert store.search(Search(text="zebra"))
    assert store.statistics(now=NOW, ages=(("any", float("inf")),)).sessions == 13


def test_a_schema_that_hermes_renews_while_we_have_it_open_is_seen(root: Path) -> None:
    store = opened(root).session_store()
    assert store is not None
    with database(root) as db:
        db.execute("UPDATE schema_version SET version = 23")
    with pytest.raises(SchemaError):
        store.rename(FIRST, "x")


def test_a_run_that_was_killed_after_it_made_the_search_tables_anew_is_finished(
    root: Path,
) -> None:
    before = seen(root)
    home = opened(root)
    engine = home._contents.engine()
    assert engine is not None
    assert engine.search.is_worth_it(OLD)
    with engine.database.write() as db:
        engine.search.renew(db, OLD)  # and then it was killed
    with pytest.raises(AssertionError):
        check(root)
    assert is_search_due(home.state)
    deleted(root, "20260501_000000_recent")
    undone(root)
    assert seen(root).searched == before.searched
    assert not is_search_due(home.state)


def test_a_run_that_is_stopped_leaves_hermess_search_whole(root: Path) -> None:
    class Stopping(Silent):
        """Somebody presses Ctrl-C after the first batch."""

        stopped = False

        def step(self, label: str, done: int, total: int | None) -> None:
            self.stopped = True

        def stop_requested(self) -> bool:
            return self.stopped

    made = prune_plan(root)
    again = [replace(item, version="changed") for item in made.items if item.id == PARENT]
    made = replace(made, items=(*again, *(item for item in made.items if item.id != PARENT)))
    report = apply(made, opened(root), clock=lambda: NOW, progress=Stopping())
    assert report.stopped
    assert PARENT in session_ids(root)
    check(root)


def test_a_damaged_database_is_said_so_and_left_as_it_is(root: Path) -> None:
    (root / "state.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
    home = opened(root)
    with pytest.raises(Exception, match=r"damaged|not a database") as error:
        home.session_store()
    assert "state.db" in str(error.value)


def test_hermes_may_have_no_search_tables_at_all(root: Path) -> None:
    with database(root) as db:
        for table in ("messages_fts", "messages_fts_trigram"):
            for event in ("insert", "delete", "update"):
                db.execute(f"DROP TRIGGER {table}_{event}")
            db.execute(f"DROP TABLE {table}")
    store = opened(root).session_store()
    assert store is not None
    assert {hit.session.id for hit in store.search(Search(text="zebra", substring=True))} == {FIRST}
    assert deleted(root, FIRST).failed == 0
    assert undone(root).failed == 0
    with database(root) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_nothing_of_ours_is_left_beside_the_database(root: Path) -> None:
    before = {path.name for path in root.iterdir()}
    pruned(root)
    undone(root)
    assert {path.name for path in root.iterdir()} - before <= {
        ".holdfast",
        "state.db-wal",
        "state.db-shm",
    }


def test_sqlite_is_new_enough_for_the_search_tables() -> None:
    assert sqlite3.sqlite_version_info >= (3, 34)
