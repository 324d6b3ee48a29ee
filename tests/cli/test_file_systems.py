"""A home on a file system that is read-only or full: a clear error, and nothing lost.

The file system is a tmpfs in a mount namespace of its own, so it can be seen only from inside:
a script sets it up, runs one command after the other, and copies the home out again.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.machine import Entry, Machine, entries
from tests.cli.privileges import mounts_of_its_own
from tests.cli.runner import COMMAND, PATIENCE, Result
from tests.cli.session_bench import DISK

pytestmark = pytest.mark.usefixtures("bad_day")

#: $1 the home, $2 the folder for what comes out. Steps come on stdin, one a line.
_SCRIPT = r"""
set -e
home=$1 out=$2
cp -a "$home" "$out/seed"
mount -t tmpfs -o size=1m tmpfs "$home"
cp -a "$out/seed/." "$home/"
n=0
while read -r step; do
    case $step in
        read-only) mount -o remount,bind,ro "$home" ;;
        writable) mount -o remount,bind,rw "$home" ;;
        full) cat /dev/zero >"$home/filler" 2>/dev/null || true ;;
        free) rm "$home/filler" ;;
        *)
            n=$((n + 1))
            code=0
            # shellcheck disable=SC2086
            $COMMAND --home "$home" $step >"$out/$n.out" 2>"$out/$n.err" </dev/null || code=$?
            echo "$code" >"$out/$n.code"
            cp -a "$home" "$out/$n"
            rm -f "$out/$n/filler"
            ;;
    esac
done
"""


class Small:
    """What came out of one script: the results of its commands and the home after each."""

    def __init__(self, machine: Machine, out: Path, steps: Sequence[str]) -> None:
        before = mounts_of_its_own()
        out.mkdir()
        done = subprocess.run(
            [*before, "sh", "-c", _SCRIPT, "sh", str(machine.home), str(out)],
            check=False,
            capture_output=True,
            input="\n".join([*steps, ""]).encode(),
            env={**machine.env(), "COMMAND": " ".join(COMMAND)},
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr.decode()
        self._out = out

    def result(self, number: int) -> Result:
        out, err = ((self._out / f"{number}.{name}").read_text() for name in ("out", "err"))
        assert "Traceback" not in err
        assert "Internal error" not in err
        return Result(code=int((self._out / f"{number}.code").read_text()), out=out, err=err)

    def sessions(self, number: int | None = None) -> dict[str, Entry]:
        """The session files after a command, or before all."""
        found = entries(self._out / ("seed" if number is None else str(number)) / "sessions")
        return {name: entry for name, entry in found.items() if name != "."}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    if any(" " in word for word in COMMAND):
        pytest.skip("the interpreter's path has a space; the script below splits there")
    if shutil.which("mount") is None:
        pytest.skip("there is no mount command")
    return tmp_path / "out"


def test_reading_a_read_only_home(half: Machine, out: Path) -> None:
    commands = ["status", "log", "trash list", "undo --dry-run", "sessions prune --dry-run"]
    small = Small(half, out, ["read-only", *commands])
    assert [small.result(n).code for n in range(1, len(commands) + 1)] == [0] * len(commands)


@pytest.mark.parametrize("command", ["sessions prune --yes", "undo", "trash empty --yes"])
def test_changing_a_read_only_home(half: Machine, out: Path, command: str) -> None:
    small = Small(half, out, ["read-only", command, "writable", command])
    refused, done = small.result(1), small.result(2)
    assert refused.code == 1
    assert "Read-only file system" in refused.err
    assert "mounted read-only" in refused.err
    assert str(half.home) in refused.err
    assert small.sessions(1) == small.sessions()
    assert done.code == 0


def test_config_init_on_a_read_only_home(half: Machine, out: Path) -> None:
    small = Small(half, out, ["read-only", "config init"])
    assert small.result(1).code == 1
    assert "config.toml" in small.result(1).err
    assert "Read-only file system" in small.result(1).err


def test_pruning_a_full_home(used: Machine, out: Path) -> None:
    small = Small(used, out, ["full", "sessions prune --yes", "free", "sessions prune --yes"])
    refused, done = small.result(1), small.result(2)
    assert refused.code == 1
    assert "disk is full" in refused.err
    assert small.sessions(1) == small.sessions()
    assert done.code == 0
    assert "5 removed" in done.out


def test_a_full_home_says_what_its_log_needs(used: Machine, out: Path) -> None:
    """Nothing can be given up for the log here: there is no reserve, no index and no trash."""
    script = ["full", "status", "sessions prune --yes", "sessions prune --now --yes"]
    small = Small(used, out, script)
    for number in (1, 2):
        said = " ".join((small.result(number).out + small.result(number).err).split())
        assert "Free 262.1 kB elsewhere first, for the log." in said
    assert small.result(3).code == 1
    assert small.sessions(3) == small.sessions()


def test_archiving_on_a_nearly_full_disk_is_refused_before_it_starts(
    stored: Machine, out: Path
) -> None:
    """Half of it archived, and a log full of what did not fit, would leave no room for anything."""
    archive = "sessions archive --older-than 1s --yes"
    small = Small(stored, out, ["full", archive, "sessions list", "free", archive])
    refused, done = small.result(1), small.result(3)
    assert refused.code == 1
    assert "Nothing was archived: the disk is nearly full" in refused.err
    assert "may need" in refused.err
    assert not [*(out / "1").rglob("*.jsonl.*")]  # no bundle, and no log of what did not fit
    logs = [{each.name for each in (out / at / "operations").glob("*")} for at in ("seed", "1")]
    assert logs[0] == logs[1]
    assert DISK in small.result(2).out
    assert done.code == 0, done


def test_a_full_home_can_be_looked_at(half: Machine, out: Path) -> None:
    commands = ["status", "log", "trash list", "sessions prune --dry-run"]
    small = Small(half, out, ["full", *commands])
    assert [small.result(n).code for n in range(1, len(commands) + 1)] == [0] * len(commands)


def test_the_sessions_of_a_full_home_can_be_read(stored: Machine, out: Path) -> None:
    """SQLite wants room for what processes share; whoever wants to know what fills the disk has
    none to give."""
    commands = [
        "status",
        "sessions list",
        f"sessions show {DISK}",
        "sessions search disk",
        "sessions stats",
        "sessions export --all",
        "sessions prune --dry-run",
        "doctor",
    ]
    small = Small(stored, out, ["full", *commands])
    for number, command in enumerate(commands, start=1):
        assert small.result(number).code == 0, (command, small.result(number))
    assert DISK in small.result(2).out


def test_undo_on_a_full_home(used: Machine, out: Path) -> None:
    small = Small(used, out, ["sessions prune --yes", "full", "undo", "free", "undo"])
    refused, done = small.result(2), small.result(3)
    assert refused.code == 1
    assert "disk is full" in refused.err
    assert small.sessions(2) == small.sessions(1)
    assert done.code == 0
    assert small.sessions(3) == small.sessions()


def test_config_init_on_a_full_home(used: Machine, out: Path) -> None:
    """No half-written configuration stays behind."""
    small = Small(used, out, ["full", "config init", "free", "config init"])
    assert small.result(1).code == 1
    assert "No space left" in small.result(1).err
    assert small.result(2).code == 0
