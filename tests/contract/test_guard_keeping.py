"""What a guard counted stays with its session, wherever that goes, and is counted once."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.api.sessions import open_sessions
from holdfast.errors import BudgetExceededError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.sessions.mover import as_item
from holdfast.model.checkup import Severity
from holdfast.model.item import SPACE
from holdfast.model.session import Message, Session, SessionFilter, Tokens
from holdfast.model.usage import CostTotals
from holdfast.policy.budgets import Budgets
from holdfast.policy.plan_by_name import plan_all
from holdfast.policy.rules import DAY
from holdfast.services.exchange.session_import import import_sessions
from holdfast.services.exchange.session_line import session_line
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo_latest
from holdfast.stores.sqlite import checkup, schema
from holdfast.stores.sqlite.repair import repair
from holdfast.stores.sqlite.schema import prepared
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.archiving import archive, bring
from tests.stored import file_of, usage_of

NOW = 1_800_000_000.0
PAGE = 4096


class Time:
    """Each call of it is a day later than the one before, when it is told to."""

    def __init__(self) -> None:
        self.now = NOW - 5 * DAY

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A home with one session that was guarded on three days, and ended."""
    clock = Time()
    with open_sessions(tmp_path, clock=clock) as sessions:
        session = sessions.create(id="guarded", source="cli", model="m")
        guard = sessions.guard(session.id)
        for _ in range(3):
            with guard.call() as call:
                message = Message(role="assistant", content="zebra", tokens=7, cost=0.5)
                sessions.append(session.id, message)
                call.used(Tokens(input=10, cached=4), cost=0.25)
            with guard.call() as call:
                call.used(Tokens(output=3), model="small")
            clock.now += DAY
        sessions.end(session.id)
        sessions.end(sessions.create(id="plain", source="cli").id)
    return tmp_path


def seen(root: Path) -> Session:
    with contextlib.closing(SqliteSessionStore(root / "sessions.db")) as store:
        return store.get("guarded")


def usage(root: Path) -> CostTotals:
    with contextlib.closing(SqliteSessionStore(root / "sessions.db")) as store:
        return usage_of(store)


def is_sound(root: Path) -> bool:
    """But for the space that plans without a step for it leave to the next prune."""
    found = checkup.check(root / "sessions.db", Silent())
    return all(each.severity is Severity.OK for each in found if each.check != SPACE)


def refuses_the_seventh(root: Path) -> None:
    """A budget of six calls is spent, wherever the session has been."""
    with open_sessions(root) as sessions:
        sessions.reopen("guarded")
        guard = sessions.guard("guarded", budgets=Budgets(iterations=6))
        with pytest.raises(BudgetExceededError) as refused, guard.call():
            pytest.fail("it had its six calls")
        assert refused.value.used == 6


def test_totals_and_ledger_have_it_once(root: Path) -> None:
    session = seen(root)
    assert session.tokens == Tokens(input=30, output=30, cached=12)
    assert session.unpriced == Tokens(output=9)
    assert session.cost == pytest.approx(2.25)
    assert session.guarded is not None
    assert session.guarded.usage.tokens == Tokens(input=30, output=9, cached=12)
    ledger = usage(root)
    assert ledger.ever.usage.tokens == session.tokens
    assert [share.cost.usage.tokens.total for share in ledger.by_day] == [20, 20, 20]
    assert [share.name for share in ledger.by_model] == ["m", "small"]
    assert is_sound(root)
    refuses_the_seventh(root)


def test_pruned_and_brought_back_it_is_as_it_was(root: Path) -> None:
    before, used = seen(root), usage(root)
    home = HoldfastHome(root, clock=lambda: NOW, idle=DAY)
    store = home.session_store()
    assert store is not None
    items = [as_item(store.get(name)) for name in ("guarded", "plain")]
    plan = plan_all(items, str(root), NOW, command="delete", reason="asked", undoable=True)
    assert apply(plan, home, clock=lambda: NOW).removed == 2
    with file_of(store).database.read() as db:
        assert db.execute("SELECT count(*) FROM guarded").fetchone() == (0,)
    _, report = undo_latest(home, clock=lambda: NOW)
    assert report.brought_back == 2
    assert seen(root) == before
    assert usage(root) == used
    assert is_sound(root)
    refuses_the_seventh(root)


def test_a_copy_in_the_trash_from_before_guards_comes_back(root: Path) -> None:
    """Bundles of an earlier version have no table for it."""
    home = HoldfastHome(root, clock=lambda: NOW, idle=DAY)
    store = home.session_store()
    assert store is not None
    items = [as_item(store.get("plain"))]
    plan = plan_all(items, str(root), NOW, command="delete", reason="asked", undoable=True)
    apply(plan, home, clock=lambda: NOW)
    [bundle] = (root / "trash").rglob("*.sessions.db")
    with contextlib.closing(sqlite3.connect(bundle)) as db, db:
        db.execute("DROP TABLE guarded")
    _rename_to_its_checksum(bundle)
    _, report = undo_latest(home, clock=lambda: NOW)
    assert report.brought_back == 1
    assert store.get("plain").guarded is None


def _rename_to_its_checksum(bundle: Path) -> None:
    import zlib

    first, _, *rest = bundle.name.split(".")
    bundle.rename(
        bundle.with_name(".".join([first, f"{zlib.crc32(bundle.read_bytes()):08x}", *rest]))
    )


def test_archived_and_restored_it_is_as_it_was(root: Path) -> None:
    before, used = seen(root), usage(root)
    home = HoldfastHome(root, clock=lambda: NOW, idle=DAY)
    assert archive(home, "guarded").removed == 1
    assert bring(home, "guarded").brought_back == 1
    assert seen(root) == before
    assert usage(root) == used, "it was counted when it was first here"
    assert is_sound(root)
    refuses_the_seventh(root)


