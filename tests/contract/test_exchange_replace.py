"""Import: parents that come later, and sessions that take the place of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.session import AWAITED_PARENT, Message, Relation
from holdfast.model.stored_session import Holder
from holdfast.ports.sessions import SessionStore
from tests.builders import NOW
from tests.contract.test_exchange_import import a_line, bring, check_index, exported, indexed
from tests.session_stores import BOTH, opened_for


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    yield from opened_for(request, tmp_path)


def test_parents_may_come_later(store: SessionStore) -> None:
    child = a_line("child", parent_id="parent", relation="branch", mood="x")
    report = bring(store, child, a_line("parent"))
    assert report.notes == ()
    assert store.get("child").parent_id == "parent"
    assert store.get("child").relation is Relation.BRANCH
    assert store.get("child").extra == {"mood": "x"}


def test_a_parent_may_come_with_a_later_import(store: SessionStore) -> None:
    report = bring(store, a_line("child", parent_id="parent", relation="delegate"))
    assert report.notes == (
        "child: its parent parent is not in the store, so it has no parent for now",
    )
    assert store.get("child").parent_id is None
    assert store.get("child").extra == {AWAITED_PARENT: "parent"}
    assert json.loads(exported(store))["parent_id"] == "parent"
    assert AWAITED_PARENT not in json.loads(exported(store))
    assert bring(store, a_line("other")).notes == ()
    assert bring(store, a_line("parent")).notes == ()
    assert store.get("child").parent_id == "parent"
    assert store.get("child").extra == {}


def test_no_session_becomes_its_own_ancestor(store: SessionStore) -> None:
    report = bring(
        store,
        a_line("a", parent_id="c"),
        a_line("b", parent_id="a"),
        a_line("c", parent_id="b"),
    )
    assert report.notes == ("a: its parent c descends from it, so it has no parent for now",)
    bring(store, a_line("x"), a_line("y", parent_id="x"))
    report = bring(store, a_line("x", parent_id="y"), replace=True)
    assert report.notes == ("x: its parent y descends from it, so it has no parent for now",)
    assert store.get("y").parent_id == "x"


def test_replaced_in_the_store_and_in_the_index(store: SessionStore) -> None:
    many = [f"heron {place}" for place in range(300)]  # enough to be indexed
    bring(store, a_line("a", *many), a_line("kid", parent_id="a"), a_line("z", *many))
    assert indexed(store, "heron") > 500
    report = bring(store, a_line("a", "egret"), replace=True)
    assert (report.imported, report.replaced, report.messages) == (0, 1, 1)
    assert store.get("kid").parent_id == "a"
    assert store.get("a").message_count == 1
    assert indexed(store, "heron") <= 300
    check_index(store)
    bring(store, a_line("z", *(f"egret {place}" for place in range(300))), replace=True)
    assert indexed(store, "heron") == 0
    assert indexed(store, "egret") == 301
    check_index(store)


def test_replacing_what_is_only_half_indexed(store: SessionStore) -> None:
    bring(store, a_line("a", *(["one"] * 200)))
    bring(store, a_line("b", *(["two 漢字 \ud800\0"] * 200)))  # indexed up to its end
    store.append("b", [Message(role="user", content="three")] * 100, now=NOW)  # and these are not
    for session_id in ("b", "a"):
        bring(store, a_line(session_id), replace=True)
        check_index(store)
    assert indexed(store, "one") == indexed(store, "two") == indexed(store, "three") == 0
    assert store.statistics(now=NOW, ages=(("any", float("inf")),)).messages == 0


def test_a_reader_of_the_old_session_never_sees_the_new_one(store: SessionStore) -> None:
    bring(store, a_line("a", *(["old"] * 600)))
    reader = store.messages("a")
    assert next(reader).content == "old"
    bring(store, a_line("a", *(["new"] * 600)), replace=True)
    assert {message.content for message in reader} == {"old"}


def test_a_session_that_is_held_open_is_not_replaced(store: SessionStore) -> None:
    holder = Holder(host="here", boot="b", process=7, started="s")
    bring(store, a_line("a", "old"))
    store.hold("a", holder, now=NOW)
    report = bring(store, a_line("a", "new"), replace=True)
    assert [refusal.text for refusal in report.refused] == [
        "the session a is held open by process 7 on here"
    ]
    store.release("a", holder)
    assert bring(store, a_line("a", "new"), replace=True).replaced == 1


def test_a_routing_key_stays_where_it_leads(store: SessionStore) -> None:
    bring(store, a_line("now", routing_key="k"))
    report = bring(store, a_line("past", routing_key="k"))
    assert report.notes == ("past: its routing key belongs to now and stays there",)
    assert store.get("past").routing_key is None
    bring(store, a_line("now", "more", routing_key="k"), replace=True)
    assert store.get("now").routing_key == "k"
