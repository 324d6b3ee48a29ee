"""The index of another agent's home: a cache that is private, bounded, and never wrong."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.homes.agents.claude_code import ClaudeCode
from holdfast.homes.agents.known import STATE
from holdfast.homes.foreign import home as format_home
from holdfast.homes.foreign import mirror, notes
from holdfast.homes.foreign.home import FormatHome
from holdfast.homes.foreign.unchanged import Glance, glance
from holdfast.model.item import SESSION
from holdfast.model.part import Unit
from holdfast.model.plan import Action, Plan
from holdfast.model.session import Message, Search, SessionFilter
from holdfast.policy.plan_by_name import plan_all
from holdfast.ports.formats import Format
from holdfast.spine.apply import apply
from holdfast.spine.empty_trash import plan_empty
from holdfast.spine.undo import undo_latest
from holdfast.stores.sqlite import mirror as mirror_store
from holdfast.stores.sqlite import search_index
from holdfast.value import replace
from tests.contract.factory import touch_marmot
from tests.contract.sample_format import MarmotFormat, make_home

IDS = ("aa01", "bb02", "bb02-sub", "cc03")
ANY = SessionFilter()
#: Longer than a session counts as in use.
LONG = 3 * 86_400.0


class Watched:
    """Marmot's format, which notes what it was asked. `fail_after` sessions it stops."""

    def __init__(self, form: object | None = None) -> None:
        self._form = form or MarmotFormat()
        self.looks = 0
        self.read: list[str] = []
        self.fail_after: int | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._form, name)

    def units(self, root: Path, known: object) -> Iterator[Unit]:
        self.looks += 1
        return self._form.units(root, known)  # type: ignore[attr-defined,no-any-return]

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        if self.fail_after is not None and len(self.read) >= self.fail_after:
            raise KeyboardInterrupt
        self.read.append(unit.id)
        return self._form.messages(root, unit)  # type: ignore[attr-defined,no-any-return]


def settled(root: Path) -> float:
    """A time at which nothing in the home is new any more."""
    return max(path.lstat().st_ctime for path in root.rglob("*")) + LONG


def opened(root: Path, form: object | None = None, *, now: float | None = None) -> FormatHome:
    at = settled(root) if now is None else now
    made: Format = form or MarmotFormat()  # type: ignore[assignment]
    return FormatHome(root, made, clock=lambda: at)


def found(home: FormatHome, word: str = "zebra") -> set[str]:
    return {hit.session.id for hit in home.session_store().search(Search(text=word, limit=1000))}


def removal(home: FormatHome, *ids: str, action: Action = Action.REMOVE) -> Plan:
    items = [item for item in home.scan(0.0).items if item.kind == SESSION and item.id in ids]
    plan = plan_all(items, str(home.root), 0.0, command="test", reason="asked", undoable=True)
    return replace(plan, items=tuple(replace(each, action=action) for each in plan.items))


