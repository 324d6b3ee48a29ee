"""Sessions leave and come back in any order, by any mix of ways: each finds its parent again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.session import Relation, Session, SessionFilter
from holdfast.policy.rules import Policy
from holdfast.ports.home import Home
from holdfast.services.plans import plan_archive, plan_delete
from holdfast.services.restore import chosen, restore
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo, undo_latest
from tests.archiving import NOW, clock, opened
from tests.compat.hermes_sessions import NOW as HERMES_NOW
from tests.compat.hermes_sessions import OLD, database, recorded
from tests.compat.hermes_sessions import opened as opened_hermes

IDS = ("s0", "s1", "s2", "s3", "s4")
HERMES_IDS = tuple(sorted(OLD)[:4])
FEW = settings(
    max_examples=max(8, settings().max_examples // 8),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)

#: The parent of each session, by place: always an earlier one.
Tree = tuple[int | None, ...]
#: Delete or archive (True) the session at this place if it is there; bring it back if it is not.
Moves = Sequence[tuple[int, bool]]


@st.composite
def trees(draw: st.DrawFn, size: int) -> Tree:
    return (
        None,
        *(draw(st.none() | st.integers(0, place - 1)) for place in range(1, size)),
    )


@st.composite
def moves(draw: st.DrawFn, size: int) -> Moves:
    """Some back and forth, and then everybody leaves who is there, in any order."""
    places, way = st.integers(0, size - 1), st.booleans()
    first = draw(st.lists(st.tuples(places, way), max_size=6))
    leaving = [(place, draw(way)) for place in draw(st.permutations(range(size)))]
    there = {place for place in range(size) if sum(p == place for p, _ in first) % 2 == 0}
    return [*first, *(each for each in leaving if each[0] in there)]


class Walk:
    """Removes and brings back, and knows how each session left."""

    def __init__(self, home: Home, ids: Sequence[str], now: float) -> None:
        self._home = home
        self._ids = ids
        self._now = now
        self._gone: dict[str, tuple[str, bool]] = {}

    def take(self, wanted: Moves) -> None:
        for place, archived in wanted:
            name = self._ids[place]
            if name in self._gone:
                self.bring_back(name, by_name=archived)
            else:
                self.remove(name, archived=archived)

    def remove(self, name: str, *, archived: bool) -> None:
        if archived:
            made, _ = plan_archive(
                self._home,
                self._home.archive,
                ids=(name,),
                policy=Policy(),
                now=self._now,
                command="archive",
            )
        else:
            made = plan_delete(self._home, (name,), now=self._now, command="delete")
        report = apply(made, self._home, clock=lambda: self._now)
        assert report.operation is not None
        assert not report.failed
        self._gone[name] = report.operation, archived

    def bring_back(self, name: str, *, by_name: bool = False) -> None:
        operation, archived = self._gone.pop(name)
        if archived and by_name:
            wanted = chosen(self._home.archive, (name,))
            report = restore(self._home, wanted, command="restore", clock=lambda: self._now)
        else:
            _, report = undo(self._home, operation, clock=lambda: self._now)
        assert report.brought_back >= 1, report
        assert not report.failed, report

    def bring_all_back(self, order: Sequence[int]) -> None:
        for place in order:
            if self._ids[place] in self._gone:
                self.bring_back(self._ids[place])


def parents(home: Home, ids: Sequence[str]) -> Mapping[str, str | None]:
    store = home.session_store()
    assert store is not None
    found = store.find(SessionFilter(ids=tuple(ids)))
    assert {each.id for each in found} == set(ids)
    assert not any("awaited" in field for each in found for field in each.extra)
    return {each.id: each.parent_id for each in found}


@contextmanager
def own_home(tree: Tree) -> Iterator[HoldfastHome]:
    with tempfile.TemporaryDirectory() as made:
        home = opened(Path(made))
        store = home.create_session_store()
        for name, parent in zip(IDS, tree, strict=True):
            store.create(
                Session(
                    id=name,
                    source="cli",
                    started_at=NOW - 100,
                    last_active_at=NOW - 100,
                    parent_id=None if parent is None else IDS[parent],
                    relation=None if parent is None else Relation.BRANCH,
                )
            )
            store.end(name, "done", at=NOW - 90)
        yield home
        store.close()


@FEW
@given(trees(len(IDS)), moves(len(IDS)), st.permutations(range(len(IDS))))
def test_lineage_survives_every_order(tree: Tree, wanted: Moves, order: Sequence[int]) -> None:
    with own_home(tree) as home:
        before = parents(home, IDS)
        walk = Walk(home, IDS, NOW)
        walk.take(wanted)
        walk.bring_all_back(order)
        assert parents(home, IDS) == before


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("hermes"))


@FEW
@given(trees(len(HERMES_IDS)), moves(len(HERMES_IDS)), st.permutations(range(len(HERMES_IDS))))
def test_lineage_of_hermes_survives_every_order(
    pattern: Path, tree: Tree, wanted: Moves, order: Sequence[int]
) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "home"
        shutil.copytree(pattern, root, symlinks=True)
        with database(root) as db:
            for name, parent in zip(HERMES_IDS, tree, strict=True):
                db.execute(
                    "UPDATE sessions SET parent_session_id = ? WHERE id = ?",
                    (None if parent is None else HERMES_IDS[parent], name),
                )
            db.commit()
        home = opened_hermes(root)
        before = parents(home, HERMES_IDS)
        walk = Walk(home, HERMES_IDS, HERMES_NOW)
        walk.take(wanted)
        walk.bring_all_back(order)
        assert parents(home, HERMES_IDS) == before


def test_a_routing_key_that_was_taken_meanwhile_is_said() -> None:
    with own_home((None, 0, 1, 2, 3)) as home:
        store = home.create_session_store()
        store.route("telegram:7", "s1")
        walk = Walk(home, IDS, NOW)
        walk.remove("s1", archived=False)
        store.route("telegram:7", "s4")
        _, report = undo_latest(home, clock=clock)
        [outcome] = report.outcomes
        assert outcome.reason == "its routing key belongs to s4 now and stays there"
        store.route("telegram:8", "s1")
        walk.remove("s1", archived=True)
        store.route("telegram:8", "s4")
        wanted = chosen(home.archive, ("s1",))
        report = restore(home, wanted, command="restore", clock=clock)
        assert [each.reason for each in report.outcomes] == [
            "its routing key belongs to s4 now and stays there"
        ]
