"""Kill a process at every call while it takes sessions out of a home of Hermes or puts them back.

`python -m tests.crash.hermes_session_harness SCENARIO EVERY`, in the manner of `harness`: with
EVERY 1 at each call, with 5 at each fifth.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import CannotUndoError
from holdfast.homes.hermes.home import HermesHome
from holdfast.model.session import SessionFilter
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.services.endings import end_abandoned
from holdfast.services.plans import plan_archive
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.settle import settle
from holdfast.spine.trash import plan_empty
from holdfast.spine.undo import undo_latest
from holdfast.stores.sqlite.bundle import BundleFolder
from tests.compat.hermes_sessions import (
    LIVING,
    NOW,
    OLD,
    Seen,
    check,
    database,
    recorded,
    seen,
    session_ids,
)
from tests.crash.harness import Tally, run_killed

#: Nearly everything goes, so that the search tables are made anew; or some, through the triggers.
MOST, SOME = 90.0, 165.0


def opened(root: Path) -> HermesHome:
    return HermesHome(root, clock=lambda: NOW)


def prune(root: Path, days: float = MOST, *, use_trash: bool = True) -> None:
    home = opened(root)
    policy = Policy(everywhere=Limits(rules=Rules(max_age=days * DAY)), use_trash=use_trash)
    made = plan(policy, home.scan(NOW), NOW, command="sessions prune")
    apply(made, home, clock=lambda: NOW, progress=Silent())


def prune_some(root: Path) -> None:
    prune(root, SOME)


def prune_now(root: Path) -> None:
    prune(root, use_trash=False)


def archive(root: Path) -> None:
    home = opened(root)
    made, _ = plan_archive(
        home,
        home.archive,
        ids=sorted(OLD),
        wanted=None,
        policy=Policy(),
        now=NOW,
        command="sessions archive",
        progress=Silent(),
    )
    apply(made, home, clock=lambda: NOW, progress=Silent())


def end(root: Path) -> None:
    end_abandoned(opened(root), clock=lambda: NOW, command="maintain")


def undo_the_latest(root: Path) -> None:
    undo_latest(opened(root), clock=lambda: NOW)


def empty(root: Path) -> None:
    home = opened(root)
    made = plan_empty(home, now=NOW, command="trash empty")
    apply(made, home, clock=lambda: NOW, progress=Silent())


def elsewhere(root: Path) -> set[str]:
    """The sessions that lie in bundles of the trash, or in the archive."""
    held = {each.session.id for each in opened(root).archive.find(SessionFilter())}
    for path in root.glob(".holdfast/trash/*/sessions/[0-9]*.db"):
        folder = BundleFolder(path.parent)
        folder.check(path)
        held |= {copied.id for copied in folder.contents(path)}
    return held


def is_whole(root: Path) -> None:
    """What Hermes would open, before anybody has settled anything."""
    with database(root) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        for table in ("messages_fts", "messages_fts_trigram"):
            db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 0)")  # noqa: S608 - ours
        lost = db.execute(
            """
            SELECT count(*) FROM messages m JOIN sessions s ON s.id = m.session_id
            WHERE s.id IN (SELECT value FROM json_each(?))
              AND m.id NOT IN (SELECT id FROM messages_fts_docsize)
            """,
            (json.dumps(sorted(LIVING)),),
        ).fetchone()
        assert lost == (0,), "Hermes cannot find what stays"


def settled(root: Path, original: Seen) -> None:
    """Nothing is lost at any moment; after settling all is in one place, and undo is exact."""
    is_whole(root)
    everything = {*OLD, *LIVING}
    assert session_ids(root) >= LIVING
    assert session_ids(root) | elsewhere(root) == everything, "lost"
    home = opened(root)
    with home.log.writing("settle") as log:
        settle(log, home, clock=lambda: NOW)
    assert all(each.finished_at is not None for each in home.log.read().operations)
    check(root)
    assert not session_ids(root) & elsewhere(root), "in two places at once"
    while True:
        try:
            undo_the_latest(root)
        except CannotUndoError:
            break
    after = seen(root)
    assert after.rows == original.rows, "undo did not give everything back"
    assert after.searched == original.searched
    assert _contents(after) == _contents(original)


def finished(root: Path, original: Seen) -> None:
    """The next run comes to the same end as one that nobody killed."""
    is_whole(root)
    with database(root) as db:
        counts = dict(db.execute("SELECT session_id, count(*) FROM messages GROUP BY 1"))
    before: dict[str, int] = {}
    for row in original.rows["messages"]:
        before[row[2]] = before.get(row[2], 0) + 1
    assert counts.items() <= before.items(), "half of a session"
    prune_now(root)
    empty(root)
    assert session_ids(root) == LIVING
    assert not elsewhere(root)
    check(root)
    left = _contents(seen(root))
    kept = {"sessions.json", "notes.json"}
    assert all(name in kept or any(each in name for each in LIVING) for name in left), left


def _contents(of: Seen) -> dict[str, bytes]:
    return {name: content for name, (content, _, _) in of.files.items()}


@dataclass(frozen=True)
class Scenario:
    """What happens before, what is killed, and what must hold afterwards."""

    killed: Callable[[Path], None]
    verify: Callable[[Path, Seen], None]
    before: tuple[Callable[[Path], None], ...] = ()


SCENARIOS = {
    "prune": Scenario(prune, settled),
    "prune-some": Scenario(prune_some, settled),
    "prune-now": Scenario(prune_now, finished),
    "undo": Scenario(undo_the_latest, settled, before=(prune,)),
    "archive": Scenario(archive, settled),
    "restore": Scenario(undo_the_latest, settled, before=(archive,)),
    "empty": Scenario(empty, finished, before=(prune,)),
    "end": Scenario(end, settled),
    "reopen": Scenario(undo_the_latest, settled, before=(end,)),
}


def main(name: str, every: str) -> None:
    scenario = SCENARIOS[name]
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as made:
        template = recorded(Path(made).resolve())
        original = seen(template)
        for step in scenario.before:
            step(template)
        root = template.with_name("world")
        for kill_at in itertools.count(1, int(every)):
            shutil.copytree(template, root, symlinks=True)
            through = run_killed(scenario.killed, root, kill_at)
            tally.kills += not through
            scenario.verify(root, original)
            tally.states += 1
            if through:
                break
            shutil.rmtree(root)
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
