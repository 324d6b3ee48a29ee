"""Search on a real store: complete, filtered, ranked, and the same before and after indexing."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import QueryError, UsageError
from holdfast.model.session import Hit, Json, Message, Search, Session, SessionFilter
from holdfast.ports.sessions import SessionStore
from holdfast.stores.postgres import search as shared_search
from holdfast.stores.sqlite import search as search_module
from holdfast.stores.sqlite import search_index
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.stores.sqlite.space import give_back, renew_index
from tests.session_stores import BOTH, KINDS, in_file, kind_of

EVERYTHING = SessionFilter()


class Library:
    """A store, and a shorter way to put messages into it and to find them."""

    def __init__(self, kind: str, folder: Path, settled: bool) -> None:
        self.store: SessionStore = KINDS[kind].open(KINDS[kind].place(folder))
        self._settled = settled
        self._clock = 0.0

    def say(self, content: Json, *, session: str = "one", **fields: Any) -> int:
        source = fields.pop("source", "cli")
        self._clock += 1
        fields.setdefault("role", "user")
        if not self.store.count(SessionFilter(ids=(session,))):
            started = Session(
                id=session, source=source, started_at=self._clock, last_active_at=self._clock
            )
            self.store.create(started)
        message = Message(content=content, timestamp=self._clock, **fields)
        [number] = self.store.append(session, [message], now=self._clock).numbers
        return number

    def settle(self) -> None:
        """Index everything."""
        kind_of(self.store).index(self.store)

    def hits(
        self, text: str, *, wanted: SessionFilter = EVERYTHING, **options: Any
    ) -> Sequence[Hit]:
        if self._settled:
            self.settle()
        return self.store.search(Search(text=text, wanted=wanted, **options))

    def find(self, text: str, **options: Any) -> list[int | None]:
        return [hit.message.number for hit in self.hits(text, **options)]

    def part(self, text: str, **options: Any) -> list[int | None]:
        return self.find(text, substring=True, **options)


@pytest.fixture(
    params=[
        ("sqlite", "indexed"),
        ("sqlite", "recent"),
        pytest.param(("postgres", "indexed"), marks=pytest.mark.deep),
        pytest.param(("postgres", "recent"), marks=pytest.mark.deep),
    ],
    ids=" ".join,
)
def library(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Library]:
    """Every test runs twice: on messages in the index, and on messages not yet in it."""
    monkeypatch.setattr(search_module, "_READ_FIRST", 0)
    monkeypatch.setattr(shared_search, "_READ_FIRST", 0)
    monkeypatch.setattr(shared_search, "_RECENT", 2)
    kind, state = request.param
    made = Library(kind, tmp_path, settled=state == "indexed")
    yield made
    made.store.close()


# --- Words ----------------------------------------------------------------------------------------


def test_words_phrases_prefixes_and_signs(library: Library) -> None:
    refused = library.say("Connection refused by the gateway")
    timeout = library.say("the connection had a timeout; nothing was refused")
    other = library.say("a gateway")

    assert set(library.find("connection refused")) == {refused, timeout}
    assert library.find('"connection refused"') == [refused]
    assert set(library.find("conn*")) == {refused, timeout}
    assert library.find("connection -timeout") == [refused]
    assert set(library.find("timeout OR gateway")) == {refused, timeout, other}
    assert library.find("(timeout OR gateway) NOT connection") == [other]
    assert library.find('"connection ref"*') == [refused]
    assert library.find("conn") == []
    assert library.find("absent") == []


@pytest.mark.parametrize(
    "text",
    [
        "max_total_size",
        "SqliteSessionStore.append",
        "os.path.join(a, b)",
        "me@example.org",
        "/usr/local/bin",
        "--dry-run",
        "std::vector<int>",
        "don't",
        "x->y",
        "v1.2.3-rc1",
    ],
)
def test_identifiers_paths_and_addresses(library: Library, text: str) -> None:
    wanted = library.say(f"it says {text}, clearly")
    library.say("max of the total, by size; append bin local usr; example me org; a b os")
    assert library.find(text) == [wanted]
    assert library.find(text.upper() if text != "--dry-run" else text) == [wanted]


def test_case_and_diacritics_do_not_matter(library: Library) -> None:
    wanted = library.say("Ein Ärgernis im Café, naïve élan")
    assert library.find("ARGERNIS cafe NAÏVE") == [wanted]
    assert library.find("cafe\u0301") == [wanted]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "数据库连接失败，请检查配置文件。",
            ["数据库", "连接", "检查配置", "文件", "失败，请检查"],
        ),
        ("データベースに接続できません。", ["データ", "接続", "できません", "に接続"]),
        ("데이터베이스에 연결할 수 없습니다", ["데이터", "연결", "수 없습니다", "베이스에 연결"]),
        ("mixed中文with拉丁text", ["中文", "拉丁", "with", "mixed中文with", "中文with", "text"]),
        ("ไม่สามารถเชื่อมต่อฐานข้อมูล", ["ฐานข้อมูล", "เชื่อม"]),
        ("deployed 🚀✅ today", ["🚀✅", "✅ today", "deployed 🚀"]),
    ],
)
def test_text_without_spaces(library: Library, text: str, words: list[str]) -> None:
    wanted = library.say(text)
    library.say("文中 据数 接连 タデー 터이 ข้ ✅🚀 other")
    for word in words:
        assert library.find(f'"{word}"') == [wanted], word
        assert library.part(word) == [wanted], word


def test_parts_calls_and_reasoning_are_found(library: Library) -> None:
    parts = library.say([{"type": "text", "text": "structured parts"}], role="assistant")
    call = library.say(
        None,
        role="assistant",
        tool_calls=[{"id": "c1", "function": {"name": "grep", "arguments": '{"q": "\\nneedle"}'}}],
        reasoning="pondering",
    )
    assert library.find("structured") == [parts]
    assert library.find("needle grep") == [call]
    assert library.find("ponder*") == [call]
    assert library.hits("needle")[0].message.content is None


def test_packed_and_unpacked_messages_are_found_and_returned(library: Library) -> None:
    short = library.say("needle in a short one")
    long = library.say("needle " + "in a long one " * 100, role="assistant")
    assert set(library.find("needle")) == {short, long}
    assert {hit.message.content for hit in library.hits("needle")} == {
        "needle in a short one",
        "needle " + "in a long one " * 100,
    }


def test_nuls_and_lone_surrogates_hide_nothing(library: Library) -> None:
    nul = library.say("before\0after one")
    lone = library.say("left\ud800right two")
    mark = library.say("some\ufdd0thing three")
    assert library.find("after") == [nul]
    assert library.find("right") == [lone]
    assert library.part("eft\ud800ri") == [lone]
    assert library.find("thing") == [mark]
    assert library.hits("after")[0].message.content == "before\0after one"


def test_deleted_and_rolled_back_messages_are_not_found(library: Library) -> None:
    library.say("needle", session="gone")
    stays = library.say("needle", session="stays")
    assert len(library.find("needle")) == 2

    kind_of(library.store).remove(library.store, "gone")
    with contextlib.suppress(ZeroDivisionError), library.store.transaction():
        library.say("needle", session="stays")
        raise ZeroDivisionError

    assert library.find("needle") == [stays]
    assert library.part("eedl") == [stays]
    _check_index(library.store)


def test_a_search_inside_a_transaction_sees_what_it_wrote(library: Library) -> None:
    with library.store.transaction():
        number = library.say("needle")
        assert library.find("needle") == [number]


def test_a_search_neither_writes_nor_waits(library: Library, tmp_path: Path) -> None:
    store = in_file(library.store)
    number = library.say("needle in the store")
    library.find("needle")
    writer = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    before = store.database.connection().total_changes
    assert store.search(Search(text="needle", wanted=EVERYTHING))[0].message.number == number
    assert store.search(Search(text="eedl", wanted=EVERYTHING, substring=True))
    assert store.database.connection().total_changes == before
    writer.close()


# --- Filters, pages, ranks ------------------------------------------------------------------------


@pytest.mark.parametrize("find", [Library.find, Library.part])
def test_filters(library: Library, find: Callable[..., list[int | None]]) -> None:
    one = library.say("needle", session="one", source="cli")
    two = library.say("needle", session="two", source="cron", role="assistant")
    three = library.say("needle", session="three", source="telegram", role="tool")
    library.store.rename("two", "Nightly report")

    def numbers(**options: Any) -> set[int | None]:
        return set(find(library, "needle", **options))

    assert numbers(wanted=SessionFilter(sources=("cli", "cron"))) == {one, two}
    assert numbers(wanted=SessionFilter(ids=("three",))) == {three}
    assert numbers(wanted=SessionFilter(title="nightly")) == {two}
    assert numbers(wanted=SessionFilter(routing_key="none")) == set()
    assert numbers(roles=("assistant", "tool")) == {two, three}
    assert numbers(roles=()) == set()
    assert numbers(since=2.0) == {two, three}
    assert numbers(until=2.0) == {one, two}
    assert numbers(since=2.0, until=2.0, roles=("assistant",)) == {two}
    assert numbers(wanted=SessionFilter(ids=tuple(f"s{n}" for n in range(40_000)))) == set()


def test_a_hit_has_its_session_and_message(library: Library) -> None:
    number = library.say("a needle", session="one", tool_name="sewing", extra={"x": [1]})
    [hit] = library.hits("needle")
    assert hit.session == library.store.get("one")
    assert hit.message == Message(
        role="user",
        content="a needle",
        timestamp=1.0,
        tool_name="sewing",
        extra={"x": [1]},
        number=number,
    )
    assert hit.snippet == "a [needle] sewing"
    assert hit.score > 0


@pytest.mark.parametrize("substring", [False, True])
def test_pages_follow_each_other(library: Library, substring: bool) -> None:
    numbers = [library.say(f"needle {'word ' * (count % 4)}") for count in range(25)]
    whole = library.find("needle", limit=100, substring=substring)
    assert sorted(whole, key=lambda number: number or 0) == numbers
    pages = [
        library.find("needle", limit=10, offset=offset, substring=substring)
        for offset in (0, 10, 20)
    ]
    assert [number for page in pages for number in page] == whole
    assert library.find("needle", limit=0, substring=substring) == []
    assert library.find("needle", offset=25, substring=substring) == []


def test_the_best_come_first_and_of_equals_the_newest(library: Library) -> None:
    for _ in range(10):
        library.say("nothing of interest here, only some padding to be rare against")
    passing = library.say("a long message that mentions the needle in passing " + "and more " * 30)
    older = library.say("needle and thread")
    newer = library.say("needle and thread")
    hits = library.hits("needle")
    assert [hit.message.number for hit in hits] == [newer, older, passing]
    assert hits[0].score == hits[1].score > hits[2].score


def test_both_words_of_an_or_count_more_than_one(library: Library) -> None:
    for _ in range(10):
        library.say("padding to be rare against")
    library.say("needle in hay")
    both = library.say("needle and thread")
    assert library.find("needle OR thread")[0] == both


def test_snippets_show_text_as_it_was_written(library: Library) -> None:
    library.say("请检查Config配置文件，谢谢 " + "x " * 200)
    assert "请检查Config[配置文件]，谢谢" in library.hits("配置文件")[0].snippet
    assert "请检[查Con]fig配置" in library.hits("查con", substring=True)[0].snippet
    library.say("One\nTwo  three")
    assert library.hits("two")[0].snippet == "One [Two] three"


@pytest.mark.parametrize("substring", [False, True])
def test_brackets_of_the_text_are_no_matches(library: Library, substring: bool) -> None:
    library.say("argv[0] is a list[int], the needle in [brackets]")
    [hit] = library.hits("needle", substring=substring)
    assert hit.snippet == "argv[0] is a list[int], the [needle] in [brackets]"
    assert [hit.snippet[start:end] for start, end in hit.matches] == ["needle"]


@pytest.mark.parametrize(("limit", "offset"), [(-1, 0), (1, -1)])
def test_a_negative_page_is_refused(library: Library, limit: int, offset: int) -> None:
    with pytest.raises(UsageError):
        library.find("a", limit=limit, offset=offset)


def test_an_empty_store_finds_nothing(library: Library) -> None:
    assert library.find("a OR b*") == []
    assert library.part("ab") == []
    assert library.store.close_words("needle") == []


# --- Indexed and recent together ------------------------------------------------------------------


@pytest.fixture(params=BOTH)
def growing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Library]:
    made = Library(request.param, tmp_path, settled=False)
    yield made
    made.store.close()


def test_a_store_that_grows_is_always_searched_whole(growing: Library) -> None:
    wanted: set[int | None] = set()
    with growing.store.transaction():
        for count in range(600):
            number = growing.say(f"message {count}" + (" with needle" if count % 7 == 0 else ""))
            if count % 7 == 0:
                wanted.add(number)
    if isinstance(growing.store, SqliteSessionStore):
        with growing.store.database.read() as db:
            assert search_index.indexed(db) == 512
    assert set(growing.find("needle", limit=1000)) == wanted
    assert set(growing.part("eedl", limit=1000)) == wanted
    assert growing.find('"message 3"')
    assert growing.find('"message 590"')
    _check_index(growing.store)


def test_recent_messages_rank_among_the_indexed(growing: Library) -> None:
    with growing.store.transaction():
        best = growing.say("needle needle needle")
        for _ in range(300):
            growing.say("padding that is about as long as a message usually is, or so")
        worse = growing.say("one needle among very many other words " + "and words " * 40)
        good = growing.say("the needle")
        same = growing.say("needle needle needle")
    assert growing.find("needle")[:2] in ([best, same], [same, best])
    assert growing.find("needle")[2:] == [good, worse]


def test_close_words_are_suggested(growing: Library) -> None:
    with growing.store.transaction():
        for _ in range(300):
            growing.say("connection refused")
        growing.say("conection")
    if not isinstance(growing.store, SqliteSessionStore):
        kind_of(growing.store).index(growing.store, 300)
    assert growing.store.close_words("connexion refsued") == ["connection", "refused"]
    assert growing.store.close_words("connection -zzz") == []


@pytest.mark.parametrize("small", [0, 25_000], ids=["in steps", "at once"])
def test_an_index_that_is_begun_anew_leaves_nothing_of_the_old_one(
    growing: Library, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    database = in_file(growing.store).database
    monkeypatch.setattr(search_index, "_SMALL", small)
    monkeypatch.setattr(search_index, "_ROWS_OF_OLD", 1)
    with growing.store.transaction():
        for count in range(300):
            growing.say("needle " + " ".join(f"word{count}x{each}" for each in range(50)))
    growing.settle()
    renew_index(database)
    with database.read() as db:
        assert search_index.has_old(db)
    assert len(growing.find("needle", limit=1000)) == 300
    steps: list[int] = []
    give_back(database, lambda: steps.append(1))
    assert len(steps) > 12 or small
    with database.read() as db:
        assert not search_index.has_old(db)
        assert not db.execute("SELECT 1 FROM sqlite_schema WHERE name GLOB 'old_*'").fetchall()
        assert search_index.indexed(db) == 300
    assert len(growing.find("needle", limit=1000)) == 300
    _check_index(growing.store)


def test_what_slips_through_to_fts5_is_still_a_query_error(growing: Library) -> None:
    with pytest.raises(QueryError):
        search_module._matching(
            in_file(growing.store).database.connection(),
            "SELECT 1 FROM message_index WHERE message_index MATCH ?",
            ['"'],
        )


def _check_index(store: SessionStore) -> None:
    if not isinstance(store, SqliteSessionStore):
        return
    with store.database.write() as db:
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")
