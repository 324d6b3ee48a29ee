"""What the user pinned or archived in the agent itself stays, in every agent that has such marks:
no rule and no cap takes it, and a plan made before the mark leaves it alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

import holdfast
from holdfast import Home, SessionFilter
from holdfast.errors import UsageError
from holdfast.stores.sqlite.foreign import add_newer_functions
from tests.contract.agent_homes import FOUR, NOW
from tests.contract.agents import goose, kilo, kimi_code, openclaw, vibe
from tests.contract.agents.home import AgentHome

CODEX = next(each for each in FOUR if each.name == "codex")
OPENCODE = next(each for each in FOUR if each.name == "opencode")
AT = 1_794_806_000


def opened(root: Path) -> Home:
    return holdfast.open(root, clock=lambda: NOW)


def written(database: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(database)) as db, db:
        add_newer_functions(db)
        assert db.execute(statement, values).rowcount == 1


def pin_in_codex(root: Path) -> None:
    """A pin changes nothing else in the row."""
    change = "UPDATE threads SET is_pinned = 1 WHERE id = ?"
    written(root / "state_5.sqlite", change, CODEX.whole)


def archive_in_codex(root: Path) -> None:
    """As `codex archive` does."""
    [rollout] = root.glob(f"sessions/*/*/*/*{CODEX.whole}.jsonl")
    away = root / "archived_sessions" / rollout.name
    away.parent.mkdir()
    rollout.rename(away)
    change = "UPDATE threads SET archived = 1, archived_at = ?, rollout_path = ? WHERE id = ?"
    written(root / "state_5.sqlite", change, AT, str(away), CODEX.whole)


def archive_in_codex_without_a_row(root: Path) -> None:
    """A rollout that the database does not know, such as one of an earlier release."""
    archive_in_codex(root)
    for each in root.glob("*.sqlite*"):
        each.unlink()


def archive_in(database: str) -> Callable[[Path], None]:
    """OpenCode and its fork."""

    def archive(root: Path) -> None:
        whole = OPENCODE.whole if database == "opencode.db" else kilo.HOME.whole
        change = "UPDATE session SET time_archived = ? WHERE id = ?"
        written(root / database, change, AT * 1000, whole)

    return archive


def archive_in_goose(root: Path) -> None:
    change = "UPDATE sessions SET archived_at = '2026-11-16 05:00:00' WHERE id = ?"
    written(root / "sessions/sessions.db", change, goose.HOME.whole)


def mark_in_openclaw(column: str) -> Callable[[Path], None]:
    def mark(root: Path) -> None:
        change = f"UPDATE session_nodes SET {column} = ? WHERE session_key = ?"  # noqa: S608
        key = openclaw.HOME.whole.replace(".", ":")
        written(root / openclaw.DATABASE, change, AT * 1000, key)

    return mark


def archive_in_kimi(root: Path) -> None:
    [path] = root.glob(f"sessions/*/{kimi_code.HOME.whole}/state.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "archived": True}))


def mark_in_vibe(name: str) -> Callable[[Path], None]:
    def mark(root: Path) -> None:
        path = root / "logs/session/unified" / vibe.HOME.whole / "meta.json"
        said = {**json.loads(path.read_text()), name: "2026-11-16T05:00:00.000000+00:00"}
        path.write_text(json.dumps(said, indent=2))

    return mark


@dataclass(frozen=True)
class Mark:
    agent: AgentHome
    make: Callable[[Path], None]
    pinned: bool = False

    @property
    def reason(self) -> str:
        return "pinned" if self.pinned else f"archived in {self.agent.people}"


MARKS = {
    "pinned-codex": Mark(CODEX, pin_in_codex, pinned=True),
    "archived-codex": Mark(CODEX, archive_in_codex),
    "archived-codex-without-a-row": Mark(CODEX, archive_in_codex_without_a_row),
    "archived-opencode": Mark(OPENCODE, archive_in("opencode.db")),
    "archived-kilo": Mark(kilo.HOME, archive_in("kilo.db")),
    "archived-goose": Mark(goose.HOME, archive_in_goose),
    "pinned-openclaw": Mark(openclaw.HOME, mark_in_openclaw("pinned_at"), pinned=True),
    "archived-openclaw": Mark(openclaw.HOME, mark_in_openclaw("archived_at")),
    "archived-kimi-code": Mark(kimi_code.HOME, archive_in_kimi),
    "pinned-vibe": Mark(vibe.HOME, mark_in_vibe("pinned_at"), pinned=True),
    "archived-vibe": Mark(vibe.HOME, mark_in_vibe("archived_at")),
}


@pytest.fixture(params=MARKS)
def mark(request: pytest.FixtureRequest) -> Mark:
    return MARKS[request.param]


@pytest.fixture
def root(mark: Mark, tmp_path: Path) -> Path:
    mark.agent.make(tmp_path / "home")
    return tmp_path / "home"


def test_no_rule_and_no_cap_takes_it(mark: Mark, root: Path) -> None:
    whole = mark.agent.whole
    mark.make(root)
    for _ in range(2):  # from the files, and from the notes of the first look
        with opened(root) as home:
            rules = home.plan_prune(older_than="30d", max_count=1, use_trash=False)
            trivial = home.plan_gc(older_than="1d", trivial_max=1_000)
            kept = {each.id: each.reason for each in rules.kept}
            assert kept[whole] == mark.reason
            assert whole not in {each.id for each in (*rules.removals, *trivial.removals)}
            assert {each.id for each in rules.removals}
    with opened(root) as home:
        assert home.plan_prune(older_than="30d", use_trash=False).apply().removed
        assert whole in {each.id for each in home.sessions.find()}


def test_filters_know_it(mark: Mark, root: Path) -> None:
    whole = mark.agent.whole
    mark.make(root)
    chosen, others = marked(mark, True), marked(mark, False)
    with opened(root) as home:
        assert [each.id for each in home.sessions.find(chosen)] == [whole]
        found = {each.id for each in home.sessions.find(others)}
        assert found == {each.id for each in home.sessions.find()} - {whole}
        word = word_of(home, whole)
        for _ in range(2):
            hits = home.sessions.search(word, wanted=chosen, limit=100)
            assert {each.session.id for each in hits} == {whole}
            hits = home.sessions.search(word, wanted=others, limit=100)
            assert whole not in {each.session.id for each in hits}
        assert home.sessions.get(whole).pinned is mark.pinned


def marked(mark: Mark, flag: bool) -> SessionFilter:
    return SessionFilter(pinned=flag) if mark.pinned else SessionFilter(agent_archived=flag)


def word_of(home: Home, name: str) -> str:
    """A word that search finds in a session."""
    said = (str(each.content) for each in home.sessions.messages(name))
    return max((word for text in said for word in text.split() if word.isalpha()), key=len)


def test_a_person_who_asks_for_it_takes_it_and_undo_brings_it_back(mark: Mark, root: Path) -> None:
    whole = mark.agent.whole
    mark.make(root)
    with opened(root) as home:
        if not mark.pinned:
            asked = SessionFilter(agent_archived=True)
            plan = home.plan_prune(wanted=asked, older_than="30d")
            assert {each.id for each in plan.removals} == {whole}
        report = home.delete([whole])
        assert whole not in {each.id for each in home.sessions.find()}
        assert not report.undo().failed
        kept = {each.id: each.reason for each in home.plan_prune(older_than="30d").kept}
        assert kept[whole] == mark.reason


def test_a_plan_made_before_leaves_it_alone(mark: Mark, root: Path) -> None:
    whole = mark.agent.whole
    with opened(root) as home:
        plan = home.plan_prune(older_than="30d", use_trash=False)
        assert whole in {each.id for each in plan.removals}
        mark.make(root)
        reasons = {each.id: each.reason for each in plan.apply().outcomes}
    with opened(root) as home:
        assert whole in {each.id for each in home.sessions.find()}, reasons


def test_only_the_agent_takes_its_own_pin_away(tmp_path: Path) -> None:
    """Holdfast does not write it. Its own pin is separate: it stays when the agent's is gone."""
    root = tmp_path / "home"
    CODEX.make(root)
    pin_in_codex(root)
    with opened(root) as home:
        with pytest.raises(UsageError, match="is pinned in Codex itself"):
            home.pin_sessions([CODEX.whole], False)
        pinned = home.pin_sessions([CODEX.whole])
        assert pinned.operation is not None
    written(root / "state_5.sqlite", "UPDATE threads SET is_pinned = 0 WHERE id = ?", CODEX.whole)
    with opened(root) as home:
        assert home.sessions.get(CODEX.whole).pinned
        home.undo(pinned.operation)
        assert not home.sessions.get(CODEX.whole).pinned


@pytest.mark.parametrize(
    ("agent", "database", "table", "column"),
    [
        (CODEX, "state_5.sqlite", "threads", "is_pinned"),
        (CODEX, "state_5.sqlite", "threads", "archived"),
        (OPENCODE, "opencode.db", "session", "time_archived"),
        (goose.HOME, "sessions/sessions.db", "sessions", "archived_at"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_a_release_without_the_mark(
    agent: AgentHome, database: str, table: str, column: str, tmp_path: Path
) -> None:
    root = tmp_path / "home"
    agent.make(root)
    with closing(sqlite3.connect(root / database)) as db, db:
        indexes = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE ?"
        for (name,) in db.execute(indexes, (f"%{column}%",)).fetchall():
            db.execute(f'DROP INDEX "{name}"')
        db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    with opened(root) as home:
        plan = home.plan_prune(older_than="30d")
        assert agent.whole in {each.id for each in plan.removals}
        report = plan.apply()
        assert report.removed
        assert not report.undo().failed
