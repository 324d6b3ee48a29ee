"""Files are made durable side by side, and what the disk says of any of them is heard."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.stores.git.pack_writer import flush


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_every_file_is_flushed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    flushed: list[int] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        fsync(fd)
        flushed.append(fd)

    monkeypatch.setattr(os, "fsync", noted)
    files = [(tmp_path / str(number)).open("wb") for number in range(count)]
    flush([file.fileno() for file in files])
    assert sorted(flushed) == sorted(file.fileno() for file in files)
    for file in files:
        file.close()


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_one_that_cannot_be_flushed_is_told_after_the_others(tmp_path: Path, broken: int) -> None:
    reading, writing = os.pipe()  # a pipe cannot be flushed
    with (tmp_path / "a").open("wb") as first, (tmp_path / "b").open("wb") as second:
        fds = [first.fileno(), second.fileno()]
        fds.insert(broken, writing)
        with pytest.raises(OSError, match="Invalid argument"):
            flush(fds)
    os.close(reading)
    os.close(writing)


def test_without_threads_it_is_done_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("holdfast.stores.git.pack_writer._thread.start_new_thread", none)
    with (tmp_path / "a").open("wb") as first, (tmp_path / "b").open("wb") as second:
        flush([first.fileno(), second.fileno()])
