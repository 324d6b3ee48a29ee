"""A small home with everything in it, and the look at everything after something went wrong.

There are sessions that are old, young, open and held, archived, and in the trash, with transcripts;
a project with checkpoints, one of them hidden; and a log of how all that came to be.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import CannotUndoError
from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.session import SessionFilter
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.services.doctor import examine
from holdfast.services.plans import plan_archive, plan_delete, plan_drop
from holdfast.services.restore import chosen, restore
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import undo
from holdfast.stores import processes
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.checkpointing import contents, fsck
from tests.crash.chaos_receipts import receipts
from tests.crash.chaos_sessions import checked
from tests.stored import a_line, an_open_line, bring_in, check_whole
from tests.trees import Everything, everything

NOW = 1_800_000_000.0
#: How long ago each session was last active, in days.
AGES = {"old": 200, "older": 300, "young": 1, "archived": 100, "binned": 90}
LIVING = "living"
Messages = dict[str, list[str]]


@dataclass(frozen=True)
class World:
    """`messages` are those of all sessions, `target` the checkpoint to go back to, `before` and
    `after` the project as it is and as that checkpoint has it."""

    root: Path
    messages: Messages
    checkpoints: tuple[str, ...]
    target: str
    before: Everything
    after: Everything

    @property
    def project(self) -> Path:
        return self.root / "project"

    def home(self, now: float = NOW) -> HoldfastHome:
        return HoldfastHome(self.root / "home", clock=lambda: now, idle=DAY)

    def store(self) -> ShadowGitStore:
        return checkpoint_store(self.root / "home")


def age_policy(*, use_trash: bool = True) -> Policy:
    return Policy(everywhere=Limits(rules=Rules(max_age=60 * DAY)), use_trash=use_trash)


def make(root: Path) -> World:
    project, home = root / "project", root / "home"
    (project / "folder").mkdir(parents=True)
    old = [a_line(name, at=NOW - age * DAY, messages=3) for name, age in AGES.items()]
    bring_in(home, [*old, an_open_line(LIVING, at=NOW - 9)], now=NOW)
    (home / "config.toml").write_text("[sessions]\nauto_prune = true\n")
    (home / "sessions").mkdir()
    for name in (*AGES, LIVING):
        path = home / "sessions" / f"{name}.jsonl"
        path.write_text(json.dumps({"session_id": name}) + "\n")
        os.utime(path, (NOW - DAY, NOW - DAY))
    store = checkpoint_store(home)
    taken = [_take(store, project, number) for number in range(4)]
    (project / "one").write_bytes(b"in no checkpoint yet")
    world = World(root, {}, tuple(taken[1:]), taken[1], everything(project), {})
    opened = world.home()
    opened.create_session_store().hold(LIVING, processes.this_process(), now=NOW)
    messages = {name: texts(opened, name) for name in (*AGES, LIVING)}
    made, _ = plan_archive(
        opened, opened.archive, ids=["archived"], policy=Policy(), now=NOW, command="archive"
    )
    checked(apply(made, opened, clock=lambda: NOW))
    checked(apply(plan_delete(opened, ["binned"], now=NOW, command="delete"), opened, clock=_now))
    dropped = plan_drop(opened.checkpoint_upkeep, [taken[0]], now=NOW, command="drop")
    checked(apply(dropped, opened, clock=_now))
    close(opened)
    held = contents(store, store.get(world.target))
    after = {**world.before, **held}
    return World(root, messages, world.checkpoints, world.target, world.before, after)


def _now() -> float:
    return NOW


def _take(store: ShadowGitStore, project: Path, number: int) -> str:
    for name in ("one", "folder/two"):
        (project / name).write_bytes(b"%d %s\n" % (number, name.encode()) * 50)
    return store.take(project, reason=str(number), now=NOW - 99 + number).id or ""


def close(home: HoldfastHome) -> None:
    store = home.session_store()
    if store is not None:
        store.close()


def texts(home: HoldfastHome, session: str) -> list[str]:
    return [str(each.content) for each in home.create_session_store().messages(session)]


def check(world: World, *, appended: str | None, now: float) -> None:
    """Nothing acknowledged is lost, nothing alive was touched, and everything can go on."""
    home = world.home(now)
    settle_if_needed(home, clock=lambda: now)
    check_log(home)
    check_project(world, home, now)
    check_checkpoints(world, home)
    assert not home.create_session_store().get(LIVING).ended, "a living session was ended"
    bring_back(home, now)
    check_sessions(world, home, appended)
    check_whole(home.root)
    go_on(world, home, now)
    check_log(home)
    close(home)


def check_log(home: HoldfastHome) -> None:
    view = home.log.read()
    assert not view.problems
    assert all(each.finished_at is not None for each in view.operations), "left open"
    found = examine(home, progress=Silent())
    assert found.ok, [each for each in found.findings if each.message]


def check_project(world: World, home: HoldfastHome, now: float) -> None:
    """As it was or rolled back; what was rolled back in part, undo takes back."""
    if everything(world.project) in (world.before, world.after):
        return
    rolled = home.log.read().rolled_back
    assert rolled, "half-way, and the log does not know"
    undo(home, rolled[-1].removal.operation, clock=lambda: now)
    assert everything(world.project) == world.before


def check_checkpoints(world: World, home: HoldfastHome) -> None:
    store = world.store()
    found = home.checkpoint_upkeep.verify()
    assert found.ok, found.problems
    assert fsck(store.layout.store) == ""
    hidden = {entry.removal.item.id for entry in home.log.read().trash}
    known = {each.id for each in store.list()} | hidden | receipts(home.root).checkpoints
    assert known >= set(world.checkpoints), "a checkpoint is gone without a receipt"


def bring_back(home: HoldfastHome, now: float) -> None:
    for operation in reversed(home.log.read().operations):
        if operation.in_trash and not operation.rolled_back:
            try:
                checked(undo(home, operation.id, clock=lambda: now)[1])
            except CannotUndoError:
                continue  # restored with an earlier one
    checked(restore(home, chosen(home.archive, ()), command="restore", clock=lambda: now))


def check_sessions(world: World, home: HoldfastHome, appended: str | None) -> None:
    there = {each.id for each in home.create_session_store().find(SessionFilter())}
    gone = set(world.messages) - there
    assert gone <= receipts(home.root).sessions, "a session is gone without a receipt"
    for session in set(world.messages) & there:
        wanted, found = world.messages[session], texts(home, session)
        if session == LIVING:
            assert found[: len(wanted)] == wanted
            assert appended is None or found[len(wanted) :] == [appended], "acknowledged, and lost"
        else:
            assert found == wanted, f"something of {session} is lost"


def go_on(world: World, home: HoldfastHome, now: float) -> None:
    """The next day is an ordinary one."""
    made = plan(age_policy(), home.scan(now), now, command="sessions prune")
    checked(apply(made, home, clock=lambda: now))
    (world.project / "next").write_bytes(b"next")
    taken = world.store().take(world.project, reason="next", now=now)
    assert taken.id == world.store().list(world.project)[0].id
