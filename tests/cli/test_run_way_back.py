"""The way back from a run stays, whatever the command does, and so do its exit code and summary."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.machine import Machine, entries
from tests.cli.runner import COMMAND
from tests.cli.test_run import run, sh
from tests.small_disk import with_a_disk

_TAKE = shlex.join([*COMMAND, "checkpoints", "take"])
_PRUNE = shlex.join([*COMMAND, "checkpoints", "prune", "--keep-last", "1", "--yes"])


def changes(count: int, then: str = "") -> tuple[str, ...]:
    """So many changes, with a checkpoint after each."""
    numbers = " ".join(map(str, range(count)))
    return sh(f"for i in {numbers}; do echo $i > src/main.py; {_TAKE} >&2; done; {then}")


def first_line(machine: Machine, project: Path, before: str) -> str:
    machine.ok("checkpoints", "restore", before, "--yes")
    return (project / "src" / "main.py").read_text()


def capped(machine: Machine, most: int) -> None:
    machine.home.mkdir(parents=True)
    (machine.home / "config.toml").write_text(f"[checkpoints]\nmax_snapshots = {most}\n")


def test_the_state_from_before_outlives_what_the_run_takes(machine: Machine, project: Path) -> None:
    """Neither the cap on their number nor a prune removes it while the command works; and no
    checkpoint that is taken afterwards does."""
    capped(machine, 2)
    code, said, _ = run(machine, project, *changes(4, f"{_PRUNE} >&2; exit 5"))
    assert code == 5
    assert [each["path"] for each in said["changes"]] == ["src/main.py"]
    for each in "xyz":
        (project / each).touch()
        machine.ok("checkpoints", "take", str(project))
    assert first_line(machine, project, said["before"]) == "one\ntwo\n"


@pytest.mark.deep
def test_the_next_run_in_a_directory_lets_the_last_one_go(machine: Machine, project: Path) -> None:
    """Or else the checkpoints from before all runs would stay for ever."""
    capped(machine, 2)
    _, old, _ = run(machine, project, *changes(1))
    _, new, _ = run(machine, project, *changes(3))
    listed = machine.json("checkpoints", "list", str(project))["checkpoints"]
    ids = {each["id"] for each in listed}
    assert new["before"] in ids
    assert old["before"] not in ids


def test_a_command_may_remove_its_own_directory(machine: Machine, project: Path) -> None:
    before = {name: (each.mode, each.content) for name, each in entries(project).items()}
    code, said, err = run(machine, project, *sh(f"rm -r {project}; exit 6"))
    assert (code, said["command_code"]) == (6, 6)
    assert {each["path"] for each in said["changes"]} == {"src/main.py", "with space"}
    assert {each["kind"] for each in said["changes"]} == {"deleted"}
    assert "2 deleted" in err
    assert f"checkpoints restore {said['before'][:12]}" in err
    machine.ok("checkpoints", "restore", said["before"], "--yes")
    after = {name: (each.mode, each.content) for name, each in entries(project).items()}
    assert after == before


@pytest.mark.parametrize(
    ("command", "way_back"),
    [("rm -r {project}; echo x > {project}", True), ("rm -r {home}/checkpoints", False)],
)
def test_the_code_and_the_summary_come_when_nothing_can_be_compared(
    machine: Machine, project: Path, command: str, way_back: bool
) -> None:
    text = command.format(project=project, home=machine.home)
    code, said, err = run(machine, project, *sh(f"{text}; exit 6"))
    assert code == 6
    assert "sh ended with exit code 6" in err
    assert "cannot tell what changed:" in err
    assert said["changes"] == []
    assert said["changes_unknown"]
    assert (said["before"] is not None) == way_back
    assert ("Go back:" in err) == way_back


_FILLED = """
import json, os, subprocess, sys
from pathlib import Path

disk = Path(sys.argv[1])
project, user, home = disk.parent / "site", disk.parent / "user", disk / "home"
project.mkdir()
user.mkdir()
(project / "a.txt").write_text("one")

def holdfast(*args):
    command = [sys.executable, "-m", "holdfast", "--json", "--home", str(home), *args]
    env = {**os.environ, "HOME": str(user)}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)

fill = f"cat /dev/zero > {disk}/fill; echo two > a.txt; sleep 1.2; exit 7"
ran = holdfast("run", "--budget", "1ktokens", "--", "sh", "-c", fill)
(disk / "fill").unlink()
said = json.loads(ran.stdout)
back = holdfast("checkpoints", "restore", said["before"], "--yes")
ended = holdfast("sessions", "end", said["session"])
text = (project / "a.txt").read_text()
print(json.dumps([ran.returncode, said, ran.stderr, back.returncode, text, ended.returncode]))
"""


def test_a_disk_that_becomes_full_while_the_command_works(tmp_path: Path) -> None:
    code, said, err, restored, text, ended = json.loads(with_a_disk(tmp_path, _FILLED, megabytes=8))
    assert (code, said["stopped"]) == (7, None)
    assert "sh ended with exit code 7" in err
    assert "the session of the run is not marked as ended: The disk is full" in err
    assert f"checkpoints restore {said['before'][:12]}" in err
    assert (restored, text) == (0, "one")
    assert ended == 0, "nobody holds it any more"
