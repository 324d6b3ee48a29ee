"""What takes sessions and files out of the store: by rules, and by name."""

from __future__ import annotations

from tests.model.judge import Step
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
    Checkpoint,
    File,
    Session,
    Thing,
)
from tests.model.run import DAY, SOURCES, TRIVIAL, Run, Steps


def remove(run: Run, step: Step, session: Session, place: str, *, must: bool = True) -> None:
    """A session may go, and its files with it."""
    step.move(session, place, must=must)
    for each in run.model.files_of(session):
        step.move(each, place, must=False)
        step.after[each] = session
    if place == ARCHIVE:
        return
    # What the archive has of it goes along.
    step.discards |= place == GONE
    for bundle in run.model.bundles:
        if bundle.session.id == session.id and bundle.place == ARCHIVE:
            step.move(bundle, GONE if place == GONE else BIN, must=False)
    for older in run.model.archived():
        if older.replaced and older.id == session.id:
            step.move(older, GONE if place == GONE else BIN, must=False)


def removable(session: Session) -> bool:
    return session.here and session.ended and not session.row["pinned"] and session.holder != AGENT


def with_delegates(run: Run, step: Step, place: str) -> None:
    """A trivial delegate may go with the session that sent it."""
    for each in run.model.here():
        sent = each.line["relation"] == "delegate" and each.parent in step.moves
        small = removable(each) and len(each.messages) <= TRIVIAL
        if sent and small and each not in step.moves:
            remove(run, step, each, place, must=False)


def packed(run: Run, session: Session) -> list[File]:
    return [f for f in run.model.files if f.place == ARCHIVE and f.packed_with is session]


def in_trash(run: Run) -> list[Thing]:
    return [each for each in run.model.things() if each.place.startswith((TRASH, BIN))]


def discard(run: Run, step: Step, thing: Thing, *, must: bool = True) -> None:
    """It is gone for good, and so are the files in its bundle."""
    step.move(thing, GONE, must=must)
    step.discards = True
    if isinstance(thing, Session):
        for each in packed(run, thing):
            step.move(each, GONE, must=False)


def expire(run: Run, step: Step, *, must: bool) -> None:
    """What has been in the trash for too long goes with the next prune or maintenance."""
    for each in in_trash(run):
        if each.removed_at < run.now - run.options.trash_days * DAY:
            discard(run, step, each, must=must)


def _wanted(run: Run, number: int) -> list[str]:
    return ["--source", SOURCES[number % 4]] if number % 5 == 0 else []


def prune(run: Run, a: int, b: int, c: int) -> Step | None:
    days = (1, 8, 30, 100)[a % 4]
    source = _wanted(run, b)
    scope = ("", "", "", "--files-only", "--no-files")[c % 5]
    now = ["--now"] if b % 7 == 1 else []
    place = GONE if now else TRASH
    before = run.now - days * DAY
    step = Step(faulty=run.fault is not None)
    going = [
        each
        for each in run.model.here()
        if removable(each)
        and each.last_activity < before
        and (not source or each.line["source"] == source[1])
    ]
    for each in going:
        if scope == "--files-only":
            for file in run.model.files_of(each):
                step.move(file, place)
        elif scope == "--no-files":
            step.move(each, place)
        else:
            remove(run, step, each, place)
    if scope != "--files-only":
        with_delegates(run, step, place)
    if scope != "--no-files":
        loose(run, step, before, place, must=not source)
    expire(run, step, must=False)
    flags = [flag for flag in (*source, *now, scope) if flag]
    run.command("sessions", "prune", "--older-than", f"{days}d", *flags, "--yes")
    return step


def loose(run: Run, step: Step, before: float, place: str, *, must: bool) -> None:
    """Files without a session, old enough and untouched for a day."""
    for each in run.model.loose():
        if each.touched < min(before, run.now - DAY):
            step.move(each, place, must=must)


def trivial(run: Run, session: Session) -> bool:
    idle = run.now - session.last_activity
    said = len(session.messages)
    return (said == 0 and idle > DAY) or (said <= TRIVIAL and idle > 7 * DAY)


def gc(run: Run, a: int, b: int, _: int) -> Step | None:
    source = _wanted(run, a)
    now = ["--now"] if b % 7 == 1 else []
    place = GONE if now else TRASH
    step = Step(faulty=run.fault is not None)
    going = [
        each
        for each in run.model.here()
        if removable(each)
        and trivial(run, each)
        and (not source or each.line["source"] == source[1])
    ]
    for each in going:
        remove(run, step, each, place)
    with_delegates(run, step, place)
    expire(run, step, must=False)
    run.command("sessions", "gc", *source, *now, "--yes")
    return step


def delete(run: Run, a: int, b: int, c: int) -> Step | None:
    here = [each for each in run.model.here() if each.ended or c % 4 == 0]
    if not here:
        return None
    named = {here[a % len(here)], *([here[b % len(here)]] if c % 3 == 0 else [])}
    now = ["--now"] if c % 7 == 1 else []
    place = GONE if now else TRASH
    step = Step(faulty=run.fault is not None)
    going = [each for each in named if each.ended and each.holder != AGENT]
    for each in going:
        remove(run, step, each, place)
    for each in named:
        # One that is named may go without an end, if its process is provably gone; and in a home of
        # Hermes, where nobody else can end it.
        lost = each.holder in (DEAD, RELEASED) and run.now - each.last_activity > DAY
        if not each.ended and (lost or "hermes" in each.line):
            remove(run, step, each, place, must=False)
    with_delegates(run, step, place)
    if now:
        _everywhere(run, step)
    ids = sorted(each.id for each in named)
    codes = (0,) if len(going) == len(named) else (0, 1, 2)
    run.command("sessions", "delete", *ids, *now, "--yes", codes=codes)
    return step


def _everywhere(run: Run, step: Step) -> None:
    """What is deleted for good is gone from the archive and the trash, too."""
    ids = {each.id for each in step.moves if isinstance(each, Session)}
    for each in run.model.things():
        if each.place in (STORE, SESSIONS, GONE) or isinstance(each, Checkpoint):
            continue
        if (each.session if isinstance(each, File) else each.id) in ids:
            step.move(each, GONE, must=False)


STEPS: Steps = {
    "prune": (5, prune),
    "gc": (3, gc),
    "delete": (6, delete),
}