def remove(home: FormatHome, *ids: str, action: Action = Action.REMOVE) -> None:
    report = apply(removal(home, *ids, action=action), home, clock=lambda: settled(home.root))
    assert {each.result.value for each in report.outcomes} == {"removed"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "home"
    make_home(root, IDS)
    return root


@pytest.fixture
def index(root: Path) -> Path:
    return root / STATE / "index"


# --- A cheap look ---------------------------------------------------------------------------------


def test_a_home_in_which_nothing_changed_is_not_looked_at(root: Path) -> None:
    with closing(opened(root)) as home:
        assert found(home) == set(IDS)
        before = home.session_store().find(ANY)
    form = Watched()
    with closing(opened(root, form)) as home:
        assert home.session_store().find(ANY) == before
        assert {item.id for item in home.scan(0.0).items if item.kind == SESSION} == set(IDS)
        assert found(home) == set(IDS)
    assert (form.looks, form.read) == (0, [])


def _append(root: Path) -> None:
    touch_marmot(root, IDS[0])


def _same_size_and_time(root: Path) -> None:
    path = root / "chats" / f"{IDS[0]}.jsonl"
    status = path.stat()
    path.write_text(path.read_text().replace("zebra", "koala"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _new(root: Path) -> None:
    source = root / "chats" / f"{IDS[0]}.jsonl"
    source.with_name("dd04.jsonl").write_text(source.read_text())


def _gone(root: Path) -> None:
    (root / "chats" / f"{IDS[0]}.jsonl").unlink()


def _deep(root: Path) -> None:
    (root / "files" / IDS[0] / "deep" / "more").write_text("x")


def _row(root: Path) -> None:
    with closing(sqlite3.connect(root / "marmot.db")) as db:
        db.execute("UPDATE chat SET updated = updated + 1")
        db.commit()


@pytest.mark.parametrize("change", [_append, _same_size_and_time, _new, _gone, _deep, _row])
def test_every_change_is_seen(root: Path, change: Callable[[Path], None]) -> None:
    with closing(opened(root)) as home:
        home.session_store()
    change(root)
    form = Watched()
    with closing(opened(root, form)) as home:
        home.session_store()
    assert form.looks == 1


def test_reading_a_database_changes_nothing(root: Path) -> None:
    tops = [root]
    before = glance(tops, without=root / STATE, most=1000)
    (root / "marmot.db-wal").touch()
    (root / "marmot.db-shm").write_bytes(b"x" * 32)
    assert glance(tops, without=root / STATE, most=1000) == before
    (root / "marmot.db-wal").write_bytes(b"x")
    assert glance(tops, without=root / STATE, most=1000) != before


def test_a_file_that_was_just_written_proves_nothing() -> None:
    """It may be written again in the same moment, and look the same."""
    seen = Glance(checksum="a", settled=100.0)
    assert not seen.proves("a", taken=101.0)
    assert seen.proves("a", taken=103.0)
    assert not seen.proves("b", taken=103.0)


def test_with_very_many_files_a_real_look_is_cheaper(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format_home, "_MOST_FILES", 0)
    monkeypatch.setattr(format_home, "_FILES_A_SESSION", 1)
    form = Watched()
    for _ in range(2):
        with closing(opened(root, form)) as home:
            assert home.session_store().count(ANY) == len(IDS)
    assert form.looks == 2


def test_who_is_alive_is_asked_every_time(root: Path) -> None:
    with closing(opened(root)) as home:
        assert home.session_store().get(IDS[0]).ended
        (root / "pids" / IDS[0]).write_text(str(os.getpid()))
        home.session_store()
    with closing(opened(root)) as home:  # from the notes
        assert not home.session_store().get(IDS[0]).ended


def test_a_session_that_falls_idle_is_not_read_again(root: Path) -> None:
    with closing(opened(root, now=1e9 + 10)) as home:
        assert found(home) == set(IDS)
        assert not home.session_store().index().get(IDS[0]).ended
    form = Watched()
    with closing(opened(root, form)) as home:
        assert found(home) == set(IDS)
        assert home.session_store().index().get(IDS[0]).ended
    assert form.read == []


def test_what_a_subagent_said_later_is_found(tmp_path: Path) -> None:
    """Its transcript is no part by itself: it lies in the folder of its session."""
    root = tmp_path / "home"
    main = "11111111-2222-4333-8444-555555555555"
    inner = root / "projects" / "-work" / main / "subagents" / "agent-one.jsonl"
    inner.parent.mkdir(parents=True)
    (root / "settings.json").write_text("{}")

    def said(text: str) -> str:
        message = {"role": "user", "content": text}
        line = {"type": "user", "message": message, "timestamp": "2026-01-01T00:00:00Z"}
        return json.dumps({**line, "cwd": "/work"}, separators=(",", ":")) + "\n"

    (root / "projects" / "-work" / f"{main}.jsonl").write_text(said("first"))
    inner.write_text(said("walrus"))
    with closing(opened(root, ClaudeCode())) as home:
        assert found(home, "walrus") == {"agent-one"}
    with inner.open("a") as file:
        file.write(said("pelican"))
    with closing(opened(root, ClaudeCode())) as home:
        assert found(home, "pelican") == {"agent-one"}
        assert home.session_store().get("agent-one").message_count == 2


# --- Private, and rebuilt when damaged ------------------------------------------------------------


def test_only_its_owner_can_read_it(root: Path, index: Path) -> None:
    with closing(opened(root)) as home:
        found(home)
        for path in (index, *index.iterdir()):
            assert path.stat().st_mode & 0o077 == 0, path


def _torn(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _holes(path: Path) -> None:
    """Sound at first sight: only reading on shows the damage."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x7f" * (size - 4096))


def _foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE other (x)")


def _newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


def _nonsense(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


@pytest.mark.parametrize("damage", [_torn, _holes, _foreign, _newer, _nonsense])
def test_a_damaged_index_is_made_again(
    root: Path, index: Path, damage: Callable[[Path], None]
) -> None:
    with closing(opened(root)) as home:
        found(home)
    damage(index / "sessions.db")
    (index / "units.json").write_bytes(b"{")
    with closing(opened(root)) as home:
        assert found(home) == set(IDS)
    form = Watched()
    with closing(opened(root, form)) as home:
        assert found(home) == set(IDS)
    assert form.read == []  # the new one stays


def test_two_processes_make_it_at_once(root: Path) -> None:
    answers: list[set[str]] = []

    def search() -> None:
        with closing(opened(root)) as home:
            answers.append(found(home))

    threads = [threading.Thread(target=search) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == [set(IDS)] * 3
    with closing(opened(root)) as home:
        assert home.session_store().index().extent()[0] == 2 * len(IDS)


def test_a_killed_build_goes_on_where_it_stopped(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_BATCH", 1)
    form = Watched()
    form.fail_after = 2
    with closing(opened(root, form)) as home, pytest.raises(KeyboardInterrupt):
        found(home)
    again = Watched()
    with closing(opened(root, again)) as home:
        assert found(home) == set(IDS)
    assert sorted(form.read + again.read) == sorted(IDS)


def test_a_large_session_that_was_cut_short_is_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored piece by piece, and counts only when it is whole."""
    monkeypatch.setattr(mirror, "_BATCH_BYTES", 0)
    monkeypatch.setattr(mirror_store, "_PORTION", 1)
    real = MarmotFormat.messages

    def torn(self: MarmotFormat, root: Path, unit: Unit) -> Iterator[Message]:
        yield next(real(self, root, unit))
        raise KeyboardInterrupt

    monkeypatch.setattr(MarmotFormat, "messages", torn)
    with closing(opened(root)) as home, pytest.raises(KeyboardInterrupt):
        found(home)
    monkeypatch.setattr(MarmotFormat, "messages", real)
    with closing(opened(root)) as home:
        assert found(home) == set(IDS)
        assert home.session_store().index().extent()[0] == 2 * len(IDS)


def test_a_home_that_cannot_be_written_is_listed_and_searched(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    monkeypatch.setattr(mirror, "make_private_dir", refuse)
    monkeypatch.setattr(notes, "make_private_dir", refuse)
    with closing(opened(root)) as home:
        assert home.session_store().count(ANY) == len(IDS)
        assert found(home) == set(IDS)
        [problem] = home.session_store().unsearched()
        assert "nothing can be written here" in problem.reason
        assert not (root / STATE).exists()
    assert not any(elsewhere.iterdir())


# --- What leaves the home leaves the index --------------------------------------------------------


def holding(folder: Path, *words: str) -> set[str]:
    """The files that hold one of these words, free pages and logs included."""
    return {
        path.name
        for path in folder.rglob("*")
        if path.is_file()
        for word in words
        if word.encode() in path.read_bytes()
    }


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("way", [Action.REMOVE, Action.ARCHIVE])
def test_what_left_is_in_no_file_of_the_index(
    root: Path, index: Path, monkeypatch: pytest.MonkeyPatch, way: Action, many: bool
) -> None:
    """Each session has a word of its own; a search that indexes everything knows them all."""
    if many:
        monkeypatch.setattr(search_index, "BATCH", 1)
    for name in IDS:
        path = root / "chats" / f"{name}.jsonl"
        path.write_text(path.read_text().replace("hello", f"xylophone{name[:2]} hello"))
    with closing(opened(root)) as home:
        assert found(home, "xylophoneaa") == {"aa01"}
        home.session_store().index().catch_up()
        home.session_store().index().close()
        home.close()
        assert holding(index, "xylophoneaa")
        going = IDS[:3] if many else IDS[:1]
        remove(home, *going, action=way)
        assert holding(index, "xylophoneaa", "aa01") == set()
        assert found(home) == set(IDS) - set(going)
        assert found(home, "xylophonecc") == {"cc03"}
        assert holding(index, "xylophoneaa", "aa01") == set()


def test_what_is_in_the_trash_is_not_found_until_it_is_back(root: Path) -> None:
    with closing(opened(root)) as home:
        assert found(home) == set(IDS)
        remove(home, IDS[0])
        assert found(home) == set(IDS[1:])
        undo_latest(home, clock=lambda: settled(root))
        assert found(home) == set(IDS)


def test_what_goes_for_good_is_nowhere(root: Path) -> None:
    path = root / "chats" / "aa01.jsonl"
    path.write_text(path.read_text().replace("hello", "xylophone"))
    with closing(opened(root)) as home:
        assert found(home, "xylophone") == {"aa01"}
        remove(home, "aa01")
        now = settled(root)
        apply(plan_empty(home, now=now, command="test"), home, clock=lambda: now)
        assert holding(root, "xylophone") == set()


def test_an_archive_looks_at_the_home_once_for_all(root: Path) -> None:
    with closing(opened(root)) as home:
        plan = removal(home, *IDS, action=Action.ARCHIVE)
    form = Watched()
    with closing(opened(root, form)) as home:
        apply(plan, home, clock=lambda: settled(root))
        few = form.looks
        undo_latest(home, clock=lambda: settled(root))
        assert set(home.session_store().index().fed()) == set(IDS)
    assert few <= 3


# --- Bounded --------------------------------------------------------------------------------------


def test_a_full_index_keeps_what_was_used_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"c{number:02}" for number in range(12)]
    root = tmp_path / "home"
    make_home(root, names)
    for number, name in enumerate(names):  # the later, the newer
        path = root / "chats" / f"{name}.jsonl"
        noise = os.urandom(100_000).hex()
        path.write_text(path.read_text().replace("hello", f"hello {noise}"))
        os.utime(path, (1e9 + number, 1e9 + number))
    monkeypatch.setattr(mirror, "_BATCH", 1)
    monkeypatch.setattr(mirror, "MOST_BYTES", 800_000)
    with closing(opened(root)) as home:
        kept = found(home)
        assert 0 < len(kept) < len(names)
        assert kept == set(names[-len(kept) :])
        [problem] = home.session_store().unsearched()
        assert f"{len(names) - len(kept)} older sessions" in problem.reason
        assert home.session_store().count(ANY) == len(names)
        database = home.session_store().index()
        assert database.used_bytes() < 1_300_000

        newest = root / "chats" / "new.jsonl"
        newest.write_text((root / "chats" / f"{names[0]}.jsonl").read_text())
        os.utime(newest, (1e9 + 100, 1e9 + 100))
        now = found(home)
        assert "new" in now
        assert min(kept) not in now  # the oldest made room

        remove(home, *[name for name in names if name in now][-3:])
        assert len(found(home) & set(names[:-3])) > len(now & set(names[:-3]))  # room again


def test_messages_are_stored_in_portions_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_store, "_PORTION_TEXT", 10)
    said = [Message(role="user", content="x" * 8) for _ in range(5)]
    assert [len(each) for each in mirror_store._portions(said)] == [2, 2, 1]


def test_a_session_that_cannot_be_read_is_named_and_not_read_again(root: Path) -> None:
    path = root / "chats" / f"{IDS[0]}.jsonl"
    path.write_text(path.read_text() + "{torn\n")
    with closing(opened(root)) as home:
        assert found(home) == set(IDS[1:])
        [problem] = home.session_store().unsearched()
        assert problem.path == IDS[0]
        assert "cannot be read" in problem.reason
    form = Watched()
    with closing(opened(root, form)) as home:
        assert found(home) == set(IDS[1:])
    assert form.read == []
