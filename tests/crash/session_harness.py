"""Kill a process at every call while it takes a session out of the store or puts it back.

`python -m tests.crash.session_harness remove|undo`, in the manner of `harness`.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.session_keeper import as_item
from holdfast.model.session import Message, Session, SessionFilter
from holdfast.policy.retention import plan_all
from holdfast.policy.rules import DAY
from holdfast.services.apply import apply
from holdfast.services.undo import undo
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.crash.harness import NOW, Tally, clock, run_killed, settle_only

Seen = dict[str, tuple[Session, list[Message]]]


def opened(root: Path) -> HoldfastHome:
    return HoldfastHome(root, clock=clock, idle=DAY)


def make(root: Path) -> None:
    store = SqliteSessionStore(root / "sessions.db")
    for session_id in ("one", "two"):
        store.create(Session(id=session_id, source="cli", started_at=NOW, last_active_at=NOW))
        store.append(session_id, [Message(role="user", content="x" * 999)] * 3, now=NOW)
        store.end(session_id, "done", at=NOW)
    store.close()


def look(root: Path) -> Seen:
    store = SqliteSessionStore(root / "sessions.db")
    seen = {
        session.id: (session, [replace(each, number=None) for each in store.messages(session.id)])
        for session in store.find(SessionFilter())
    }
    store.close()
    return seen


def remove(root: Path) -> None:
    home = opened(root)
    store = home.create_session_store()
    items = [as_item(session) for session in store.find(SessionFilter())]
    plan = plan_all(items, str(root), NOW, command="delete", reason="x", undoable=True)
    apply(plan, home, clock=clock)
    store.close()


def undo_latest(root: Path) -> None:
    home = opened(root)
    undo(home, None, clock=clock)
    home.create_session_store().close()


def verify(root: Path, original: Seen) -> None:
    """Everything is in the store or in the trash; after settling in exactly one of them."""
    in_trash = {path.name.partition("-")[2] for path in root.glob("trash/*/[0-9]*")}
    for name, (session, messages) in look(root).items():
        assert (session, messages) == original[name]
    assert look(root).keys() | in_trash == original.keys(), "lost"
    settle_only(root)
    in_trash = {path.name.partition("-")[2] for path in root.glob("trash/*/[0-9]*")}
    assert not look(root).keys() & in_trash, "in two places at once"
    home = opened(root)
    for operation in home.log.read().operations:
        assert operation.finished_at is not None
        if operation.in_trash:
            undo(home, operation.id, clock=clock)
    assert look(root) == original, "undo did not give everything back"


def main(what: str) -> None:
    tally = Tally()
    action = remove if what == "remove" else undo_latest
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as scratch:
        root = Path(scratch) / "home"
        for kill_at in itertools.count(1):
            shutil.rmtree(root, ignore_errors=True)
            make(root)
            original = look(root)
            if what == "undo":
                remove(root)
            through = run_killed(action, root, kill_at)
            tally.kills += not through
            verify(root, original)
            tally.states += 1
            if through:
                break
    sys.stdout.write(json.dumps({"kills": tally.kills, "states": tally.states}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
