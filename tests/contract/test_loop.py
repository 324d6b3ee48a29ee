"""In the loop of another agent: checkpoints before tools, and budgets that hold."""

from __future__ import annotations

import contextlib
import errno
import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.api.capture import Capture
from holdfast.api.loop import Loop
from holdfast.api.place import Place
from holdfast.connect import EVENTS
from holdfast.errors import StorageError
from holdfast.hooks.serve import serve
from holdfast.model.checkpoint import NotCaptured, Taking
from holdfast.model.loop import Decision, LoopEvent, Moment, Touches, Verdict
from holdfast.stores.checkpoints.writer import CheckpointWriter
from holdfast.stores.connected_sessions import FileLoopBook
from holdfast.value import replace
from tests.builders import NOW
from tests.unit.test_meters import OpenCode, append, claude_answer, claude_result

DAY = 86_400.0


class Session:
    """One session of Claude Code in a project, as hooks see it."""

    def __init__(self, home: Path, project: Path, name: str = "s1", config: str = "") -> None:
        self.home, self.project, self.name = home, project, name
        self.transcript = project.parent / f"{name}.jsonl"
        self.transcript.touch()
        self.now = NOW
        if config:
            home.mkdir(exist_ok=True)
            (home / "operations").mkdir(exist_ok=True)
            (home / "config.toml").write_text(config)
        self.calls = 0

    @property
    def loop(self) -> Loop:
        """A new one each time: hooks are processes of their own."""
        return Loop(Place(self.home, clock=lambda: self.now))

    def tool(self, tool: str = "Bash", **fields: Any) -> Decision:
        self.calls += 1
        given: dict[str, Any] = {
            "agent": "claude-code",
            "event": "PreToolUse",
            "moment": Moment.BEFORE_TOOL,
            "session": self.name,
            "cwd": str(self.project),
            "turn": "t1",
            "call": f"c{self.calls}",
            "tool": tool,
            "arguments": {"command": f"step {self.calls}"},
            "touches": Touches.ANYTHING,
            "transcript": str(self.transcript),
        }
        return self.loop.decide(LoopEvent(**given | fields))

    def prompt(self) -> Decision:
        return self.tool(
            "", moment=Moment.PROMPT, event="UserPromptSubmit", touches=Touches.NOTHING
        )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "site"
    made.mkdir()
    subprocess.run(["git", "init", "-q", str(made)], check=True)
    (made / "a.txt").write_text("one")
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def checkpoints(home: Path, **wanted: Any) -> list[Any]:
    with holdfast.open(home) as opened:
        return opened.checkpoints.list(**wanted)


# --- Checkpoints ----------------------------------------------------------------------------------


def test_each_tool_has_a_checkpoint_of_its_session_and_turn(home: Path, project: Path) -> None:
    session = Session(home, project)
    for content in ("one", "two", "three"):
        assert session.tool() == Decision()
        (project / "a.txt").write_text(f"{content} and more")
    assert session.tool("Read", touches=Touches.NOTHING) == Decision()
    found = checkpoints(home, session="s1")
    assert len(found) == 3
    assert {(each.turn, each.reason) for each in found} == {("t1", "before Bash")}
    calls = session.loop.book.calls("s1")
    assert [call.checkpoint for call in calls] == [each.id for each in reversed(found)]
    with holdfast.open(home) as opened:
        opened.checkpoints.restore(calls[0].checkpoint)
    assert (project / "a.txt").read_text() == "one"


def test_what_a_project_ignores_comes_back_when_the_configuration_asks_for_it(
    home: Path, project: Path
) -> None:
    config = '[checkpoints]\nexclude = ["!*.log", "!out/"]\n'
    session = Session(home, project, config=config)
    (project / ".gitignore").write_text("*.log\nout/\n*.tmp\n")
    (project / "out" / "empty").mkdir(parents=True)
    files = {"run.log": b"\0one\r\n", "out/report.bin": b"\xfftwo", "a.tmp": b"stays"}
    for name, data in files.items():
        (project / name).write_bytes(data)
    (project / "run.log").chmod(0o600)
    session.tool()
    for name in files:
        (project / name).write_bytes(b"overwritten")
    (project / "out" / "empty").rmdir()
    (project / "later.log").touch()
    session.tool()
    with holdfast.open(home) as opened:
        opened.checkpoints.restore(session.loop.book.calls("s1")[0].checkpoint)
    assert {name: (project / name).read_bytes() for name in files} == {
        **files,
        "a.tmp": b"overwritten",
    }
    assert (project / "run.log").stat().st_mode & 0o777 == 0o600
    assert (project / "out" / "empty").is_dir()
    assert not (project / "later.log").exists()


