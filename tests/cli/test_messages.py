"""Messages that once misled, and questions that were not asked. In this process, to be quick."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from holdfast.model.operation import Removal
from holdfast.model.session import SessionFilter
from holdfast.model.usage import Share
from holdfast.services import stats
from holdfast.stores.sqlite import checkup
from tests.cli.agents import FOLDERS, home_of, settle
from tests.cli.checkpoint_bench import change, contents, taken
from tests.cli.inside import Inside
from tests.cli.machine import Machine, entries
from tests.cli.session_bench import DISK, fill, line

# --- Undo says what it will do, and asks ----------------------------------------------------------


@pytest.fixture
def twice(machine: Machine, inside: Inside) -> Inside:
    """Two prunes, of one file each."""
    for source in ("cron", "cli"):
        machine.transcript(source=source)
        inside.ok("sessions", "prune", "--source", source, "--yes")
    return inside


def test_undo_of_the_last_operation_asks_nothing(twice: Inside) -> None:
    said = twice.ok("undo").out
    assert said.startswith(
        "Undoing operation 2: sessions prune --source cli\nThis brings back 1 item"
    )


def test_undo_says_that_the_trash_was_emptied_and_what_is_left(twice: Inside) -> None:
    twice.ok("trash", "empty", "2", "--yes")
    refused = twice.run("undo")
    assert refused.code == 1
    assert "left the trash for good, through operation 3 (trash empty 2)" in refused.words
    assert "operation 1 (sessions prune --source cron): holdfast undo 1" in refused.words
    twice.ok("trash", "empty", "--yes")
    assert "Nothing else in this home can be undone." in twice.run("undo").words


def test_undo_says_how_much_of_it_is_gone(machine: Machine, inside: Inside) -> None:
    for source in ("cron", "cli"):
        machine.transcript(source=source, kb=300)
    inside.ok("sessions", "prune", "--yes")
    inside.ok("sessions", "prune", "--max-total-size", "400kB", "--yes")
    assert "1 removed from the trash" in inside.ok("log").out
    said = inside.ok("undo", "1", "--yes").words
    assert "This brings back 1 item" in said
    assert "1 other item of it left the trash for good (operation 2)." in said


@pytest.mark.parametrize("words", [("undo", "1"), ("undo",)])
def test_undo_of_something_older_asks(twice: Inside, words: tuple[str, ...]) -> None:
    if words == ("undo",):
        twice.ok("undo")
    before = entries(twice.machine.home)
    refused = twice.run(*words)
    assert refused.code == 3
    assert "Nothing was undone: there is no terminal" in refused.err
    declined = twice.run(*words, answers="n\n")
    assert declined.code == 3
    latest = (
        "operations 2 and 3 (the last: undo 2)."
        if words == ("undo",)
        else "operation 2 (sessions prune"
    )
    assert f"Since then you ran {latest}" in declined.words
    assert "\nUndo operation 1? [y/N]: " in declined.err  # the question by itself, and last
    assert "This brings back 1 item" in declined.out
    assert declined.err.endswith("Nothing was undone.\n")
    assert "error:" not in declined.err
    document = twice.json(*words, code=3)
    assert isinstance(document, dict)
    assert (document["applied"], document["undone"]) == (False, "1")
    assert entries(twice.machine.home) == before
    assert "1 brought back" in twice.ok(*words, answers="y\n").out


def test_undo_that_goes_on_asks_nothing(machine: Machine, inside: Inside) -> None:
    """The first attempt came to a part only: the second is no surprise."""
    path = machine.transcript()
    inside.ok("sessions", "prune", "--yes")
    machine.file(path, days=0)
    assert inside.run("undo").code == 1
    path.unlink()
    inside.ok("undo")


def test_undo_of_a_restore_names_project_and_files(
    machine: Machine, inside: Inside, project: Path
) -> None:
    wanted = taken(machine, project)
    change(project)
    changed = contents(project)
    inside.ok("checkpoints", "restore", wanted, "--yes")
    restored = contents(project)
    assert "3 paths changed\n" in inside.ok("log").out
    declined = inside.run("undo", answers="n\n")
    assert declined.code == 3
    assert f"Undoing it changes 3 paths in {project}." in declined.words
    assert "new.txt" in declined.out
    assert contents(project) == restored
    (project / "src" / "main.py").write_text("somebody else")
    partly = inside.run("undo", "--yes")
    assert partly.code == 1
    assert "2 paths changed back" in inside.ok("log").out
    assert str(project) in partly.out
    assert "src/main.py" in partly.out
    (project / "src" / "main.py").unlink()
    assert contents(project) != changed


@pytest.mark.parametrize(
    ("commands", "says"),
    [
        ((), "There is nothing to undo: the log of this home is empty"),
        (("sessions prune --yes", "undo"), "operation 1 (sessions prune), undone by operation 2"),
    ],
)
def test_nothing_left_to_undo(
    machine: Machine, inside: Inside, commands: tuple[str, ...], says: str
) -> None:
    machine.transcript()
    for each in commands:
        inside.ok(*each.split())
    result = inside.run("undo")
    assert result.code == 1
    assert says in result.words


def test_an_import_is_not_undone(inside: Inside, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text(line("20260101_000000_abcdef", "x"))
    inside.ok("sessions", "import", str(file))
    assert "The log is empty" in inside.ok("log").words
    refused = inside.run("undo").words
    assert "An import cannot be undone." in refused
    assert "holdfast sessions delete ID…" in refused
    again = inside.ok("sessions", "import", str(file), "--replace").words
    assert "Stored 0 sessions with 0 messages. 1 session was already stored with the same" in again
    assert "the archive" not in again
    file.write_text(line("20260101_000000_abcdef", "another text"))
    assert "1 of them replaced" in inside.ok("sessions", "import", str(file), "--replace").words


# --- A delegate in the files of its parent --------------------------------------------------------


def test_a_delegate_inside_its_parent(machine: Machine, inside: Inside) -> None:
    settle(machine, "claude-code")
    parent, delegate = "9ef6511f-b4c0-4f86-8f80-e160f2b5b17f", "agent-a80b2ea1420c07006"
    [row] = [each for each in inside.ok("sessions", "list").lines if each.startswith(delegate)]
    assert "in parent" in row.split("\t")
    assert "2 messages, in the files of its parent" in inside.ok("sessions", "show", delegate).out
    stays = inside.run("sessions", "delete", delegate, "--yes")
    assert stays.code != 0
    assert parent in stays.err


# --- A cap that is still exceeded -----------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_cap_that_is_still_exceeded_is_said(
    machine: Machine, inside: Inside, flags: tuple[str, ...]
) -> None:
    """What a database gives back is known only afterwards."""
    home = machine.user / "sample"
    inside.ok("demo", str(home))
    prune = ("sessions", "prune", "--home", str(home), "--yes", "--max-total-size")
    said = inside.ok(*prune, "3MB", *flags)
    assert "note: the cap is still exceeded" in said.err
    assert "Run the command again to remove " in " ".join(said.err.split())
    for _ in range(5):
        said = inside.ok(*prune, "3MB", *flags)
        if "still exceeded" not in said.err:
            break
    assert "still exceeded" not in said.err


# --- In use, and why ------------------------------------------------------------------------------


def test_show_says_which_sign_of_life_a_session_has(machine: Machine, inside: Inside) -> None:
    root = home_of(settle(machine, "claude-code"), "claude-code")
    name = "541d5a9b-3a07-47e6-b87b-5fb3a444c954"
    [transcript] = root.glob(f"projects/*/{name}.jsonl")
    os.utime(transcript)  # the recording was made on a day that is long past
    assert "in use: used " in inside.ok("sessions", "show", name).out
    said = {"pid": 4194399, "sessionId": name, "procStart": "1", "pidDomain": "linux:x:pid:[1]"}
    (root / "sessions" / "4194399.json").write_text(json.dumps(said))
    shown = inside.ok("sessions", "show", name).out
    why = "sessions/4194399.json: process 4194399 of another machine or container had it open"
    assert f"in use: {why}" in shown
    stays = inside.run("sessions", "delete", name, "--yes")
    assert why in stays.words


# --- A home that cannot be read -------------------------------------------------------------------


def test_the_status_of_a_home_that_cannot_be_read_names_doctor(
    machine: Machine, inside: Inside
) -> None:
    settle(machine, "codex")
    machine.home.mkdir()
    (machine.home / "config.toml").touch()
    (machine.home / "sessions.db").mkdir()
    said = inside.run("status")
    assert said.code == 1
    assert f"holdfast --home {machine.home} doctor" in said.err
    alone = inside.run("--home", str(machine.home), "status")
    assert f"holdfast --home {machine.home} doctor" in alone.err


# --- Numbers without a unit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("sessions prune --max-total-size 500", ["500 bytes or 500 megabytes", "500B or 500MB"]),
        ("checkpoints prune --max-total-size 2", ["2 bytes or 2 megabytes", "2B or 2MB"]),
        ("sessions prune --older-than 30", ["30 hours ago or 30 days ago", "30h or 30d"]),
        ("sessions list --newer-than 7", ["7 hours ago or 7 days ago", "7h or 7d"]),
        ("sessions prune --keep-within 90", ["90 seconds or 90 days", "90s or 90d"]),
        ("trash empty --older-than 2", ["2 hours ago or 2 days ago"]),
    ],
)
def test_a_bare_number_is_refused_with_both_readings(
    machine: Machine, inside: Inside, flags: str, says: list[str]
) -> None:
    machine.transcript(days=1)
    result = inside.run(*flags.split())
    assert result.code == 2
    for each in says:
        assert each in result.words


# --- Caps and the trash ---------------------------------------------------------------------------


def test_the_log_says_what_was_removed_for_good(machine: Machine, inside: Inside) -> None:
    for days in (100, 3, 2, 1):
        machine.transcript(days=days, kb=300)
    inside.ok("sessions", "prune", "--max-total-size", "1MB", "--yes")
    assert "1 removed for good\n" in inside.ok("log").out
    machine.transcript(days=100)
    inside.ok("sessions", "prune", "--yes")
    assert "1 removed\t" in inside.ok("log").out


def test_what_is_gone_for_good_is_not_undone(machine: Machine, inside: Inside) -> None:
    for days, kb in ((200, 300), (100, 10), (2, 300), (1, 300)):
        machine.transcript(days=days, kb=kb)
    inside.ok("sessions", "prune", "--max-total-size", "700kB", "--yes")
    assert "2 removed, 1 of them for good" in inside.ok("log").out
    gone = "1 other item of it cannot come back: removed for good."
    assert gone in inside.ok("undo", "--dry-run").words
    assert gone in inside.ok("undo").words
    assert "2 removed; 1 brought back; 1 removed for good\n" in inside.ok("log").out


def test_a_cap_says_that_it_skips_the_trash(machine: Machine, inside: Inside) -> None:
    for days in (3, 2, 1):
        machine.transcript(days=days, kb=300)
    words = ("sessions", "prune", "--max-total-size", "700kB")
    plan = inside.ok(*words, "--dry-run").words
    assert "A size cap does not use the trash" in plan
    assert "--use-trash" in plan
    question = inside.run(*words, answers="n\n")
    assert "This cannot be undone. A size cap does not use the trash. Remove 1" in question.words
    assert question.words.count("cannot be undone") == 1
    done = inside.ok(*words, "--use-trash", "--yes").words
    assert "1 removed" in done
    assert "cannot be undone" not in done
    assert "the trash: its space is freed when it is emptied" in done
    inside.ok("undo")
    assert len(machine.names()) == 3
    refused = inside.run(*words, "--use-trash", "--now")
    assert (refused.code, "contradict" in refused.err) == (2, True)


def test_maintenance_offers_no_flag_that_it_does_not_have(machine: Machine, inside: Inside) -> None:
    for days in (3, 2, 1):
        machine.transcript(days=days, kb=600)
    machine.configure("[sessions]\nauto_prune = true\nmax_total_size_mb = 1\n")
    for preview in ("maintain --force", "maintain --all-homes"):
        words = inside.ok(*preview.split(), "--dry-run").words
        assert "A size cap does not use the trash" in words
        assert "--use-trash" not in words


def test_a_cap_on_checkpoints_can_use_the_trash(
    machine: Machine, inside: Inside, project: Path
) -> None:
    for number in range(4):
        (project / "large").write_bytes(os.urandom(200_000) + bytes([number]))
        taken(machine, project)
    words = ("checkpoints", "prune", "--max-total-size", "450kB")
    assert "A size cap does not use the trash" in inside.ok(*words, "--dry-run").words
    document: Any = inside.json(*words, "--use-trash", "--dry-run")
    going = [each for each in document["plan"]["items"] if each["action"] == "remove"]
    assert going
    assert all(each["undoable"] for each in going)
    [short] = document["plan"]["shortfalls"]
    assert any("trash" in why for why in short["held_by"])
    inside.ok(*words, "--use-trash", "--yes")
    inside.ok("undo")
    assert inside.ok("checkpoints", "list", str(project)).out.count("by hand") == 4


def test_kept_under_a_cap_that_cannot_be_met(machine: Machine, inside: Inside) -> None:
    """Not "active within 90 d": the cap overrules that. The newest stays because caps spare it."""
    machine.transcript(days=1, kb=300)
    document: Any = inside.json("sessions", "prune", "--max-total-size", "10kB", "--dry-run")
    [item] = [each for each in document["plan"]["items"] if each["kind"] == "transcript"]
    assert item["reason"] == "newest of its kind and source: a cap never takes it"


# --- What stays, and why --------------------------------------------------------------------------


def test_a_filter_by_kind_says_why_files_stay(stored: Machine) -> None:
    inside = Inside(stored)
    dump = stored.file(
        stored.sessions / f"request_dump_{DISK}_20250101_000000.json", days=300, content="{}"
    )
    words = ("sessions", "prune", "--kind", "request-dump", "--older-than", "1d")
    said = inside.ok(*words, "--dry-run").words
    assert "its session is not selected; ask for files only to remove it alone" in said
    inside.ok(*words, "--files-only", "--yes")
    assert not dump.exists()
    assert DISK in inside.ok("sessions", "list").out


# --- Hints carry the home -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    ["undo 9", "doctor", "sessions show nothing", "checkpoints show 123456", "sessions restore"],
)
def test_commands_in_hints_name_the_home(machine: Machine, inside: Inside, words: str) -> None:
    elsewhere = machine.root / "an agent's"
    machine.transcript(home=elsewhere)
    taken_from = machine.root / "project"
    taken_from.mkdir()
    elsewhere.chmod(0o755)
    said = inside.run("--home", str(elsewhere), *words.split()).words
    for command in said.split("`")[1::2]:
        if command.startswith("holdfast"):
            assert command.startswith("holdfast --home ")


# --- Other words ----------------------------------------------------------------------------------


def test_ended_is_said_once(stored: Machine) -> None:
    inside = Inside(stored)
    said = inside.ok("sessions", "show", DISK).out
    assert "(ended)" not in said
    ended = inside.run("sessions", "end", DISK).words
    assert "(ended)" not in ended


def test_the_difference_of_a_path_that_is_nowhere(
    machine: Machine, inside: Inside, project: Path
) -> None:
    known = taken(machine, project)
    result = inside.run("checkpoints", "diff", known, str(project / "scr"))
    assert result.code == 2
    assert "'scr' is neither in checkpoint" in result.err
    (project / "with space").unlink()
    assert inside.run("checkpoints", "diff", known, str(project / "with space")).code == 0
    assert inside.run("checkpoints", "diff", known, str(project / "src")).code == 0


def test_a_directory_that_nobody_can_find_is_not_called_unmounted(
    machine: Machine, inside: Inside, project: Path
) -> None:
    moved = machine.root / "around" / "project"
    moved.parent.mkdir()
    project.rename(moved)
    taken(machine, moved)
    moved.parent.rename(machine.root / "moved")
    said = inside.ok("checkpoints", "status").out
    assert "unmounted" not in said
    assert "unknown" in said


def test_an_archived_session_is_not_unknown(stored: Machine) -> None:
    inside = Inside(stored)
    inside.ok("sessions", "archive", DISK, "--yes")
    for words in (("show",), ("rename", "x"), ("pin",), ("end",), ("export",)):
        command, *rest = words
        result = inside.run("sessions", command, DISK, *rest)
        assert result.code == 2
        assert f"Session {DISK} is in the archive." in result.err
        assert f"sessions restore {DISK}" in result.err


# --- Ctrl-C ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "where", "says"),
    [
        ("sessions list", "holdfast.api.session_view.SessionView.list_sessions", "Nothing was"),
        ("sessions prune --yes", "holdfast.spine.apply.carry_out", "run the same command again"),
        (
            "sessions prune --yes",
            "holdfast.api.retention.SessionRetention.plan_prune",
            "Nothing was changed.",
        ),
    ],
)
def test_an_interrupt_says_what_was_done(
    machine: Machine, inside: Inside, words: str, where: str, says: str
) -> None:
    machine.transcript()
    with mock.patch(where, side_effect=KeyboardInterrupt):
        result = inside.run(*words.split(), "--home", str(machine.home))
    assert result.code == 130
    assert says in result.err
    assert ("Nothing was changed" in result.err) is ("again" not in says)
    if "again" in says:
        assert f"`holdfast --home {machine.home} log`" in result.err


def _signalled(how: signal.Signals) -> Callable[..., Iterator[tuple[Removal, ...]]]:
    """Batches of one item each; the signal comes while the first is on its way."""

    def one_by_one(removals: Iterable[Removal], **_: object) -> Iterator[tuple[Removal, ...]]:
        for each in removals:
            yield (each,)
            os.kill(os.getpid(), how)

    return one_by_one


@contextmanager
def _never_outright(how: signal.Signals) -> Iterator[None]:
    """A signal that the command does not handle fails the test, and does not end it."""

    def outright(number: int, _: FrameType | None) -> None:
        raise AssertionError(f"signal {number} ended the command outright")

    before = signal.signal(how, outright)
    try:
        yield
    finally:
        signal.signal(how, before)


def test_a_termination_while_it_looks_is_an_interrupt(machine: Machine, inside: Inside) -> None:
    machine.transcript()

    def end(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with (
        _never_outright(signal.SIGTERM),
        mock.patch("holdfast.api.retention.SessionRetention.plan_prune", side_effect=end),
    ):
        result = inside.run("sessions", "prune", "--yes")
    assert (result.code, result.err) == (130, "\nInterrupted. Nothing was changed.\n")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_after_the_item_at_hand(
    machine: Machine, inside: Inside, how: signal.Signals
) -> None:
    others = machine.user / ".hermes"
    made = [machine.transcript(), machine.transcript(), machine.transcript(home=others)]
    for name in ("SOUL.md", "config.yaml"):
        (others / name).write_text("{}\n")

    with (
        _never_outright(how),
        mock.patch("holdfast.spine.carry_out.groups", side_effect=_signalled(how)),
    ):
        result = inside.run("sessions", "prune", "--now", "--all-homes", "--yes")
    assert result.code == 130
    assert "Stopped. Nothing was done in: " in result.err
    assert "1 removed" in result.out
    assert [each.exists() for each in made].count(True) == 2
    assert made[2].exists()
    assert inside.ok("log", "--home", str(machine.home)).out.count("stopped") == 1


# --- What is said, and when -----------------------------------------------------------------------


def test_a_session_that_had_ended_is_not_said_to_end(machine: Machine, inside: Inside) -> None:
    fill(machine.home)
    inside.run("sessions", "end", DISK)
    assert inside.ok("sessions", "end", DISK).out == f"Session {DISK} had already ended.\n"
    assert f"{DISK} had already ended." in inside.ok("sessions", "end", DISK, "--dry-run").out


def test_a_file_of_something_else_is_named_first(machine: Machine, inside: Inside) -> None:
    file = machine.root / "passwd"
    file.write_text("root:x:0:0\n" * 30)
    said = inside.run("sessions", "import", str(file))
    assert said.code == 1
    assert said.lines[0].startswith("This is neither a Holdfast export nor")
    assert sum(line.startswith("  line ") for line in said.lines) == 5
    assert "  … and 25 more." in said.lines


@pytest.mark.parametrize("scheduler", ["cron", "systemd"])
def test_a_dry_run_of_an_installation_says_so(
    machine: Machine, inside: Inside, scheduler: str
) -> None:
    machine.transcript()
    said = inside.ok("maintain", "--install", scheduler, "-n")
    assert said.out.endswith("\nNothing was changed.\n")


def test_a_dry_run_of_a_repair_changes_nothing(machine: Machine, inside: Inside) -> None:
    fill(machine.home)
    machine.home.chmod(0o755)
    before = entries(machine.home)
    said = inside.run("doctor", "--repair", "-n").out
    assert "This would repair: " in said
    assert said.endswith("\nNothing was changed.\n")
    assert machine.home.stat().st_mode & 0o777 == 0o755
    assert entries(machine.home) == before


def test_no_checkpoint_is_suggested_of_a_directory_that_is_not_there(
    machine: Machine, inside: Inside
) -> None:
    fill(machine.home)
    said = inside.ok("checkpoints", "list", "/no/such/directory").out
    assert said.startswith("/no/such/directory does not exist, and has no checkpoints.")
    assert "checkpoints take" not in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--older-than 1", "it could mean 1 hour ago or 1 day ago.\n"),
        ("--keep-within 1", "it could mean 1 second or 1 day.\n"),
        ("--max-total-size 1", "it could mean 1 byte or 1 megabyte.\n"),
        ("--max-total-size 2", "it could mean 2 bytes or 2 megabytes.\n"),
        ("--max-total-size x", "is not a size.\n"),
        ("--older-than soon", "is neither a duration nor a date.\n"),
    ],
)
def test_a_quantity_is_refused_in_a_whole_sentence(
    machine: Machine, inside: Inside, words: str, says: str
) -> None:
    machine.transcript()
    assert says in inside.run("sessions", "prune", *words.split()).err


# --- Narrow terminals, and quiet commands ---------------------------------------------------------


def test_a_list_keeps_the_column_that_it_is_sorted_by(machine: Machine, inside: Inside) -> None:
    fill(machine.home)
    narrow = inside.run("sessions", "list", "--sort", "messages", columns=40)
    assert "messages" in narrow.lines[0]
    machine.transcript()
    inside.ok("sessions", "prune", "--yes")
    narrow = inside.run("log", "--sort", "in-trash", columns=40)
    assert "trash" in narrow.lines[0]


def test_a_question_breaks_between_words(machine: Machine) -> None:
    machine.transcript()
    with machine.terminal("sessions", "prune", columns=50) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("n\n")
        shown = terminal.end()
    question = [each for each in (shown.out + shown.err).splitlines() if "undo" in each]
    assert question
    assert all(len(each) <= 50 for each in question)


def test_a_quiet_demo_says_nothing(inside: Inside, tmp_path: Path) -> None:
    assert inside.ok("demo", str(tmp_path / "sample"), "-q").out == ""


# --- What three strangers stumbled over -----------------------------------------------------------


@pytest.fixture
def several(machine: Machine) -> Inside:
    return Inside(settle(machine))


def test_one_question_and_one_hint_for_all_homes(several: Inside) -> None:
    refused = several.run("sessions", "prune", "--all-homes", "--older-than", "0s")
    assert refused.code == 3
    assert refused.err.count("no terminal") == 1
    assert refused.out.count("The plan removes") > 2
    done = several.ok("maintain", "--all-homes", "--force").words
    assert done.count("auto_prune is off in 6 homes, so maintenance does not prune") == 1
    assert done.count("auto_prune is off") == 1
    assert "To turn it on in one of them: holdfast --home HOME config set" in done


def test_one_home_with_nothing_is_one_other_home(several: Inside) -> None:
    for agent in FOLDERS:
        if agent not in ("codex", "claude-code"):
            shutil.rmtree(home_of(several.machine, agent))
    several.ok("sessions", "prune", "--home", "codex", "--older-than", "0s", "--yes")
    assert "The log is empty in 1 other home." in several.ok("log").out


def test_the_log_says_what_cannot_be_undone_any_more(twice: Inside) -> None:
    gone = "its trash was emptied, so it cannot be undone"
    assert gone not in twice.ok("log").out
    twice.ok("trash", "empty", "2", "--yes")
    [line] = [each for each in twice.ok("log").lines if gone in each]
    assert line.split("\t")[0] == "2"
    twice.ok("trash", "empty", "--yes")
    for command in (("trash", "empty"), ("trash", "empty", "--dry-run")):
        assert "The trash is empty." in twice.ok(*command).out


def test_a_restore_of_a_session_that_never_left(stored: Machine) -> None:
    said = Inside(stored).run("sessions", "restore", DISK).err
    assert f"Session {DISK} is already here; there is nothing to restore." in said


def test_what_is_compressed_is_named_with_the_command_that_unpacks_it(
    machine: Machine, inside: Inside
) -> None:
    packed = machine.root / "old sessions.jsonl.gz"
    packed.write_bytes(gzip.compress(line("s1").encode()))
    refused = inside.run("sessions", "import", str(packed))
    assert refused.code == 2
    assert f"{packed} is compressed." in refused.err
    assert f"zcat '{packed}' | holdfast sessions import -" in refused.err


def test_a_new_machine_has_no_checkpoints_yet(machine: Machine, inside: Inside) -> None:
    shutil.rmtree(machine.home, ignore_errors=True)
    env = {"HOLDFAST_HOME": ""}
    said = inside.run("checkpoints", "list", env=env)
    assert said.code == 0
    assert "There are no checkpoints yet. To take the first one:" in said.out
    assert inside.run("--json", "checkpoints", "list", env=env).document == {"checkpoints": []}
    assert not machine.home.exists()


def test_a_deleted_checkpoint_is_in_the_trash(
    machine: Machine, inside: Inside, project: Path
) -> None:
    (project / "a").write_text("a")
    kept = taken(machine, project)
    assert inside.ok("status").out.count("holdfast checkpoints") == 1
    inside.ok("checkpoints", "delete", kept, "--yes")
    refused = inside.run("checkpoints", "restore", kept[:8], "--yes")
    assert refused.code == 2
    assert f"Checkpoint {kept[:12]} is in the trash: operation 1 removed it." in refused.err
    assert "holdfast undo 1" in refused.err


def test_a_search_without_matches_mentions_the_trash(stored: Machine) -> None:
    inside = Inside(stored)
    assert "trash" not in inside.ok("sessions", "search", "zebra").out
    inside.ok("sessions", "delete", DISK, "--yes")
    said = inside.ok("sessions", "search", "zebra").words
    assert "There are removed sessions in the trash, which is not searched." in said
    assert "holdfast trash list" in said


def test_a_check_on_a_full_disk_changes_nothing(stored: Machine) -> None:
    def full(*_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    looks = dict.fromkeys(checkup._LOOKS, full)
    with mock.patch.object(checkup, "_LOOKS", looks):
        said = Inside(stored).run("doctor")
    assert "The disk is full, so the store could not be checked." in said.words
    assert "this change" not in said.words


def test_one_of_something_is_not_several() -> None:
    weighed = SimpleNamespace(weigh=lambda _: Share(name="", count=1, bytes=1))
    [wanted] = [SessionFilter()]
    tip = stats._tip(weighed, "sessions prune", "past their retention", iter([wanted]))
    assert tip.why == "past its retention"
    tip = stats._tip(weighed, "sessions prune", "past their retention", iter([wanted] * 2))
    assert tip.why == "past their retention"
