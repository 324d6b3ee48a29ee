"""Kill a process at every call while it restores a checkpoint or takes a restore back.

`python -m tests.crash.checkpoint_harness SCENARIO EVERY`, in the manner of `harness`: with EVERY 1
at each call, with 5 at each fifth.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import CannotUndoError
from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import Capturing, CutRestore, TakeOutcome
from holdfast.model.operation import Operation
from holdfast.services.rollback import rollback
from holdfast.spine.apply import apply
from holdfast.spine.redo import plan_redo
from holdfast.spine.undo import foresee, preview, undo_latest
from holdfast.stores.checkpoints import restore_run, working_tree
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.crash.harness import (
    NEVER,
    NOW,
    Tally,
    clock,
    points_of,
    run_killed,
    scratch,
    settle_only,
)
from tests.trees import Everything, everything

BEGUN, REASON = NOW, "before the change"
LIMIT = 1_000


@dataclass(frozen=True)
class World:
    """A home, a project, its first checkpoint and the safety checkpoint of a restore."""

    root: Path
    target: str
    safety: str
    #: The project as it is before the restore, and after one that nobody killed.
    before: Everything
    after: Everything

    @property
    def project(self) -> Path:
        return self.root / "project"


def store(root: Path) -> ShadowGitStore:
    return checkpoint_store(root / "home", Capturing(max_file_size=LIMIT))


def home(root: Path) -> HoldfastHome:
    return HoldfastHome(root / "home", clock=clock)


def make_first(project: Path) -> None:
    for folder in ("deep/down", "turns", "goes", "moody", "empty", "ignored", "calm"):
        (project / folder).mkdir(parents=True)
    for name in (
        "changed",
        "mode",
        "gone",
        "deep/down/file",
        "turns/inside",
        "goes/file",
        "calm/file",
    ):
        (project / name).write_bytes(name.encode() * 9)
    (project / os.fsdecode(b"odd\xff\nname")).write_bytes(b"odd")
    (project / "link").symlink_to("changed")
    (project / "was a file").write_bytes(b"file")
    (project / "deep/down/file").chmod(0o4750)
    (project / "ignored/file").write_bytes(b"captured")
    (project / "calm").chmod(0o2750)
    for name, mode in (("locked/in", 0o555), ("locked", 0o500), ("shut", 0o555)):
        (project / name).mkdir(parents=True, exist_ok=True)
        (project / name / "file").write_bytes(name.encode())
        (project / name).chmod(mode)
    (project / "secret").write_bytes(b"ignored and gone later")
    (project / "same").write_bytes(b"ignored later, and still there")


def make_changes(project: Path) -> None:
    (project / "changed").write_bytes(b"something else")
    (project / "calm/file").write_bytes(b"nothing else changes in its folder")
    (project / "mode").chmod(0o755)
    (project / "gone").unlink()
    (project / "moody").chmod(0o710)
    (project / "empty").rmdir()
    shutil.rmtree(project / "turns")
    (project / "turns").write_bytes(b"a file now")
    shutil.rmtree(project / "goes")
    (project / os.fsdecode(b"odd\xff\nname")).unlink()
    (project / "link").unlink()
    (project / "link").symlink_to("/nowhere")
    (project / "was a file").unlink()
    (project / "was a file").mkdir()
    (project / "was a file" / "new").write_bytes(b"new")
    (project / "new/in/folders").mkdir(parents=True)
    (project / "new/in/file").write_bytes(b"new")
    (project / "new/in/some.log").write_bytes(b"no checkpoint holds me")
    (project / ".gitignore").write_bytes(b"secret\nsame\n")
    (project / "secret").unlink()
    shutil.rmtree(project / "locked")
    (project / "shut/file").write_bytes(b"shut, and changed")
    (project / "late/in").mkdir(parents=True)
    (project / "late").chmod(0o500)
    shutil.rmtree(project / "ignored")
    (project / "ignored").write_bytes(b"x" * 2 * LIMIT)


def make(scratch: Path) -> World:
    """The world, and a copy of it beside: each kill begins with that."""
    # Whatever else is written on this machine: a restore of some files flushes each of them.
    restore_run.SOME = restore_run.MANY
    root = scratch / "world"
    (root / "project").mkdir(parents=True)
    (root / "home/operations").mkdir(parents=True)
    make_first(root / "project")
    target = store(root).take(root / "project", reason=REASON, now=BEGUN).id or ""
    make_changes(root / "project")
    safety = store(root).secure(target, now=BEGUN + 1)
    before = everything(root / "project")
    shutil.copytree(root, scratch / "template", symlinks=True)
    store(root).restore(target, safety, now=BEGUN + 2)
    after = everything(root / "project")
    assert after["changed"] == (*before["changed"][:1], b"changed" * 9)
    assert after["ignored"] == before["ignored"]
    return World(root=root, target=target, safety=safety, before=before, after=after)


def restore(world: World) -> None:
    store(world.root).restore(world.target, world.safety, now=NOW)


def restore_many(world: World) -> None:
    """As a restore of many files does it, in the process that is killed."""
    restore_run.MANY = 0
    restore(world)


def take_back(world: World) -> None:
    store(world.root).restore(world.safety, world.target, now=NOW)


def lose_a_folder(world: World) -> None:
    """After the restore, somebody removes a folder that both checkpoints have."""
    restore(world)
    shutil.rmtree(world.project / "calm")


def roll_back(world: World) -> None:
    rollback(home(world.root), store(world.root), world.target, command="restore", clock=clock)


def undo_the_latest(world: World) -> None:
    undo_latest(home(world.root), clock=clock)


def roll_back_and_undo(world: World) -> None:
    roll_back(world)
    undo_the_latest(world)


def redo(world: World) -> None:
    _, plan = plan_redo(home(world.root), "1", now=NOW)
    apply(plan, home(world.root), clock=clock)


def is_whole(world: World) -> None:
    """One of the two states, and nothing of a restore lies about."""
    assert everything(world.project) in (world.before, world.after), "half-way"
    assert not list(world.root.glob("home/checkpoints/store/worktrees/*/restore.json"))


def finished(world: World) -> None:
    restore(world)
    assert everything(world.project) == world.after
    is_whole(world)


def taken_back(world: World) -> None:
    take_back(world)
    assert everything(world.project) == world.before
    is_whole(world)


def next_checkpoint(world: World) -> None:
    """Whoever takes the next checkpoint finishes it, or it had not begun."""
    cut = list(world.root.glob("home/checkpoints/store/worktrees/*/restore.json"))
    taking = store(world.root).take(world.project, reason="next", now=NOW + 9)
    assert taking.outcome is not TakeOutcome.SKIPPED
    assert taking.cut_restore == (CutRestore(target=world.target) if cut else None)
    is_whole(world)


def settled(world: World) -> None:
    """Settled, it was done or was not, the log knows which, and undo gives back what was there."""
    settle_only(world.root / "home")
    is_whole(world)
    operations = home(world.root).log.read().operations
    assert all(operation.finished_at is not None for operation in operations)
    undoable = [operation for operation in operations if operation.in_trash]
    assert (everything(world.project) == world.after) == bool(undoable)
    undone(world)


def undone(world: World) -> None:
    """Undo brings back what was there, or there is nothing to undo."""
    try:
        undo_the_latest(world)
    except CannotUndoError:
        assert not any(each.in_trash for each in home(world.root).log.read().operations)
    assert everything(world.project) == world.before
    is_whole(world)


def redone(world: World) -> None:
    """Done again, a killed redo is finished, and it is one operation: one undo takes it back."""
    is_done = any(each.redoes and each.finished_at is not None for each in operations(world))
    try:
        redo(world)
    except CannotUndoError:
        assert is_done
    assert sum(each.in_trash for each in operations(world)) == 1
    assert everything(world.project) == world.after
    is_whole(world)
    undone(world)


def undone_again(world: World) -> None:
    """Done again, a killed undo is finished, and says so."""
    is_done = any(each.undoes and each.finished_at is not None for each in operations(world))
    try:
        undone_operation, report = undo_latest(home(world.root), clock=clock)
    except CannotUndoError:
        assert is_done
    else:
        assert undone_operation.id == "1"
        assert report.brought_back == 1 or report.settled  # only its end was missing
        assert not any(each.in_part for each in report.outcomes)
    assert everything(world.project) == world.before
    assert not any(each.in_trash for each in operations(world))
    is_whole(world)


def asked_about(world: World) -> None:
    """A killed restore is shown before it is undone, unless it had not begun to change files."""
    begun = list(world.root.glob("home/checkpoints/store/worktrees/*/restore.json"))
    try:
        removals = preview(home(world.root), None)[1]
    except CannotUndoError:
        assert not operations(world)
    else:
        assert removals or not begun
        for each in foresee(home(world.root), removals).values():
            assert each.preview is not None
            assert each.preview.written
            assert each.preview.deleted
    undone(world)


def operations(world: World) -> Sequence[Operation]:
    return home(world.root).log.read().operations


@dataclass(frozen=True)
class Scenario:
    """What happens before, what is killed, and what must hold afterwards."""

    killed: Callable[[World], None]
    verify: Callable[[World], None]
    before: Callable[[World], None] | None = None


SCENARIOS = {
    "restore-then-again": Scenario(restore, finished),
    "restore-then-back": Scenario(restore, taken_back),
    "many-then-again": Scenario(restore_many, finished),
    "many-then-back": Scenario(restore_many, taken_back),
    "back-then-again": Scenario(take_back, finished, before=restore),
    "back-then-back": Scenario(take_back, taken_back, before=restore),
    "orphans-then-again": Scenario(take_back, finished, before=lose_a_folder),
    "orphans-then-back": Scenario(take_back, taken_back, before=lose_a_folder),
}
#: These take checkpoints and write the log: each kill costs many times more.
SLOW = {
    "restore-then-take": Scenario(restore, next_checkpoint),
    "rollback-then-settle": Scenario(roll_back, settled),
    "rollback-then-undo": Scenario(roll_back, undone),
    "rollback-then-asked": Scenario(roll_back, asked_about),
    "undo-then-undo": Scenario(undo_the_latest, undone_again, before=roll_back),
    "redo-then-redo": Scenario(redo, redone, before=roll_back_and_undo),
}


def fresh(world: World, scenario: Scenario) -> None:
    shutil.rmtree(world.root)
    shutil.copytree(world.root.with_name("template"), world.root, symlinks=True)
    if scenario.before is not None:
        scenario.before(world)


def main(name: str, every: str) -> None:
    scenario = (SCENARIOS | SLOW)[name]
    tally = Tally()
    # A kill forgets nothing, and this would wait for all that the machine writes.
    vars(working_tree)["flush_disk"] = lambda _: None
    with scratch() as place:
        world = make(place)
        fresh(world, scenario)
        points = points_of(lambda _: scenario.killed(world), world.root)
        for kill_at in (*points[:: int(every)], NEVER):
            fresh(world, scenario)
            tally.kills += not run_killed(lambda _: scenario.killed(world), world.root, kill_at)
            scenario.verify(world)
            tally.states += 1
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
