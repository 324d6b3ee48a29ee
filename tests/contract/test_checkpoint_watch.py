"""Following a directory: every change is told, or it is told that something was lost."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.errors import BusyError, StorageError
from holdfast.model.arguments import StrPath
from holdfast.model.checkpoint import ChangedPaths, TakeOutcome, Taking, Watched
from holdfast.services.checkpoint_watch import Follower, Pace, Step, watch
from holdfast.stores.checkpoints.early_look import EarlyLook
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.checkpoints.watch import Following, following

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")

QUICK = Pace(settle=0.02, longest=1.0)
#: Long enough for anything that was done before to have been told.
MOMENT = 5.0


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "src" / "deep").mkdir(parents=True)
    (made / "src" / "main.py").write_text("one\n")
    return made


@pytest.fixture
def store(tmp_path: Path, workdir: Path) -> ShadowGitStore:
    made = ShadowGitStore(tmp_path / "home" / "checkpoints")
    taken = made.take(workdir, reason="first", now=1_000.0)
    assert taken.outcome is TakeOutcome.TAKEN
    return made


@pytest.fixture
def follower(store: ShadowGitStore, workdir: Path) -> Iterator[Following]:
    with following(store.layout, workdir) as found:
        yield found


def told(follower: Following) -> ChangedPaths:
    """Everything that was told of what happened so far."""
    seen = follower.wait(MOMENT)
    while more := follower.wait(0.05):
        seen |= more
    return seen


def queue_length() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


# --- What is told -----------------------------------------------------------------------------


def test_what_changes_is_told_by_its_path(follower: Following, workdir: Path) -> None:
    (workdir / "src" / "main.py").write_text("two\n")
    (workdir / "with space").write_text("x")
    (workdir / "new\nline").write_text("x")
    Path(os.fsdecode(os.fsencode(workdir) + b"/bad\xff")).write_text("x")
    assert told(follower) == ChangedPaths(
        paths=frozenset({"src/main.py", "with space", "new\nline", "bad\udcff"})
    )


def test_nothing_is_told_when_nothing_happens(follower: Following, workdir: Path) -> None:
    (workdir / "src" / "main.py").read_text()
    list(workdir.rglob("*"))
    assert not follower.wait(0.05)


@pytest.mark.parametrize("how", ["permissions", "a link", "a mapping", "deleted"])
def test_every_way_to_change_a_file_is_told(follower: Following, workdir: Path, how: str) -> None:
    import mmap

    path = workdir / "src" / "main.py"
    if how == "permissions":
        path.chmod(0o600)
    elif how == "a link":
        path.unlink()
        path.symlink_to("deep")
    elif how == "a mapping":
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            mapping[0:1] = b"X"
    else:
        path.unlink()
    assert "src/main.py" in told(follower).paths


def test_a_new_directory_is_told_and_then_followed(follower: Following, workdir: Path) -> None:
    (workdir / "a" / "b" / "c").mkdir(parents=True)
    (workdir / "a" / "b" / "c" / "early").write_text("x")
    assert "a" in told(follower).paths
    (workdir / "a" / "b" / "c" / "late").write_text("x")
    assert told(follower).paths == {"a/b/c/late"}


def test_a_moved_directory_is_told_at_both_ends_and_followed(
    follower: Following, workdir: Path
) -> None:
    (workdir / "src").rename(workdir / "lib")
    (workdir / "lib" / "deep" / "at once").write_text("x")
    assert {"src", "lib"} <= told(follower).paths
    (workdir / "lib" / "deep" / "later").write_text("x")
    assert told(follower).paths == {"lib/deep/later"}


def test_a_directory_that_left_and_came_back_is_followed(
    follower: Following, workdir: Path, tmp_path: Path
) -> None:
    (workdir / "src").rename(tmp_path / "aside")
    assert told(follower).paths == {"src"}
    (tmp_path / "aside" / "main.py").write_text("elsewhere\n")
    (tmp_path / "aside").rename(workdir / "src")
    assert told(follower).paths == {"src"}
    (workdir / "src" / "main.py").write_text("again\n")
    assert told(follower).paths == {"src/main.py"}


def test_a_removed_tree_is_told_and_the_next_of_that_name_followed(
    follower: Following, workdir: Path
) -> None:
    shutil.rmtree(workdir / "src")
    assert "src" in told(follower).paths
    (workdir / "src").mkdir()
    told(follower)
    (workdir / "src" / "new.py").write_text("x")
    assert told(follower).paths == {"src/new.py"}


def test_what_is_never_captured_is_not_followed(follower: Following, workdir: Path) -> None:
    for name in (".git", "node_modules", "src/__pycache__"):
        (workdir / name).mkdir()
    told(follower)
    for name in (".git", "node_modules", "src/__pycache__"):
        (workdir / name / "file").write_text("x")
    assert not follower.wait(0.05)


def test_a_captured_file_counts_though_it_is_ignored_now(
    store: ShadowGitStore, workdir: Path
) -> None:
    (workdir / ".gitignore").write_text("src/\n")
    with following(store.layout, workdir) as follower:
        (workdir / "src" / "main.py").write_text("two\n")
        assert "src/main.py" in told(follower).paths


def test_new_rules_mean_a_look_at_everything(follower: Following, workdir: Path) -> None:
    (workdir / "build").mkdir()
    told(follower)
    (workdir / ".gitignore").write_text("!build/\n")
    assert told(follower).lost
    (workdir / "build" / "kept").write_text("x")
    assert told(follower).paths == {"build/kept"}


def test_more_than_the_kernel_keeps_is_told_as_lost(follower: Following, workdir: Path) -> None:
    for number in range(queue_length() // 2 + 10):
        os.close(os.open(workdir / f"file{number}", os.O_CREAT | os.O_WRONLY, 0o600))
    (workdir / "src" / "unheard of").mkdir()
    assert told(follower).lost
    (workdir / "src" / "unheard of" / "file").write_text("x")
    assert told(follower) == ChangedPaths(paths=frozenset({"src/unheard of/file"}))


def test_a_directory_in_its_place_is_followed_anew(
    follower: Following, workdir: Path, tmp_path: Path
) -> None:
    workdir.rename(tmp_path / "aside")
    workdir.mkdir()
    assert told(follower).lost
    (workdir / "new").write_text("x")
    (tmp_path / "aside" / "old").write_text("x")
    assert told(follower).paths == {"new"}


def test_a_directory_that_is_gone_ends_it(
    follower: Following, workdir: Path, tmp_path: Path
) -> None:
    workdir.rename(tmp_path / "aside")
    with pytest.raises(StorageError, match="nothing left to watch"):
        told(follower)


def test_one_process_at_a_time_follows_a_directory(
    store: ShadowGitStore, follower: Following, workdir: Path
) -> None:
    with (
        pytest.raises(BusyError, match=f"watching {workdir}"),
        following(store.layout, workdir),
    ):
        pytest.fail("two of them")
    reclaim(store.layout, holder="test", thorough=True)
    with pytest.raises(BusyError), following(store.layout, workdir):
        pytest.fail("two of them, after the locks of killed processes were cleared")


# --- What is taken ----------------------------------------------------------------------------


class Told:
    """A follower that says what a test wants it to say."""

    def __init__(self, said: Iterable[ChangedPaths], *, blind: str = "") -> None:
        self._said = iter(said)
        self.blind = blind

    def wait(self, seconds: float) -> ChangedPaths:
        return next(self._said, ChangedPaths())


class Stubborn(ShadowGitStore):
    """A store that fails once."""

    failed = False

    def take(
        self,
        workdir: StrPath,
        *,
        reason: str,
        now: float,
        session: str | None = None,
        turn: str | None = None,
        paths: Sequence[str] | None = None,
        after: str | None = None,
        early: EarlyLook | None = None,
    ) -> Taking:
        if paths is not None and not self.failed:
            self.failed = True
            raise StorageError("The disk is full.")
        return super().take(
            workdir,
            reason=reason,
            now=now,
            session=session,
            turn=turn,
            paths=paths,
            after=after,
            early=early,
        )


def watched(
    store: ShadowGitStore,
    workdir: Path,
    follower: Follower,
    edits: Iterable[Callable[[], object]],
    pace: Pace = QUICK,
) -> tuple[Watched, list[Step]]:
    """Watch while something is edited after each step; it ends after the last."""
    steps: list[Step] = []
    left = iter(edits)
    done = False

    def after(step: Step) -> None:
        nonlocal done
        steps.append(step)
        edit = next(left, None)
        if edit is None:
            done = True
        else:
            edit()

    clock = itertools.count(2_000.0)
    result = watch(
        store,
        workdir,
        follower,
        clock=lambda: next(clock),
        stopped=lambda: done,
        told=after,
        pace=pace,
    )
    return result, steps


def is_captured(store: ShadowGitStore, workdir: Path) -> bool:
    """Whether the last checkpoint is what a look at everything sees."""
    return store.list(workdir)[0].tree == store.look(workdir).tree


def test_each_change_becomes_a_checkpoint_of_what_changed(
    store: ShadowGitStore, follower: Following, workdir: Path
) -> None:
    edits: list[Callable[[], object]] = [
        lambda: (workdir / "src" / "main.py").write_text("two\n"),
        (workdir / "docs").mkdir,
        lambda: shutil.rmtree(workdir / "src"),
    ]
    done, steps = watched(store, workdir, follower, edits)
    assert (done.taken, done.unchanged, done.looks) == (3, 1, 1)
    assert [step.look for step in steps] == ["the first look", "", "", ""]
    assert done.last == store.list(workdir)[0].id
    assert store.list(workdir)[2].reason == "watch: src/main.py"
    assert is_captured(store, workdir)


def test_the_reason_names_some_of_the_paths(
    store: ShadowGitStore, follower: Following, workdir: Path
) -> None:
    def edit() -> None:
        for number in range(5):
            (workdir / f"file{number}\n").write_text("x")

    _, steps = watched(store, workdir, follower, [edit])
    assert steps[-1].taking is not None
    assert steps[-1].taking.reason == r"watch: file0\n, file1\n, file2\n and 2 more"


def test_what_was_lost_is_found_by_a_look_at_everything(
    store: ShadowGitStore, workdir: Path
) -> None:
    edits = [lambda: (workdir / "untold").write_text("x")]
    follower = Told([ChangedPaths(lost="it was too much")])
    done, steps = watched(store, workdir, follower, edits)
    assert steps[-1].look == "it was too much"
    assert done.looks == 2
    assert is_captured(store, workdir)


def test_many_paths_cost_a_look_at_everything(store: ShadowGitStore, workdir: Path) -> None:
    edits = [lambda: (workdir / "untold").write_text("x")]
    follower = Told([ChangedPaths(paths=frozenset("abcd"))])
    _, steps = watched(store, workdir, follower, edits, Pace(settle=0.01, most_paths=3))
    assert steps[-1].look == "4 paths changed"
    assert is_captured(store, workdir)


def test_where_nothing_is_told_it_looks_from_time_to_time(
    store: ShadowGitStore, workdir: Path
) -> None:
    edits = [lambda: (workdir / "untold").write_text("x")]
    pace = Pace(settle=0.01, look_every_blind=0.0)
    done, steps = watched(store, workdir, Told([], blind="no room"), edits, pace)
    assert steps[-1].look == "no room"
    assert done.taken == 1
    assert is_captured(store, workdir)


def test_now_and_then_it_looks_though_all_seems_told(store: ShadowGitStore, workdir: Path) -> None:
    edits = [lambda: (workdir / "untold").write_text("x")]
    _, steps = watched(store, workdir, Told([]), edits, Pace(settle=0.01, look_every=0.0))
    assert steps[-1].look == "a regular look"
    assert is_captured(store, workdir)


def test_a_failure_ends_nothing_and_costs_a_look_at_everything(
    store: ShadowGitStore, workdir: Path
) -> None:
    stubborn = Stubborn(store.layout.folder)
    (workdir / "a").write_text("1")
    edits = [
        lambda: (workdir / "a").write_text("2"),
        lambda: None,
    ]
    follower = Told([ChangedPaths(paths=frozenset("a")), ChangedPaths()])
    pace = Pace(settle=0.01, retry=0.0)
    done, steps = watched(stubborn, workdir, follower, edits, pace)
    assert steps[1].error is not None
    assert (done.failed, steps[2].look) == (1, "the last try failed")
    assert is_captured(store, workdir)


def test_what_changed_last_is_taken_before_it_ends(
    store: ShadowGitStore, follower: Following, workdir: Path
) -> None:
    (workdir / "src" / "main.py").write_text("two\n")
    steps: list[Step] = []
    watch(
        store,
        workdir,
        follower,
        clock=lambda: 2_000.0,
        stopped=lambda: True,
        told=steps.append,
        pace=QUICK,
    )
    assert is_captured(store, workdir)


@pytest.mark.parametrize("seed", range(3))
def test_random_edits_are_all_captured_without_a_look_at_everything(
    store: ShadowGitStore, follower: Following, workdir: Path, seed: int
) -> None:
    chance = random.Random(seed)

    def edit() -> None:
        for _ in range(3):
            edit_somewhere(workdir, chance)
        (workdir / "tick").write_text(str(chance.random()))  # so that something is told each time

    done, _ = watched(store, workdir, follower, [edit] * 15)
    assert done.looks == 1
    assert is_captured(store, workdir)


def edit_somewhere(workdir: Path, chance: random.Random) -> None:
    places = sorted(path for path in workdir.rglob("*") if path.is_dir()) or [workdir]
    place = chance.choice([*places, workdir])
    name = place / chance.choice(["a", "b", "c", "Ä"])
    match chance.randrange(5):
        case 0 if not name.is_dir():
            name.write_text(str(chance.random()))
        case 1 if not name.exists():
            (name / "x" / "y").mkdir(parents=True)
            (name / "x" / "y" / "file").write_text(str(chance.random()))
        case 2 if name.is_dir():
            shutil.rmtree(name)
        case 3 if name.exists() and not (workdir / "moved").exists():
            name.rename(workdir / "moved")
        case 4 if name.exists():
            name.chmod(chance.choice([0o700, 0o755]))
        case _:
            pass
