"""Whatever lies in a home of Hermes, reading it ends in values or in a clear error, and what cannot
be read protects."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, UsageError
from holdfast.homes.hermes import checkup, file_names, life
from holdfast.homes.hermes.file_names import HermesName
from holdfast.homes.hermes.kind import DATABASE
from holdfast.homes.hermes.state_db.moves import AWAITED_PARENTS, AwaitedParents
from holdfast.homes.hermes.state_db.sessions import HermesSessionStore
from holdfast.homes.hermes.state_db.undo_copies import packed, packer, unpack
from holdfast.model.item import SESSION
from holdfast.model.session import Search, SessionFilter
from holdfast.spine.carry_out import Silent
from tests import tally
from tests.compat.hermes_sessions import NOW, OLD, opened, pruned, recorded, session_ids

FIRST = "20260101_101010_aaaaaa"
#: Each looks at a whole home, so that there are fewer of them.
FEW = settings(
    max_examples=settings().max_examples // 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
MANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_json = st.recursive(
    _scalars | st.just(FIRST),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["entries", "session_id", "pid", "process_start_time", "k"]), inner
        )
    ),
    max_leaves=12,
)
_documents = st.binary(max_size=60) | _json.map(lambda value: json.dumps(value).encode())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("hermes"))


def lives(root: Path) -> dict[str, str | None]:
    items = opened(root).scan(NOW).items
    return {item.id: item.alive for item in items if item.kind == SESSION}


def written(root: Path, place: Path, content: bytes) -> Path:
    path = root / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


@FEW
@given(content=_documents)
@example(content=b"[" * 100_000)
@example(content=b'{"entries": [{"session_id": "x", "pid": 1e400}]}')
def test_a_registry_of_any_content_is_read_or_protects_everything(
    home: Path, content: bytes
) -> None:
    path = written(home, life.ACTIVE, content)
    try:
        found = lives(home)
    finally:
        path.unlink()
    tally.injected()
    named = _named_entries(content)
    if named is None:
        assert all(found.values()), "one could go, though nothing is known"
    else:
        assert all(found[name] for name in named if name in found)


def _named_entries(content: bytes) -> set[str] | None:
    """Whom a registry names with a process that cannot be gone; None when it says nothing."""
    if not content.strip():
        return set()
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError):
        return None
    entries = document.get("entries") if isinstance(document, dict) else document
    if document is None:
        return set()
    if not isinstance(entries, list):
        return None
    if not all(isinstance(e, dict) and isinstance(e.get("session_id"), str) for e in entries):
        return None
    return {e["session_id"] for e in entries if not isinstance(e.get("pid"), int)}


@FEW
@given(content=_documents)
def test_routes_and_gateways_of_any_content_are_read_or_protect(home: Path, content: bytes) -> None:
    routes = home / life.ROUTES
    before = routes.read_bytes()
    written(home, life.ROUTES, content)
    gateway = written(home, life.GATEWAY, content)
    try:
        lives(home)
    finally:
        routes.write_bytes(before)
        gateway.unlink()
    tally.injected()


@MANY
@given(name=st.text(max_size=120), head=st.binary(max_size=80))
@example(name="session_.json", head=b"")
@example(name="request_dump__20260101_010101.json", head=b"")
@example(name="sessions.json", head=b'{"session_id": "sessions"}')
@example(name="session_a.json", head=b'{"session_id": "\\ud800"}')
def test_any_name_of_a_file_is_judged(name: str, head: bytes) -> None:
    parsed = file_names.parse(name)
    if parsed is not None:
        assert parsed.session
        assert "/" not in parsed.session
        parsed.claimed_by(head)
    assert file_names.parse("sessions.json") is None


@MANY
@given(session=st.text(min_size=1, max_size=120).filter(lambda text: text.isprintable()))
@example(session="api:chat/1")
@example(session="../../x")
@example(session="sessions")
def test_a_file_that_hermes_wrote_is_known_as_its_sessions(session: str) -> None:
    stem = file_names.stem(session)
    parsed = file_names.parse(f"session_{stem}.json")
    assert parsed is not None
    assert parsed.session in file_names.stems(session)
    head = json.dumps({"session_id": session}).encode()
    assert parsed.certain or parsed.claimed_by(head)
    if isinstance(parsed, HermesName):
        assert not parsed.claimed_by(json.dumps({"session_id": session + "x"}).encode())


@FEW
@given(
    places=st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 255)), min_size=1, max_size=40),
    cut=st.none() | st.integers(0, 2**31),
)
@example(places=[(0, 0)], cut=0)
def test_a_damaged_database_is_read_or_said_to_be_damaged_and_never_changed(
    tmp_path_factory: pytest.TempPathFactory,
    home: Path,
    places: list[tuple[int, int]],
    cut: int | None,
) -> None:
    root = tmp_path_factory.mktemp("damaged") / "agent"
    shutil.copytree(home, root)
    path = root / DATABASE
    content = bytearray(path.read_bytes())
    for place, value in places:
        content[place % len(content)] = value
    path.write_bytes(content if cut is None else content[: cut % len(content)])
    before = path.read_bytes()
    tally.injected()
    for read in (
        lambda: opened(root).scan(NOW),
        lambda: _store(root).find(SessionFilter()),
        lambda: _store(root).search(Search(text="zebra")),
        lambda: [list(_store(root).messages(name)) for name in OLD],
        lambda: list(opened(root).checkup().look(Silent())),
    ):
        with suppress(HoldfastError):
            read()
    list(checkup.check(path))
    assert path.read_bytes() == before
    shutil.rmtree(root.parent)


def _store(root: Path) -> HermesSessionStore:
    store = opened(root).session_store()
    if store is None:
        raise UsageError("it has no tables at all")
    return store


@FEW
@given(content=_documents)
def test_notes_of_our_own_that_were_damaged_cost_nothing_but_a_parent(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    state = tmp_path_factory.mktemp("state")
    (state / AWAITED_PARENTS).write_bytes(content)
    notes = AwaitedParents(state)
    notes.among(["a"])
    notes.add({"a": "b"})
    assert notes.among(["a"])["a"] == "b"


@MANY
@given(row=st.lists(_scalars | st.binary(max_size=30) | st.text("ab", max_size=2000)))
def test_what_goes_into_a_copy_comes_back_as_it_was(row: list[Any]) -> None:
    storable = [v for v in row if not isinstance(v, str) or _is_utf8(v)]
    storable = [v for v in storable if not isinstance(v, int) or -(2**63) <= v < 2**63]
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.create_function("pack", 1, packer(), deterministic=True)
        for value in storable:
            [stored], [kept] = (
                db.execute(f"SELECT {sql} FROM (SELECT ? AS v)", (value,)).fetchone()  # noqa: S608
                for sql in ("v", packed("v"))
            )
            assert repr(unpack(kept)) == repr(stored)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def test_a_home_with_every_file_damaged_loses_nothing(tmp_path: Path) -> None:
    root = recorded(tmp_path)
    before = session_ids(root)
    for place in (life.ACTIVE, life.GATEWAY, life.ROUTES):
        written(root, place, b"{")
    pruned(root)
    assert session_ids(root) == before
