"""The lists of the page: what a look wrote is what the API lists; a look comes when it is due."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import cast

import pytest

from holdfast import Message
from holdfast.api.catalogue import (
    Catalogue,
    count_all,
    make_indexes,
    read_entries,
    write_catalogue,
)
from holdfast.api.machine import Machine as Homes
from holdfast.api.sessions import open_sessions
from holdfast.errors import FullDiskError
from holdfast.model.session import SessionFilter, SessionOrder
from holdfast.web import lists
from holdfast.web.jobs import Run
from holdfast.web.query_threads import QueryThreads
from holdfast.web.refresh import _KEPT, Refresh
from tests.cli.agents import settle
from tests.cli.machine import Machine
from tests.web.client import Web

_ORDERS = [each for each in SessionOrder if each not in (SessionOrder.ID, SessionOrder.SOURCE)]
_FILTERS = (
    SessionFilter(),
    SessionFilter(ended=True),
    SessionFilter(ended=False),
    SessionFilter(pinned=True),
    SessionFilter(title="Clean"),
    SessionFilter(title="中"),
    SessionFilter(cwd="/work/alpha"),
    SessionFilter(cwd="/work/alpha/"),
    SessionFilter(cwd="/"),
    SessionFilter(active_after=1_780_000_000.0),
    SessionFilter(active_before=1_780_000_000.0, ended=True),
)


def test_every_page_is_that_of_the_api(machine: Machine, tmp_path: Path) -> None:
    """In every order, by every filter, of all homes and of each: to the last figure."""
    settle(machine)
    environ = machine.env()
    with Homes(machine.user, environ=environ, overrides=environ) as homes:
        count_all(homes)
        listing = write_catalogue(homes, tmp_path / "list.db")
        listed = Catalogue(tmp_path / "list.db", listing)
        assert len(listing.homes) == 6
        for order, wanted in product(_ORDERS, _FILTERS):
            theirs = homes.list_sessions(wanted, order_by=order)
            mine, total = listed.page(wanted, order_by=order, limit=1000)
            assert total == theirs.total, (order, wanted)
            page = listed.shown(mine, total, None)
            assert [(each.home, each.session.id) for each in page.found] == [
                (each.home, each.session.id) for each in theirs.found
            ], (order, wanted)
        shown = listed.shown(*listed.page(SessionFilter(), limit=1000), None)
        theirs = homes.list_sessions(openings=True)
        for mine_one, theirs_one in zip(shown.found, theirs.found, strict=True):
            plain = cast("dict[str, object]", theirs_one.session.to_json())
            kept = {**plain, "extra": {}, "guarded": None, "routing_key": None}
            assert mine_one.session.to_json() == kept
        for home in homes.homes:
            alone = homes.list_sessions(homes=[home], limit=2, offset=1)
            mine, total = listed.page(SessionFilter(), limit=2, offset=1, home=home)
            assert total == alone.total
            assert [each.session.id for each in mine] == [each.session.id for each in alone.found]
        listed.close()


def test_what_nobody_read_is_read_for_the_page_that_shows_it(
    machine: Machine, tmp_path: Path
) -> None:
    settle(machine, "claude-code")
    environ = machine.env()
    with Homes(machine.user, environ=environ, overrides=environ) as homes:
        listed = Catalogue(tmp_path / "a.db", write_catalogue(homes, tmp_path / "a.db"))
        entries, total = listed.page(SessionFilter(), limit=50)
        assert total
        waiting = listed.waiting(entries)
        assert any(not each.session.counted for each in entries)
        for home, members in waiting.items():
            listed.learn(read_entries(homes, home, members))
        entries, _ = listed.page(SessionFilter(), limit=50)
        assert not listed.waiting(entries)
        theirs = {each.session.id: each for each in homes.list_sessions(openings=True).found}
        for each in entries:
            same = theirs[each.session.id]
            assert each.session.message_count == same.session.message_count
            assert (each.opening or "") == same.opening or each.session.title
        listed.close()


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no folder in memory")  # noqa: S108
def test_on_a_full_disk_there_is_a_list(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is when somebody looks."""
    settle(machine, "holdfast")
    tried: list[Path] = []

    def full(homes: Homes, path: Path) -> object:
        tried.append(path)
        if len(tried) == 1:
            path.write_bytes(b"half")
            raise FullDiskError("No space left.")
        return write_catalogue(homes, path)

    monkeypatch.setattr(lists, "write_catalogue", full)
    with Web(machine) as web:
        assert "Disk clean-up" in web.ok("/sessions").words
        assert tried[0].parent != tried[1].parent
        assert not any(each.parent.exists() for each in tried)  # it is read without a name
        assert "Disk clean-up" in web.ok("/sessions?sort=title").words


