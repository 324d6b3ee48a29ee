"""Names and links that somebody put into sessions/: bystanders stay, links go without targets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.machine import Machine, age, entries, item_id, removals

pytestmark = pytest.mark.usefixtures("bad_day")

#: Names that look odd, or nearly like a session's file. None of them is one.
_BYSTANDERS = [
    b"sessions.json",
    b"notes.txt",
    b"session_new\nline.json",
    b"session_20250101_000000_aaaaaa.json\n",
    b"\nsession_20250101_000000_aaaaaa.json",
    b"session_caf\xe9.json",
    b"caf\xe9.jsonl",
    b"-rf",
    b"--help.json",
    b"-session_20250101_000000_aaaaaa.json",
    b"session_20250101_000000_aaaaaa.json.bak",
    b"session_20250101_000000_aaaaaa.JSON",
    b".session_20250101_000000_aaaaaa.json",
    b"session_.json",
    b"request_dump_.json",
    b"session_\x1b[31m.json",
    b" ",
    b"$(touch pwned).json",
    b"session_*.json",
]


def _place(machine: Machine, name: bytes) -> Path:
    return machine.sessions / os.fsdecode(name)


def test_bystanders_stay(machine: Machine) -> None:
    going = machine.transcript()
    for name in _BYSTANDERS:
        machine.file(_place(machine, name), days=500)
    before = entries(machine.sessions)
    document = machine.json("sessions", "prune", "--older-than", "1d", "--now", "--yes")
    assert removals(document) == [item_id(going)]
    after = entries(machine.sessions)
    assert {**after, ".": before["."], going.name: before[going.name]} == before


def test_a_made_up_name_needs_the_content_to_agree(machine: Machine) -> None:
    """`session_notes.json` may be anything, unless it says that it is that session."""
    other = machine.file(machine.sessions / "session_notes.json", content='{"id": "other"}')
    agreed = machine.file(machine.sessions / "session_mine.json", content='{"id": "mine"}')
    document = machine.json("sessions", "prune", "--yes")
    assert removals(document) == [item_id(agreed)]
    assert other.exists()


@pytest.mark.parametrize("name", [b"new\nline", b"caf\xe9", b"-rf", b"\x1b[31m"])
def test_odd_bystanders_are_shown_safely_or_not_at_all(machine: Machine, name: bytes) -> None:
    """A directory under a name of a session is a problem to be shown; nothing steers the screen."""
    machine.file(_place(machine, name))
    machine.transcript()
    for command in ("status", "sessions prune --dry-run --all"):
        result = machine.ok(*command.split())
        assert not result.coloured


def test_a_file_whose_content_is_odd(machine: Machine) -> None:
    """What a transcript claims about itself is data: neither its source nor its size is trusted."""
    path = machine.transcript()
    path.write_bytes(b'{"platform": "\x1b[31m\\u001b[31mcron"}\xff\xfe')
    age(path, 100)
    empty = machine.transcript()
    empty.write_bytes(b"")
    age(empty, 100)
    result = machine.ok("sessions", "prune", "--dry-run", "--all")
    assert not result.coloured
    assert len(removals(machine.json("sessions", "prune", "--yes"))) == 2
    machine.ok("undo")
    assert path.read_bytes().endswith(b"\xff\xfe")
    assert empty.read_bytes() == b""


def test_the_longest_name_there_can_be(machine: Machine) -> None:
    """The trash puts a number before the name; a name that is full already must still fit."""
    stem = "cron_" + "x" * (255 - len("session_cron__20250101.json")) + "_20250101"
    longest = machine.file(machine.sessions / f"session_{stem}.json")
    assert len(longest.name) == 255
    before = longest.read_text(), longest.stat().st_mtime_ns
    assert removals(machine.json("sessions", "prune", "--yes")) == [item_id(longest)]
    assert not longest.exists()
    machine.ok("undo")
    assert (longest.read_text(), longest.stat().st_mtime_ns) == before


@pytest.mark.parametrize("target", ["file", "folder", "nothing", "itself"])
def test_a_link_may_go_its_target_never(machine: Machine, target: str) -> None:
    outside = machine.root / "outside"
    machine.file(outside / "precious", days=400)
    link = machine.sessions / "session_20250101_000000_aaaaaa.json"
    machine.sessions.mkdir(parents=True)
    targets = {"file": "precious", "folder": ".", "nothing": "missing"}
    link.symlink_to(outside / targets[target] if target in targets else link.name)
    age(link, 100)
    before, beyond = entries(machine.sessions), entries(outside)

    assert removals(machine.json("sessions", "prune", "--yes")) == [item_id(link)]
    assert machine.names() == set()
    assert entries(outside) == beyond
    machine.ok("undo")
    assert {**entries(machine.sessions), ".": before["."]} == before
    assert entries(outside) == beyond

    machine.ok("sessions", "prune", "--now", "--yes")
    assert machine.names() == set()
    assert entries(outside) == beyond


def test_a_young_link_to_an_old_file_is_in_use(machine: Machine) -> None:
    old = machine.file(machine.root / "old", days=400)
    machine.sessions.mkdir(parents=True)
    (machine.sessions / "session_20250101_000000_aaaaaa.json").symlink_to(old)
    assert removals(machine.json("sessions", "prune", "--yes")) == []


def test_pipes_and_sockets_are_no_files(machine: Machine) -> None:
    """Opening a pipe would wait for ever."""
    machine.transcript()
    pipe = machine.sessions / "session_20250101_000000_aaaaaa.json"
    os.mkfifo(pipe)
    age(pipe, 100)
    document = machine.json("sessions", "prune", "--yes")
    assert document["report"]["removed"] == 1
    assert pipe.is_fifo()


def test_a_link_for_a_config_that_leads_nowhere_removes_nothing(used: Machine) -> None:
    (used.home / "config.toml").symlink_to(used.root / "missing")
    before = entries(used.home)
    assert used.run("sessions", "prune", "--yes").code == 2
    assert entries(used.home) == before
