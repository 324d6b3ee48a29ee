"""Restoring on bad days: locked directories, a full disk, what a user's git would run."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.homes.holdfast import HoldfastHome
from holdfast.services.plans import plan_drop
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo_latest
from holdfast.stores.checkpoints import working_tree
from holdfast.stores.checkpoints.default_excludes import TEMPORARY
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.repository import project_of
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.cli.privileges import as_nobody_special
from tests.contract.restore_bench import (
    NOW,
    ROOT,
    restore,
    take,
)
from tests.small_disk import with_a_disk
from tests.trees import everything

pytestmark = pytest.mark.usefixtures("bad_day")

# --- Bad days -------------------------------------------------------------------------------------

LOCKED = """
import sys
from pathlib import Path
from holdfast.stores.checkpoints.store import ShadowGitStore

store, project = ShadowGitStore(Path(sys.argv[1])), Path(sys.argv[2])
target = store.take(project, reason="before", now=1.0).id
(project / "src").chmod(0o755)
(project / "src/main.py").write_text("two")
(project / "src/new").write_text("new")
(project / "src").chmod(0o555)
safety = store.secure(target, now=2.0)
done = store.restore(target, safety, now=3.0)
assert not done.kept, done
assert (project / "src/main.py").read_text() == "one\\n"
assert not (project / "src/new").exists()
assert (project / "src").stat().st_mode & 0o777 == 0o555
store.restore(safety, target, now=4.0)
assert (project / "src/new").read_text() == "new"
assert (project / "src").stat().st_mode & 0o777 == 0o555
"""


def test_a_directory_that_nobody_may_write_is_opened_and_closed_again(
    project: Path, tmp_path: Path
) -> None:
    (project / "src").chmod(0o555)
    command = [*as_nobody_special(), sys.executable, "-c", LOCKED]
    done = subprocess.run(
        [*command, str(tmp_path / "store"), str(project)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


FULL = """
import sys
from pathlib import Path
from holdfast.errors import StorageError
from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.homes.holdfast import HoldfastHome
from holdfast.services.rollback import rollback
from holdfast.spine.undo import undo_latest
from tests.trees import everything

home, project = Path(sys.argv[2]), Path(sys.argv[1]) / "project"
project.mkdir()
(home / "operations").mkdir(parents=True)
store, opened = checkpoint_store(home), HoldfastHome(home, clock=lambda: 5.0)
for number in range(20):
    (project / f"{number:02}").write_bytes(bytes([number]) * 100_000)
first = everything(project)
target = store.take(project, reason="before", now=1.0).id
for number in range(20):
    (project / f"{number:02}").write_bytes(b"small")
changed = everything(project)
ballast = project.parent / "more ballast"
with ballast.open("wb") as file:
    try:
        while True:
            file.write(b"x" * 10_000)
            file.flush()
    except OSError:
        file.truncate(file.tell() - 450_000)
try:
    rollback(opened, store, target, command="restore", clock=lambda: 6.0)
except StorageError as error:
    assert "No space" in error.message and "undo" in error.hint, (error.message, error.hint)
else:
    raise AssertionError("there was no room")
assert everything(project) not in (first, changed)
ballast.unlink()
if sys.argv[3] == "undo":
    undo_latest(opened, clock=lambda: 7.0)
    assert everything(project) == changed
else:
    rollback(opened, store, target, command="restore", clock=lambda: 7.0)
    assert everything(project) == first
"""


@pytest.mark.parametrize("way", ["undo", "again"])
def test_a_full_disk_stops_a_restore_that_can_be_undone_or_finished(
    tmp_path: Path, way: str
) -> None:
    with_a_disk(tmp_path, FULL, str(tmp_path / "home"), way, megabytes=4)


NARROW = """
import sys
from pathlib import Path
from holdfast.stores.checkpoints.store import ShadowGitStore

project, store = Path(sys.argv[1]) / "project", ShadowGitStore(Path(sys.argv[2]))
project.mkdir()
files = [project / f"f{n:03}" for n in range(100)]
for file in files:
    file.write_bytes(b"one" * 10_000)
target = store.take(project, reason="before", now=1.0).id
for file in files:
    file.write_bytes(b"two" * 10_000)
safety = store.secure(target, now=2.0)
assert not store.restore(target, safety, now=3.0).kept
assert {file.read_bytes() for file in files} == {b"one" * 10_000}
assert sorted(project.iterdir()) == files  # and nothing beside them
"""


def test_many_files_need_no_room_for_all_of_them_twice(tmp_path: Path) -> None:
    with_a_disk(tmp_path, NARROW, str(tmp_path / "home"), megabytes=4)


def trap_git(person: Path) -> Path:
    """A person whose git runs something at every turn; what it ran stands in the file returned."""
    mark, trap = person / "ran", person / "trap"
    person.mkdir()
    trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {mark}\ncat\n')
    trap.chmod(0o755)
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        shutil.copy(trap, person / name)
    (person / ".gitconfig").write_text(
        f"""
