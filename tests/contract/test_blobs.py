"""What every store of blobs does, a folder and an object store alike."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from holdfast.errors import DamageError
from holdfast.ports.archive import Blobs
from holdfast.stores.blobs import durable_batch
from holdfast.stores.blobs.folder import FolderBlobs
from tests.contract.factory import BLOBS


@pytest.fixture(params=BLOBS)
def blobs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Blobs:
    made = BLOBS[request.param](tmp_path, monkeypatch)
    made.make()
    return made


def writing(data: bytes) -> Callable[[IO[bytes]], object]:
    return lambda raw: raw.write(data)


def content(blobs: Blobs, name: str) -> bytes:
    with blobs.get(name) as raw:
        return raw.read()


def listed(blobs: Blobs, folder: str = "") -> dict[str, int]:
    return {blob.name: blob.size for blob in blobs.names(folder)}


def test_what_was_put_is_there(blobs: Blobs) -> None:
    assert blobs.check()
    blobs.put_new("a", writing(b"one"))
    blobs.put_new("in/a", writing(b"three"))
    assert (content(blobs, "a"), content(blobs, "in/a")) == (b"one", b"three")
    found = blobs.find("a")
    assert found is not None
    assert (found.name, found.size) == ("a", 3)
    assert listed(blobs) == {"a": 3}
    assert listed(blobs, "in") == {"in/a": 5}


def test_a_name_is_given_once(blobs: Blobs) -> None:
    blobs.put_new("a", writing(b"one"))
    blobs.put_new("b", writing(b"two"))
    with pytest.raises(FileExistsError):
        blobs.put_new("a", writing(b"another"))
    with pytest.raises(FileExistsError):
        blobs.copy("b", "a")
    assert content(blobs, "a") == b"one"
    assert listed(blobs) == {"a": 3, "b": 3}


def test_what_is_not_there_is_said_so(blobs: Blobs) -> None:
    assert blobs.find("a") is None
    assert blobs.find("in/a") is None
    assert listed(blobs) == listed(blobs, "in") == {}
    with pytest.raises(FileNotFoundError):
        content(blobs, "a")
    with pytest.raises(FileNotFoundError):
        blobs.copy("a", "b")
    blobs.delete(["a", "in/a"])


def test_a_copy_outlives_its_original(blobs: Blobs) -> None:
    blobs.put_new("a", writing(b"one"))
    blobs.copy("a", "trash/7/0-a")
    assert content(blobs, "trash/7/0-a") == b"one"
    blobs.delete(["a"])
    assert blobs.find("a") is None
    assert content(blobs, "trash/7/0-a") == b"one"
    blobs.copy("trash/7/0-a", "a")
    blobs.delete(["trash/7/0-a"])
    assert (listed(blobs), listed(blobs, "trash/7")) == ({"a": 3}, {})


def test_each_check_reads_all_that_was_stored(blobs: Blobs) -> None:
    seen: list[bytes] = []
    checks = [lambda raw: seen.append(raw.read())] * 2
    blobs.put_new("a", writing(b"one"), checks)
    assert seen == [b"one", b"one"]


class RefusedError(Exception):
    pass


@pytest.mark.parametrize("where", ["write", "check"])
def test_what_fails_leaves_nothing(blobs: Blobs, where: str) -> None:
    def refuse(raw: IO[bytes]) -> None:
        if where == "write":
            raw.write(b"a part")
        raise RefusedError

    write = refuse if where == "write" else writing(b"one")
    with pytest.raises(RefusedError):
        blobs.put_new("a", write, [refuse])
    assert blobs.find("a") is None
    assert listed(blobs) == {}
    blobs.put_new("a", writing(b"two"))
    assert content(blobs, "a") == b"two"


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/../../b", "/etc/passwd", "a//b", "a\0"])
def test_no_name_leads_out(blobs: Blobs, name: str) -> None:
    blobs.put_new("a", writing(b"one"))
    for attempt in (
        lambda: blobs.put_new(name, writing(b"two")),
        lambda: blobs.copy("a", name),
        lambda: blobs.copy(name, "b"),
        lambda: content(blobs, name),
        lambda: blobs.find(name),
        lambda: blobs.delete([name]),
    ):
        with pytest.raises(DamageError):
            attempt()
    assert listed(blobs) == {"a": 3}


def test_several_are_put_together(blobs: Blobs) -> None:
    with blobs.together(2) as puts:
        puts.put_new("a", writing(b"one"))
        puts.put_new("in/b", writing(b"three"))
        assert puts.finish() == {}
    assert (content(blobs, "a"), content(blobs, "in/b")) == (b"one", b"three")


# --- A folder -------------------------------------------------------------------------------------


def test_a_folder_and_its_files_are_private(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "blobs")
    assert not blobs.check()
    assert listed(blobs) == {}
    assert not (tmp_path / "blobs").exists()
    blobs.make()
    blobs.put_new("in/a", writing(b"one"))
    for path in [tmp_path / "blobs", *(tmp_path / "blobs").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    blobs.delete(["in/a"])
    assert not list((tmp_path / "blobs").iterdir())


def test_a_folder_gives_no_link_and_no_pipe_for_a_blob(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to("secret")
    os.mkfifo(tmp_path / "pipe")
    assert listed(blobs) == {"secret": 6}
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"symbolic links|regular file"):
            content(blobs, name)
        with pytest.raises(FileExistsError):
            blobs.put_new(name, writing(b"over it"))
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)


def test_a_folder_forgets_what_killed_processes_left(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    ours = (".put-0123456789abcdef.tmp", ".12-3.tmp", ".adopted-0123456789ab-0.tmp")
    others = (".notes.tmp", "a.tmp", ".catalogue.jsonl.tmp", ".12-3.tmp.orig")
    for name in (*ours, *others):
        (tmp_path / name).touch()
    blobs.clear_unfinished()
    assert {path.name for path in tmp_path.iterdir()} == set(others)


def test_what_a_killed_put_left_does_not_bar_the_next(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)

    def end(raw: IO[bytes]) -> None:
        raw.write(b"a part")
        raw.flush()
        [left] = tmp_path.iterdir()
        os.link(left, tmp_path / "kept")  # what is here when the process ends
        raise RefusedError

    with pytest.raises(RefusedError):
        blobs.put_new("a", end)
    blobs.put_new("a", writing(b"whole"))
    assert content(blobs, "a") == b"whole"


def test_no_name_is_given_before_all_of_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flushed once for all: a name that came before could lead to an empty file after a power
    cut."""
    blobs, flushed = FolderBlobs(tmp_path), list[tuple[str, bytes]]()

    def flush(fd: int) -> None:
        assert os.fstat(fd).st_dev == tmp_path.stat().st_dev
        flushed.extend((path.name[:4], path.read_bytes()) for path in tmp_path.iterdir())

    monkeypatch.setattr(durable_batch, "MANY", 1)
    monkeypatch.setattr(durable_batch, "_flush_disk", lambda: flush)
    with blobs.together(2) as puts:
        puts.put_new("a", writing(b"one"))
        puts.put_new("b", writing(b"two"))
        assert puts.finish() == {}
    assert sorted(flushed) == [(".put", b"one"), (".put", b"two")]
    assert listed(blobs) == {"a": 3, "b": 3}


def test_without_that_flush_nothing_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flush(fd: int) -> None:
        raise OSError(errno.EIO, "the disk failed")

    monkeypatch.setattr(durable_batch, "MANY", 0)
    monkeypatch.setattr(durable_batch, "_flush_disk", lambda: flush)
    blobs = FolderBlobs(tmp_path)
    with blobs.together(1) as puts:
        puts.put_new("a", writing(b"one"))
        with pytest.raises(OSError, match="the disk failed"):
            puts.finish()
    assert not list(tmp_path.iterdir())


def test_one_whose_name_is_taken_does_not_affect_the_others(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    with blobs.together(3) as puts:
        puts.put_new("a", writing(b"one"))
        puts.put_new("b", writing(b"two"))
        with pytest.raises(FileExistsError):
            puts.put_new("b", writing(b"another"))
        (tmp_path / "a").write_bytes(b"of somebody else")
        assert [*puts.finish()] == ["a"]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a": b"of somebody else",
        "b": b"two",
    }


def test_what_was_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with FolderBlobs(tmp_path).together(2) as puts:
        puts.put_new("a", writing(b"one"))
    assert not list(tmp_path.iterdir())
