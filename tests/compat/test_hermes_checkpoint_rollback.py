"""Real Hermes goes on with its checkpoints after everything that Holdfast does to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.policy.rules import CheckpointPolicy
from holdfast.services.plans import plan_drop
from holdfast.services.rollback import rollback
from tests.compat.hermes_release import NEWEST, OLDEST
from tests.compat.hermes_store import (
    Hermes,
    Home,
    git,
    hermes,
    project,
    tree,
    write,
)

pytestmark = pytest.mark.deep

TAKEN = 6
KEPT = 3


class World:
    """A home that a real Hermes filled, with a copy of the working tree at each checkpoint."""

    def __init__(self, place: Path, version: str) -> None:
        self.version = version
        self.site = place / "site"
        self.copies = place / "copies"
        root = place / "home"
        root.mkdir()
        (root / "config.yaml").write_text("model: none\n")
        (root / "SOUL.md").touch()
        with hermes(root, version) as running:
            for number in range(TAKEN):
                write(self.site, [("a.txt", f"{number}\n"), (f"dir/{number}.txt", "x\n" * number)])
                (self.site / "run").write_bytes(bytes(range(256)) * (number + 1))
                (self.site / "run").chmod(0o755 if number % 2 else 0o644)
                link = self.site / "link"
                link.unlink(missing_ok=True)
                link.symlink_to(f"dir/{number}.txt")
                (self.site / "odd \n name").write_text(str(number))
                assert running.take(self.site, f"turn {number}")
                shutil.copytree(self.site, self.copies / f"turn {number}", symlinks=True)
            self.listed = running.ask("listed", self.site)
        newest = git(
            "--git-dir", str(root / "checkpoints" / "store"), "log", "-1", "--all", "--format=%at"
        )
        self.home = Home(root, now=float(newest) + 60)

    def check(self, reasons: list[str]) -> None:
        """What Hermes lists is these, with their times; it compares, goes back and goes on."""
        with hermes(self.home.root, self.version) as running:
            listed = running.ask("listed", self.site)
            assert [each["reason"] for each in listed] == reasons
            times = {each["reason"]: each["timestamp"] for each in self.listed}
            assert {each["reason"]: each["timestamp"] for each in listed} == {
                reason: times[reason] for reason in reasons
            }
            for each in listed:
                assert running.ask("diff", self.site, each["hash"])["success"]
            self._go_back(running, listed[-1])
            self._go_on(running, reasons)
            assert running.ask("errors") == []
        self.home.fsck()

    def _go_back(self, running: Hermes, to: dict[str, str]) -> None:
        write(self.site, [("a.txt", "something else\n")])
        assert running.ask("restore", self.site, to["hash"])["success"]
        now, then = tree(self.site), tree(self.copies / to["reason"])
        captured = {path: each for path, each in then.items() if each[0] != "directory"}
        assert {path: now[path] for path in captured} == captured

    def _go_on(self, running: Hermes, reasons: list[str]) -> None:
        write(self.site, [("later.txt", "later\n")])
        assert running.take(self.site, "later")
        after = [each["reason"] for each in running.ask("listed", self.site)]
        assert after[0] == "later"
        assert after[-len(reasons) :] == reasons


@pytest.fixture(params=[OLDEST, NEWEST])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path.resolve(), request.param)


def reasons(first: int, last: int) -> list[str]:
    return [f"turn {number}" for number in range(first, last, -1)]


def prune(world: World) -> None:
    world.home.prune(CheckpointPolicy(max_count=KEPT))


def prune_for_good(world: World) -> None:
    world.home.age()
    world.home.prune(CheckpointPolicy(max_count=KEPT, use_trash=False))
    world.home.age()
    world.home.home.checkpoint_upkeep.pack()


def undo(world: World) -> None:
    prune(world)
    world.home.undo()


def clear_and_undo(world: World) -> None:
    upkeep = world.home.home.checkpoint_upkeep
    world.home.apply(plan_drop(upkeep, None, now=world.home.now, command="clear"))
    assert world.home.git("for-each-ref", "refs/hermes") == ""
    world.home.undo()


def restore(world: World) -> None:
    """To the first of all; then back."""
    home = world.home
    before = tree(world.site)
    first = home.chain(world.site)[-1]
    ready = home.store.ready(home.store.get(first))
    rollback(home.home, home.store, ready.id, command="restore", clock=lambda: home.now)
    assert tree(world.site) == {
        path: each if each[0] != "directory" else before[path]
        for path, each in tree(world.copies / "turn 0").items()
    }
    home.undo()
    assert tree(world.site) == before


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (prune, reasons(5, 2)),
        (prune_for_good, reasons(5, 2)),
        (undo, reasons(5, -1)),
        (clear_and_undo, reasons(5, -1)),
        (restore, reasons(5, -1)),
    ],
)
def test_hermes_goes_on_with_what_is_left(
    world: World, act: Callable[[World], None], left: list[str]
) -> None:
    act(world)
    world.check(left)


def test_hermes_goes_on_with_a_chain_that_was_written_anew(world: World) -> None:
    store = world.home.store
    store.pin(store.get(world.home.chain(world.site)[4]), True)
    prune(world)
    world.check(["turn 5", "turn 4", "turn 1"])


def test_hermes_drops_old_ones_of_a_chain_that_we_cut_and_gives_the_space_back(
    world: World,
) -> None:
    prune_for_good(world)
    with hermes(world.home.root, world.version, max_snapshots=2) as running:
        for number in range(3):
            write(world.site, [("a.txt", f"later {number}\n")])
            assert running.take(world.site, f"later {number}")
        left = [each["reason"] for each in running.ask("listed", world.site)]
        assert left == ["later 2", "later 1"]
        assert running.ask("prune")["errors"] == 0
        assert running.ask("errors") == []
    world.home.fsck()
    assert world.home.home.checkpoint_upkeep.verify().ok


def test_a_project_that_was_cleared_begins_anew(world: World) -> None:
    upkeep = world.home.home.checkpoint_upkeep
    plan = plan_drop(upkeep, None, now=world.home.now, command="clear", undoable=False)
    world.home.age()
    world.home.apply(plan)
    world.home.age()
    world.home.home.checkpoint_upkeep.pack()
    assert not (world.home.git_dir / "projects" / f"{project(world.site)}.json").exists()
    with hermes(world.home.root, world.version) as running:
        assert running.ask("listed", world.site) == []
        assert running.take(world.site, "anew")
        assert [each["reason"] for each in running.ask("listed", world.site)] == ["anew"]
        assert running.ask("errors") == []
    world.home.fsck()