[core]\nhooksPath = {person}\nfsmonitor = {trap}\nautocrlf = true\nattributesFile = {person}/attr
excludesFile = {person}/ignore\npager = {trap}\neditor = {trap}\nsshCommand = {trap}
[filter "evil"]\nclean = {trap}\nsmudge = {trap}\nrequired = true
[commit]\ngpgSign = true\n[gpg]\nprogram = {trap}\n[diff]\nexternal = {trap}
[diff "evil"]\ntextconv = {trap}\ncommand = {trap}\n[alias]\ndiff-files = "!{trap}"
"""
    )
    (person / "attr").write_text("* filter=evil diff=evil text=auto eol=crlf\n")
    (person / "ignore").write_text("*\n")
    return mark


def test_nothing_of_the_users_git_is_ever_run(
    home: HoldfastHome,
    store: ShadowGitStore,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hooks, filters, signing, file system monitors: each would leave a mark."""
    person = tmp_path / "person"
    mark, trap = trap_git(person), person / "trap"
    plain = {"PATH": os.environ["PATH"], "HOME": str(person)}
    subprocess.run(["git", "init", "-q", str(project)], check=True, env=plain)
    mark.unlink(missing_ok=True)
    for name, value in (
        ("HOME", person),
        ("XDG_CONFIG_HOME", person),
        ("GIT_CONFIG_GLOBAL", person / ".gitconfig"),
        ("GIT_CONFIG_SYSTEM", person / ".gitconfig"),
        ("GIT_EXTERNAL_DIFF", trap),
        ("GIT_DIR", person),
        ("GIT_INDEX_FILE", person / "index"),
        ("GIT_OBJECT_DIRECTORY", person / "objects"),
        ("GIT_TRACE", mark),
    ):
        monkeypatch.setenv(name, str(value))
    for hook in ("post-checkout", "pre-commit", "post-index-change"):
        (project / ".git/hooks").mkdir(exist_ok=True)
        shutil.copy(trap, project / ".git/hooks" / hook)
    (project / ".gitattributes").write_text("* filter=evil diff=evil text eol=crlf ident\n")
    (project / "crlf").write_bytes(b"a\r\nb\n$Id$\n")
    before, target = everything(project), take(store, project)
    (project / "crlf").write_bytes(b"other")
    shutil.rmtree(project / "src")
    other = take(store, project)
    trees = [store.get(each).tree for each in (target, other)]
    assert b"+other" in b"".join(store.patch(*trees))
    assert store.get(other).deletions == 5
    (store.layout.private(project_of(project)) / "index").unlink()  # git makes it anew
    restore(store, target)
    assert everything(project) == before
    take(store, project)
    upkeep = home.checkpoint_upkeep
    apply(plan_drop(upkeep, [other], now=NOW, command="drop"), home, clock=lambda: NOW)
    undo_latest(home, clock=lambda: NOW)
    reclaim(store.layout, holder="test", thorough=True)
    assert upkeep.verify().ok
    assert not mark.exists(), mark.read_text()
    assert not list(person.glob("index*"))
    assert not list(person.glob("objects/*"))


@pytest.mark.skipif(sys.platform != "linux", reason="there are no leases")
@pytest.mark.parametrize("captured", [True, False], ids=["overwritten", "deleted"])
def test_who_found_a_file_just_before_it_lost_its_name_loses_nothing(
    store: ShadowGitStore, project: Path, monkeypatch: pytest.MonkeyPatch, *, captured: bool
) -> None:
    """Opening a file is to find it and then to open it. In between, a restore may put another one
    in its place; the last look at the old one shows nothing yet."""
    path = project / "file"
    if captured:
        path.write_text("one")
    target = take(store, project)
    path.write_text("two")
    writers: list[subprocess.Popen[bytes]] = []
    look = working_tree._state_at

    def late(name: bytes, fd: int, *, size: int | None = None) -> working_tree.PathState:
        seen = look(name, fd, size=size)
        if name.startswith(TEMPORARY) and not writers:
            writers.append(writer := overwrite(Path(f"/proc/self/fd/{fd}") / os.fsdecode(name)))
            with contextlib.suppress(subprocess.TimeoutExpired):
                writer.wait(2)  # it would be done by then
        return seen

    monkeypatch.setattr(working_tree, "_state_at", late)
    done = restore(store, target)
    assert [each.wait() for each in writers] == [0]
    assert path.read_text() == "new"
    assert [each.path for each in done.kept] == ["file"]


def overwrite(path: Path) -> subprocess.Popen[bytes]:
    program = f"open({os.path.realpath(path)!r}, 'r+').write('new')"
    return subprocess.Popen([sys.executable, "-c", program])
