"""Taking checkpoints: what is captured, what is named, what is refused, and what survives."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import (
    BusyError,
    SchemaError,
    StorageError,
    UnknownCheckpointError,
    UsageError,
)
from holdfast.model.checkpoint import Captured, ChangeKind, ProjectState, TakeOutcome, Taking
from holdfast.stores.shadowgit import git as git_program
from holdfast.stores.shadowgit.repository import REFS, alone, used
from holdfast.stores.shadowgit.store import ShadowGitStore
from tests.cli.privileges import as_nobody_special

ROOT = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root")


class Bench:
    """A project and a store, with a clock that moves by itself."""

    def __init__(self, place: Path) -> None:
        self.project = place / "project"
        self.project.mkdir()
        self.folder = place / "home 'of' \"mine\"" / "checkpoints"
        self.store = ShadowGitStore(self.folder, user_home=place, max_file_size=1_000)
        self.now = 1_000.0

    def write(self, path: str, content: str | bytes = "text\n", mode: int = 0o644) -> Path:
        place = self.project / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)
        return place

    def take(self, *paths: str) -> Taking:
        self.now += 1
        return self.store.take(
            self.project, reason="before a turn", now=self.now, paths=list(paths) or None
        )

    def taken(self, *paths: str) -> str:
        taking = self.take(*paths)
        assert taking.outcome is TakeOutcome.TAKEN
        assert taking.id is not None
        return taking.id

    def captured(self) -> Captured:
        return self.store.captured(self.store.list(self.project)[0].tree)

    def content(self, path: str) -> bytes:
        return self.store.blob(self.captured().files[path].oid)

    @property
    def private(self) -> Path:
        (folder,) = (self.store.layout.store / "worktrees").iterdir()
        return folder

    def git(self, *arguments: str) -> str:
        return self.store.layout.git().run(*arguments).output.decode()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def left_out(taking: Taking) -> dict[str, str]:
    return {one.path: one.reason for one in taking.not_captured}


# --- What is captured -----------------------------------------------------------------------------


def test_a_checkpoint_says_when_why_for_whom_and_what_changed(bench: Bench) -> None:
    bench.write("a.txt", "one\ntwo\n")
    bench.taken()
    bench.write("a.txt", "one\n2\nthree\n")
    bench.write("b.txt", "new\n")
    taking = bench.store.take(
        bench.project, reason="turn 7\n\nof many", now=1_234.5, session="s1", turn="7"
    )
    (newest, _) = bench.store.list(bench.project)
    assert newest == bench.store.get((taking.id or "")[:8])
    assert (newest.time, newest.reason) == (1_234.5, "turn 7\n\nof many")
    assert (newest.session, newest.turn, newest.workdir) == ("s1", "7", str(bench.project))
    assert (newest.files_changed, newest.insertions, newest.deletions) == (2, 3, 1)


def test_nothing_new_is_taken_when_nothing_changed(bench: Bench) -> None:
    bench.write("a.txt")
    first = bench.taken()
    again = bench.take()
    assert (again.outcome, again.id) == (TakeOutcome.UNCHANGED, first)
    assert len(bench.store.list()) == 1


def test_an_empty_project_can_be_captured(bench: Bench) -> None:
    bench.taken()
    assert bench.take().outcome is TakeOutcome.UNCHANGED
    bench.write("a")
    bench.taken()
    (bench.project / "a").unlink()
    bench.taken()
    assert not bench.captured().files


def test_a_repository_in_the_project_is_captured_without_its_git_folder(bench: Bench) -> None:
    bench.write("top.txt")
    nested = bench.project / "nested"
    subprocess.run(["git", "init", "-q", nested], check=True)
    bench.write("nested/deep/file.txt", "inside\n")
    bench.write("worktree/.git", "gitdir: /somewhere\n")
    bench.write("worktree/file.txt", "beside\n")
    bench.taken()
    assert set(bench.captured().files) == {"top.txt", "nested/deep/file.txt", "worktree/file.txt"}
    bench.write("nested/more.txt")
    bench.taken()
    assert "nested/more.txt" in bench.captured().files


def test_ignore_rules_decide_even_about_what_was_captured_before(bench: Bench) -> None:
    bench.write("data/kept.csv")
    bench.write("data/other.csv")
    bench.taken()
    bench.write(".gitignore", "data/*\n!data/kept.csv\n")
    bench.taken()
    assert set(bench.captured().files) == {".gitignore", "data/kept.csv"}
    bench.write(".gitignore", "")
    bench.taken()
    assert set(bench.captured().files) == {".gitignore", "data/kept.csv", "data/other.csv"}


@pytest.mark.parametrize(
    "path",
    [
        "node_modules/x/index.js",
        "deep/.venv/bin/tool",
        ".env",
        "keys/server.pem",
        "app.log",
        "PHOTO.JPG",
        "pkg/__pycache__/m.cpython-311.pyc",
        "dist.zip",
        ".hg/store",
    ],
)
def test_default_excludes_are_left_out_unlisted(bench: Bench, path: str) -> None:
    bench.write("source.py")
    bench.write(path)
    taking = bench.take()
    assert set(bench.captured().files) == {"source.py"}
    assert taking.not_captured == ()


def test_a_project_may_ask_for_what_is_excluded(bench: Bench) -> None:
    bench.write("logo.png")
    bench.write(".env.example")
    bench.write(".gitignore", "!logo.png\n")
    bench.taken()
    assert set(bench.captured().files) == {".gitignore", ".env.example", "logo.png"}


def test_excludes_of_the_configuration_are_obeyed_at_once(bench: Bench) -> None:
    bench.write("a.txt")
    bench.write("b.tmp")
    bench.taken()
    bench.store = ShadowGitStore(bench.folder, excludes=["*.tmp"])
    bench.taken()
    assert set(bench.captured().files) == {"a.txt"}


def test_user_configuration_of_git_does_not_leak_in(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    config = tmp_path / "gitconfig"
    config.write_text(
        f"[core]\nautocrlf = true\nexcludesFile = {tmp_path}/ignore\nfsmonitor = touch {marker}\n"
        f'[filter "evil"]\nclean = touch {marker}; cat\nrequired = true\n'
        f"[commit]\ngpgSign = true\n[gpg]\nprogram = touch {marker}\n"
    )
    (tmp_path / "ignore").write_text("*\n")
    for name, value in (
        ("GIT_CONFIG_GLOBAL", str(config)),
        ("GIT_DIR", str(tmp_path / "elsewhere")),
        ("GIT_INDEX_FILE", str(tmp_path / "index")),
        ("HOME", str(tmp_path)),
    ):
        monkeypatch.setenv(name, value)
    shutil.copy(config, tmp_path / ".gitconfig")
    bench.write(".gitattributes", "* text=auto eol=crlf filter=evil ident\n")
    content = b"one\r\ntwo\n$Id$\n"
    bench.write("a.txt", content)
    bench.taken()
    bench.write("b.txt", content)
    bench.taken("b.txt")
    assert bench.content("a.txt") == bench.content("b.txt") == content
    assert not marker.exists()
    assert not list(tmp_path.glob("index*"))


def test_many_files_at_once_go_into_a_pack_and_are_equal(bench: Bench) -> None:
    for number in range(300):
        bench.write(f'd{number % 7}/f {number}\n"x\\.txt', f"content {number % 50}\n", 0o600)
    bench.write(os.fsdecode(b"d1/bad\xff"), "x")
    bench.taken()
    files = bench.captured().files
    assert len(files) == 301
    assert bench.content('d3/f 3\n"x\\.txt') == b"content 3\n"
    assert files[os.fsdecode(b"d1/bad\xff")].permissions == 0o644
    assert files['d3/f 3\n"x\\.txt'].permissions == 0o600
    assert list((bench.store.layout.store / "objects/pack").glob("*.pack"))
    assert bench.git("for-each-ref", "refs/holdfast-import/") == ""
    assert bench.take().outcome is TakeOutcome.UNCHANGED
    shutil.rmtree(bench.project / "d3")
    for number in range(150):
        bench.write(f"d3/sub/{number}")
    bench.write("d4", "was a folder") if not (bench.project / "d4").exists() else None
    bench.taken()
    assert sum(path.startswith("d3/") for path in bench.captured().files) == 150


def test_a_looser_umask_does_not_fill_the_record_of_modes(bench: Bench) -> None:
    for number in range(20):
        bench.write(f"d/{number}", mode=0o664)
    (bench.project / "d").chmod(0o775)
    bench.taken()
    captured = bench.captured()
    assert {entry.permissions for entry in captured.files.values()} == {0o664}
    assert (captured.usual_directory, dict(captured.directories)) == (0o775, {})


# --- What cannot be captured is named -------------------------------------------------------------


def test_what_is_too_large_or_special_is_named_and_never_stored(bench: Bench) -> None:
    bench.write("small")
    bench.write("large", b"x" * 1_001)
    os.mkfifo(bench.project / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(bench.project / "socket"))
        taking = bench.take()
    assert left_out(taking) == {
        "large": "too large: 1.0 kB, the limit is 1.0 kB",
        "pipe": "a named pipe, not a file",
        "socket": "a socket, not a file",
    }
    assert bench.store.list()[0].not_captured == taking.not_captured
    bench.write("large", b"y" * 1_000)
    bench.taken()
    assert set(bench.captured().files) == {"small", "large"}
    sizes = bench.git("cat-file", "--batch-all-objects", "--batch-check=%(objectsize)").split()
    assert "1001" not in sizes


def test_a_captured_file_that_cannot_be_captured_any_more_leaves_and_is_named(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.write(name)
    bench.taken()
    bench.write("a", b"x" * 2_000)
    (bench.project / "b").unlink()
    os.mkfifo(bench.project / "b")
    assert set(left_out(bench.take())) == {"a", "b"}
    assert set(bench.captured().files) == {"c"}


def test_a_name_that_git_keeps_for_itself_is_named(bench: Bench) -> None:
    bench.write("a")
    bench.write("d/.GIT/x")
    assert left_out(bench.take()) == {"d/.GIT": "git cannot hold a file of this name"}
    assert left_out(bench.take()) == {"d/.GIT": "git cannot hold a file of this name"}
    assert set(bench.captured().files) == {"a"}


def test_a_lower_size_limit_holds_for_what_was_captured_under_a_higher_one(bench: Bench) -> None:
    bench.write("a", b"x" * 500)
    bench.taken()
    bench.store = ShadowGitStore(bench.folder, max_file_size=100)
    assert set(left_out(bench.take())) == {"a"}
    assert not bench.captured().files


WRITER = """
import sys
n = 0
with open(sys.argv[1], "r+b", buffering=0) as file:
    print("ready", flush=True)
    while True:
        n += 1
        file.seek(0)
        file.write(bytes([n % 256]) * 400_000)
