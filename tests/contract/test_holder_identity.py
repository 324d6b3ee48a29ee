"""A process that has no file descriptor left cannot say who it is, and must not make it up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.stores import processes
from tests.stored import leases_of, opened

#: Holds a session when no file can be opened, says what came of it, and dies without a word.
_STARVED = """
import os, sys
from holdfast.api.sessions import open_sessions
from holdfast.errors import HoldfastError

sessions = open_sessions(sys.argv[1])
sessions.find()
full = []
try:
    while True:
        full.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
try:
    sessions.create(source="cli", id="starved")
    said = "held"
except HoldfastError as error:
    said = error.message
for each in full:
    os.close(each)
sessions.create(source="cli", id="fed")
print(said, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="identity comes from /proc here")
def test_a_holder_without_a_free_descriptor_is_never_held_for_good(tmp_path: Path) -> None:
    limited = f'ulimit -n 64; exec "{sys.executable}" -c "$0" "$1"'
    done = subprocess.run(
        ["sh", "-c", limited, _STARVED, str(tmp_path / "home")],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "Cannot tell which process this is: Too many open files.\n"
    with opened(tmp_path / "home") as store:
        leases = [lease for name in ("starved", "fed") for lease in leases_of(store, name)]
    assert [lease.session_id for lease in leases] == ["fed"]
    assert all(processes.is_dead(lease.holder) for lease in leases), "nobody can prove its death"
