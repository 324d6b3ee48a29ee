"""Compares what a user finds with what the model says, and lets the model follow.

A step says which things may move, and where to; which must; and how sessions change. Everything
else must be where and as it was. A step that met a fault may have done any part of its work.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.model.kept import (
    ARCHIVE,
    BIN,
    GONE,
    SESSIONS,
    STORE,
    TRASH,
    Bundle,
    Checkpoint,
    Edit,
    File,
    Model,
    Session,
    Thing,
)
from tests.model.look import Seen, SeenFile, SeenSession

One = TypeVar("One", Session, Checkpoint, File, Bundle)
#: The value of a changed field that the model cannot foresee.
ANY = object()
#: Not seen by looking: inside a bundle, or nowhere.
_OUT_OF_SIGHT = (GONE, ARCHIVE)


@dataclass(slots=True)
class Step:
    """What one step may do. `changes` are alternatives of changed fields for a session, of which
    None is "none at all"; `grown` the beginnings of names of files that may appear or grow; `after`
    says with which session a file goes."""

    moves: dict[Thing, set[str]] = field(default_factory=dict)
    must: set[Thing] = field(default_factory=set)
    changes: dict[Session, list[dict[str, Any] | None]] = field(default_factory=dict)
    grown: list[str] = field(default_factory=list)
    after: dict[File, Session] = field(default_factory=dict)
    adopt: Callable[[SeenSession], Session | None] = lambda _: None
    adopt_checkpoint: Callable[[str], Checkpoint | None] = lambda _: None
    #: Whether what leaves the archive here is discarded, and not unpacked.
    discards: bool = False
    faulty: bool = False
    #: The edit that becomes an operation here, and the one that is undone, or done again.
    edit: Edit | None = None
    undoes: Edit | None = None
    redoes: Edit | None = None

    def move(self, thing: Thing, *places: str, must: bool = True) -> None:
        self.moves.setdefault(thing, set()).update(places)
        if must:
            self.must.add(thing)


def judge(model: Model, step: Step, seen: Seen, now: float) -> None:
    before = {each: each.place for each in model.things()}
    fresh = sorted(seen.operations.keys() - model.operations, key=int)
    _sessions(model, step, seen, fresh)
    _files(model, step, seen, fresh)
    _checkpoints(model, step, seen, fresh)
    _bundles(model, step, seen, fresh)
    _followed(step, before)
    _packed(model, step, before)
    for thing, place in before.items():
        if thing.place != place:
            thing.removed_at = now
            if isinstance(thing, Session | Bundle):
                _moved_by(thing, place, fresh[-1] if fresh else "")
    _lineage(model, seen)
    _log(model, seen)
    _edits(model, step, seen, fresh)
    model.operations = set(seen.operations)


def _moved_by(thing: Session | Bundle, was: str, operation: str) -> None:
    """What an undo puts back into the archive can be undone again as what archived it, and not as
    that undo."""
    if thing.place == ARCHIVE and was.startswith(BIN):
        thing.operation = thing.archived_by
        return
    thing.operation = operation
    if thing.place == ARCHIVE:
        thing.archived_by = operation


def _sessions(model: Model, step: Step, seen: Seen, fresh: Sequence[str]) -> None:
    kept = _grouped(model.sessions, step, lambda each: each.id)
    for name in sorted(kept.keys() | seen.places.keys()):
        found, mine = seen.places.get(name, Counter()), kept.get(name, [])
        for chosen in _assignments(mine, step, found, fresh, ()):
            if _contents_fit(mine, chosen, step, seen):
                _settle(mine, chosen, step, seen, fresh)
                break
        else:
            adopted = step.adopt(seen.store[name]) if name in seen.store and not mine else None
            assert adopted is not None, _misplaced(name, mine, found, step, seen)
            model.sessions.append(adopted)


def _grouped(things: Iterable[One], step: Step, name: Callable[[One], str]) -> dict[str, list[One]]:
    grouped: dict[str, list[One]] = {}
    for each in things:
        if each.place != GONE or each in step.moves:
            grouped.setdefault(name(each), []).append(each)
    return grouped


def _assignments(
    mine: Sequence[Thing],
    step: Step,
    found: Counter[str],
    fresh: Sequence[str],
    unseen: tuple[str, ...],
) -> Iterable[tuple[str, ...]]:
    """Every way to have the things in allowed places so that just what was found is found."""
    for chosen in itertools.product(*(_options(each, step, fresh) for each in mine)):
        places = Counter(place for place in chosen if place not in (GONE, *unseen))
        if places == found:
            yield chosen


def _options(thing: Thing, step: Step, fresh: Sequence[str]) -> list[str]:
    allowed = step.moves.get(thing, set())
    options = [place for place in (STORE, SESSIONS, ARCHIVE, GONE) if place in allowed]
    for kind in (TRASH, BIN):
        if kind in allowed:
            options += [kind + operation for operation in fresh]
    if thing not in step.must or step.faulty:
        options.append(thing.place)
    return options


def _contents_fit(mine: Sequence[Session], chosen: Sequence[str], step: Step, seen: Seen) -> bool:
    return all(
        _change_that_fits(session, step, seen) is not None
        for session, place in zip(mine, chosen, strict=True)
        if place == STORE
    )


def _change_that_fits(session: Session, step: Step, seen: Seen) -> dict[str, Any] | None:
    """Which of the allowed changes makes the session what was seen."""
    found = seen.store[session.id]
    alternatives = step.changes.get(session, [None])
    if step.faulty and None not in alternatives:
        alternatives = [*alternatives, None]
    for change in alternatives:
        line, row = _changed(session, change or {}, found)
        if (line, row) == (found.line, found.row):
            return change or {}
    return None


def _changed(
    session: Session, change: dict[str, Any], found: SeenSession
) -> tuple[dict[str, Any], dict[str, Any]]:
    line, row = dict(session.line), dict(session.row)
    if "hermes" in line:  # there a relation is known while the parent is there
        line["relation"] = found.line["relation"]
    for name, value in change.items():
        if name in ("holder", "key", "ended_by", "reopened_at"):
            continue
        target, source = (row, found.row) if name in row else (line, found.line)
        target[name] = source.get(name) if value is ANY else value
    return line, row


def _settle(
    mine: Sequence[Session], chosen: Sequence[str], step: Step, seen: Seen, fresh: Sequence[str]
) -> None:
    for session, place in zip(mine, chosen, strict=True):
        session.place = place
        if place == STORE:
            change = _change_that_fits(session, step, seen) or {}
            session.holder = change.get("holder", session.holder)
            session.reopened_at = change.get("reopened_at", session.reopened_at)
            if "key" in change and not (step.faulty and seen.store[session.id].key == session.key):
                session.key = change["key"]
            if "ended_by" in change:
                session.ended_by = tuple(fresh)
            elif session.line["ended_at"] != seen.store[session.id].line["ended_at"]:
                session.ended_by = ()  # it is open again, or has another end
            session.line, session.row = seen.store[session.id].line, seen.store[session.id].row


def _misplaced(
    name: str, mine: Sequence[Session], found: Counter[str], step: Step, seen: Seen
) -> str:
    lines = [f"session {name} is found in {dict(found) or 'no place'}"]
    for each in mine:
        allowed = step.moves.get(each, set())
        how = "must" if each in step.must else "may"
        lines.append(f"  it was in {each.place}, and {how} go to {allowed or 'no other place'}")
        if name in seen.store:
            lines += differences(each, step.changes.get(each, [None])[0] or {}, seen.store[name])
    return "\n".join(lines if mine else [*lines, "  and nobody made it"])


def differences(session: Session, change: dict[str, Any], found: SeenSession) -> list[str]:
    line, row = _changed(session, change, found)
    return [
        f"  its {name} is {there.get(name)!r}, and should be {here.get(name)!r}"
        for here, there in ((line, found.line), (row, found.row))
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]


def _files(model: Model, step: Step, seen: Seen, fresh: Sequence[str]) -> None:
    kept = _grouped(model.files, step, lambda each: each.name)
    for name in sorted(kept.keys() | seen.files.keys() | seen.trash.keys()):
        found, mine = Counter(seen.trash.get(name, Counter())), kept.get(name, [])
        found.update([SESSIONS] if name in seen.files else [])
        may_grow = any(name.startswith(start) for start in step.grown)
        for chosen in _assignments(mine, step, found, fresh, _OUT_OF_SIGHT):
            if _bytes_fit(mine, chosen, seen.files.get(name), may_grow=may_grow):
                for each, place in zip(mine, chosen, strict=True):
                    each.place = place
                    if place == SESSIONS:
                        each.content, each.touched = seen.files[name]
                break
        else:
            new = may_grow and name in seen.files and SESSIONS not in [e.place for e in mine]
            assert new, _lost_file(name, mine, found, step, seen)
            owner = max((s.id for s in model.sessions if s.id in name), key=len)
            content, touched = seen.files[name]
            made = File(name=name, session=owner, content=content, touched=touched)
            model.files.append(made)


def _bytes_fit(
    mine: Sequence[File], chosen: Sequence[str], found: SeenFile | None, *, may_grow: bool
) -> bool:
    """What was written is as it was, with its time; what is being written has only grown."""
    return all(
        found is not None
        and (
            (each.content, each.touched) == found
            or (may_grow and found.content.startswith(each.content))
        )
        for each, place in zip(mine, chosen, strict=True)
        if place == SESSIONS
    )


def _lost_file(name: str, mine: Sequence[File], found: Counter[str], step: Step, seen: Seen) -> str:
    lines = [f"file {name} is found in {dict(found) or 'no place'}"]
    for each in mine:
        lines.append(f"  it was in {each.place} and may go to {step.moves.get(each, 'no place')}")
        if name in seen.files:
            lines.append(f"  it had {each.content!r}, {each.touched}; it has {seen.files[name]}")
    return "\n".join(lines)


def _checkpoints(model: Model, step: Step, seen: Seen, fresh: Sequence[str]) -> None:
    kept = _grouped(model.checkpoints, step, lambda each: each.id)
    for name in sorted(kept.keys() | seen.checkpoints.keys()):
        found, mine = seen.checkpoints.get(name, Counter()), kept.get(name, [])
        for chosen in _assignments(mine, step, found, fresh, ()):
            for each, place in zip(mine, chosen, strict=True):
                each.place = place
            break
        else:
            adopted = step.adopt_checkpoint(name) if not mine and found[STORE] else None
            was = [f"{each} may go to {step.moves.get(each, 'no place')}" for each in mine]
            assert adopted is not None, f"checkpoint {name} is found in {dict(found)}; {was}"
            model.checkpoints.append(adopted)


def _bundles(model: Model, step: Step, seen: Seen, fresh: Sequence[str]) -> None:
    kept = _grouped(model.bundles, step, lambda each: each.id)
    for name in sorted(kept.keys() | seen.bundles.keys()):
        found, mine = seen.bundles.get(name, Counter()), kept.get(name, [])
        chosen = next(iter(_assignments(mine, step, found, fresh, ())), None)
        was = [f"{each} may go to {step.moves.get(each, 'no place')}" for each in mine]
        assert chosen is not None, f"files of {name} are archived in {dict(found)}; {was}"
        for each, place in zip(mine, chosen, strict=True):
            each.place = place


def _packed(model: Model, step: Step, before: dict[Thing, str]) -> None:
    """A file is in the archive with its bundle, and comes out of it when that is unpacked."""
    for bundle in model.bundles:
        out = bundle.place == GONE and before.get(bundle, GONE) != GONE
        for each in bundle.files:
            if out and each.place == ARCHIVE:
                assert step.discards, f"{each} was in {bundle}, which is not there any more"
                each.place = GONE
    inside = {each for bundle in model.bundles if bundle.place != GONE for each in bundle.files}
    for each in model.files:
        # What is in a bundle is out of sight: while the bundle is there, so is the file.
        packed_with = each.packed_with
        kept = each in inside or (packed_with is not None and packed_with.place != GONE)
        if before.get(each) == ARCHIVE and each.place == GONE and kept:
            each.place = ARCHIVE
    for each in model.files:
        loose = each.place == ARCHIVE and each.packed_with is None and each not in inside
        assert not loose, f"{each} left its place, and is in no bundle"


def _followed(step: Step, before: dict[Thing, str]) -> None:
    """A file goes only if its session does; and without a fault it does go then."""
    for each, session in step.after.items():
        gone, session_gone = (before[x] != x.place for x in (each, session))
        assert session_gone or not gone, f"{each} went, and its session {session} did not"
        assert gone or not session_gone or step.faulty, f"{each} stayed, {session} went"
        if gone and each.place == ARCHIVE:
            each.packed_with = session


def _lineage(model: Model, seen: Seen) -> None:
    """Whoever has a parent in the store says so; routing keys lead where they should."""
    here = {each.id: each for each in model.here()}
    for each in here.values():
        shown, parent = seen.store[each.id].parent_id, each.parent
        if parent is None or parent.id not in here:
            assert shown is None, f"{each} shows a parent that is not its own: {shown}"
        elif here[parent.id] is parent:
            assert shown == parent.id, f"{each} has lost its parent {parent}: it shows {shown}"
        else:
            assert shown in (None, parent.id), f"{each} has another parent: {shown}"
        _key(each, seen.store[each.id].key, here.values())


def _key(session: Session, shown: str | None, here: Iterable[Session]) -> None:
    taken = any(each.key == session.key and each is not session for each in here)
    if session.key is not None and shown is None and taken:
        session.key = None  # another took the key meanwhile
    assert shown == session.key, f"{session} has the key {shown!r}, and should have {session.key!r}"


def _log(model: Model, seen: Seen) -> None:
    """What lies in the trash of an operation can be undone, and the log says so."""
    places = [each.place for each in model.things()]
    waiting = Counter(place for place in places if place.startswith((TRASH, BIN)))
    for place, count in waiting.items():
        operation = seen.operations[place.rpartition(" ")[2]]
        told = operation["can_bring_back"]
        assert told >= count, f"{count} things are in {place}, the log can bring back {told}"


def _edits(model: Model, step: Step, seen: Seen, fresh: Sequence[str]) -> None:
    """A value that changed is one operation, and one that was so already is none."""
    if step.undoes is not None:
        step.undoes.undone |= not step.faulty
        step.undoes.sure &= not step.faulty
    if step.redoes is not None:
        step.redoes.sure &= not step.faulty
    edit = step.edit
    if edit is None:
        return
    wanted = int(edit.before != edit.after)
    assert step.faulty or len(fresh) == wanted, f"{edit} is operations {fresh}"
    found = seen.store[edit.session]
    if fresh and edit.value(found.line, found.row) == edit.after != edit.before:
        model.edits[fresh[0]] = edit
        if step.redoes is not None:  # it belongs to the later operation now
            model.edits = {n: each for n, each in model.edits.items() if each is not step.redoes}