def test_a_tool_before_which_nothing_changed_has_the_checkpoint_from_before(
    home: Path, project: Path
) -> None:
    first, second = Session(home, project), Session(home, project, "s2")
    first.tool()
    second.tool()
    [one], [other] = first.loop.book.calls("s1"), second.loop.book.calls("s2")
    assert one.checkpoint == other.checkpoint != ""
    assert [each.id for each in checkpoints(home, session="s2")] == [other.checkpoint]
    third = Session(home, project, "long-id")
    third.tool()
    assert [each.id for each in checkpoints(home, session="long")] == [other.checkpoint]


def test_all_of_a_long_session_can_be_undone(home: Path, project: Path) -> None:
    """More calls than the usual number of checkpoints, and nothing else takes them away."""
    session = Session(home, project)
    for number in range(60):
        (project / "a.txt").write_text(f"state {number}")
        session.now += 1
        session.tool()
    Capture(Place(home)).take(project)  # by hand, with the usual limits
    with holdfast.open(home, clock=lambda: session.now) as opened:
        opened.maintain(force=True)
        opened.checkpoints.prune()
        calls = session.loop.book.calls("s1")
        kept = {each.id for each in opened.checkpoints.list(session="s1")}
        assert {call.checkpoint for call in calls} == kept
        assert len(kept) == 60
        for number in (0, 31, 59):
            opened.checkpoints.restore(calls[number].checkpoint)
            assert (project / "a.txt").read_text() == f"state {number}"


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ("[hooks]\nmax_snapshots = 25\n", 25),
        ("[hooks]\nmax_snapshots = 3\n", 20),
        ("[hooks]\nmax_snapshots = 0\n", 30),
        ("[checkpoints]\nmax_snapshots = 0\n", 30),
    ],
)
def test_how_many_checkpoints_hooks_keep(config: str, kept: int, home: Path, project: Path) -> None:
    session = Session(home, project, config=config)
    for number in range(30):
        (project / "a.txt").write_text(f"state {number}")
        session.now += 1
        session.tool()
    assert len(checkpoints(home)) == kept


def test_the_users_repository_is_left_alone(home: Path, project: Path) -> None:
    before = sorted(path for path in (project / ".git").rglob("*"))
    Session(home, project).tool()
    assert sorted(path for path in (project / ".git").rglob("*")) == before


def test_a_folder_in_a_repository_is_part_of_its_project(home: Path, project: Path) -> None:
    inner = project / "packages" / "one"
    inner.mkdir(parents=True)
    (inner / "package.json").write_text("{}")
    session = Session(home, project)
    session.tool(cwd=str(inner))
    assert [call.workdir for call in session.loop.book.calls("s1")] == [str(project)]


def test_a_file_in_another_repository_has_a_checkpoint_too(
    home: Path, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    (other / "b.txt").write_text("b")
    session = Session(home, project)
    session.tool("Write", touches=Touches.NAMED, paths=(str(other / "b.txt"),))
    assert [call.workdir for call in session.loop.book.calls("s1")] == [str(project), str(other)]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "x" * 5_000], ids=range(3))
def test_a_name_that_no_file_can_have_costs_no_checkpoint(
    name: str, home: Path, project: Path
) -> None:
    session = Session(home, project)
    assert session.tool("Write", touches=Touches.NAMED, paths=(name, f"/{name}")) == Decision()
    [call] = session.loop.book.calls("s1")
    assert call.checkpoint


