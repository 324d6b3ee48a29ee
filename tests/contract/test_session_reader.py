"""What every session store answers, whoever wrote it: filters, messages, lineage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UnknownSessionError, UsageError
from holdfast.homes.hermes.state_db.sessions import HermesSessionStore
from holdfast.model.session import (
    SINGULARS,
    Message,
    Relation,
    Session,
    SessionChange,
    SessionFilter,
    SessionOrder,
)
from holdfast.policy.session_filter import matches
from holdfast.ports.sessions import SessionStore
from holdfast.services.session_reader import SessionFilters, SessionReader
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.compat.hermes_sessions import recorded
from tests.session_stores import KINDS

NOW = 1_700_000_000.0
#: The recorded home of Hermes has sessions of these names; the own store gets some like them.
PARENT, FOLLOW = "20260104_000000_parent", "20260104_000100_follow"
BRANCH, DELEGATE = "20260105_000000_branch", "20260106_000000_delega"
MANY = 700


def own(place: Path) -> SessionStore:
    return filled(SqliteSessionStore(place / "sessions.db"))


def shared(place: Path) -> SessionStore:
    return filled(KINDS["postgres"].open(KINDS["postgres"].place(place)))


def filled(store: SessionStore) -> SessionStore:
    for number, (name, source, parent, relation) in enumerate(
        [
            (PARENT, "cli", None, None),
            (FOLLOW, "cli", PARENT, Relation.CONTINUATION),
            (BRANCH, "telegram", FOLLOW, Relation.BRANCH),
            (DELEGATE, "subagent", PARENT, Relation.DELEGATE),
            ("cron_backup_20260102_030405", "cron", None, None),
        ]
    ):
        store.create(
            Session(
                id=name,
                source=source,
                started_at=NOW + number,
                last_active_at=NOW + number,
                parent_id=parent,
                relation=relation,
                title=f"Title {number}" if number % 2 else None,
                cwd="/work/project" if number % 2 else "/work",
                model="model-a" if number % 2 else None,
            )
        )
        said = [Message("user", f"{name} {place}") for place in range(number * 2)]
        store.append(name, said, now=NOW + 100 + number)
    store.append(PARENT, [Message("user", f"{place}") for place in range(MANY)], now=NOW + 200)
    store.end(FOLLOW, "done", at=NOW + 300)
    return store


def hermes(place: Path) -> SessionStore:
    root = recorded(place)
    return HermesSessionStore(root / "state.db", place / "state")


@pytest.fixture(
    params=[own, hermes, pytest.param(shared, marks=pytest.mark.deep)],
    ids=["own", "hermes", "postgres"],
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    make: Callable[[Path], SessionStore] = request.param
    made = make(tmp_path)
    yield made
    made.close()


@pytest.fixture
def reader(store: SessionStore) -> SessionReader:
    return SessionReader(store, clock=lambda: NOW)


def filters(everything: list[Session]) -> Iterator[SessionFilter]:
    """Each field alone, with values that some of these sessions have and others have not."""
    ids = [each.id for each in everything]
    starts = sorted(each.started_at for each in everything)
    for name in ids:
        yield SessionFilter(ids=name)
        yield SessionFilter(not_ids=(name,))
        yield SessionFilter(parent_id=name)
        yield SessionFilter(id_prefix=name[:6])
    for each in everything:
        yield SessionFilter(sources=each.source)
        yield SessionFilter(not_sources=[each.source])
        yield SessionFilter(title_is=each.title)
        yield SessionFilter(cwd=each.cwd)
        yield SessionFilter(model=each.model)
    for at in starts:
        yield SessionFilter(started_before=at)
        yield SessionFilter(started_after=at)
    for relation in Relation:
        yield SessionFilter(relations=relation)
        yield SessionFilter(relations=(relation, Relation.BRANCH), ended=True)
    for flag in (True, False):
        yield SessionFilter(roots=flag)
        yield SessionFilter(roots=flag, titled=flag)
    yield SessionFilter(ids=())
    yield SessionFilter(not_sources=())
    yield SessionFilter(title_is="no such title")


def test_a_filter_finds_and_counts_what_it_says(store: SessionStore) -> None:
    everything = list(store.find(SessionFilter()))
    assert everything
    for wanted in filters(everything):
        expected = {each.id for each in everything if matches(wanted, each)}
        assert {each.id for each in store.find(wanted)} == expected, wanted
        assert store.count(wanted) == len(expected), wanted


@pytest.mark.parametrize(("after", "before"), [(0, None), (3, None), (0, 9), (2, 5), (5, 5)])
@pytest.mark.parametrize("most", [None, 0, 1, 2, 60, 600])
def test_messages_are_a_slice(
    reader: SessionReader, after: int, before: int | None, most: int | None
) -> None:
    for session in reader.find():
        every = list(reader.messages(session, with_replaced=True))
        assert [each.number for each in every] == sorted(each.number or 0 for each in every)
        low = every[after - 1].number or 0 if 0 < after <= len(every) else 0
        high = None if before is None or before > len(every) else every[before - 1].number
        between = [
            each
            for each in every
            if (each.number or 0) > low and (high is None or (each.number or 0) < high)
        ]
        for with_replaced in (True, False):
            there = [each for each in between if with_replaced or not each.replaced]
            how: dict[str, Any] = {"after": low, "before": high, "with_replaced": with_replaced}
            assert list(reader.messages(session, limit=most, **how)) == there[:most]
            last = there if most is None else there[len(there) - min(most, len(there)) :]
            assert list(reader.messages(session, last=most, **how)) == last


def test_first_and_last_are_not_asked_for_together(reader: SessionReader) -> None:
    with pytest.raises(UsageError, match="`limit` asks for the first"):
        reader.messages(PARENT, limit=1, last=1)


def test_a_session_is_as_good_as_its_id(reader: SessionReader) -> None:
    session = reader.get(PARENT)
    assert reader.get(session) == session
    assert reader.resolve(session) == PARENT
    assert reader.resolve(PARENT[:-3]) == PARENT
    assert list(reader.messages(session)) == list(reader.messages(PARENT))
    assert reader.find(ids=[session, FOLLOW]) == reader.find(ids=[PARENT, FOLLOW])
    assert reader.find(id=session) == [session]
    assert reader.find(parent_id=session) == reader.find(parent_id=PARENT)


def test_lineage_is_followed_both_ways(reader: SessionReader) -> None:
    everything = {each.id: each for each in reader.find()}
    for session in everything.values():
        line = [each.id for each in reader.ancestors(session)]
        parent = session.parent_id
        assert line[:1] == ([parent] if parent in everything else [])
        for above in line:
            assert session.id in {each.id for each in reader.descendants(above)}
        for below in reader.children(session):
            assert below.parent_id == session.id
    assert [each.id for each in reader.ancestors(FOLLOW)] == [PARENT]
    assert reader.tip(PARENT).id == FOLLOW
    assert reader.tip(FOLLOW).id == FOLLOW
    with pytest.raises(UnknownSessionError):
        reader.ancestors("nobody")


def test_keywords_are_a_filter(reader: SessionReader) -> None:
    assert reader.find(source="cli") == reader.find(SessionFilter(sources=("cli",)))
    assert reader.count(source="cli") == reader.count(sources=["cli"]) > 0
    assert reader.count(not_source="cli") == reader.count() - reader.count(source="cli")
    assert reader.find(SessionFilter(roots=True), source="cli") == [
        each for each in reader.find(source="cli") if each.parent_id is None
    ]
    assert reader.find(order_by="started") == reader.find(order_by=SessionOrder.STARTED)
    assert set(reader.sources()) == {each.source for each in reader.find()}


def test_folders_are_those_of_the_sessions(store: SessionStore, reader: SessionReader) -> None:
    assert store.folders() == {each.id: each.cwd for each in reader.find() if each.cwd}


def test_a_mistyped_keyword_gets_the_nearest(reader: SessionReader) -> None:
    with pytest.raises(UsageError, match="'sorce' is not a filter") as caught:
        reader.find(sorce="cli")  # type: ignore[call-arg]
    assert caught.value.hint == "Did you mean `source`?"
    with pytest.raises(UsageError, match="the same filter"):
        reader.find(source="cli", sources=["cron"])
    with pytest.raises(UsageError, match="not a relation"):
        reader.find(relation="cousin")
    with pytest.raises(UsageError, match="'newest' is not a sort order"):
        reader.find(order_by="newest")


def test_keywords_and_fields_are_the_same() -> None:
    plain = {name for name in SessionFilters.__annotations__ if name not in SINGULARS}
    assert plain == set(SessionFilter.__slots__)
    assert set(SINGULARS.values()) <= plain


def test_one_string_is_one_value() -> None:
    assert SessionFilter(sources="cli") == SessionFilter(sources=("cli",))
    assert SessionFilter(ids="abc").ids == ("abc",)
    wrong: Any
    for wrong in (7, [7], [None]):
        with pytest.raises(UsageError):
            SessionFilter(sources=wrong)
    for wrong in ({"title": 7}, {"cwd": 7}, {"active_before": "yesterday"}, {"min_cost": "1"}):
        with pytest.raises(UsageError):
            SessionFilter(**wrong)


def test_another_agents_sessions_are_not_written(tmp_path: Path) -> None:
    store = hermes(tmp_path)
    with pytest.raises(UsageError, match="Hermes writes its sessions itself"):
        store.replace(PARENT, [], after=0, mark="taken_back", now=NOW)
    with pytest.raises(UsageError, match="Hermes writes its sessions itself"):
        store.update(PARENT, SessionChange(model="another"))
    store.close()
