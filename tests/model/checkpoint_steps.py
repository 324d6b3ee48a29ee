"""What happens to projects and their checkpoints: edited, taken, restored, bounded, undone."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

from tests.model.judge import Step
from tests.model.kept import GONE, STORE, TRASH, Checkpoint, Rollback
from tests.model.run import Run, Steps, pick
from tests.trees import Everything, everything

PROJECTS = ("project-a", "project-b")
_PLACES = ("one", "src/two", "src/deep/three", "run", "link", "src/four")
#: Never captured, so no restore may touch it.
_IGNORED = "debug.log"


def edit(run: Run, a: int, b: int, c: int) -> Step | None:
    """Somebody works in a project: files come, change, go, become links or programs."""
    project = run.world.project(PROJECTS[a % 2])
    project.mkdir(exist_ok=True)
    (project / _IGNORED).write_text(f"{b}\n")
    for number in range(1 + a % 3):
        _edit_one(project / _PLACES[(b + number) % len(_PLACES)], b + c + number)
    run.told.append(f"edited {project.name}: {sorted(everything(project))}")
    return Step()


def _edit_one(path: Path, number: int) -> None:
    if path.is_symlink() or path.exists():
        if number % 4 == 0:
            path.unlink()
            return
        if number % 4 == 1 and not path.is_symlink():
            path.chmod(path.stat().st_mode ^ stat.S_IXUSR)
            return
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    if number % 7 == 0:
        path.symlink_to(f"target {number}")
    else:
        path.write_text(f"zebra {number}\n" * (1 + number % 20))


def captured(project: Path) -> Everything:
    return {name: seen for name, seen in everything(project).items() if name != _IGNORED}


def take(run: Run, a: int, _b: int, _c: int) -> Step | None:
    name = PROJECTS[a % 2]
    project = run.world.project(name)
    if not project.exists():
        return None
    step = _taking(run, name)
    said = run.command("checkpoints", "take", str(project))
    if said.code == 0 and run.fault is None:
        _check_outcome(run, name, said.document["outcome"])
    return step


def _taking(run: Run, name: str) -> Step:
    """A checkpoint may appear that has the project as it is, and the oldest beyond the bound go."""
    project = run.world.project(name)
    now = captured(project)
    step = Step(
        faulty=run.fault is not None,
        adopt_checkpoint=lambda found: Checkpoint(id=found, project=name, tree=now),
    )
    mine = [each for each in run.model.checkpoints if each.project == name and each.place == STORE]
    for each in mine[: len(mine) + 1 - run.options.max_snapshots]:
        step.move(each, TRASH, must=False)
    return step


def _check_outcome(run: Run, name: str, outcome: str) -> None:
    """Nothing is taken when nothing changed, and only then."""
    mine = [each for each in run.model.checkpoints if each.project == name and each.place == STORE]
    same = bool(mine) and mine[-1].tree == captured(run.world.project(name))
    assert outcome in (("unchanged",) if same else ("taken", "unchanged")), outcome
    assert same or outcome == "taken", f"{name} changed, and no checkpoint was taken"


def go_back(run: Run, a: int, _b: int, _c: int) -> Step | None:
    there = [each for each in run.model.checkpoints if each.place == STORE]
    wanted = pick(there, a)
    if wanted is None:
        return None
    project = run.world.project(wanted.project)
    project.mkdir(exist_ok=True)
    before, ignored = captured(project), _ignored(project)
    step = _taking(run, wanted.project)
    step.moves.pop(wanted, None)
    said = run.command("checkpoints", "restore", wanted.id, "--yes")
    after = captured(project)
    assert _ignored(project) == ignored, f"a restore touched {_IGNORED}"
    if run.fault is not None:
        _check_mixed(before, wanted.tree, after)
        return step
    assert after == wanted.tree, _differences(wanted.tree, after)
    operation = said.document["operation"]
    if operation is not None:
        rollback = Rollback(project=wanted.project, before=before, after=after)
        run.model.rollbacks[operation] = rollback
    return step


def _ignored(project: Path) -> bytes | None:
    path = project / _IGNORED
    return path.read_bytes() if path.exists() else None


def _check_mixed(before: Everything, wanted: Everything, after: Everything) -> None:
    """Stopped half-way, each file is as it was or as it should become, and none is half one."""
    for name in before.keys() | wanted.keys() | after.keys():
        found = after.get(name)
        folder = found is not None and stat.S_ISDIR(found[0])
        assert folder or found in (before.get(name), wanted.get(name)), f"{name} is neither"


def _differences(wanted: Everything, after: Everything) -> str:
    return "\n".join(
        f"{name} is {after.get(name)}, and should be {wanted.get(name)}"
        for name in sorted(wanted.keys() | after.keys())
        if wanted.get(name) != after.get(name)
    )


def take_back(run: Run, a: int, _b: int, _c: int) -> Step | None:
    """Undo a restore. What changed since stays; the rest is as it was before."""
    operation = pick(sorted(run.model.rollbacks, key=int), a)
    if operation is None or operation not in run.model.operations:
        return None
    rollback = run.model.rollbacks.pop(operation)
    project = run.world.project(rollback.project)
    present = captured(project)
    step = _taking(run, rollback.project)
    said = run.command("undo", operation, "--yes", codes=(0, 1, 2))
    after = captured(project)
    if run.fault is not None:
        _check_mixed(present, rollback.before, after)
    elif present == rollback.after and said.code == 0:
        assert after == rollback.before, _differences(rollback.before, after)
    else:
        _check_mixed(present, rollback.before, after)
    return step


def lose(run: Run, a: int, b: int, _c: int) -> Step | None:
    """A project's folder goes: its checkpoints are orphans from then on."""
    project = run.world.project(PROJECTS[a % 2])
    if b % 3 or not project.exists():
        return None
    shutil.rmtree(project)
    return Step()


def prune(run: Run, a: int, b: int, _c: int) -> Step | None:
    there = [each for each in run.model.checkpoints if each.place == STORE]
    if not there:
        return None
    keep, now = 1 + a % 3, b % 5 == 0
    step = Step(faulty=run.fault is not None)
    for name in PROJECTS:
        mine = [each for each in there if each.project == name]
        lost = not run.world.project(name).exists()
        # Those that undoing the latest restore needs stay, so none of the others must go.
        for each in mine if lost else mine[:-keep]:
            step.move(each, GONE if now else TRASH, must=False)
    flags = ["--keep-last", str(keep), "--retention-days", "0", *(["--now"] if now else [])]
    run.command("checkpoints", "prune", *flags, "--yes")
    return step


def clear(run: Run, a: int, b: int, _c: int) -> Step | None:
    there = [each for each in run.model.checkpoints if each.place == STORE]
    if not there or a % 3:
        return None
    now = b % 5 == 0
    step = Step(faulty=run.fault is not None)
    for each in there:
        step.move(each, GONE if now else TRASH)
    run.command("checkpoints", "clear", *(["--now"] if now else []), "--yes")
    return step


STEPS: Steps = {
    "edit": (5, edit),
    "take": (5, take),
    "go_back": (3, go_back),
    "take_back": (2, take_back),
    "lose": (1, lose),
    "prune_checkpoints": (2, prune),
    "clear": (1, clear),
}