"""


def test_a_file_that_never_holds_still_is_named_and_the_rest_is_captured(bench: Bench) -> None:
    bench.store = ShadowGitStore(bench.folder)
    busy = bench.write("busy", b"x" * 400_000)
    bench.write("calm")
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(busy)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            taking = bench.take()
        finally:
            writer.kill()
    files = bench.captured().files
    assert "calm" in files
    # A writer may have been stopped in the middle of a write: then that is what the file holds.
    if "busy" in files:
        assert len(bench.content("busy")) == 400_000
        assert taking.not_captured == ()
    else:
        assert left_out(taking) == {"busy": "changed while it was read"}


UNPRIVILEGED = """
import json, sys
from pathlib import Path
from holdfast.stores.shadowgit.store import ShadowGitStore
place = Path(sys.argv[1])
store = ShadowGitStore(place / "store")
def take(now):
    taking = store.take(place / "project", reason="r", now=now)
    files = sorted(store.captured(store.list()[0].tree).files)
    return [taking.outcome, {one.path: one.reason for one in taking.not_captured}, files]
said = [take(1.0)]
(place / "project/secret").chmod(0o000)
(place / "project/shut").chmod(0o000)
(place / "project/half").chmod(0o600)
said += [take(2.0), take(3.0)]
(place / "project/shut").chmod(0o700)
(place / "project/half").chmod(0o700)
said += [take(4.0)]
print(json.dumps(said))
"""


def test_what_cannot_be_read_is_named_and_never_kept_stale(bench: Bench, tmp_path: Path) -> None:
    for name in ("open", "secret", "shut/a", "half/b"):
        bench.write(name)
    done = subprocess.run(
        [*as_nobody_special(), sys.executable, "-c", UNPRIVILEGED, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first, second, third, fourth = json.loads(done.stdout)
    assert first == ["taken", {}, ["half/b", "open", "secret", "shut/a"]]
    denied = "cannot be read: Permission denied"
    assert second == [
        "taken",
        {
            "half/b": denied,
            "secret": denied,
            "shut": "a directory that cannot be read: Permission denied",
        },
        ["open"],
    ]
    assert third == ["unchanged", second[1], ["open"]]
    assert fourth == ["taken", {"secret": denied}, ["half/b", "open", "shut/a"]]


# --- Known paths ----------------------------------------------------------------------------------


def test_known_paths_are_looked_at_and_nothing_else(bench: Bench) -> None:
    bench.write("a", "1")
    bench.write("b", "1")
    bench.taken()
    bench.write("a", "2")
    bench.write("b", "2")
    bench.write("new/c", "2")
    bench.taken("a", "new")
    assert (bench.content("a"), bench.content("b"), bench.content("new/c")) == (b"2", b"1", b"2")
    bench.taken()
    assert bench.content("b") == b"2"
    assert bench.take().outcome is TakeOutcome.UNCHANGED


def test_known_paths_obey_the_rules(bench: Bench) -> None:
    bench.write("a")
    bench.write(".gitignore", "ignored\n")
    bench.taken()
    bench.write("ignored")
    bench.write("node_modules/x")
    bench.write(".env")
    bench.write(".git/config")
    given = ("ignored", "node_modules", "node_modules/x", ".env", ".git/config", "nowhere")
    assert bench.take(*given).outcome is TakeOutcome.UNCHANGED


def test_known_paths_may_be_absolute_and_must_be_inside(bench: Bench) -> None:
    bench.write("a", "1")
    bench.taken()
    bench.write("a", "2")
    bench.taken(str(bench.project / "a"))
    for outside in ("../x", "/etc/passwd", str(bench.project.parent)):
        with pytest.raises(UsageError, match="is not in"):
            bench.take(outside)


def test_a_known_path_behind_a_link_is_the_link(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("not ours")
    bench.write("a")
    bench.taken()
    (bench.project / "link").symlink_to(tmp_path / "outside")
    bench.taken("link/secret")
    files = bench.captured().files
    assert set(files) == {"a", "link"}
    assert files["link"].is_link


# --- Refused --------------------------------------------------------------------------------------


def test_places_that_are_too_broad_are_skipped_with_a_reason(bench: Bench, tmp_path: Path) -> None:
    bench.write("a")
    bench.taken()
    before = sorted(bench.folder.rglob("*"))
    for place, why in (
        (Path("/"), "the root of the file system"),
        (tmp_path, "the home directory"),
        (tmp_path.parent, "the home directory is in it"),
        (Path("/etc"), "a folder of the system"),
        (Path("/proc/self"), "a folder of the system"),
        (bench.folder, "a part of the checkpoint store"),
        (bench.folder / "store/refs", "a part of the checkpoint store"),
        (bench.folder.parent, "the checkpoint store is in it"),
        (tmp_path / "nowhere", "there is no such directory"),
        (bench.project / "a", "not a directory"),
    ):
        taking = bench.store.take(place, reason="r", now=1.0)
        assert taking.outcome is TakeOutcome.SKIPPED
        assert taking.id is None
        assert why in taking.reason
    assert sorted(bench.folder.rglob("*")) == before


def test_git_missing_or_too_old_is_said(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(StorageError, match="need git"):
        bench.take()
    old = tmp_path / "old/git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.31.9\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(StorageError, match=r"2\.32 or later.*2\.31\.9"):
        bench.take()
    assert git_program.OLDEST == (2, 32)


@needs_root
def test_a_store_of_another_user_is_refused(bench: Bench) -> None:
    bench.write("a")
    bench.taken()
    os.chown(bench.store.layout.store, 65534, 65534)
    with pytest.raises(StorageError, match="belongs to user 65534"):
        bench.take()


def test_a_store_of_a_newer_version_is_refused_untouched(bench: Bench) -> None:
    bench.write("a")
    bench.taken()
    (bench.store.layout.store / "format").write_text("2\n")
    bench.write("a", "changed")
    before = sorted(bench.folder.rglob("*"))
    with pytest.raises(SchemaError, match="format '2'"):
        bench.take()
    assert sorted(bench.folder.rglob("*")) == before


def test_reading_creates_nothing(bench: Bench) -> None:
    assert bench.store.list() == ()
    assert bench.store.projects() == []
    with pytest.raises(UnknownCheckpointError):
        bench.store.get("abcd")
    assert not bench.folder.exists()


def test_everything_in_the_store_is_private(bench: Bench) -> None:
    bench.write("a", mode=0o666)
    bench.taken()
    open_to_others = [
        place for place in (bench.folder, *bench.folder.rglob("*")) if place.stat().st_mode & 0o077
    ]
    inner = {bench.store.layout.store}
    assert not [place for place in open_to_others if not inner & {place, *place.parents}]
    assert bench.store.layout.store.stat().st_mode & 0o777 == 0o700


# --- Bad days -------------------------------------------------------------------------------------


def test_a_damaged_or_missing_index_is_rebuilt_by_itself(bench: Bench) -> None:
    for number in range(5):
        bench.write(f"f{number}")
    bench.taken()
    for harm in (b"", b"not an index", None):
        index = bench.private / "index"
        if harm is None:
            index.unlink()
        else:
            index.write_bytes(harm)
        bench.write("f1", f"after {harm!r}")
        bench.taken()
        assert bench.content("f1") == f"after {harm!r}".encode()
    assert len(bench.captured().files) == 5


def test_a_lock_that_a_killed_git_left_is_no_obstacle(bench: Bench) -> None:
    bench.write("a")
    bench.taken()
    (bench.private / "index.lock").touch()
    for number in range(200):
        bench.write(f"many/{number}")
    bench.taken()
    assert not (bench.private / "index.lock").exists()
    assert bench.take().outcome is TakeOutcome.UNCHANGED


def test_a_damaged_last_checkpoint_does_not_stop_the_next(bench: Bench) -> None:
    bench.write("a/b", "one")
    first = bench.taken()
    bench.write("a/b", "two")
    bench.taken()
    tree = bench.git("rev-parse", f"{bench.store.list()[0].id}:files/a").strip()
    damaged = bench.store.layout.store / "objects" / tree[:2] / tree[2:]
    damaged.chmod(0o600)
    damaged.write_bytes(b"broken")
    bench.write("a/b", "three")
    bench.write("a/c", "three")
    bench.taken()
    assert bench.content("a/b") == b"three"
    assert bench.store.captured(bench.store.get(first).tree).files["a/b"].oid


def test_dropping_the_newest_makes_the_one_before_the_measure(bench: Bench) -> None:
    bench.write("a", "one")
    first = bench.taken()
    bench.write("a", "two")
    bench.write("b", "two")
    bench.taken()
    (newest, _) = bench.git("for-each-ref", "--sort=-refname", "--format=%(refname)").split()
    bench.git("update-ref", "-d", newest)
    bench.write("a", "one")
    (bench.project / "b").unlink()
    taking = bench.take()
    assert (taking.outcome, taking.id) == (TakeOutcome.UNCHANGED, first)


def test_all_dropped_is_a_fresh_start(bench: Bench) -> None:
    bench.write("a", "one")
    bench.taken()
    bench.git("update-ref", "-d", bench.git("for-each-ref", "--format=%(refname)").strip())
    bench.taken()
    assert set(bench.captured().files) == {"a"}


def test_a_clock_that_was_set_back_changes_no_order(bench: Bench) -> None:
    bench.write("a", "one")
    bench.taken()
    bench.write("a", "two")
    bench.now = 10.0
    second = bench.taken()
    newest = bench.store.list()[0]
    assert (newest.id, newest.time) == (second, 11.0)
    bench.write("a", "one")
    bench.taken()


def test_a_store_that_is_being_reclaimed_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("a")
    bench.taken()
    monkeypatch.setattr("holdfast.stores.shadowgit.repository._WAIT", 0.1)
    with alone(bench.store.layout, holder="prune"), pytest.raises(BusyError, match="reclaiming"):
        bench.take()
    with (
        used(bench.store.layout),
        pytest.raises(BusyError),
        alone(bench.store.layout, holder="prune", wait=0.1),
    ):
        pass


FULL = """
import json, sys, os
from pathlib import Path
from holdfast.errors import StorageError
from holdfast.stores.shadowgit.store import ShadowGitStore
small, project = Path(sys.argv[1]), Path(sys.argv[2])
store = ShadowGitStore(small / "checkpoints")
many = int(sys.argv[3])
refused = []
for number in range(200):
    for file in range(many):
        (project / f"f{file}").write_bytes(os.urandom(20_000))
    try:
        store.take(project, reason=str(number), now=float(number))
    except StorageError as error:
        refused.append(error.message)
        break