def line_of(root: Path) -> bytes:
    with contextlib.closing(SqliteSessionStore(root / "sessions.db")) as store:
        return "".join(session_line(store.get("guarded"), store.messages("guarded"))).encode()


def bring_in(root: Path, line: bytes, *, replacing: bool = False) -> list[str]:
    with contextlib.closing(SqliteSessionStore(root / "sessions.db")) as store:
        report = import_sessions(SqliteImport(store), io.BytesIO(line), replace=replacing, now=NOW)
        return [refused.text for refused in report.refused]


def test_exported_and_imported_elsewhere_it_is_as_it_was(root: Path, tmp_path: Path) -> None:
    line, elsewhere = line_of(root), tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    assert bring_in(elsewhere, line) == []
    assert line_of(elsewhere) == line
    assert seen(elsewhere) == seen(root)
    assert usage(elsewhere) == usage(root)
    assert bring_in(elsewhere, line, replacing=True) == []
    assert usage(elsewhere) == usage(root), "what is replaced is taken off"
    assert is_sound(elsewhere)
    refuses_the_seventh(elsewhere)


@pytest.mark.parametrize(
    "bad",
    [
        {"iterations": -1},
        {"iterations": 1.5},
        {"seconds": "long"},
        {"seconds": 1e300},
        {"booked": {}},
        {"booked": [{"day": "2026-13-45"}]},
        {"booked": [{"model": "\ud800"}]},
        {"booked": [{"tokens_in": -1}]},
        {"booked": [{"unpriced_out": 10**13}]},
        {"booked": [{"cost": -0.5}]},
    ],
)
def test_a_line_with_nonsense_is_refused(root: Path, bad: dict[str, object]) -> None:
    fields = json.loads(line_of(root)) | {"id": "other"}
    fields["guarded"] |= bad
    if isinstance(bad.get("booked"), list):
        whole = json.loads(line_of(root))["guarded"]["booked"][0]
        fields["guarded"]["booked"] = [whole | each for each in fields["guarded"]["booked"]]
    [refused] = bring_in(root, json.dumps(fields).encode() + b"\n")
    assert "guarded" in refused or "booked" in refused


def test_a_host_may_have_a_field_of_that_name(root: Path) -> None:
    with contextlib.closing(sqlite3.connect(root / "sessions.db")) as db, db:
        db.execute("""UPDATE sessions SET extra = '{"guarded":"mine"}' WHERE id = 'guarded'""")
    line = line_of(root)
    assert bring_in(root, line, replacing=True) == []
    session = seen(root)
    assert (session.extra, line_of(root)) == ({"guarded": "mine"}, line)
    assert session.guarded is not None


# --- damage, and older versions -----------------------------------------------------------------


def destroy(path: Path, name: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        [page] = db.execute(query, (name,)).fetchone()
    data = bytearray(path.read_bytes())
    data[(page - 1) * PAGE : page * PAGE] = b"\xa5" * PAGE
    path.write_bytes(data)


def test_a_store_made_anew_keeps_it(root: Path) -> None:
    before, used = seen(root), usage(root)
    destroy(root / "sessions.db", "sessions_by_source")
    assert repair(root / "sessions.db", stamp="now", progress=Silent()).losses == ()
    assert seen(root) == before
    assert usage(root) == used
    assert is_sound(root)
    refuses_the_seventh(root)


def test_a_lost_record_is_said_and_costs_nothing_else(root: Path) -> None:
    used = usage(root)
    destroy(root / "sessions.db", "guarded")
    [loss] = repair(root / "sessions.db", stamp="now", progress=Silent()).losses
    assert loss.describe().startswith("an unknown number of guard's records: budgets of open")
    assert seen(root).guarded is None
    assert seen(root).tokens == Tokens(output=21), "the messages are there"
    assert usage(root) == used, "and so is what was used, ever"
    assert is_sound(root)


def test_rows_that_are_none_any_more_are_left_behind(root: Path) -> None:
    path = root / "sessions.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE guarded SET booked = '[[1, 2'")
    destroy(path, "sessions_by_source")
    [loss] = repair(path, stamp="now", progress=Silent()).losses
    assert "guard" in loss.describe()
    assert is_sound(root)


def test_wrong_totals_are_found_and_mended(root: Path) -> None:
    before = seen(root)
    path = root / "sessions.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET tokens_in = 0, cost = 0 WHERE id = 'guarded'")
        db.execute("INSERT INTO guarded (session) VALUES (99)")
    assert not is_sound(root)
    repair(path, stamp="now", progress=Silent())
    assert seen(root) == replace(before, cost=pytest.approx(before.cost))  # type: ignore[arg-type]
    assert is_sound(root)


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_store_can_be_guarded(tmp_path: Path, version: int) -> None:
    path = tmp_path / "sessions.db"
    tmp_path.chmod(0o700)
    with contextlib.closing(prepared(sqlite3.connect(path, isolation_level=None))) as db:
        schema.migrate(db, to=version)
        db.execute(
            "INSERT INTO sessions (id, source, started_at, last_active_at) "
            "VALUES ('a', 'cli', 1, 1)"
        )
    assert is_sound(tmp_path)
    with open_sessions(tmp_path) as sessions:
        assert sessions.get("a").guarded is None
        guard = sessions.guard("a", budgets=Budgets(iterations=1))
        with guard.call() as call:
            call.used(Tokens(input=1))
        assert [each.id for each in sessions.find(SessionFilter(min_tokens=1))] == ["a"]
    assert is_sound(tmp_path)