class _Clock:
    def __init__(self) -> None:
        self.now, self.changes = 1000.0, 0

    def clock(self) -> float:
        return self.now


def _refresh(look: Callable[[Callable[[], None]], None]) -> tuple[_Clock, Refresh]:
    threads = _Clock()
    return threads, Refresh(cast("QueryThreads", threads), look)


def test_a_look_is_waited_for_once_and_renewed_beside_the_answers() -> None:
    looks, looked = threading.Semaphore(0), threading.Semaphore(0)

    def look(shown: Callable[[], None]) -> None:
        looks.acquire(timeout=30)
        shown()
        looked.release()

    threads, made = _refresh(look)
    first = made.wanted()
    assert first is not None
    assert made.wanted() is first  # not a second one
    looks.release()
    first.result(30)
    assert made.wanted() is None
    threads.now += _KEPT / 2  # due: answered from the last one all the same
    assert made.wanted() is None
    threads.changes += 1
    changed = made.wanted()
    assert changed is not None
    looks.release(2)  # for the one before the change, too
    changed.result(30)
    assert all(looked.acquire(timeout=30) for _ in range(3))  # nobody takes what is released later
    assert made.wanted() is None
    threads.now += _KEPT
    assert made.wanted() is not None  # who comes back waits
    threads.now -= 10_000.0
    assert made.wanted() is not None  # a clock that was set back proves nothing
    looks.release(5)


def test_a_look_that_took_minutes_is_shown() -> None:
    """Counted from its beginning it would be too old at once, and everybody would wait forever."""

    def look(shown: Callable[[], None]) -> None:
        threads.now += 10 * _KEPT
        shown()

    threads, made = _refresh(look)
    first = made.wanted()
    assert first is not None
    first.result(30)
    assert threads.now > 1000.0 + _KEPT
    assert made.wanted() is None
    assert not made.is_busy()


def test_a_look_that_fails_is_told_and_tried_again() -> None:
    failing = True

    def look(shown: Callable[[], None]) -> None:
        if failing:
            raise OSError("no")
        shown()

    _, made = _refresh(look)
    first = made.wanted()
    assert first is not None
    with pytest.raises(OSError, match="no"):
        first.result(30)
    failing = False
    again = made.wanted()
    assert again is not None
    again.result(30)
    assert made.wanted() is None


def test_the_first_search_says_how_far_its_index_is_and_can_be_left(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(machine, "claude-code", "holdfast")
    go, indexed = threading.Event(), threading.Event()
    made = make_indexes

    def slowly(homes: Homes, progress: Run) -> object:
        progress.step("indexing Claude Code", 3, 70)
        assert go.wait(60)
        try:
            return made(homes, progress)
        finally:
            indexed.set()

    monkeypatch.setattr(lists, "make_indexes", slowly)
    monkeypatch.setattr(lists, "_PATIENCE", 0.2)
    with Web(machine) as web:
        assert "By title" in web.ok("/sessions/results?q=disk").words
        answer = web.ok("/sessions/results?q=the")
        assert "Indexing Claude Code: 3 of 70 sessions" in answer.words
        assert 'value="3"' in answer.text
        assert "so far" in answer.words
        assert "3 of 70" in web.ok("/sessions/indexing").words
        assert web.ok("/sessions").status == 200  # nothing waits for it
        go.set()
        assert indexed.wait(60)
        for _ in range(1000):
            if web.get("/sessions/indexing").status == 204:
                break
        answer = web.ok("/sessions/results?q=the")
        assert "so far" not in answer.words
        assert "data-indexing" not in answer.text


def test_a_pinned_session_of_an_agent_without_pins_is_found(machine: Machine) -> None:
    settle(machine, "claude-code")
    with Web(machine) as web:
        every = web.ok("/sessions/results?q=the").text
        session = every.partition("/sessions/claude-code/read?id=")[2].partition("&amp;")[0]
        assert session
        assert "hit-head" not in web.ok("/sessions/results?q=the&state=pinned").text
        web.post("/sessions/pin", {"s": f"claude-code:{session}", "pinned": "yes"})
        found = web.ok("/sessions/results?q=the&state=pinned").text
        assert found.count(f"read?id={session}") == found.count("hit-head") > 0


def test_a_session_that_came_since_the_look_is_opened_all_the_same(machine: Machine) -> None:
    settle(machine, "holdfast")
    with Web(machine) as web:
        web.ok("/sessions")
        with open_sessions(machine.home) as store:
            new = store.create(source="cli")
            store.append(new.id, [Message("user", "quite new")])
        assert "quite new" in web.ok(f"/sessions/holdfast/read?id={new.id}").words
