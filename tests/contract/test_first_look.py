"""The first look at many files: other processes read them, and nothing depends on these."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.model.checkpoint import TakeOutcome
from holdfast.stores import interpreter
from holdfast.stores.checkpoints import look, readers
from holdfast.stores.checkpoints.readers import Readers, Reading
from holdfast.stores.git.object import Kind
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.pack_writer import Pack
from tests.contract.checkpoint_bench import Bench, left_out


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A project of which a first look counts as one at many files."""
    monkeypatch.setattr(look, "_MANY", 3)
    monkeypatch.setattr(readers, "_PORTION", 2)
    monkeypatch.setattr(readers, "_spare_processors", lambda: 2)
    bench = Bench(tmp_path)
    for number in range(20):
        bench.write(f"folder {number % 3}/deep/file{number}", f"{number}\n" * (number * 40 % 300))
    bench.write("folder 1/program", "#!/bin/sh\n", 0o755)
    bench.write("folder.1", "sorted before the folder\n", 0o600)
    bench.write("folder 1-", "sorted before what is in it\n")
    bench.write("large", "x" * 2_000)
    (bench.project / "link").symlink_to("folder 1")
    (bench.project / "empty/within").mkdir(parents=True)
    os.mkfifo(bench.project / "pipe")
    (bench.project / os.fsdecode(b"not utf-8 \xff")).write_bytes(b"\0\xff")
    return bench


def whole(bench: Bench) -> None:
    """The checkpoint is the working tree, in the words of git too."""
    taking = bench.take()
    assert taking.outcome is TakeOutcome.TAKEN
    assert set(left_out(taking)) == {"large", "pipe"}
    captured = bench.captured()
    found = {path: (each.mode, bench.store.blob(each.oid)) for path, each in captured.files.items()}
    there = {}
    for path in bench.project.rglob("*"):
        if path.is_symlink():
            there[path] = os.fsencode(path.readlink())
        elif path.is_file() and path.name != "large":
            there[path] = path.read_bytes()
    assert found == {
        str(path.relative_to(bench.project)): (path.lstat().st_mode, data)
        for path, data in there.items()
    }
    assert set(captured.empty) == {"empty/within"}
    checkpoint = bench.store.list()[0]
    assert checkpoint.files_changed == len(found)
    bench.git("fsck", "--strict")
    assert bench.take().outcome is TakeOutcome.UNCHANGED
    bench.write("folder 2/deep/file2", "changed\n")
    bench.taken()
    assert bench.content("folder 2/deep/file2") == b"changed\n"


def _as_it_is(_: pytest.MonkeyPatch) -> None:
    """Both workers do what they are asked for."""


def _without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "is_python", lambda: False)


def _cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(readers._Worker, "__init__", refused)


def _ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "worker_words", lambda *_: ["true"])


def _says_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "worker_words", lambda *_: ["echo", "nonsense"])


def _is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "worker_words", lambda *_: ["sleep", "100"])
    monkeypatch.setattr(readers, "_SILENT_MS", 50)


def _is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle: after its first answer."""
    answer = readers._Worker.answer

    def one(worker: readers._Worker) -> object:
        found = answer(worker)
        os.kill(worker._process.pid, signal.SIGKILL)
        return found

    monkeypatch.setattr(readers._Worker, "answer", one)


@pytest.mark.parametrize(
    "fate",
    [_as_it_is, _without, _cannot_start, _ends_at_once, _says_nonsense, _is_silent, _is_killed],
)
def test_the_first_checkpoint_is_the_working_tree(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fate: Callable[[pytest.MonkeyPatch], None]
) -> None:
    fate(monkeypatch)
    whole(bench)


def test_two_answers_that_came_together_are_both_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We may have waited long enough for that: on a busy machine, or when a signal came."""
    monkeypatch.setattr(readers, "_PORTION", 2)
    monkeypatch.setattr(readers, "_SILENT_MS", 5_000)
    names = [b"%d" % number for number in range(4)]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_bytes(name)

    def slowly() -> Iterator[bytes]:
        yield from names
        time.sleep(1)  # meanwhile both answers come

    how = Reading(root=os.fsencode(tmp_path), limit=None, moment=0, objects=tmp_path / "objects")
    (tmp_path / "objects").mkdir()
    with Readers(how, workers=1) as both:
        assert {path for path, _ in both.read(slowly())} == set(names)
        assert both._workers, "it was taken for silent"


def test_it_is_the_checkpoint_that_one_process_takes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.taken()
    tree = bench.store.list()[0].tree
    monkeypatch.setattr(look, "_MANY", 1_000)
    bench.taken_anew()
    assert bench.store.list()[0].tree == tree


@pytest.fixture
def workers(bench: Bench, tmp_path: Path) -> Iterator[Readers]:
    objects = tmp_path / "objects"
    (objects / "pack").mkdir(parents=True)
    root = os.fsencode(bench.project)
    with Readers(Reading(root=root, limit=None, moment=0, objects=objects), workers=1) as made:
        yield made


def test_nobody_is_left_behind(workers: Readers) -> None:
    (worker,) = workers._workers
    paths = [b"large"] * 50
    reading = workers.read(paths)
    next(reading)
    del reading  # as after an error of whoever writes
    workers.__exit__()
    with pytest.raises(ProcessLookupError):
        os.kill(worker._process.pid, 0)


def test_a_worker_ends_with_whoever_started_it(workers: Readers) -> None:
    (worker,) = workers._workers
    assert worker._process.stdin is not None
    worker._process.stdin.close()
    assert worker._process.wait(20) == 0


def test_what_the_repository_has_is_not_compressed(bench: Bench, tmp_path: Path) -> None:
    objects = tmp_path / "objects"
    (objects / "pack").mkdir(parents=True)
    data = (bench.project / "large").read_bytes()
    with Pack(objects / "pack", Objects(objects).stored) as pack:
        pack.put(Kind.BLOB, data)
        pack.flush()
    how = Reading(root=os.fsencode(bench.project), limit=None, moment=0, objects=objects)
    for count in (0, 1):
        with Readers(how, workers=count) as made:
            found = dict(made.read([b"large", b"folder.1", b"gone", b"pipe", b"empty"]))
        has, new = found[b"large"], found[b"folder.1"]
        assert isinstance(has, tuple)
        assert isinstance(new, tuple)
        assert (has[-1], bool(new[-1])) == (b"", True)
        assert (found[b"gone"], found[b"empty"]) == (None, None)
        assert isinstance(found[b"pipe"], str)


def test_a_program_that_embeds_python_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/usr/bin/blender")
    assert not interpreter.is_python()
