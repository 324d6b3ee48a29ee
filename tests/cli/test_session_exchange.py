"""`holdfast sessions export` and `import`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.api.sessions import open_sessions
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.cli.runner import COMMAND, PATIENCE
from tests.cli.session_bench import CJK, CRON, DISK, EMPTY, export, fill, ids, line, take_in

# --- export ---------------------------------------------------------------------------------


def test_a_line_has_the_fields_that_are_promised(stored_once: Machine) -> None:
    sessions = [json.loads(text) for text in export(stored_once, "--all").splitlines()]
    assert [session["id"] for session in sessions] == [DISK, CRON, CJK, EMPTY], "by their start"
    disk = sessions[0]
    head = ["id", "source", "parent_id", "relation", "title", "cwd", "model", "started_at"]
    assert list(disk)[:10] == [*head, "ended_at", "end_reason"]
    assert disk["routing_key"] == "telegram:42"
    assert disk["chat"] == {"id": 42}, "fields of the host stand beside the known ones"
    assert [message["role"] for message in disk["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert disk["messages"][1]["tokens"] == {"in": 800, "out": 25, "cached": 700}
    assert sessions[2]["pinned"] is True
    assert sessions[3]["messages"] == []


def test_an_export_of_everything_says_what_is_in_the_archive(
    stored: Machine, tmp_path: Path
) -> None:
    assert "archive" not in stored.ok("sessions", "export", "--all").err
    stored.ok("sessions", "archive", "--older-than", "1d", "--yes")
    archived = stored.json("sessions", "list", "--archived")["total"]
    assert archived
    left = stored.ok("sessions", "export", "--all").out.splitlines()
    said = stored.ok("sessions", "export", "--all", "--output", str(tmp_path / "all")).err
    assert "which this export does not contain" in said
    told = said.rpartition("restore them first: ")[2].split()
    assert told[0] == "holdfast"
    stored.ok(*told[1:])
    whole = stored.ok("sessions", "export", "--all")
    assert len(whole.out.splitlines()) == len(left) + archived
    assert "archive" not in whole.err


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--all"], [DISK, CRON, CJK, EMPTY]),
        ([CJK, DISK], [DISK, CJK]),
        ([DISK, DISK], [DISK]),
        (["--source", "cli"], [CJK, EMPTY]),
        (["--ended", "--min-messages", "2"], [DISK]),
        ([DISK, CJK, "--pinned"], [CJK]),
        (["--title", "zzz"], []),
    ],
)
def test_what_is_exported(stored_once: Machine, args: list[str], expected: list[str]) -> None:
    lines = export(stored_once, *args).splitlines()
    assert [json.loads(text)["id"] for text in lines] == expected


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Name the sessions"),
        (["--all", DISK], "--all"),
        (["--all", "--source", "cli"], "--all"),
        (["--all", "--json"], "--output"),
        (["--all", "--format", "markdwn"], "Did you mean 'markdown'?"),
        (["--all", "--output", "."], "directory"),
        (["--all", "--output", "/dev/null"], "is not a file"),
    ],
)
def test_an_export_that_makes_no_sense(stored_once: Machine, args: list[str], said: str) -> None:
    result = stored_once.run("sessions", "export", *args)
    assert result.code == 2
    assert said in result.words
    if "--json" not in args:
        assert result.out == ""


def test_a_file_is_private_and_whole(stored: Machine) -> None:
    target = stored.root / "sessions.jsonl"
    target.write_text("older")
    link = stored.root / "link.jsonl"
    link.symlink_to(target)
    document = stored.json("sessions", "export", "--all", "--output", str(link))
    assert document == {
        "sessions": 4,
        "messages": 7,
        "redacted": {},
        "stopped": False,
        "output": str(link),
    }
    assert target.read_text() == export(stored, "--all")
    assert target.stat().st_mode & 0o777 == 0o600
    assert link.is_symlink()
    assert sorted(path.name for path in stored.root.iterdir()) == [link.name, target.name, "user"]
    shown = stored.ok("sessions", "export", DISK, "-o", str(target))
    assert "Wrote 1 session with 4 messages to" in shown.words


def test_a_place_that_does_not_exist(stored_once: Machine) -> None:
    result = stored_once.run("sessions", "export", "--all", "--output", "/no/such/folder/x")
    assert result.code == 2
    assert "There is no folder /no/such/folder" in result.err


def test_ctrl_c_leaves_the_older_export(machine: Machine) -> None:
    """The first asks it to stop between two sessions; half an export replaces nothing."""
    text = "a long day of work " * 5_000
    take_in(machine, "".join(line(f"20260101_000000_{n:06x}", text) for n in range(60)))
    target = machine.root / "out.jsonl"
    target.write_text("older")
    process = subprocess.Popen(
        [*COMMAND, "sessions", "export", "--all", "--output", str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=machine.env(),
    )
    while process.poll() is None and not list(machine.root.glob(".out.jsonl.*")):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    if process.returncode == 0:
        pytest.skip("it was done before it could be stopped")
    assert (process.returncode, out) == (130, b"")
    assert err.strip().endswith(b"Interrupted. Nothing was changed.")
    assert target.read_text() == "older"
    assert list(machine.root.glob(".out.jsonl.*")) == []


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_a_reader_that_left_is_no_error(stored_once: Machine, form: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*COMMAND, "sessions", "export", "--all", "--format", form],
            check=False,
            stdout=writer,
            stderr=subprocess.PIPE,
            env=stored_once.env(),
            timeout=PATIENCE,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_stops_early(machine: Machine) -> None:
    text = "a long day of work " * 500
    take_in(machine, "".join(line(f"20260101_000000_{n:06x}", text) for n in range(50)))
    process = subprocess.Popen(
        [*COMMAND, "sessions", "export", "--all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=machine.env(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1) == b"{"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(PATIENCE) == 0


def test_markdown(stored_once: Machine) -> None:
    text = export(stored_once, DISK, "--format", "markdown")
    lines = text.splitlines()
    assert lines[0] == "# Disk clean-up"
    assert f"- **Session:** `{DISK}`" in lines
    headings = [each.split(" · ")[0] for each in lines if each.startswith("## ")]
    assert headings == ["## User", "## Assistant", "## Tool `shell`", "## Assistant"]
    assert "**Tool call** `shell`" in lines
    both = export(stored_once, DISK, CJK, "--format", "markdown")
    assert [each for each in both.splitlines() if each.startswith("# ")] == [
        "# Disk clean-up",
        "# 中文標題",
    ]


# --- redact ---------------------------------------------------------------------------------


# Put together here, so that no scanner takes this file for a leak.
_TOKEN = "gh" + "p_" + "a1B2c3D4e5F6" * 3
_PASSWORD = "hunter" + "2-Zq9!"
_SECRETS = {"github-token": _TOKEN, "password": _PASSWORD}


@pytest.fixture
def leaky(machine: Machine) -> Machine:
    said = [f"push with {_TOKEN} please", "pass" + f"word={_PASSWORD}", "nothing here"]
    take_in(machine, line("20260101_000000_abcdef", *said, title=f"about {_TOKEN}", note=_TOKEN))
    return machine


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_secrets_leave_only_when_they_may(leaky: Machine, form: str) -> None:
    plain = export(leaky, "--all", "--format", form)
    assert all(secret in plain for secret in _SECRETS.values())
    redacted = export(leaky, "--all", "--format", form, "--redact")
    for rule, secret in _SECRETS.items():
        assert secret not in redacted
        shown = redacted.replace("\\", "")
        assert f"[redacted:{rule}" in shown
    assert "nothing here" in redacted


def test_what_was_redacted_is_counted(leaky: Machine) -> None:
    target = str(leaky.root / "out.jsonl")
    document = leaky.json("sessions", "export", "--all", "--redact", "--output", target)
    assert document["redacted"] == {"github-token": 3, "password": 1}
    shown = leaky.ok("sessions", "export", "--all", "--redact", "--output", target)
    assert "Redacted: 3 github-token, 1 password." in shown.words
    assert all(secret not in Path(target).read_text() for secret in _SECRETS.values())


def test_a_redacted_export_can_be_imported(leaky: Machine, tmp_path: Path) -> None:
    redacted = export(leaky, "--all", "--redact")
    other = ["--home", str(tmp_path / "other")]
    assert leaky.run(*other, "sessions", "import", "-", stdin=redacted).code == 0
    assert leaky.ok(*other, "sessions", "export", "--all").out == redacted


# --- import ---------------------------------------------------------------------------------


def test_out_and_in_and_out_again(stored: Machine) -> None:
    odd = line("odd", "\x00 \ud800 \x1b[31m é 👍🏽", title="a\tb\nc", x={"7": [1.5, None, True]})
    take_in(stored, odd)
    first = export(stored, "--all")
    target = stored.root / "all.jsonl"
    target.write_text(first)
    other = ["--home", str(stored.root / "other")]
    document = stored.json(*other, "sessions", "import", str(target))
    assert document == {
        "imported": 5,
        "replaced": 0,
        "skipped": [],
        "refused": [],
        "notes": [],
        "messages": 8,
        "stopped": False,
        "agent": None,
        "replaced_kept_in": None,
        "applied": True,
        "operation": None,
    }
    assert stored.ok(*other, "sessions", "export", "--all").out == first
    assert stored.json(*other, "sessions", "search", "已滿")["hits"][0]["session"] == CJK
    database = stored.root / "other" / "sessions.db"
    assert database.stat().st_mode & 0o777 == 0o600
    assert database.parent.stat().st_mode & 0o777 == 0o700


def test_only_four_fields_are_required(machine: Machine) -> None:
    assert take_in(machine, line("20260101_000000_abcdef", "hello"))["imported"] == 1
    [session] = machine.json("sessions", "list")["sessions"]
    assert session["started_at"] == session["last_active_at"] == 1_700_000_000.0
    assert session["ended_at"] is None


def test_bad_lines_are_refused_and_the_rest_is_stored(machine: Machine) -> None:
    good = [line(f"20260101_000000_{n:06x}", "hello") for n in range(3)]
    no_source = json.dumps({"id": "x", "started_at": 1, "messages": []}) + "\n"
    text = (
        good[0]
        + "{oh no\n"
        + "\n"  # blank lines are no mistake, and count
        + good[1]
        + no_source
        + line("../escape")
        + line("x", tokens=3).replace('"messages": []', '"messages": [{"content": 1}]')
        + line("20260101_000000_000000", "the same id again")
        + good[2]
    )
    document = take_in(machine, text, code=1)
    assert document["imported"] == 3
    assert [each["line"] for each in document["refused"]] == [2, 5, 6, 7, 8]
    reasons = [each["reason"] for each in document["refused"]]
    assert reasons[0].startswith("not JSON: ")
    assert "at character 2" in reasons[0]
    assert "source" in reasons[1]
    assert "is not a session id" in reasons[2]
    assert reasons[3].startswith("message 1: ")
    assert "earlier line" in reasons[4]
    assert len(ids(machine)) == 3


def test_bad_lines_for_people(machine: Machine) -> None:
    bad = "".join(f"bad {number}\n" for number in range(30))
    result = machine.run("sessions", "import", "-", stdin=line("20260101_000000_abcdef", "x") + bad)
    assert result.code == 1
    assert "Stored 1 session with 1 message." in result.words
    assert "Refused 30 lines:" in result.words
    assert "line 2: not JSON" in result.words
    assert "… and 10 more." in result.words
    assert max(map(len, result.lines)) <= 80


def test_what_is_there_is_skipped_unless_replaced(stored: Machine) -> None:
    newer = line(DISK, "quite another text", source="signal")
    assert take_in(stored, newer)["skipped"] == [DISK]
    assert stored.json("sessions", "search", "another")["hits"] == []
    shown = stored.run("sessions", "import", "-", stdin=newer)
    assert shown.code == 0
    assert "1 session was already stored; to replace it, use --replace." in shown.words
    old = export(stored, DISK)
    document = take_in(stored, newer, "--replace")
    assert (document["imported"], document["replaced"]) == (0, 1)
    assert Path(document["replaced_kept_in"]) == stored.home / "archive"
    assert [each["id"] for each in archived_in(stored)] == [DISK]
    [hit] = stored.json("sessions", "search", "another")["hits"]
    assert (hit["session"], hit["source"]) == (DISK, "signal")
    assert stored.json("sessions", "search", "checkpoints")["hits"] == []
    assert stored.json("sessions", "show", CJK)["session"]["parent_id"] == DISK
    preview = stored.ok("undo", "--dry-run").words
    assert "would bring back" not in preview, "the imported one has its id"
    assert "1 session cannot come back: an import replaced them" in preview
    assert stored.json("undo", "--dry-run")["items"] == []
    refused = stored.run("sessions", "restore", DISK)
    assert (refused.code, "delete the one in the store" in refused.words) == (1, True)
    stored.ok("sessions", "end", DISK)
    stored.ok("sessions", "delete", DISK, "--yes")
    stored.ok("sessions", "restore", DISK)
    assert export(stored, DISK) == old, "nothing is lost"
    assert stored.json("sessions", "show", CJK)["session"]["parent_id"] == DISK
    assert archived_in(stored) == []


def archived_in(machine: Machine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine.json("sessions", "list", "--archived")["sessions"]
    return found


def test_a_session_in_use_is_not_replaced(stored: Machine) -> None:
    with open_sessions(stored.home) as sessions:
        held = sessions.create(source="cli")
        document = take_in(stored, line(held.id, "x"), "--replace", code=1)
        assert f"held open by process {os.getpid()}" in document["refused"][0]["reason"]


def test_an_id_that_differs_in_case_only(stored: Machine) -> None:
    document = take_in(stored, line(DISK.upper(), "x"), code=1)
    assert "only in case" in document["refused"][0]["reason"]


def test_a_parent_may_come_later(machine: Machine) -> None:
    child = line("child", parent_id="parent", relation="delegate")
    notes = take_in(machine, child)["notes"]
    assert "its parent parent is not in the store" in notes[0]
    shown = machine.run("sessions", "import", "-", stdin=child, cwd=machine.root)
    assert "1 session was already stored" in shown.words
    take_in(machine, line("parent"))
    assert machine.json("sessions", "show", "child")["session"]["parent_id"] == "parent"


@pytest.mark.parametrize(
    ("name", "why"),
    [("nothing.jsonl", "There is no file nothing.jsonl"), ("..", "is not the home of an agent")],
)
def test_a_file_that_cannot_be_read_makes_no_home(machine: Machine, name: str, why: str) -> None:
    """A folder is taken for a home, and this one is none."""
    result = machine.run("sessions", "import", name)
    assert result.code == 2
    assert why in result.err
    assert list(machine.user.iterdir()) == []


def test_a_file_of_another_kind(machine: Machine) -> None:
    result = machine.run("sessions", "import", "-", stdin="<html>\n<body>\n")
    assert result.code == 1
    assert "Refused 2 lines" in result.words


def test_an_empty_file_is_no_mistake(machine: Machine) -> None:
    assert take_in(machine, "")["imported"] == 0
    assert machine.json("sessions", "list")["total"] == 0


def test_a_dash_is_standard_output(inside: Inside) -> None:
    fill(inside.machine.home)
    plain = inside.ok("sessions", "export", "--all").out
    assert inside.ok("sessions", "export", "--all", "-o", "-").out == plain != ""
    assert not Path("-").exists()
    assert inside.run("--json", "sessions", "export", "--all", "-o", "-").code == 2