def test_a_home_directory_is_refused_in_words(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    (user / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user))
    session = Session(home, user)
    said = session.tool()
    assert said.passes
    assert "it is your home directory" in said.notice
    assert session.tool() == Decision()  # said once
    [first, _] = session.loop.book.calls("s1")
    assert (first.checkpoint, "home directory" in first.missed) == ("", True)


def test_in_a_home_directory_that_is_a_repository_the_folder_counts(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    work = user / "work"
    work.mkdir(parents=True)
    (work / "a.txt").write_text("a")
    subprocess.run(["git", "init", "-q", str(user)], check=True)
    monkeypatch.setenv("HOME", str(user))
    session = Session(home, work)
    assert session.tool() == Decision()
    assert [call.workdir for call in session.loop.book.calls("s1")] == [str(work)]


def test_a_read_only_project_has_its_checkpoint(home: Path, project: Path) -> None:
    project.chmod(0o500)
    try:
        session = Session(home, project)
        assert session.tool() == Decision()
        assert session.loop.book.calls("s1")[0].checkpoint
    finally:
        project.chmod(0o700)


@pytest.mark.parametrize("how", ["allow", "block"])
def test_what_cannot_be_done_is_said_and_the_user_decides(
    how: str, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageError("Cannot write a checkpoint: No space left on device")

    monkeypatch.setattr(CheckpointWriter, "take", full)
    session = Session(home, project, config=f'[hooks]\non_failure = "{how}"\n')
    said = Decision()
    for _ in range(2):
        said = session.tool()
        if how == "block":
            assert said.verdict is Verdict.BLOCK
            assert "No space left" in said.reason
    assert len(session.loop.book.calls("s1")) == 2
    if how == "allow":
        assert said == Decision()
        assert "No space left" in session.loop.book.calls("s1")[0].missed


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "The disk is full. Free"),
        (OSError(errno.EACCES, "Permission denied", "/n"), "Permission denied: /n."),
    ],
)
def test_a_call_that_cannot_be_counted_is_told_in_words(
    error: OSError, words: str, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(FileLoopBook, "keep", full)
    said = Session(home, project).tool().notice
    assert f"this call cannot be counted. {words}" in said
    assert "Errno" not in said


LARGE = NotCaptured(path="film.mkv", reason="too large: 2 GB, the limit is 10 MB")
SECRET = NotCaptured(path="keys\nx", reason="a directory that cannot be read: Permission denied")
SOCKET = NotCaptured(path="s", reason="a socket, not a file")


@pytest.mark.parametrize("how", ["allow", "block"])
@pytest.mark.parametrize(
    ("left", "said", "blocks"),
    [
        ((SOCKET,), "", False),
        ((SOCKET, LARGE), "lacks film.mkv (too large: 2 GB", False),
        ((LARGE, SECRET), "lacks keys\\nx (a directory that cannot be read", True),
        ((SECRET,) * 5, "and 2 more", True),
    ],
)
def test_what_a_checkpoint_lacks_is_said(
    left: tuple[NotCaptured, ...],
    said: str,
    blocks: bool,
    how: str,
    home: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the user's own limit leaves out stops no tool; what cannot be read does, with block."""
    take = CheckpointWriter.take

    def lacking(*given: Any, **named: Any) -> Taking:
        return replace(take(*given, **named), not_captured=left)

    monkeypatch.setattr(CheckpointWriter, "take", lacking)
    session = Session(home, project, config=f'[hooks]\non_failure = "{how}"\n')
    first, second = session.tool(), session.tool()
    assert first.passes == second.passes == (how == "allow" or not blocks)
    if first.passes:
        assert said in first.notice
        assert second.notice == ""
    else:
        assert said in second.reason
    assert all(call.checkpoint and said in call.missed for call in session.loop.book.calls("s1"))


def test_a_file_that_is_too_large_is_named(home: Path, project: Path) -> None:
    session = Session(home, project, config="[checkpoints]\nmax_file_size_mb = 1\n")
    (project / "big.csv").write_bytes(b"x" * 2_000_000)
    assert "big.csv (too large" in session.tool().notice
    assert session.tool() == Decision()


def test_tools_of_several_sessions_at_once(home: Path, project: Path) -> None:
    sessions = [Session(home, project, f"s{number}") for number in range(4)]
    said: list[Decision] = []

    def work(session: Session) -> None:
        for number in range(5):
            said.append(session.tool())
            (project / f"{session.name}-{number}").write_text("x")

    threads = [threading.Thread(target=work, args=(each,)) for each in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [Decision()] * 20
    for session in sessions:
        assert all(call.checkpoint for call in session.loop.book.calls(session.name))
        state = session.loop.book.look("claude-code", session.name)
        assert state.work.guarded.iterations == 5


def test_checkpoints_can_be_turned_off(home: Path, project: Path) -> None:
    session = Session(home, project, config="[hooks]\ncheckpoints = false\n")
    assert session.tool() == Decision()
    assert session.loop.book.calls("s1") == []


# --- Budgets --------------------------------------------------------------------------------------


def test_over_the_iterations_no_tool_runs(home: Path, project: Path) -> None:
    session = Session(home, project, config="[guard]\nmax_iterations = 2\n")
    assert [session.tool().verdict for _ in range(4)] == ["pass", "pass", "stop", "stop"]
    assert "budget of 2 iterations" in session.tool("Read", touches=Touches.NOTHING).reason
    assert session.prompt().verdict is Verdict.STOP
    assert Session(home, project, "s2").tool().passes  # a session of its own
    assert len(session.loop.book.calls("s1")) == 2  # what does not run needs no checkpoint


def test_tokens_come_from_the_transcript(home: Path, project: Path) -> None:
    session = Session(home, project, config="[guard.source.claude-code]\nmax_tokens = 300\n")
    for number, verdict in enumerate(("pass", "pass", "pass", "stop")):
        assert session.tool().verdict == verdict
        append(session.transcript, claude_answer(number))
    assert "300 tokens is used up (440)" in session.loop.next_tool("claude-code", "s1").reason


@pytest.mark.parametrize(
    ("config", "price", "verdict"),
    [
        ("[guard]\nmax_cost = 0.001\n", True, "stop"),
        ("[guard]\nmax_cost = 1.0\n", True, "pass"),
        ("[guard]\ndaily_cost = 0.001\n", True, "stop"),
        ("[guard]\nmax_cost = 1.0\n", False, "pass"),
        ('[hooks]\non_failure = "block"\n[guard]\nmax_cost = 1.0\n', False, "block"),
    ],
)
def test_cost(config: str, price: bool, verdict: str, home: Path, project: Path) -> None:
    prices = '[prices."opus"]\ninput = 10\noutput = 10\n' if price else ""
    session = Session(home, project, config=config + prices)
    session.now = 1_774_440_000.0  # the day of the recorded answers
    append(session.transcript, claude_answer(1))
    said = session.tool()
    assert said.verdict == verdict
    if not price:
        assert "no price for opus" in said.undecided


OPUS = "[prices.opus]\ninput = 10_000\noutput = 0\n"


@pytest.mark.parametrize(
    "budget", ["max_cost = {}", "daily_cost = {}", "\n[hooks]\nproject_daily_cost = {}"]
)
def test_a_model_without_a_price_hides_nothing(budget: str, home: Path, project: Path) -> None:
    """An answer of `opus` costs 1.05 here, which is enough; nobody knows what `small-1` costs."""
    session = Session(home, project, config=f"[guard]\n{budget.format(1)}\n{OPUS}")
    session.now = 1_774_440_000.0
    strange = claude_answer(2)
    strange["message"]["model"] = "small-1"
    append(session.transcript, claude_answer(1), strange)
    said = session.tool()
    assert said.verdict is Verdict.STOP
    assert "is used up (at least $1.05)" in said.reason
    name, _, _ = budget.rpartition("\n")[2].partition(" ")
    key = f"hooks.{name}" if "project" in name else f"guard.{name}"
    assert f"`holdfast config set {key} VALUE`" in said.reason
    (home / "config.toml").write_text(f"[guard]\n{budget.format(2)}\n{OPUS}")
    said = session.tool()
    assert said.passes
    assert "no price for small-1;" in said.notice
    if "max_cost" not in budget:  # what another session used has no name in this one
        other = Session(home, project, "s2")
        other.now = session.now
        assert "no price for small-1;" in other.tool().notice


@pytest.mark.parametrize(("model", "prices"), [("", ""), ("gpt", OPUS), ("", OPUS), ("opus", OPUS)])
def test_without_a_price_not_even_the_first_tool_runs(
    model: str, prices: str, home: Path, project: Path
) -> None:
    config = f'[hooks]\non_failure = "block"\n[guard]\nmax_cost = 0.5\n{prices}'
    session = Session(home, project, config=config)
    assert session.tool(model=model).passes == (prices == OPUS and model != "gpt")
    assert Session(home, project, "s2").tool(agent="opencode", transcript="").undecided


def test_a_limit_that_is_set_later_bounds_the_whole_day(home: Path, project: Path) -> None:
    first, second = Session(home, project), Session(home, project, "s2")
    first.now = second.now = 1_774_440_000.0
    for number in range(4):
        append(first.transcript, claude_answer(number))
        assert first.tool() == Decision()
    (home / "config.toml").write_text("[guard]\ndaily_tokens = 300\n")
    assert "(440)" in second.tool().reason
    assert "(440)" in first.loop.next_tool("claude-code", "s1").reason
    (home / "config.toml").write_text("")
    append(second.transcript, claude_answer(9))
    assert second.tool() == Decision()
    (home / "config.toml").write_text("[guard]\ndaily_tokens = 300\n")
    assert "(550)" in first.tool().reason  # what was used while there was no limit


def test_a_day_is_shared_by_all_sessions_and_ends(home: Path, project: Path) -> None:
    first = Session(home, project, config="[guard]\ndaily_tokens = 300\n")
    second = Session(home, project, "s2")
    first.now = second.now = 1_774_440_000.0
    for session in (first, second):
        for number in range(2):
            append(session.transcript, claude_answer(number))
        session.tool()
    assert first.tool().verdict is Verdict.STOP
    assert second.tool().verdict is Verdict.STOP
    second.now += DAY
    assert second.tool().passes


def test_a_project_has_a_budget_of_its_own(home: Path, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    session = Session(home, project, config="[hooks]\nproject_daily_tokens = 100\n")
    session.now = 1_774_440_000.0
    append(session.transcript, claude_answer(1))
    said = session.tool()
    assert said.verdict is Verdict.STOP
    assert "in this project" in said.reason
    elsewhere = Session(home, other, "s2")
    elsewhere.now = session.now
    assert elsewhere.tool().passes


def test_the_budget_is_that_of_the_project_where_the_work_is_done(
    home: Path, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "deep").mkdir(parents=True)
    config = "[hooks]\nproject_daily_tokens = 300\n"
    first, second = Session(home, other, config=config), Session(home, project, "s2")
    first.now = second.now = 1_774_440_000.0
    append(first.transcript, *map(claude_answer, range(2)))
    assert first.tool().passes
    append(first.transcript, *map(claude_answer, range(2, 4)))
    assert first.tool(cwd=str(other / "deep")).verdict is Verdict.STOP  # no way around
    append(second.transcript, *map(claude_answer, range(2)))
    assert second.tool().passes
    assert "(440)" in second.tool(cwd=str(other)).reason
    append(second.transcript, claude_answer(2))
    assert "(550)" in second.tool(cwd=str(other)).reason  # what is new was used here
    assert second.tool().passes  # and what was used there is 220


def test_wall_time(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = [1_000.0]
    monkeypatch.setattr("holdfast.api.loop.time.monotonic", lambda: at[0])
    session = Session(home, project, config="[guard]\nmax_minutes = 2\n")
    assert session.tool().passes
    at[0] += 100
    assert session.tool().passes
    at[0] += 30
    assert "seconds of work" in session.tool().reason


# --- Breaker and fixation -------------------------------------------------------------------------


def test_errors_in_a_row_are_told_and_then_block(home: Path, project: Path) -> None:
    session = Session(home, project)
    said = []
    for _ in range(9):
        append(session.transcript, claude_result(failed=True))
        said.append(session.tool())
    assert [bool(each.advice) for each in said] == [
        False, False, True, False, False, True, False, False, False,
    ]  # fmt: skip
    assert said[-1].verdict is Verdict.BLOCK
    session.prompt()
    assert session.tool().passes  # the user has spoken


def test_the_same_call_over_and_over(home: Path, project: Path) -> None:
    session = Session(home, project)
    same: Mapping[str, Any] = {"arguments": {"command": "ls"}, "touches": Touches.NOTHING}
    verdicts = [session.tool(**same).verdict for _ in range(9)]
    assert verdicts == ["pass"] * 8 + ["block"]
    assert session.tool().passes  # another call


# --- Bad days -------------------------------------------------------------------------------------


def test_a_wrong_configuration_costs_no_way_back(home: Path, project: Path) -> None:
    """Nor does it drop anything: the bounds that it should have set are unknown."""
    session = Session(home, project, config="[checkpoints]\nmax_snapshots = 0\n")
    for number in range(25):
        (project / "a.txt").write_text(f"state {number}")
        session.tool()
    wrong = session.home / "config.toml"
    wrong.write_text("[checkpoints]\nmax_snapshots = nought\n")
    (project / "a.txt").write_text("before the tool")
    first = session.tool()
    assert first.passes
    assert "cannot be used" in first.notice
    assert "taken with the defaults" in first.notice
    (project / "a.txt").write_text("after it")
    assert session.tool().notice == ""  # once
    wrong.write_text("[guard]\nmax_iterations = []\n")
    assert "max_iterations" in session.tool().notice  # another reason
    calls = session.loop.book.calls("s1")
    assert len(calls) == 28
    assert all(call.checkpoint and not call.missed for call in calls)
    wrong.unlink()
    assert len(checkpoints(home)) == 27
    with holdfast.open(home) as opened:
        opened.checkpoints.restore(calls[25].checkpoint)
    assert (project / "a.txt").read_text() == "before the tool"


def test_what_cannot_be_decided_is_said_once_until_it_changes(home: Path, project: Path) -> None:
    session = Session(home, project, config="[guard]\nmax_cost = 1.0\n")
    append(session.transcript, claude_answer(1))
    assert "no price for opus" in session.tool().notice
    for _ in range(2):
        again = session.tool()
        assert (again.notice, again.advice, again.passes) == ("", "", True)
        assert "no price for opus" in again.undecided
    assert session.prompt().notice == ""
    priced = "[guard]\nmax_cost = 1.0\n[prices.opus]\ninput = 10\noutput = 10\n"
    (home / "config.toml").write_text(priced)
    assert session.tool() == Decision()
    (home / "config.toml").write_text("[guard]\nmax_cost = 2.0\n")
    assert "no price for opus" in session.tool().notice  # it is back
    other = Session(home, project, "s2")
    append(other.transcript, claude_answer(1))
    assert "no price for opus" in other.tool().notice


DAMAGE = (b"", b"{", b"[]", b'{"format": 9}', b"\xff" * 100)


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
@pytest.mark.parametrize("how", ["allow", "block"])
def test_a_damaged_note_makes_a_budget_undecided_and_is_kept(
    how: str, damage: bytes, home: Path, project: Path
) -> None:
    config = f'[hooks]\non_failure = "{how}"\n[guard]\nmax_iterations = 3\n'
    session = Session(home, project, config=config)
    session.tool()
    [note] = (home / "loop").rglob("*.json")
    note.write_bytes(damage)
    assert "was damaged" in session.loop.next_tool("claude-code", "s1").undecided
    assert note.read_bytes() == damage  # a look changes nothing
    first, second = session.tool(), session.tool()
    kept = note.with_suffix(".damaged")
    assert kept.read_bytes() == damage
    assert str(kept) in first.undecided
    if how == "block":
        assert first.verdict is second.verdict is Verdict.BLOCK
        kept.unlink()  # the user has seen it
        assert session.tool().passes
        return
    assert (bool(first.notice), second.notice) == (True, "")
    assert session.tool().verdict is Verdict.STOP  # the first call is known from the checkpoints


def test_a_damaged_note_matters_only_to_budgets(home: Path, project: Path) -> None:
    session = Session(home, project, config='[hooks]\non_failure = "block"\n')
    session.tool()
    [note] = (home / "loop").rglob("*.json")
    note.write_bytes(b"{")
    assert session.tool() == Decision()
    note.write_bytes(b"[")
    assert session.tool() == Decision()
    assert sorted(each.read_bytes() for each in note.parent.glob("*.damaged*")) == [b"[", b"{"]


@pytest.mark.parametrize("damage", DAMAGE[:4:3], ids=range(2))
@pytest.mark.parametrize("also", ["", "s1"])
def test_a_damaged_day_is_found_again_in_the_notes_of_its_sessions(
    also: str, damage: bytes, home: Path, project: Path
) -> None:
    config = '[hooks]\non_failure = "block"\n[guard]\ndaily_tokens = 300\n'
    first, second = Session(home, project, config=config), Session(home, project, "s2")
    first.now = second.now = 1_774_440_000.0
    append(first.transcript, *map(claude_answer, range(4)))
    first.tool()
    [day] = (home / "loop" / "days").glob("*.json")
    day.write_bytes(damage)
    if also:
        (home / "loop" / "claude-code" / f"{also}.json").write_bytes(damage)
    said = second.tool()
    assert day.with_suffix(".damaged").read_bytes() == damage
    if not also:
        assert said.verdict is Verdict.STOP
        assert "(440)" in said.reason
        return
    assert said.verdict is Verdict.BLOCK
    assert "what was used today was damaged" in said.reason
    assert not second.tool().passes
    assert first.tool().verdict is Verdict.STOP  # its transcript is still there
    second.now += DAY
    assert second.tool().passes


@pytest.mark.parametrize("name", ["../../up", "a/b", "", ".", "x" * 300, "ä\n\0"])
def test_an_id_is_never_a_path(name: str, home: Path, project: Path, tmp_path: Path) -> None:
    session = Session(home, project)
    session.name = name
    before = {path for path in tmp_path.rglob("*") if "loop" not in path.parts}
    session.tool(touches=Touches.NOTHING)
    made = {path for path in tmp_path.rglob("*") if "loop" not in path.parts}
    assert made - before <= {home, home / "checkpoints"}
    assert json.loads(next((home / "loop").rglob("*.json")).read_text())["format"] == 1


# --- What an agent, or somebody else, may do to the records ---------------------------------------


@pytest.mark.parametrize("budget", ["max_tokens", "daily_tokens"])
def test_a_used_up_budget_stays_used_up(budget: str, home: Path, project: Path) -> None:
    session = Session(home, project, config=f"[guard]\n{budget} = 300\n")
    session.now = 1_774_440_000.0
    append(session.transcript, *map(claude_answer, range(4)))
    assert session.tool().verdict is Verdict.STOP
    session.transcript.write_text("")
    append(session.transcript, claude_answer(0))
    assert session.tool().verdict is Verdict.STOP
    if budget == "daily_tokens":  # without the note of the session the day is still known
        (home / "loop" / "claude-code" / "s1.json").unlink()
        assert session.tool().verdict is Verdict.STOP


@pytest.mark.parametrize("how", ["allow", "block"])
@pytest.mark.parametrize("transcript", ["/nonexistent/s1.jsonl", "", "a directory", "s1.jsonl"])
def test_a_transcript_that_can_never_be_read_leaves_a_budget_undecided(
    transcript: str, how: str, home: Path, project: Path
) -> None:
    config = f'[hooks]\non_failure = "{how}"\n[guard]\nmax_tokens = 300\n'
    session = Session(home, project, config=config)
    given = str(project) if transcript == "a directory" else transcript
    assert session.tool("", moment=Moment.PROMPT, transcript=given).passes
    first, second = session.tool(transcript=given), session.tool(transcript=given)
    assert (first == Decision()) == transcript.startswith("/")  # it may come yet
    assert "cannot be read" in second.undecided
    assert "('" not in second.undecided
    assert second.passes == (how == "allow")
    assert all(call.checkpoint for call in session.loop.book.calls("s1"))


@pytest.mark.parametrize("what", ["not a database", "a row", "the note"])
def test_the_checkpoint_is_taken_whatever_the_meter_says(
    what: str, home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.connected_sessions._WAIT", 0.05)
    session = Session(home, project, config="[guard]\nmax_tokens = 300\n")
    path = tmp_path / "opencode.db"
    database = OpenCode(path)
    database.do("INSERT INTO message VALUES ('s1', 1, '{torn')")
    if what == "not a database":
        path.write_bytes(b"x" * 5_000)
    fields = {"agent": "opencode", "transcript": str(path)}
    with contextlib.ExitStack() as stack:
        if what == "the note":
            stack.enter_context(session.loop.book.session("opencode", "s1"))
        said = session.tool(**fields)
    assert said.passes
    assert said.notice
    [call] = session.loop.book.calls("s1")
    assert call.checkpoint


def test_a_call_that_is_asked_about_twice_counts_once(home: Path, project: Path) -> None:
    session = Session(home, project, config="[guard]\nmax_iterations = 2\n")
    same: Mapping[str, Any] = {"arguments": {"command": "ls"}, "call": "toolu_1"}
    assert [session.tool(**same).verdict for _ in range(4)] == ["pass"] * 4
    assert [session.tool().verdict for _ in range(2)] == ["pass", "stop"]


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {"tool_input": "DEEP"},
        {"session_id": "a\ud800b", "cwd": "/nonexistent\0x"},
        {"session_id": "s\0", "cwd": "/x\ud800"},
        {"hook_event_name": None},
        {"hook_event_name": ["PreToolUse"]},
    ],
)
def test_nothing_that_an_agent_says_gets_past_on_failure(
    fields: Mapping[str, Any], closed: bool, home: Path, project: Path
) -> None:
    how = "block" if closed else "allow"
    Session(home, project, config=f'[hooks]\non_failure = "{how}"\n')
    said = {"session_id": "s1", "cwd": str(project), "hook_event_name": "PreToolUse"}
    raw = json.dumps({**said, "tool_name": "Bash", **fields})
    raw = raw.replace('"DEEP"', "[" * 100_000 + "]" * 100_000)
    reply = serve("claude-code", home, raw.encode())
    denied = reply.code == 2 or '"deny"' in reply.out
    assert denied == closed
    assert reply.out + reply.err


@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini", "opencode"])
@pytest.mark.parametrize("tool", [None, "", ["Bash"], {"name": "Bash"}])
def test_a_tool_without_a_name_may_change_files(
    agent: str, tool: Any, home: Path, project: Path
) -> None:
    event = EVENTS[agent][0]
    said = {"session_id": "s1", "cwd": str(project), "hook_event_name": event, "tool_name": tool}
    more = {"event": event, "input": {"tool": tool, "sessionID": "s1"}, "directory": str(project)}
    reply = serve(agent, home, json.dumps({**said, **more}).encode())
    assert (reply.code, reply.out) == (0, "")
    [call] = Loop(Place(home)).book.calls("s1")
    assert call.checkpoint


@pytest.mark.parametrize(
    ("config", "closed", "denied"),
    [
        ('[hooks]\non_failure = "block"\n', False, True),
        ('[hooks]\non_failure = "allow" # on_failure = "block"\n', False, False),
        ("", True, True),
    ],
)
def test_an_error_in_the_configuration_is_a_failure_too(
    config: str, closed: bool, denied: bool, home: Path, project: Path
) -> None:
    Session(home, project, config=f'{config}[guard]\nmax_iterations = "1"\n')
    said = {"session_id": "s1", "cwd": str(project), "hook_event_name": "PreToolUse"}
    raw = json.dumps({**said, "tool_name": "Bash"}).encode()
    reply = serve("claude-code", home, raw, fails_closed=closed)
    assert ('"deny"' in reply.out) == denied
    assert "the configuration cannot be used" in reply.out
    assert "holdfast.open" not in reply.out


def test_a_session_with_half_a_character_in_its_name_is_counted(home: Path, project: Path) -> None:
    session = Session(home, project, config="[guard]\nmax_iterations = 1\n")
    session.name = "a\ud800b"
    assert [session.tool().verdict for _ in range(2)] == ["pass", "stop"]
