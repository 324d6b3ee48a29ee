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
for _ in range(int(sys.argv[2])):
    os.close(full.pop())
try:
    sessions.create(source="cli", id="starved")
    said = "held"
except HoldfastError as error:
    said = error.message
while full:
    os.close(full.pop())
sessions.create(source="cli", id="fed")
print(said, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="identity comes from /proc here")
@pytest.mark.parametrize("free", range(8))
def test_a_holder_without_a_free_descriptor_is_never_held_for_good(
    tmp_path: Path, free: int
) -> None:
    """However few are left: it knows all of what it is, or it does not hold anything."""
    limited = f'ulimit -n 64; exec "{sys.executable}" -c "$0" "$1" "$2"'
    done = subprocess.run(
        ["sh", "-c", limited, _STARVED, str(tmp_path / "home"), str(free)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    refused = "Cannot tell which process this is: Too many open files.\n"
    assert done.stdout in ("held\n", refused)
    assert done.stdout == refused or free
    with opened(tmp_path / "home") as store:
        leases = [lease for name in ("starved", "fed") for lease in leases_of(store, name)]
    held = ["starved", "fed"] if done.stdout != refused else ["fed"]
    assert [lease.session_id for lease in leases] == held
    assert all(processes.is_dead(lease.holder) for lease in leases), "nobody can prove its death"
