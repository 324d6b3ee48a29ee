"""Kill a process at every call while it takes sessions out of the store or puts them back.

`python -m tests.crash.session_harness SCENARIO`, in the manner of `harness`.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.item import SESSION
from holdfast.model.plan import Plan
from holdfast.model.session import Message, Relation, Search, Session, SessionFilter
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.services.endings import end_abandoned
from holdfast.spine.apply import apply
from holdfast.spine.trash import plan_empty
from holdfast.spine.undo import undo, undo_latest
from holdfast.stores import journal
from holdfast.stores.sqlite.bundle import BundleFolder
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.crash import harness
from tests.crash.harness import NOW, Quiet, Tally, clock, run_killed, settle_only
from tests.stored import a_dead_holder

OLD = NOW - 200 * DAY
#: Children before and after their parents, one session that stays, and the files of some.
SESSIONS = {"one": None, "two": "one", "three": None, "four": "two", "young": "one", "left": "one"}
#: Those that a prune does not take: one is young, the other has no end, and its process is gone.
STAYING = {"young", "left"}


@dataclass(frozen=True)
class Seen:
    """A home as its user sees it."""

    sessions: dict[str, tuple[Session, list[Message]]]
    found: frozenset[str]
    files: dict[str, harness.Seen]


def opened(root: Path) -> HoldfastHome:
    return HoldfastHome(root, clock=clock, idle=DAY)


def make(root: Path) -> None:
    store = SqliteSessionStore(root / "sessions.db")
    for session_id, parent in SESSIONS.items():
        when = NOW - DAY if session_id == "young" else OLD
        store.create(
            Session(
                id=session_id,
                source="cli",
                started_at=when,
                last_active_at=when,
                parent_id=parent,
                relation=Relation.BRANCH if parent else None,
                routing_key=f"key of {session_id}",
            )
        )
        told = Message(role="user", content=f"zebra {session_id} " * 99, timestamp=when, tokens=3)
        store.append(session_id, [told] * 3, now=when)
        if session_id == "left":
            store.hold(session_id, a_dead_holder(), now=when)
        else:
            store.end(session_id, "done", at=when)
    store.close()
    (root / "sessions").mkdir()
    for number, session_id in enumerate(("one", "two", "young", "orphan")):
        path = root / "sessions" / f"session_{session_id}.json"
        path.write_text(json.dumps({"session_id": session_id}))
        path.chmod((0o600, 0o640, 0o444, 0o600)[number])
        os.utime(path, ns=(int(OLD * 10**9) + number, int(OLD * 10**9) + number))


def look(root: Path) -> Seen:
    store = SqliteSessionStore(root / "sessions.db")
    try:
        hits = store.search(Search(text="zebra", wanted=SessionFilter(), limit=100))
        return Seen(
            sessions={
                session.id: (session, list(store.messages(session.id)))
                for session in store.find(SessionFilter())
            },
            found=frozenset(hit.session.id for hit in hits),
            files=harness.look(root / "sessions"),
        )
    finally:
        store.close()


def in_trash(root: Path) -> set[str]:
    """The sessions that bundles hold."""
    held = set()
    for path in root.glob("trash/*/sessions/[0-9]*.db"):
        folder = BundleFolder(path.parent)
        folder.check(path)
        held |= {copied.id for copied in folder.contents(path)}
    return held


def planned(home: HoldfastHome, *, use_trash: bool) -> Plan:
    policy = Policy(everywhere=Limits(rules=Rules(max_age=90 * DAY)), use_trash=use_trash)
    return plan(policy, home.scan(NOW), NOW, command="sessions prune")


def prune(root: Path, *, use_trash: bool = True) -> None:
    home = opened(root)
    apply(planned(home, use_trash=use_trash), home, clock=clock, progress=Quiet())
    home.create_session_store().close()


def prune_now(root: Path) -> None:
    prune(root, use_trash=False)


def end(root: Path) -> None:
    home = opened(root)
    end_abandoned(home, clock=clock, command="maintain")
    home.create_session_store().close()


def undo_the_latest(root: Path) -> None:
    home = opened(root)
    undo_latest(home, clock=clock)
    home.create_session_store().close()


def empty(root: Path) -> None:
    home = opened(root)
    apply(plan_empty(home, now=NOW, command="trash empty"), home, clock=clock)


def undo_everything(root: Path) -> None:
    home = opened(root)
    for operation in home.log.read().operations:
        assert operation.finished_at is not None, "left open"
        if operation.in_trash:
            undo(home, operation.id, clock=clock)


def after_prune(root: Path, original: Seen) -> None:
    """Everything is in its place or in the trash; after settling in exactly one of them."""
    now = look(root)
    assert now.sessions.keys() | in_trash(root) == original.sessions.keys(), "lost"
    assert now.sessions["young"][1] == original.sessions["young"][1]
    assert not now.sessions["left"][0].ended
    assert now.found == now.sessions.keys(), "search and store differ"
    settle_only(root)
    now = look(root)
    assert not now.sessions.keys() & in_trash(root), "in two places at once"
    undo_everything(root)
    assert look(root) == original, "undo did not give everything back"
    assert not list(root.glob("trash/*"))


def then_prune(root: Path, original: Seen) -> None:
    """The next run is another prune: it settles first, then finishes the work."""
    prune(root)
    now = look(root)
    assert now.sessions.keys() == STAYING
    assert now.files.keys() == {"session_young.json"}
    after_prune(root, original)


def after_prune_now(root: Path, original: Seen) -> None:
    announced = {
        removal.item.id
        for path in sorted((root / "operations").glob("*.jsonl"))
        if (record := journal.read(path, {})) is not None
        for removal in record.intended.values()
        if removal.item.kind == SESSION
    }
    settle_only(root)
    now = look(root)
    assert original.sessions.keys() - now.sessions.keys() <= announced, "gone without a record"
    for name, (_, messages) in now.sessions.items():
        assert messages == original.sessions[name][1]
    assert now.found == now.sessions.keys()
    assert not list(root.glob("trash/*"))
    prune_now(root)
    assert look(root).sessions.keys() == STAYING


def after_empty(root: Path, original: Seen) -> None:
    settle_only(root)
    assert look(root).sessions.keys() == STAYING
    empty(root)
    assert not list(root.glob("trash/*"))


def after_end(root: Path, original: Seen) -> None:
    """Ended and in the log, or not ended; undo reopens it as it was, and the next run ends it."""
    settle_only(root)
    ended = look(root).sessions["left"][0]
    logged = sum(each.ended - each.undone for each in opened(root).log.read().operations)
    assert logged == ended.ended, "ended without a way back, or logged and not ended"
    undo_everything(root)
    assert look(root) == original, "undo did not reopen it as it was"
    end(root)
    assert look(root).sessions["left"][0].end_reason == "abandoned"


@dataclass(frozen=True)
class Scenario:
    killed: Callable[[Path], None]
    verify: Callable[[Path, Seen], None]
    before: Callable[[Path], None] | None = None


SCENARIOS = {
    "prune": Scenario(prune, after_prune),
    "prune-then-prune": Scenario(prune, then_prune),
    "prune-now": Scenario(prune_now, after_prune_now),
    "undo": Scenario(undo_the_latest, after_prune, before=prune),
    "empty": Scenario(empty, after_empty, before=prune),
    "end": Scenario(end, after_end),
    "reopen": Scenario(undo_the_latest, after_end, before=end),
}


def main(name: str) -> None:
    tally = Tally()
    scenario = SCENARIOS[name]
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as scratch:
        made, root = Path(scratch) / "made", Path(scratch) / "home"
        made.mkdir()
        make(made)
        for kill_at in itertools.count(1):
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(made, root)
            original = look(root)
            if scenario.before:
                scenario.before(root)
            through = run_killed(scenario.killed, root, kill_at)
            tally.kills += not through
            scenario.verify(root, original)
            tally.states += 1
            if through:
                break
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
