"""Sessions in the browser: listed, found, read, changed, exported, deleted, brought back."""

from __future__ import annotations

import html
import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from holdfast import Message
from holdfast.api.sessions import open_sessions
from holdfast.homes.foreign.mirror import Mirror
from holdfast.model.session import Json
from holdfast.stores.sqlite import search, word_list
from holdfast.web.screens import sessions
from tests.cli.agents import settle
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.cli.session_bench import CJK, CRON, DISK, EVERY, fill
from tests.web.client import Answer, Web

_READ = "/sessions/holdfast/read?id="
_EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"' {{1234*5678}} [x](javascript:1)"


@pytest.fixture
def machine(machine: Machine) -> Machine:
    fill(machine.home)
    return machine


def _ids(answer: Answer) -> list[str]:
    return [
        html.unescape(each)
        for each in re.findall(r'name="s" value="holdfast:([^"]*)"', answer.text)
    ]


def _form(answer: Answer) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', answer.text)
    return {html.unescape(name): html.unescape(value) for name, value in found}


def test_the_list_is_that_of_the_command(machine: Machine, web: Web) -> None:
    assert _ids(web.ok("/sessions")) == EVERY
    for query, flags in {
        "sort=size": ("--sort", "size"),
        "sort=messages": ("--sort", "messages"),
        "sort=title": ("--sort", "title"),
        "state=ended": ("--ended",),
        "period=old": ("--older-than", "90d"),
        "home=holdfast": (),
    }.items():
        document = Inside(machine).json("sessions", "list", *flags)
        assert isinstance(document, dict)
        wanted = [each["id"] for each in document["sessions"]]
        for path in ("/sessions", "/sessions/results"):
            assert _ids(web.ok(f"{path}?{query}")) == wanted, query


def test_an_address_that_makes_no_sense_still_shows_sessions(web: Web) -> None:
    for query in ("sort=nonsense", "offset=x", "offset=-1", "state=?", "period=%00", "home="):
        assert _ids(web.ok(f"/sessions?{query}")) == EVERY, query
    assert "only 4 sessions" in web.ok(f"/sessions?offset={'9' * 30}").words


def test_a_page_that_is_too_far_leads_back(web: Web) -> None:
    assert "There are only 4 sessions" in web.ok("/sessions?offset=500").words
    assert "No session fits" in web.ok("/sessions?project=/nowhere").words
    assert web.get("/sessions?home=nobody").status == 404


def test_only_what_matched_is_marked(machine: Machine, web: Web) -> None:
    with open_sessions(machine.home) as sessions:
        made = sessions.create(source="cli")
        sessions.append(made, Message("user", "argv[0], <list[int]> and a needle [here]"))
    answer = web.ok("/sessions/results?q=needle")
    assert "argv[0], &lt;list[int]&gt; and a <mark>needle</mark> [here]" in answer.text


def test_what_was_said_is_found_while_it_is_typed(web: Web) -> None:
    answer = web.ok("/sessions/results?q=dis")
    assert "<mark>disk</mark>" in answer.text.lower()
    assert f"id={DISK}" in answer.text
    assert f"id={CJK}" in web.ok("/sessions/results?q=已滿").text
    assert "No matches for" in web.ok("/sessions?q=zzzzzz").words
    for half in ('"disk', "disk OR", "(disk", "disk AND ("):
        answer = web.get("/sessions/results", params={"q": half})
        assert answer.status == 200, half


