"""Both probes for open files, on a real process that holds one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.homes.agents import signs_of_life as life
from holdfast.stores import open_files


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A file that another process has open while the test runs."""
    path = tmp_path / "held"
    path.write_text("x")
    code = f"import sys; f = open({str(path)!r}, 'a'); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield path
        holder.communicate()


def probe(path: Path, how: str) -> str | None:
    fd = os.open(path, os.O_RDONLY)
    try:
        evidence: str | None = getattr(open_files, how)(fd)
        return evidence
    finally:
        os.close(fd)


@pytest.mark.parametrize("how", ["_listed", "_leased"])
def test_a_held_file_is_seen(held: Path, how: str) -> None:
    if how == "_leased" and sys.platform != "linux":
        pytest.skip("leases are Linux's")
    assert "open in" in str(probe(held, how))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_file_that_its_holder_closes_while_we_look_hides_no_other(
    held: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readlink = os.readlink

    def closed(path: str) -> str:
        if str(path).endswith("/fd/0"):
            raise FileNotFoundError(path)
        return readlink(path)

    monkeypatch.setattr(os, "readlink", closed)
    [words] = life.holders_of(held).values()
    assert words[0] == sys.executable
    assert "held is open" in life.opened_below([held.parent])[str(held)]


def test_a_closed_file_is_free(tmp_path: Path) -> None:
    path = tmp_path / "free"
    path.write_text("x")
    with os.scandir(tmp_path):
        fd = os.open(tmp_path, os.O_RDONLY)
        try:
            assert open_files.open_elsewhere("free", fd) is None
        finally:
            os.close(fd)


def test_a_probe_that_fails_counts_as_alive(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert "cannot be opened" in str(open_files.open_elsewhere("loop", fd))
    finally:
        os.close(fd)


def writer_of(path: Path, text: str) -> subprocess.Popen[bytes]:
    """A process that opens a file, to write to it, once it is told to."""
    program = (
        "import os, sys; sys.stdin.readline(); "
        f"fd = os.open({str(path)!r}, os.O_WRONLY); os.write(fd, {text.encode()!r})"
    )
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)


@pytest.mark.skipif(sys.platform != "linux", reason="there are no leases")
def test_who_comes_to_write_waits_and_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    folder = os.open(tmp_path, os.O_RDONLY)
    with writer_of(path, "new") as writer:
        with open_files.kept_from_writers(b"file", folder) as wanted:
            assert not wanted()
            assert writer.stdin is not None
            writer.stdin.write(b"\n")
            writer.stdin.close()
            while not wanted():
                assert writer.poll() is None  # it cannot have got further
            assert path.read_text() == "old"
        assert writer.wait() == 0
    os.close(folder)
    assert path.read_text() == "new"


def test_who_reads_or_has_long_been_writing_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    folder = os.open(tmp_path, os.O_RDONLY)
    with path.open("r+"), open_files.kept_from_writers(b"file", folder) as wanted:
        assert not wanted()
    with path.open("r"), open_files.kept_from_writers(b"file", folder) as wanted:
        assert not wanted()
    with open_files.kept_from_writers(b"not there", folder) as wanted:
        assert not wanted()
    os.close(folder)
