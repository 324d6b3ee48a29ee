"""Import: a bad line is refused by its number, for a reason, and the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.session import Session, SessionFilter
from holdfast.ports.sessions import SessionStore
from tests.contract.test_exchange_import import a_line, bring
from tests.session_stores import BOTH, opened_for


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    yield from opened_for(request, tmp_path)


REFUSED: dict[str, tuple[dict[str, Any] | str | bytes, str]] = {
    "no json": ('{"id": "a",}', "not JSON: expected a key in quotes at character 12"),
    "cut": ('{"id": "a", "messages": [{"role": "u', "not JSON: unterminated string"),
    "cut after": ('{"id": "a"', "not JSON: the line ends too early"),
    "word": ("hello", "not JSON: expecting value at character 1"),
    "number": ("5", "not a session: a line must hold one JSON object"),
    "list": ("[{}]", "not a session: a line must hold one JSON object"),
    "two": ('{"id":"a","source":"x","started_at":1,"messages":[]} {}', "there is more text"),
    "latin": (b'{"id": "\xff"}', "not UTF-8: invalid start byte"),
    "nan": (a_line(mood=float("nan")), "not JSON: NaN is not a number"),
    "huge float": ('{"mood": 1e999}', "a number is too large"),
    "huge int": ('{"mood": ' + "9" * 5000 + "}", "a number is too large"),
    "deep": ('{"mood": ' + "[" * 300 + "]" * 300 + "}", "a value is nested more than 200 deep"),
    "deeper": ('{"mood": ' + "[" * 99_999 + "}", "a value is nested more than 200 deep"),
    "twice": ('{"id": "a", "id": "b"}', "`id` appears twice in the session"),
    "no id": ({"source": "cli", "started_at": 1, "messages": []}, "a session without `id`"),
    "no source": ({"id": "a", "started_at": 1, "messages": []}, "a session without `source`"),
    "no start": ({"id": "a", "source": "x", "messages": []}, "a session without `started_at`"),
    "no messages": (
        {"id": "a", "source": "x", "started_at": 1},
        "a session without `messages`",
    ),
    "path": (a_line("../a"), "'../a' is not a session id."),
    "empty id": (a_line(""), "A session id cannot be empty."),
    "long id": (a_line("a" * 300), "A session id has at most 128 characters, not 300."),
    "id type": (a_line(id=5), "`id` of a session must be text, not a number"),
    "source type": (a_line(source=None), "`source` of a session must be text, not null"),
    "time": (a_line(started_at="now"), "`started_at` of a session must be a number, not text"),
    "time flag": (a_line(ended_at=True), "`ended_at` of a session must be a number"),
    "big time": (a_line(started_at=10**400), "`started_at` of a session must be a number"),
    "relation": (a_line(relation="aunt"), "`relation` of a session must be one of branch"),
    "parent": (a_line(parent_id="a/b"), "'a/b' is not a session id."),
    "own parent": (a_line(parent_id="A"), "the session is its own parent"),
    "pinned": (a_line(pinned=1), "`pinned` of a session must be true or false, not a number"),
    "messages": (a_line(messages={}), "`messages` of a session must be a list"),
    "message": (a_line(messages=["x"]), "message 1: a message must be an object, not text"),
    "role": (a_line(messages=[{"role": "u"}, {}]), "message 2: a message without `role`"),
    "empty role": (a_line(messages=[{"role": ""}]), "message 1: `role` of a message must be a"),
    "half role": (a_line(messages=[{"role": "\ud800"}]), "message 1: `role` of a message must be"),
    "stamp": (a_line(messages=[{"role": "u", "timestamp": "x"}]), "message 1: `timestamp` of a"),
    "tool": (a_line(messages=[{"role": "u", "tool_name": 1}]), "message 1: `tool_name` of a"),
    "negative": (
        a_line(messages=[{"role": "u", "tokens": -1}]),
        "message 1: `tokens` of a message cannot be negative",
    ),
    "negative part": (
        a_line(messages=[{"role": "u", "tokens": {"out": -1}}]),
        "message 1: `tokens.out` of a message cannot be negative",
    ),
    "token name": (a_line(messages=[{"role": "u", "tokens": {"input": 1}}]), "message 1: `tokens`"),
    "half token": (a_line(messages=[{"role": "u", "tokens": 1.5}]), "message 1: `tokens` of a"),
    "many": (a_line(messages=[{"role": "u", "tokens": 10**13}]), "message 1: `tokens` of a mes"),
    "cost": (a_line(messages=[{"role": "u", "cost": -0.1}]), "message 1: `cost` of a message"),
}


@pytest.mark.parametrize(("line", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_bad_line_is_refused_by_its_number(
    store: SessionStore, line: dict[str, Any] | str | bytes, reason: str
) -> None:
    report = bring(store, a_line("before"), "", line, a_line("after"))
    [refusal] = report.refused
    assert refusal.line == 3
    assert refusal.text.startswith(reason) or reason in refusal.text
    assert report.imported == 2
    assert {session.id for session in store.find(SessionFilter())} == {"before", "after"}
    assert report.to_json()["refused"] == [{"line": 3, "session": None, "reason": refusal.text}]


def test_an_id_stands_once_in_a_file(store: SessionStore) -> None:
    lines = (a_line("a", "one"), a_line("a", "two"), a_line("A", "three"))
    store.create(Session(id="a", source="cli", started_at=1.0, last_active_at=1.0))
    report = bring(store, *lines)
    assert (report.skipped, [refusal.line for refusal in report.refused]) == (("a", "a"), [3])
    report = bring(store, *lines, replace=True)
    assert [(refusal.line, refusal.text) for refusal in report.refused] == [
        (2, "the id a is already used in an earlier line"),
        (3, "the id A differs from a only in case"),
    ]
    assert [message.content for message in store.messages("a")] == ["one"]