def test_a_page_that_is_read_only_leaves_the_store_as_it_is(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search for a part of a word would keep a list of words in it. The page has none."""
    monkeypatch.setattr(search, "_READ_FIRST", 0)
    monkeypatch.setattr(word_list, "_MANY", 1)

    def stored() -> dict[str, bytes]:
        with closing(sqlite3.connect(machine.home / "sessions.db")) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return {each.name: each.read_bytes() for each in machine.home.glob("sessions.db*")}

    before = stored()
    with Web(machine, read_only=True) as web:
        for query in ("disk", "dis", "isk", "*isk*", '"isk"', CJK, "zzzz"):
            assert web.get("/sessions", params={"q": query}).status == 200
    assert stored() == before
    Inside(machine).run("sessions", "search", "isk", "--part")
    assert stored() != before, "the command keeps one, so this would be seen"


def test_a_conversation_is_read(web: Web) -> None:
    answer = web.ok(f"{_READ}{DISK}")
    assert "Tool" in answer.words
    assert "<details" in answer.text
    assert "<details open" not in answer.text
    assert web.get(f"{_READ}nobody").status == 404
    assert web.get("/sessions/holdfast/read").status == 400


def test_a_long_conversation_comes_in_windows(machine: Machine, web: Web) -> None:
    with open_sessions(machine.home) as sessions:
        made = sessions.create(source="cli", title="Long")
        sessions.append(made, [Message("user", f"line {n}") for n in range(200)])
    first = web.ok(f"{_READ}{made.id}")
    assert "line 0" in first.text
    assert "line 59" in first.text
    assert "line 60<" not in first.text
    later = html.unescape(re.findall(r'data-more="after" href="([^"]*)"', first.text)[0])
    second = web.ok(later.replace("/read?", "/messages?"))
    assert "line 60<" in second.text
    assert "line 119" in second.text
    last = web.ok(f"{_READ}{made.id}&end=yes")
    assert "line 199" in last.text
    assert "line 139<" not in last.text
    numbers = re.findall(r'id="m(\d+)"', last.text)
    around = web.ok(f"{_READ}{made.id}&at={numbers[10]}")
    assert f'id="m{numbers[10]}" data-here' in around.text
    before = html.unescape(re.findall(r'data-more="before" href="([^"]*)"', last.text)[0])
    assert "line 139" in web.ok(before).text


def test_a_message_of_megabytes_is_cut_and_can_be_had_whole(machine: Machine, web: Web) -> None:
    with open_sessions(machine.home) as sessions:
        made = sessions.create(source="cli")
        sessions.append(made, Message("tool", "x" * 3_000_000, tool_name="cat"))
    answer = web.ok(f"{_READ}{made.id}")
    assert len(answer.text) < 60_000
    assert "more characters" in answer.words
    whole = html.unescape(re.findall(r'href="([^"]*/message[^"]*)"', answer.text)[0])
    assert web.ok(whole).text.count("x") > 3_000_000 - 1


def test_hostile_texts_stay_texts(machine: Machine, web: Web) -> None:
    image: Json = {
        "type": "image",
        "source": {"media_type": "image/png", "data": "iVBORw0KGgo" * 500},
    }
    with open_sessions(machine.home) as sessions:
        made = sessions.create(source="cli", title=_EVIL, cwd="/tmp/<b>", model=_EVIL)  # noqa: S108
        sessions.append(
            made,
            Message("user", _EVIL + "\u202eevil\x1b[31m\x00"),
            Message("assistant", [{"type": "text", "text": f"```html\n{_EVIL}\n```"}, image]),
            Message("assistant", None, tool_calls=[{"name": _EVIL, "input": {"command": _EVIL}}]),
            Message("tool", _EVIL, tool_name="x"),
            Message(_EVIL, [_EVIL, 7, None, {"type": _EVIL}, {"text": [_EVIL]}]),
        )
        sessions.append(made, Message("user", "x" * 100))
    for path in ("/", "/overview/figures", "/sessions", "/sessions?q=alert", f"{_READ}{made.id}"):
        text = web.ok(path).text
        assert "<script>alert" not in text, path
        assert "<img" not in text, path
        assert "{{1234*5678}}" in html.unescape(text) or "7006652" not in text
        assert 'href="javascript' not in text
        assert "iVBORw0" not in text
        assert "\u202e" not in text
        assert "\x1b" not in text
    assert "image/png" in web.ok(f"{_READ}{made.id}").words


def test_pin_and_rename_are_in_the_log_and_undone(machine: Machine, web: Web) -> None:
    before = Inside(machine).json("sessions", "show", DISK)
    chosen = f"holdfast:{DISK}"
    assert web.post("/sessions/pin", {"s": chosen}).place == f"{_READ}{DISK}"
    assert web.post("/sessions/rename", {"s": chosen, "title": "Neu <b>"}).status == 303
    answer = web.ok(f"{_READ}{DISK}")
    assert "Neu &lt;b&gt;" in answer.text
    assert 'aria-pressed="true"' in answer.text
    Inside(machine).ok("undo", "--yes")
    Inside(machine).ok("undo", "--yes")
    assert Inside(machine).json("sessions", "show", DISK) == before


@pytest.mark.parametrize("what", ["delete", "archive"])
def test_it_is_planned_agreed_to_done_and_undone(machine: Machine, web: Web, what: str) -> None:
    chosen = {"s": [f"holdfast:{DISK}", f"holdfast:{CRON}"]}
    state = _content(machine)
    plan = web.post(f"/sessions/{what}", chosen)
    assert plan.status == 200
    assert "Disk clean-up" in plan.words
    assert ("until the trash is emptied" in plan.words) == (what == "delete")
    assert ("or a restore from the archive can bring it all back" in plan.words) == (
        what == "archive"
    )
    assert _content(machine) == state
    done = web.post(f"/sessions/{what}", {**_form(plan), **chosen})
    assert done.status == 303, done
    report = web.ok(done.place)
    assert "2 " in report.words
    assert bool(re.search(r"[\d.]+ k?B of messages in [\d.]+ k?B\.", report.words)) == (
        what == "archive"
    )
    assert not {DISK, CRON} & {*_ids(web.ok("/sessions"))}
    assert web.post(f"/sessions/{what}", {**_form(plan), **chosen}).status in (404, 409)
    undo = re.findall(r'action="(/log/[^"]*/undo)"', report.text)[0]
    undone = web.ok(web.post(undo).place)
    again = re.search(r'href="(/log/[^"]*)">Redo…', undone.text)
    assert again is not None
    assert "Redo operation" in web.ok(again[1]).words
    assert {DISK, CRON} <= {*_ids(web.ok("/sessions"))}
    assert _content(machine) == state


def test_a_plan_that_is_no_longer_true_does_nothing(machine: Machine, web: Web) -> None:
    chosen = {"s": f"holdfast:{DISK}"}
    plan = web.post("/sessions/delete", chosen)
    with open_sessions(machine.home) as sessions:
        sessions.rename(DISK, "another title")
    answer = web.post("/sessions/delete", {**_form(plan), **chosen})
    assert answer.status == 409
    assert "changed since you looked" in answer.words
    assert DISK in _ids(web.ok("/sessions"))


def test_a_form_without_sessions_says_so(web: Web) -> None:
    for path in ("pin", "rename", "delete", "archive"):
        assert web.post(f"/sessions/{path}").status == 400
        assert web.post(f"/sessions/{path}", {"s": "holdfast"}).status == 400
        assert web.post(f"/sessions/{path}", {"s": "holdfast:nobody", "title": "x"}).status == 404
        assert web.post(f"/sessions/{path}", {"s": "nobody:x", "title": "x"}).status == 404


def test_a_session_is_exported(machine: Machine, web: Web) -> None:
    answer = web.ok(f"/sessions/holdfast/export?id={DISK}&form=jsonl")
    assert json.loads(answer.text)["id"] == DISK
    assert "attachment" in answer.headers["content-disposition"]
    assert web.ok(f"/sessions/holdfast/export?id={DISK}&form=markdown").text.startswith("# ")
    assert web.get(f"/sessions/holdfast/export?id={DISK}&form=exe").status == 400
    assert web.get("/sessions/holdfast/export?id=nobody").status == 404


def test_reading_changes_nothing(machine: Machine, web: Web) -> None:
    """No state is changed by GET, whatever the address."""
    web.ok("/sessions")  # what a first look notes for the next
    before = _content(machine), _operations(machine)
    for screen in web.site.screens:
        for address in screen.routes:
            if address.method == "GET":
                path = re.sub(r"\{home[^}]*\}", "holdfast", address.path)
                web.get(f"{re.sub(r'{[^}]*}', '1', path)}?id={DISK}&q=disk&number=1")
    for path in ("/sessions/delete", "/sessions/pin", "/sessions/rename", "/cleanup/apply"):
        assert web.get(f"{path}?s=holdfast:{DISK}&agree:holdfast=x").status in (404, 405)
    assert (_content(machine), _operations(machine)) == before


def test_without_a_home_it_says_what_to_do(tmp_path: Path) -> None:
    bare = Machine(root=tmp_path)
    bare.user.mkdir()
    with Web(bare) as web:
        assert "holdfast demo" in web.ok("/sessions").words
        assert "No agent has been used here yet" in web.ok("/overview/figures").words


def _content(machine: Machine) -> list[str]:
    return sorted(Inside(machine).run("sessions", "export", "--all").out.splitlines())


def _operations(machine: Machine) -> object:
    return Inside(machine).json("log")


def test_who_types_waits_for_one_look_and_a_change_brings_the_next(machine: Machine) -> None:
    settle(machine, "claude-code")
    with (
        Web(machine) as web,
        mock.patch.object(
            Mirror, "refresh", autospec=True, side_effect=Mirror.refresh
        ) as refreshed,
    ):
        for word in ("w", "wo", "nothing-at-all"):
            web.ok(f"/sessions/results?q={word}")
        assert refreshed.call_count == 1
        web.site.threads.changed()
        web.ok("/sessions/results?q=w")
        assert refreshed.call_count == 2


def test_a_search_that_fails_ends_no_thread(machine: Machine) -> None:
    settle(machine, "claude-code")
    with Web(machine) as web:
        with mock.patch.object(sessions, "search_indexes", side_effect=RuntimeError("no")):
            assert web.get("/sessions/results?q=w").status == 500
        web.ok("/sessions/results?q=w")


def test_a_store_that_somebody_writes_to_is_told_soon(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = next(machine.home.rglob("sessions.db"))
    monkeypatch.setattr("holdfast.web.site._PATIENCE", 0.2)
    with Web(machine) as web, closing(sqlite3.connect(store)) as db:
        db.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        answer = web.post("/sessions/pin", {"s": f"holdfast:{DISK}"})
        assert time.monotonic() - began < 5
        assert answer.status == 503
        assert "is being written by another process. Try again in a moment." in answer.words
        db.rollback()
        assert web.post("/sessions/pin", {"s": f"holdfast:{DISK}"}).status == 303


def test_a_session_that_stays_says_why_and_what_to_do(machine: Machine, web: Web) -> None:
    with open_sessions(machine.home) as sessions:
        one = sessions.create(source="cli", title="still open")
        sessions.append(one.id, Message(role="user", content="hello"))
    plan = web.post("/sessions/archive", {"s": f"holdfast:{one.id}"})
    assert f"{one.id} stays: " in plan.words
    assert f"sessions end {one.id}</code>" in plan.text
