"""Everything that changes a home, each as one call on a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from holdfast.homes.maintenance import maintain
from holdfast.model.session import Message
from holdfast.policy.planner import plan
from holdfast.policy.rules import CheckpointPolicy, Policy
from holdfast.services.apply_until_within_caps import bound_checkpoints
from holdfast.services.plans import plan_archive
from holdfast.services.restore import chosen, restore
from holdfast.services.rollback import rollback
from holdfast.services.turn_checkpoints import Recorder
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.empty_trash import plan_empty
from holdfast.spine.undo import undo
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.crash.bad_day_world import LIVING, World, age_policy, close

SAID = "one more thing"
Operation = Callable[[World, float], str | None]


def append(world: World, now: float) -> str:
    with closing(SqliteSessionStore(world.root / "home" / "sessions.db", create=False)) as store:
        store.append(LIVING, [Message(role="user", content=SAID)], now=now)
    return SAID


def prune(world: World, now: float, *, use_trash: bool = True) -> None:
    home = world.home(now)
    try:
        made = plan(age_policy(use_trash=use_trash), home.scan(now), now, command="prune")
        apply(made, home, clock=lambda: now)
    finally:
        close(home)


def prune_now(world: World, now: float) -> None:
    prune(world, now, use_trash=False)


def archive(world: World, now: float) -> None:
    home = world.home(now)
    try:
        made, _ = plan_archive(
            home,
            home.archive,
            ids=["old", "young"],
            policy=Policy(),
            now=now,
            command="archive",
        )
        apply(made, home, clock=lambda: now)
    finally:
        close(home)


def bring(world: World, now: float) -> None:
    home = world.home(now)
    try:
        restore(home, chosen(home.archive, ()), command="restore", clock=lambda: now)
    finally:
        close(home)


def undo_delete(world: World, now: float) -> None:
    home = world.home(now)
    try:
        undo(home, "2", clock=lambda: now)
    finally:
        close(home)


def empty(world: World, now: float) -> None:
    home = world.home(now)
    try:
        apply(plan_empty(home, now=now, command="empty"), home, clock=lambda: now)
    finally:
        close(home)


def look_after(world: World, now: float) -> None:
    """Law 7: it never raises, whatever is wrong."""
    maintain(world.root / "home", force=True, clock=lambda: now)


def record(world: World, now: float) -> None:
    """Law 7 for the recorder of an agent."""
    Recorder(world.store(), clock=lambda: now).before_change(world.project / "one")


def take(world: World, now: float) -> None:
    world.store().take(world.project, reason="taken", now=now)


def roll_back(world: World, now: float) -> None:
    rollback(world.home(now), world.store(), world.target, command="restore", clock=lambda: now)


def prune_checkpoints(world: World, now: float) -> None:
    policy = CheckpointPolicy(max_count=2)
    bound_checkpoints(
        world.home(now), policy, command="prune", clock=lambda: now, progress=Silent()
    )


def give_back(world: World, now: float) -> None:
    reclaim(world.store().layout, holder="test", thorough=True)


OPERATIONS: Mapping[str, Operation] = {
    "append": append,
    "prune": prune,
    "prune-now": prune_now,
    "archive": archive,
    "restore": bring,
    "undo": undo_delete,
    "empty": empty,
    "maintain": look_after,
    "record": record,
    "take": take,
    "rollback": roll_back,
    "prune-checkpoints": prune_checkpoints,
    "reclaim": give_back,
}
#: Those that may not even raise a clear error.
SILENT = ("maintain", "record")
