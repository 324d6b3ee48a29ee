"""Taking checkpoints: what is captured, what is named, and which paths are looked at."""

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
    UsageError,
)
from holdfast.model.checkpoint import Capturing, TakeOutcome
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.cli.privileges import as_nobody_special
from tests.contract.checkpoint_bench import Bench, left_out


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


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
        "PHOTO.TIFF",
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
    bench.store = ShadowGitStore(bench.folder, Capturing(excludes=("*.tmp",)))
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


def test_a_broken_configuration_of_the_user_breaks_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[this is no section\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    bench.write("a.txt", "one\n")
    bench.taken()
    bench.write("a.txt", "one\ntwo\n")
    bench.taken("a.txt")
    bench.write("a.txt", "two\n")
    bench.taken()
    assert [(one.insertions, one.deletions) for one in bench.store.list()][:2] == [(0, 1), (1, 0)]


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
    assert left_out(bench.take()) == {"d/.GIT": "git cannot store a file with this name"}
    assert left_out(bench.take()) == {"d/.GIT": "git cannot store a file with this name"}
    assert set(bench.captured().files) == {"a"}


def test_a_lower_size_limit_holds_for_what_was_captured_under_a_higher_one(bench: Bench) -> None:
    bench.write("a", b"x" * 500)
    bench.taken()
    bench.store = ShadowGitStore(bench.folder, Capturing(max_file_size=100))
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
from holdfast.stores.checkpoints.store import ShadowGitStore
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


def test_a_known_path_that_is_ignored_leaves_its_directory_what_it_was(bench: Bench) -> None:
    bench.write("a")
    bench.write("b/only.log")
    bench.taken()
    assert bench.captured().empty == {"b"}
    assert bench.take("b/only.log").outcome is TakeOutcome.UNCHANGED
    shutil.rmtree(bench.project / "b")
    bench.taken("b/only.log")
    assert bench.captured().empty == frozenset()


def test_known_paths_keep_the_permissions_of_directories_without_files(bench: Bench) -> None:
    """git's tree has neither an empty directory nor one that holds only such directories."""
    for folder in ("src", "src/one", "src/two"):
        bench.write(f"{folder}/file")
    modes = {"out": 0o700, "out/logs": 0o750}
    for folder, mode in modes.items():
        (bench.project / folder).mkdir()
        (bench.project / folder).chmod(mode)
    bench.taken()
    bench.write("src/file", "changed\n")
    bench.taken("src/file")
    held = bench.captured().directories
    assert {path: entry.permissions for path, entry in held.items()} == modes
    assert bench.take().outcome is TakeOutcome.UNCHANGED


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


def test_the_modules_of_a_take_load_no_slow_module() -> None:
    """Their import alone would take longer than a take."""
    slow = [
        "asyncio",
        "concurrent.futures",
        "logging",
        "shutil",
        "sqlite3",
        "subprocess",
        "tempfile",
        "threading",
    ]
    code = (
        "import sys, holdfast.stores.checkpoints.writer\n"
        f"print(*[name for name in {slow} if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == []
