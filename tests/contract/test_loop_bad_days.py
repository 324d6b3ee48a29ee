"""Bad days of connected agents: full disks, folders in folders, and who else works there."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast.connect import EVENTS
from holdfast.errors import BusyError
from holdfast.hooks.agents import AGENTS
from holdfast.hooks.reply import SILENT
from holdfast.hooks.serve import serve
from holdfast.model.loop import Decision, Touches, Verdict
from holdfast.stores.connected_sessions import FileLoopBook
from tests.contract.test_loop import Session, checkpoints
from tests.small_disk import with_a_disk
from tests.unit.test_meters import append, claude_answer

# --- A disk that is really full -------------------------------------------------------------------

_FILLED = """
import json, os, subprocess, sys
from pathlib import Path

disk = Path(sys.argv[1])

def fill():
    file = os.open(disk / "fill", os.O_WRONLY | os.O_CREAT)
    for size in (65536, 512):
        try:
            while True:
                os.write(file, b"x" * size)
        except OSError:
            pass
    os.close(file)
"""
_HOOKS = f"""{_FILLED}
from holdfast.api.loop import Loop
from holdfast.api.place import Place
from holdfast.hooks.serve import Answerer
from tests.unit.test_meters import append, claude_answer

project, transcript, home = disk.parent / "site", disk.parent / "s1.jsonl", disk / "home"
project.mkdir()
transcript.touch()
(home / "operations").mkdir(parents=True)
how = sys.argv[2]
budgets = "max_tokens = 300\\ndaily_tokens = 300\\n"
(home / "config.toml").write_text(f"[hooks]\\non_failure = '{{how}}'\\n[guard]\\n{{budgets}}")
helper, calls, said = Answerer(), 0, []

def tool():
    global calls
    calls += 1
    (project / "a.txt").write_text(f"state {{calls}}")
    given = {{
        "session_id": "s1", "cwd": str(project), "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {{"command": f"step {{calls}}"}},
        "tool_use_id": f"c{{calls}}", "transcript_path": str(transcript),
    }}
    said.append(helper.serve("claude-code", home, json.dumps(given).encode()).out)

tool()
fill()
tool()
tool()
(disk / "fill").unlink()
tool()
fill()
append(transcript, *map(claude_answer, range(4)))
tool()
(disk / "fill").unlink()
tool()
noted = [bool(call.checkpoint) for call in Loop(Place(home)).book.calls("s1")]
print(json.dumps([said, noted]))
"""


@pytest.mark.parametrize("how", ["allow", pytest.param("block", marks=pytest.mark.deep)])
def test_hooks_on_a_full_disk(how: str, tmp_path: Path) -> None:
    """The user decides, hears of it once, and a budget that is used up holds."""
    printed = with_a_disk(tmp_path, _HOOKS, how, megabytes=8)
    (first, full, again, free, over, after), noted = json.loads(printed)
    assert first == free == ""
    # Under `block` a call that cannot be counted is refused before its checkpoint is tried.
    assert ("No space left on device" if how == "allow" else "The disk is full.") in full
    if how == "allow":
        assert '"deny"' not in full
        assert full.count("no checkpoint was taken") == 1
        assert again == ""
    else:
        assert '"deny"' in full
        assert '"deny"' in again
    for each in (over, after):
        assert '"deny"' in each
        assert "tokens is used up" in each
    assert noted[0] is noted[-1] is True


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), BusyError("locked")])
def test_a_used_up_day_holds_where_it_cannot_be_noted(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise error

    home, project = tmp_path / "home", _repository(tmp_path / "site")
    session = Session(home, project, config="[guard]\ndaily_tokens = 300\n")
    session.now = 1_774_440_000.0  # the day of the recorded answers
    monkeypatch.setattr(FileLoopBook, "note_day", full)
    assert session.tool().passes
    append(session.transcript, *map(claude_answer, range(4)))
    assert session.tool().verdict is Verdict.STOP


_CONNECT = f"""{_FILLED}
user, bin = disk.parent / "user", Path(sys.executable).parent
(user / ".claude").mkdir(parents=True)
(disk / "claude").mkdir()
theirs = '{{"model": "x"}}'
said = []

def connect(home, folder):
    settings = folder / "settings.json"
    settings.write_text(theirs)
    env = {{"HOME": str(user), "PATH": "/usr/bin:/bin", "CLAUDE_CONFIG_DIR": str(folder)}}
    words = [sys.executable, "-m", "holdfast", "--home", str(home)]
    words += ["connect", "claude-code", "--yes"]
    fill()
    done = subprocess.run(words, env={{**os.environ, **env}}, capture_output=True, text=True)
    names = os.listdir(folder)
    (disk / "fill").unlink()
    again = subprocess.run(words, env={{**os.environ, **env}}, capture_output=True, text=True)
    same = settings.read_text() == theirs
    said.append([done.returncode, done.stdout + done.stderr, names, same, again.returncode])

(disk / "home").mkdir()
connect(user / "home", disk / "claude")
connect(disk / "home", user / ".claude")
print(json.dumps(said))
"""


@pytest.mark.deep
def test_connecting_on_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    for code, told, names, same, again in json.loads(with_a_disk(tmp_path, _CONNECT, megabytes=8)):
        assert code == 1
        assert "No space left on device" in told
        assert names == ["settings.json"]
        assert (same, again) == (False, 0)  # with room it works


_READ_ONLY = f"""{_FILLED}
import holdfast
from holdfast.errors import HoldfastError
from holdfast.hooks.serve import serve

home = disk.parent / "home"
(disk / "a.txt").write_text("one")
given = {{
    "session_id": "s1", "cwd": str(disk), "hook_event_name": "PreToolUse",
    "tool_name": "Bash", "tool_input": {{"command": "ls"}}, "tool_use_id": "c1",
}}
first = serve("claude-code", home, json.dumps(given).encode())
(disk / "a.txt").write_text("two")
subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
second = serve("claude-code", home, json.dumps({{**given, "tool_use_id": "c2"}}).encode())
with holdfast.open(home) as opened:
    taken = [each.id for each in opened.checkpoints.list()]
    try:
        opened.checkpoints.restore(taken[-1])
        told = ""
    except HoldfastError as error:
        told = str(error)
env = {{**os.environ, "HOME": str(disk.parent)}}
words = [sys.executable, "-m", "holdfast", "--home", str(home), "connect", "claude-code"]
done = subprocess.run(
    [*words, "--scope", "project", "--yes"], env=env, cwd=disk, capture_output=True, text=True
)
print(json.dumps([first.out, second.out, len(taken), told, done.returncode, done.stdout]))
"""


@pytest.mark.deep
def test_a_project_on_a_read_only_disk(tmp_path: Path) -> None:
    printed = with_a_disk(tmp_path, _READ_ONLY, megabytes=4)
    first, second, taken, told, code, shown = json.loads(printed)
    assert (first, second, taken) == ("", "", 2)
    assert "Read-only file system" in told
    assert code == 1
    assert "Read-only file system" in shown


# --- Who else works there -------------------------------------------------------------------------


def _repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "a.txt").write_text("one")
    return folder


def test_two_sessions_in_one_folder(tmp_path: Path) -> None:
    """Each has its own checkpoints; what one goes back to has the work of both."""
    home, project = tmp_path / "home", _repository(tmp_path / "site")
    first, second = Session(home, project), Session(home, project, "s2")
    first.tool()
    (project / "first.txt").write_text("by the first")
    second.tool()
    (project / "second.txt").write_text("by the second")
    [before] = checkpoints(home, session="s2")
    with holdfast.open(home) as opened:
        done = opened.checkpoints.restore(before.id)
        names = sorted(path.name for path in project.iterdir() if path.name != ".git")
        assert names == ["a.txt", "first.txt"]
        opened.undo(done.operation)
    assert (project / "second.txt").read_text() == "by the second"


def test_a_subagent_has_checkpoints_and_counts_for_its_session(tmp_path: Path) -> None:
    home, project = tmp_path / "home", _repository(tmp_path / "site")
    session = Session(home, project, config="[guard]\nmax_iterations = 3\n")
    assert session.tool() == Decision()
    for number in range(2):
        (project / "a.txt").write_text(f"state {number}")
        assert session.tool(subagent="a1", turn="its own") == Decision()
    assert not session.tool(subagent="a2").passes
    assert not session.tool().passes
    calls = session.loop.book.calls("s1")
    assert [(call.subagent, call.turn) for call in calls] == [
        ("", "t1"),
        ("a1", "t1"),
        ("a1", "t1"),
    ]
    assert len({call.checkpoint for call in calls}) == 3
    assert len(checkpoints(home, session="s1")) == 3


def test_a_project_in_another(tmp_path: Path) -> None:
    """Who works in the inner one has checkpoints of it alone; those of the outer one have both."""
    home, outer = tmp_path / "home", _repository(tmp_path / "outer")
    inner = _repository(outer / "vendor" / "inner")
    inside, around = Session(home, inner), Session(home, outer, "s2")
    inside.tool()
    around.tool()
    (outer / "a.txt").write_text("two")
    (inner / "a.txt").write_text("two")
    [of_inner], [of_outer] = inside.loop.book.calls("s1"), around.loop.book.calls("s2")
    assert (of_inner.workdir, of_outer.workdir) == (str(inner), str(outer))
    with holdfast.open(home) as opened:
        opened.checkpoints.restore(of_inner.checkpoint)
        assert (inner / "a.txt").read_text() == "one"
        assert (outer / "a.txt").read_text() == "two"
        (inner / "a.txt").write_text("three")
        opened.checkpoints.restore(of_outer.checkpoint)
    assert (inner / "a.txt").read_text() == (outer / "a.txt").read_text() == "one"


def test_a_file_in_a_worktree_inside_the_project_has_its_checkpoint(tmp_path: Path) -> None:
    """A worktree is no part of the checkpoints around it: without one of its own, what a tool
    writes there could not be undone."""
    home, project = tmp_path / "home", _repository(tmp_path / "site")
    who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    for words in (("add", "."), (*who, "commit", "-qm", "one"), ("worktree", "add", "-q", "wt")):
        subprocess.run(["git", "-C", str(project), *words], check=True)
    session = Session(home, project)
    named = {"touches": Touches.NAMED, "paths": ("wt/a.txt", "a.txt")}
    assert session.tool("Write", **named) == Decision()
    (project / "wt" / "a.txt").write_text("two")
    assert [call.workdir for call in session.loop.book.calls("s1")] == [
        str(project),
        f"{project}/wt",
    ]
    with holdfast.open(home) as opened:
        opened.checkpoints.restore(session.loop.book.calls("s1")[1].checkpoint)
    assert (project / "wt" / "a.txt").read_text() == "one"


# --- A hook that keeps its agent going ------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_no_hook_of_ours_keeps_an_agent_from_stopping(agent: str, tmp_path: Path) -> None:
    """None is installed for it, and to one that somebody else starts nothing is said: an agent
    that is told not to stop asks again, for ever."""
    stops = ("Stop", "SubagentStop", "AfterAgent", "SessionEnd", "session.idle")
    assert not set(stops) & set(EVENTS[agent])
    for event in stops:
        for again in (False, True):
            given = {
                "hook_event_name": event,
                "event": event,
                "session_id": "s1",
                "session": "s1",
                "cwd": str(tmp_path),
                "directory": str(tmp_path),
                "stop_hook_active": again,
            }
            assert serve(agent, tmp_path / "home", json.dumps(given).encode()) == SILENT
    assert not (tmp_path / "home").exists()