kept = len(store.list())
(small / "ballast").unlink()
after = store.take(project, reason="after", now=1000.0)
whole = all(
    store.blob(entry.oid)
    for checkpoint in store.list()
    for entry in store.captured(checkpoint.tree).files.values()
)
fsck = store.layout.git().run("fsck", "--full", "--strict", ok=range(256)).status
print(json.dumps([refused, kept, after.outcome, len(store.list()), whole, fsck]))
"""


@needs_root
@pytest.mark.parametrize("many", [2, 120], ids=["one by one", "as a pack"])
def test_a_full_disk_leaves_every_checkpoint_whole(tmp_path: Path, many: int) -> None:
    (tmp_path / "script.py").write_text(FULL)
    small, project = tmp_path / "small", tmp_path / "project"
    small.mkdir()
    project.mkdir()
    ballast = f"dd if=/dev/zero of={small}/ballast bs=1M count=6 status=none"
    mount = f"mount -t tmpfs -o size=12m tmpfs {small}"
    run = f"{sys.executable} {tmp_path}/script.py {small} {project} {many}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && {ballast} && {run}"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no small file system can be made here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    refused, kept, outcome, after, whole, fsck = json.loads(done.stdout)
    assert len(refused) == 1
    assert "space" in refused[0]
    assert (outcome, after, whole, fsck) == ("taken", kept + 1, True, 0)


# --- Finding and comparing ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    ["", "abc", "--all", "HEAD", "../x", "refs/x", "ABCD", "abcd ", "a" * 41, "abcd\n", "zzzz"],
)
def test_what_is_no_id_never_meets_git(bench: Bench, bad: str) -> None:
    bench.write("a")
    bench.taken()
    with pytest.raises(UnknownCheckpointError, match="not the id"):
        bench.store.get(bad)


def test_an_ambiguous_beginning_lists_what_it_could_be(bench: Bench) -> None:
    bench.write("a")
    known = bench.taken()
    tree = bench.git("rev-parse", f"{known}^{{tree}}").strip()
    project = bench.store.list()[0].project
    # Commits that differ in their message alone, until one begins like the known one's neighbour.
    seen: dict[str, str] = {}
    for number in range(2_000):
        made = bench.store.layout.git().run(
            *("-c", "user.name=x", "-c", "user.email=x", "commit-tree", tree, "-m", str(number))
        )
        commit = made.output.decode().strip()
        if commit[:4] in seen:
            break
        seen[commit[:4]] = commit
    else:
        pytest.skip("no two ids begin alike")
    pair = {commit, seen[commit[:4]]}
    for number, one in enumerate(pair):
        bench.git("update-ref", f"{REFS}{project}/00000000000000{number}-{one[:8]}", one)
    with pytest.raises(UnknownCheckpointError, match="2 checkpoints have ids") as caught:
        bench.store.get(commit[:4])
    assert all(one[:12] in caught.value.message for one in pair)
    assert bench.store.get(known).id == known


def test_every_checkpoint_is_found_by_its_id(bench: Bench) -> None:
    for number in range(40):
        bench.write("a", str(number))
        bench.taken("a") if number else bench.taken()
    ids = [one.id for one in bench.store.list()]
    assert len(set(ids)) == 40
    assert all(bench.store.get(one).id == one for one in ids[:3])
    with pytest.raises(UnknownCheckpointError, match="No checkpoint has an id"):
        bench.store.get("0" * 40)


def test_changes_tell_every_kind(bench: Bench) -> None:
    bench.write("same")
    bench.write("edited", "1")
    bench.write("gone")
    bench.write("mode")
    bench.write("turned/file")
    bench.write("linked")
    (bench.project / "hollow").mkdir()
    old = bench.store.get(bench.taken())
    bench.write("edited", "2")
    (bench.project / "gone").unlink()
    bench.write("came")
    (bench.project / "mode").chmod(0o600)
    shutil.rmtree(bench.project / "turned")
    bench.write("turned")
    (bench.project / "linked").unlink()
    (bench.project / "linked").symlink_to("same")
    (bench.project / "hollow").rmdir()
    (bench.project / "bare").mkdir(mode=0o700)
    new = bench.store.get(bench.taken())
    found = {one.path: one for one in bench.store.changes(old.tree, new.tree)}
    assert {path: one.kind for path, one in found.items()} == {
        "bare": ChangeKind.ADDED,
        "came": ChangeKind.ADDED,
        "edited": ChangeKind.MODIFIED,
        "gone": ChangeKind.DELETED,
        "hollow": ChangeKind.DELETED,
        "linked": ChangeKind.TYPE,
        "mode": ChangeKind.MODIFIED,
        "turned": ChangeKind.ADDED,
        "turned/file": ChangeKind.DELETED,
    }
    mode = found["mode"]
    assert mode.old is not None
    assert mode.new is not None
    assert (mode.old.oid, mode.old.permissions, mode.new.permissions) == (
        mode.new.oid,
        0o644,
        0o600,
    )
    assert bench.store.changes(new.tree, new.tree) == []


def test_a_look_is_compared_like_a_checkpoint_and_leaves_none(bench: Bench) -> None:
    bench.write("a", "1\n")
    taken = bench.store.get(bench.taken())
    bench.write("a", "2\n")
    os.mkfifo(bench.project / "pipe")
    sight = bench.store.look(bench.project)
    (change,) = bench.store.changes(taken.tree, sight.tree)
    assert (change.path, change.kind) == ("a", ChangeKind.MODIFIED)
    assert [one.path for one in sight.not_captured] == ["pipe"]
    assert len(bench.store.list()) == 1
    lines = bench.store.lines(taken.tree, sight.tree)
    assert (lines.insertions, lines.deletions) == (1, 1)
    bench.taken()


def test_lines_are_counted_at_once_or_when_asked(bench: Bench) -> None:
    for number in range(250):
        bench.write(f"{number}", "a\nb\n")
    taken = bench.store.get(bench.taken())
    assert (taken.files_changed, taken.insertions, taken.deletions) == (250, None, None)
    assert bench.store.lines(None, taken.tree).insertions == 500


# --- Projects -------------------------------------------------------------------------------------


def test_projects_are_live_missing_or_stale(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    bench.write("a")
    bench.taken()
    bench.store.take(other, reason="r", now=500.0)
    shutil.rmtree(other)
    by_place = {one.workdir: one for one in bench.store.projects(stale_before=1_000.0)}
    assert by_place[str(bench.project)].state is ProjectState.LIVE
    assert by_place[str(other)].state is ProjectState.MISSING
    assert by_place[str(bench.project)].checkpoints == 1
    stale = {one.workdir: one.state for one in bench.store.projects(stale_before=2_000.0)}
    assert stale[str(bench.project)] is ProjectState.STALE


def test_a_project_without_its_record_is_known_from_its_checkpoints(bench: Bench) -> None:
    bench.write("a")
    bench.taken()
    for record in (bench.folder / "projects").iterdir():
        record.write_text("{")
    (project,) = bench.store.projects()
    assert (project.workdir, project.state) == (str(bench.project), ProjectState.LIVE)


def test_two_worktrees_share_their_content(bench: Bench, tmp_path: Path) -> None:
    for number in range(120):
        bench.write(f"f{number}", f"content {number}\n" * 20)
    bench.taken()
    before = bench.git("count-objects", "-v")
    shutil.copytree(bench.project, tmp_path / "copy")
    taken = bench.store.take(tmp_path / "copy", reason="r", now=2_000.0)
    assert taken.outcome is TakeOutcome.TAKEN
    assert len(bench.store.list()) == 2
    packs = [line for line in before.splitlines() if line.startswith("in-pack")]
    after = bench.git("count-objects", "-v").splitlines()
    grown = int(next(line for line in after if line.startswith("in-pack")).split()[1])
    assert grown - int(packs[0].split()[1]) <= 3
