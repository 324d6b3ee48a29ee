"""A file on which somebody has a lease is waited for, not called unreadable."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from pathlib import Path

import pytest

from holdfast.stores.files import read_file

_F_SETSIG = 10


def test_a_file_under_a_lease_is_read_when_the_lease_is_given_up(tmp_path: Path) -> None:
    """Whether a file is open is asked with such a lease: a reader that comes at that very moment
    must not fail."""
    path = tmp_path / "journal"
    path.write_bytes(b"whole")
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            pytest.skip("this file system has no leases")
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(read_file(path)))
        reader.start()
        while fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
            pass  # until the reader asks for the file
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        reader.join()
    finally:
        os.close(fd)
    assert found == [b"whole"]
