"""The last look: in a copy of the home, everything that was not discarded comes back, as it was.

Every operation that left something in the trash is undone, in any order, and everything archived
is restored. Where two things want one place, those that are there are noted and go, and the others
get their turn. In the end nothing but what the model calls gone is missing; and when all of it is
discarded, nothing is left on the disk.
"""

from __future__ import annotations

import hashlib
import random
import stat

from tests.model.judge import differences
from tests.model.kept import GONE, STORE, Checkpoint, Session
from tests.model.look import Seen, look
from tests.model.run import Run
from tests.model.world import World

_ROUNDS = 6
#: What may be in the archive when nothing is archived.
_STATE = ("catalogue.jsonl", "lock", ".lock")


def account(run: Run, chance: random.Random) -> None:
    run.world.close_agent()
    copy = run.world.copied()
    try:
        _everything_comes_back(run, copy, chance)
        _nothing_is_left(copy)
    finally:
        copy.remove()


def _everything_comes_back(run: Run, copy: World, chance: random.Random) -> None:
    sessions = [each for each in run.model.sessions if each.place != GONE]
    files = [each for each in run.model.files if each.place != GONE]
    checkpoints = [each for each in run.model.checkpoints if each.place != GONE]
    noted: set[str] = set()
    for turn in range(_ROUNDS):
        _bring_all_back(copy, chance, noted)
        seen = look(copy)
        if turn == 0:
            _check_lineage(run, seen, sessions)
        sessions = [each for each in sessions if not _is_back(each, seen)]
        files = [e for e in files if seen.files.get(e.name) != (e.content, e.touched)]
        checkpoints = [each for each in checkpoints if not _is_whole(each, copy, seen)]
        if not (sessions or files or checkpoints):
            return
        noted |= _make_room(copy, seen)
    lost = ", ".join(map(str, (*sessions, *files, *checkpoints)))
    raise AssertionError(f"lost, neither restore nor undo brings it back: {lost}")


def _bring_all_back(copy: World, chance: random.Random, noted: set[str]) -> None:
    waiting = {each["operation"] for each in _trash(copy)} - noted
    for operation in chance.sample(sorted(waiting), len(waiting)):
        copy.holdfast("undo", operation, "--yes")
    copy.holdfast("sessions", "restore", "--all")


def _trash(copy: World) -> list[dict[str, str]]:
    found: list[dict[str, str]] = copy.holdfast("trash", "list").document["trash"]
    return found


def _is_back(session: Session, seen: Seen) -> bool:
    found = seen.store.get(session.id)
    return found is not None and not differences(session, {}, found)


def _check_lineage(run: Run, seen: Seen, sessions: list[Session]) -> None:
    """All together again, so everyone has its parent: unless two want to be it."""
    ids = [each.id for each in sessions]
    for each in sessions:
        parent = each.parent
        if parent is None or parent.place == GONE or each.id not in seen.store:
            continue
        if ids.count(parent.id) == ids.count(each.id) == 1 and parent.id in seen.store:
            shown = seen.store[each.id].parent_id
            assert shown == parent.id, f"{each} came back without its parent {parent}: {shown}"


def _is_whole(checkpoint: Checkpoint, copy: World, seen: Seen) -> bool:
    """Every file of the tree is in it with its mode and content, and no other."""
    if checkpoint.id not in seen.checkpoints or not seen.checkpoints[checkpoint.id][STORE]:
        return False
    shown = copy.holdfast("checkpoints", "show", checkpoint.id).document["captured"]
    wanted = {
        name: (f"{mode:o}", _git_id(content))
        for name, (mode, content) in checkpoint.tree.items()
        if not stat.S_ISDIR(mode)
    }
    found = {each["path"]: (each["mode"], each["oid"]) for each in shown if each["oid"]}
    assert found == wanted, f"{checkpoint} has {found}, and should have {wanted}"
    return True


def _git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's


def _make_room(copy: World, seen: Seen) -> set[str]:
    """What is back and noted makes room for what wants the same place. It goes to the trash:
    `--now` would take an archived session of the same id along. Returns the operation."""
    done: set[str] = set()
    for name, found in seen.store.items():
        if found.line["ended_at"] is None:
            copy.holdfast("sessions", "end", name)
    if seen.store:
        said = copy.holdfast("sessions", "delete", *seen.store, "--yes")
        hermes = any("hermes" in each.line for each in seen.store.values())  # may be open, and stay
        report = said.document["report"]
        if report is not None:
            done |= {str(report["operation"])}
        else:  # a chat of Hermes may use all that is there; what has ended goes
            ended = [n for n, each in seen.store.items() if each.line["ended_at"] is not None]
            assert not ended, f"sessions that have ended were not deleted: {ended}"
        assert said.code == 0 or hermes, f"sessions that have ended were not deleted: {said.err}"
    for path in copy.files.glob("*"):
        path.unlink()
    return done


def _nothing_is_left(copy: World) -> None:
    """Discarded means gone: from the store, the archive, the trash and the disk."""
    seen = look(copy)
    _make_room(copy, seen)
    copy.now += 1_000.0
    copy.holdfast("sessions", "prune", "--archived", "--older-than", "1s", "--now", "--yes")
    copy.holdfast("trash", "empty", "--yes")
    seen = look(copy)
    if any("hermes" in each.line for each in seen.store.values()):
        return
    assert not seen.store, f"not deleted: {sorted(seen.store)}"
    left = [
        str(path.relative_to(copy.home))
        for folder in ("archive", "trash", "sessions")
        for path in (copy.home / folder).rglob("*")
        if path.is_file() and path.name not in _STATE
    ]
    assert not left, f"left on the disk after everything was discarded: {left}"
