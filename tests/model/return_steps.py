"""What packs away, brings back and discards: archive, restore, export, import, undo, trash."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from typing import Any

from holdfast.model.item import ARCHIVED_KINDS, SESSION
from tests.model.judge import ANY, Step
from tests.model.kept import (
    AGENT,
    ARCHIVE,
    BIN,
    DEAD,
    GONE,
    RELEASED,
    SESSIONS,
    STORE,
    TRASH,
    Bundle,
    Checkpoint,
    Edit,
    File,
    Session,
)
from tests.model.removal_steps import (
    discard,
    expire,
    in_trash,
    loose,
    packed,
    removable,
    remove,
    trivial,
    with_delegates,
)
from tests.model.run import DAY, Run, Steps, pick, totals


def archive(run: Run, a: int, b: int, _: int) -> Step | None:
    """By name, or what is old enough."""
    step = Step(faulty=run.fault is not None)
    if b % 2:
        session = pick([each for each in run.model.here() if each.ended or b % 4 == 1], a)
        if session is None:
            return None
        going = [session] if session.ended and session.holder != AGENT else []
        flags, codes = [session.id], (0,) if going else (0, 1, 2)
    else:
        days = (1, 8, 30, 100)[a % 4]
        before = run.now - days * DAY
        here = run.model.here()
        going = [each for each in here if removable(each) and each.last_activity < before]
        flags, codes = ["--older-than", f"{days}d"], (0,)
    for each in going:
        remove(run, step, each, ARCHIVE)
    run.command("sessions", "archive", *flags, "--yes", codes=codes)
    return step


def restore(run: Run, a: int, b: int, _: int) -> Step | None:
    archived = run.model.archived()
    away = [each.id for each in run.model.bundles if each.place == ARCHIVE]
    name = pick([*(each.id for each in archived), *away], a)
    if name is None:
        return None
    step = Step(faulty=run.fault is not None)
    ids = {each.id for each in archived} if b % 4 == 0 else {name}
    for wanted in ids & {each.id for each in archived}:
        bring(run, step, [each for each in archived if each.id == wanted])
    for bundle in run.model.bundles:
        if bundle.place == ARCHIVE and (b % 4 == 0 or bundle.id in ids):
            unpack(step, bundle)
    flags = ["--all"] if b % 4 == 0 else [name]
    run.command("sessions", "restore", *flags, codes=(0, 1, 2))
    return step


def bring(run: Run, step: Step, archived: Sequence[Session]) -> None:
    """Bundles of one id: one of them comes back, unless a session with that id is there."""
    if run.model.stored(archived[0].id) is not None:
        return
    for session in archived:
        step.move(session, STORE, must=len(archived) == 1)
        for each in packed(run, session):
            step.move(each, SESSIONS, must=False)


def unpack(step: Step, bundle: Bundle) -> None:
    """What a reset put away may come back, all of it or nothing."""
    step.move(bundle, GONE, must=False)
    for each in bundle.files:
        if each.place == ARCHIVE:
            step.move(each, SESSIONS, must=False)


def prune_archive(run: Run, a: int, b: int, _: int) -> Step | None:
    days = (1, 8, 30)[a % 3]
    now = ["--now"] if b % 3 == 0 else []
    step = Step(faulty=run.fault is not None, discards=bool(now))
    for bundle in run.model.bundles:
        if bundle.place == ARCHIVE and bundle.removed_at < run.now - days * DAY:
            step.move(bundle, GONE if now else BIN, must=False)
    for session in run.model.archived():
        if session.removed_at < run.now - days * DAY:
            step.move(session, GONE if now else BIN, must=False)
            for each in packed(run, session):
                if now:
                    step.move(each, GONE, must=False)
    run.command("sessions", "prune", "--archived", "--older-than", f"{days}d", *now, "--yes")
    return step


def export(run: Run, a: int, b: int, _: int) -> Step | None:
    here = run.model.here()
    if not here:
        return None
    path = run.world.root / f"export-{len(run.model.exports)}.jsonl"
    chosen = {pick(here, a), pick(here, b)}
    ids = sorted(each.id for each in chosen if each is not None)
    said = run.command("sessions", "export", *ids, "--output", str(path))
    if said.code != 0 and not path.exists():
        return Step(faulty=True)
    # It has its name as soon as it is whole: only a kill may come after that.
    assert said.code in (0, -signal.SIGKILL), "an export that failed left a file"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["id"] for line in lines) == ids, "an export lacks a session"
    run.model.exports.append(lines)
    return Step(faulty=said.code != 0)


def bring_in(run: Run, a: int, b: int, _: int) -> Step | None:
    """Import what was exported before, over what is there or beside it."""
    if not run.model.exports:
        return None
    number = a % len(run.model.exports)
    replace = b % 2 == 0
    step = Step(faulty=run.fault is not None)
    made: dict[str, Session] = {}
    for line in run.model.exports[number]:
        old = run.model.stored(line["id"])
        if old is not None and (not replace or old.holder in (AGENT, DEAD)):
            continue
        # An old one is refused while anybody who ever held it did not give it back.
        must = old is None
        if old is not None:
            # The copy that was replaced is kept; its files stay with the id.
            step.move(old, ARCHIVE, TRASH, must=must)
            old.replaced = True
        made[line["id"]] = _imported(run, line, made)
        step.move(made[line["id"]], STORE, must=must)
    path = run.world.root / f"export-{number}.jsonl"
    flags = ["--replace"] if replace else []
    run.command("sessions", "import", *flags, str(path), codes=(0, 1))
    return step


def _imported(run: Run, line: dict[str, Any], made: dict[str, Session]) -> Session:
    kept = {name: value for name, value in line.items() if name not in _ASIDE}
    session = Session(
        id=line["id"],
        line=kept,
        row=totals(kept["messages"]) | {"pinned": line.get("pinned", False)},
        place=GONE,
    )
    parent = line["parent_id"]
    if parent is not None:
        known = [each for each in run.model.sessions if each.id == parent]
        session.parent = made.get(parent) or run.model.stored(parent) or pick(known, -1)
    key = line.get("routing_key")
    taken = any(each.key == key for each in run.model.here() if each.id != session.id)
    session.key = None if key is None or taken else key
    run.model.sessions.append(session)
    return session


_ASIDE = ("parent_id", "routing_key", "pinned")


def undo(run: Run, a: int, _b: int, _c: int) -> Step | None:
    """Any operation that left something behind, not only the latest; now and then another."""
    taken = {_operation(t.place) for t in in_trash(run)}
    edits = {number for number, each in run.model.edits.items() if not each.undone}
    waiting = sorted(taken | _archivings(run) | edits, key=int)
    known = sorted(run.model.operations, key=int)
    operation = pick(waiting, a // 5) if a % 5 and waiting else pick(known, a)
    if operation is None or operation in run.model.rollbacks:
        return None
    step = Step(faulty=run.fault is not None)
    come = _bring_back(run, step, operation) or _take_back(run, step, operation)
    partly = come and len(step.must) < len(step.moves)
    run.command(
        "undo", operation, "--yes", codes=(0, 1) if partly else (0,) if come else (0, 1, 2, 5)
    )
    return step


def _take_back(run: Run, step: Step, operation: str) -> bool:
    """The value that a command changed is what it was before, unless it was changed again since.
    Whether it must be."""
    edit = run.model.edits.get(operation)
    session = None if edit is None else run.model.stored(edit.session)
    if edit is None or session is None or edit.undone:
        return False
    if edit.value(session.line, session.row) not in (edit.before, edit.after):
        return False
    step.undoes = edit
    step.changes[session] = [{edit.field: edit.before}, *([] if edit.sure else [None])]
    return edit.sure


def _change_again(run: Run, step: Step, item: dict[str, Any]) -> None:
    """A redo writes only over the value that the undo left."""
    name, field = item["id"], _REDONE[item["action"]]
    before, after = json.loads(item["version"]), json.loads(item["target"])
    fitting = [
        each
        for each in run.model.edits.values()
        if (each.session, each.field, each.before, each.after) == (name, field, before, after)
        and (each.undone or not each.sure)
    ]
    assert fitting, f"nobody undid what a redo is to do again: {item}"
    step.redoes = fitting[-1]
    session = run.model.stored(name)
    if session is not None and step.redoes.value(session.line, session.row) == before:
        step.changes[session] = [{field: after}]
        step.edit = Edit(session=name, field=field, before=before, after=after)


#: What a redo does to an item, and which value that changes.
_REDONE = {"remove": "", "reclaim": "", "end": "", "rename": "title", "pin": "pinned"}


def redo(run: Run, _a: int, _b: int, _c: int) -> Step | None:
    """What was undone last goes again, unless it changed since: what the plan names, and no more.
    Archiving and restoring files again are left to other tests."""
    said = run.world.holdfast("--json", "redo", "--dry-run")
    items = json.loads(said.out)["plan"]["items"] if said.code == 0 else []
    if not items or any(each["action"] not in _REDONE for each in items):
        return None
    step = Step(faulty=run.fault is not None)
    for each in items:
        _goes_again(run, step, each)
    run.command("redo", "--yes", codes=(0, 1))
    return step


def _goes_again(run: Run, step: Step, item: dict[str, Any]) -> None:
    model, name = run.model, item["id"]
    if _REDONE[item["action"]]:
        _change_again(run, step, item)
        return
    if item["action"] == "end":
        reason = item["target"] or "abandoned"  # somebody's own word for it, if there was one
        ended = {"ended_at": ANY, "end_reason": reason, "ended_by": ANY}
        for session in model.here():
            if session.id == name:
                step.changes[session] = [ended, None]
        return
    kind = item["kind"]
    for thing in model.things():
        match thing:
            case Session(place=place, id=found) if (place, kind, found) == (STORE, SESSION, name):
                step.move(thing, TRASH, must=False)
            case File(place=place, name=file) if (place, f"sessions/{file}") == (SESSIONS, name):
                step.move(thing, TRASH, must=False)
            case Checkpoint(place=place, id=found) if (place, found) == (STORE, name):
                step.move(thing, TRASH, must=False)
            case Session(place=place, id=found) | Bundle(place=place, id=found) if (
                place == ARCHIVE and kind in ARCHIVED_KINDS and found == item["session"]
            ):
                step.move(thing, BIN, must=False)


def _operation(place: str) -> str:
    return place.rpartition(" ")[2]


def _archivings(run: Run) -> set[str]:
    away = {each.operation for each in run.model.bundles if each.place == ARCHIVE}
    ended = {operation for each in run.model.here() for operation in each.ended_by}
    return (away | ended | {each.operation for each in run.model.archived()}) - {""}


def _bring_back(run: Run, step: Step, operation: str) -> bool:
    """Everything that the operation took comes back, where its place is free. Whether something
    must."""
    here = {each.id for each in run.model.here()}
    names = {each.name for each in run.model.files if each.place == SESSIONS}
    mine = [each for each in run.model.sessions if _taken_by(each, operation)]
    blocked = any(each.id in here for each in mine)
    for session in mine:
        step.move(session, STORE, must=session.id not in here)
        twin = run.model.stored(session.id)
        if session.place == ARCHIVE and twin is not None and _is_same(session, twin):
            step.move(session, GONE, must=False)  # what it holds is in the store already
        for each in packed(run, session):
            step.move(each, SESSIONS, must=False)
    for bundle in run.model.bundles:
        if bundle.place == ARCHIVE and bundle.operation == operation:
            unpack(step, bundle)
    for thing in run.model.things():
        if thing.place == BIN + operation:
            step.move(thing, ARCHIVE)
        elif thing.place == TRASH + operation and isinstance(thing, Checkpoint):
            step.move(thing, STORE)
        elif thing.place == TRASH + operation and isinstance(thing, File):
            step.move(thing, SESSIONS, must=thing.name not in names and not blocked)
    _reopen(run, step, operation)
    return bool(step.must)


def _is_same(one: Session, other: Session) -> bool:
    return (one.line, one.row) == (other.line, other.row)


def _reopen(run: Run, step: Step, operation: str) -> None:
    """What the operation ended as abandoned may go on."""
    for session in run.model.here():
        if operation in session.ended_by:
            opened = {"ended_at": None, "end_reason": None}
            only = session.ended_by == (operation,)
            step.changes[session] = [opened] if only else [opened, None]


def _taken_by(session: Session, operation: str) -> bool:
    archived = session.place == ARCHIVE and session.operation == operation
    return archived or session.place == TRASH + operation


def empty(run: Run, a: int, b: int, _: int) -> Step | None:
    """All of the trash, that of one operation, or what is old."""
    things = in_trash(run)
    step = Step(faulty=run.fault is not None)
    flags: list[str] = []
    if b % 3 == 0 and things:
        operation = _operation(things[a % len(things)].place)
        flags = [operation]
        things = [each for each in things if _operation(each.place) == operation]
    elif b % 3 == 1:
        flags = ["--older-than", "2d"]
        things = [each for each in things if each.removed_at < run.now - 2 * DAY]
    for each in things:
        discard(run, step, each)
    run.command("trash", "empty", *flags, "--yes")
    return step


def maintain(run: Run, _a: int, _b: int, _c: int) -> Step | None:
    step = Step(faulty=run.fault is not None)
    expire(run, step, must=True)
    _abandoned(run, step)
    here = [each for each in run.model.here() if removable(each)]
    for each in here:
        old = run.options.auto_prune and each.last_activity < run.now - 90 * DAY
        if old or (run.options.auto_gc and trivial(run, each)):
            remove(run, step, each, TRASH)
    with_delegates(run, step, TRASH)
    if run.options.auto_prune:
        loose(run, step, run.now - 90 * DAY, TRASH, must=True)
    for checkpoint in run.model.checkpoints:
        if checkpoint.place == STORE:
            step.move(checkpoint, TRASH, must=False)
    run.command("maintain", "--force")
    return step


def abandoned(run: Run, _a: int, _b: int, _c: int) -> Step | None:
    """The agent itself ends what others left behind."""
    step = Step()
    _abandoned(run, step)
    answer = run.ask("end_abandoned")
    step.faulty = run.fault is not None and not isinstance(answer, list)
    return step


def _abandoned(run: Run, step: Step) -> None:
    """Ended when the holder is provably gone and it was idle for a day; never removed with it."""
    for each in run.model.here():
        idle = run.now - each.last_activity > DAY
        if not each.ended and idle and each.holder in (DEAD, RELEASED):
            ended = {"ended_at": ANY, "end_reason": "abandoned", "ended_by": ANY}
            step.changes[each] = [ended] if each.holder == DEAD else [ended, None]


STEPS: Steps = {
    "archive": (4, archive),
    "restore": (6, restore),
    "prune_archive": (1, prune_archive),
    "export": (2, export),
    "bring_in": (2, bring_in),
    "undo": (12, undo),
    "redo": (12, redo),
    "empty": (1, empty),
    "maintain": (3, maintain),
    "abandoned": (1, abandoned),
}
