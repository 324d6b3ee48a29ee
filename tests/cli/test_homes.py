"""Which folders are homes, what is said of those that are not, and that looking changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.machine import Machine, age, entries
from tests.cli.privileges import as_nobody_special

_READING = [
    "status",
    "log",
    "trash list",
    "config show",
    "config check",
    "config path",
    "sessions prune --dry-run",
    "undo --dry-run",
]
_ON_A_HOME = ["status", "log", "undo", "sessions prune --yes"]


@pytest.mark.parametrize("command", _ON_A_HOME)
def test_a_missing_path(machine: Machine, command: str) -> None:
    missing = machine.root / "missing"
    result = machine.run("--home", str(missing), *command.split())
    assert result.code == 2
    assert f"There is no home at {missing}" in result.err
    assert not missing.exists()


@pytest.mark.parametrize("command", _ON_A_HOME)
def test_a_file(machine: Machine, command: str) -> None:
    file = machine.file(machine.root / "file")
    result = machine.run("--home", str(file), *command.split())
    assert result.code == 2
    assert f"{file} is a file" in result.err
    assert file.read_text() == "mine"


@pytest.mark.parametrize("command", _ON_A_HOME)
def test_an_empty_folder(machine: Machine, command: str) -> None:
    folder = machine.root / "empty"
    folder.mkdir()
    result = machine.run("--home", str(folder), *command.split())
    assert result.code == 2
    assert f"{folder} is not the home of an agent" in result.err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", ["status", "sessions prune --yes", "config init"])
def test_a_loop_of_links(machine: Machine, command: str) -> None:
    loop = machine.root / "loop"
    loop.symlink_to(loop)
    result = machine.run("--home", str(loop), *command.split())
    assert result.code in (1, 2)
    assert str(loop) in result.err
    assert loop.is_symlink()


@pytest.mark.parametrize("command", ["status", "sessions prune --yes", "undo", "log"])
def test_an_unreadable_folder(used: Machine, command: str) -> None:
    before = entries(used.home)
    used.home.chmod(0o000)
    try:
        result = used.run(*command.split(), before=as_nobody_special())
    finally:
        used.home.chmod(0o755)
    assert result.code in (1, 2)
    assert str(used.home) in result.err or "~/.holdfast" in result.err
    assert "ermission denied" in result.err
    assert entries(used.home) == {**before, ".": entries(used.home)["."]}


def test_unreadable_session_files_stay(used: Machine) -> None:
    """Whether a file is in use cannot be asked of one that cannot be opened: it stays."""
    secret = used.numbered(1)
    secret.chmod(0o000)
    document = used.run("--json", "sessions", "prune", "--yes", before=as_nobody_special()).document
    assert document["report"]["removed"] == 4
    assert secret.name in used.names()


def test_an_unreadable_sessions_folder(used: Machine) -> None:
    before = entries(used.sessions)
    used.sessions.chmod(0o000)
    try:
        result = used.run("sessions", "prune", "--yes", before=as_nobody_special())
    finally:
        used.sessions.chmod(0o755)
    assert result.code == 1
    assert str(used.sessions) in result.err
    assert "ermission" in result.err
    assert entries(used.sessions).keys() == before.keys()


def test_a_sessions_folder_that_cannot_be_changed(used: Machine) -> None:
    before = entries(used.sessions)
    used.sessions.chmod(0o500)
    try:
        result = used.run("--json", "sessions", "prune", "--yes", before=as_nobody_special())
    finally:
        used.sessions.chmod(0o755)
    assert result.code == 1
    assert result.document["report"]["removed"] == 0
    assert result.document["report"]["failed"] == 5
    assert "ermission denied" in result.document["report"]["items"][0]["reason"]
    assert entries(used.sessions).keys() == before.keys()


@pytest.mark.parametrize(
    ("sign", "agent"),
    [("state.db", "Hermes"), ("file-history", "Claude Code")],
)
def test_the_home_of_another_agent_is_left_alone(used: Machine, sign: str, agent: str) -> None:
    used.file(used.home / sign)
    before = entries(used.home)
    for command in ("status", "sessions prune --yes", "sessions prune --dry-run"):
        result = used.run("--home", str(used.home), *command.split())
        assert result.code == 2
        assert agent in result.err
        assert "Nothing was touched" in result.err
    assert entries(used.home) == before


@pytest.mark.parametrize("database", ["opencode.db", "state_5.sqlite"])
def test_the_damaged_home_of_another_agent_is_left_alone(used: Machine, database: str) -> None:
    used.file(used.home / database)
    before = entries(used.home)
    for command in ("status", "sessions prune --yes", "sessions prune --dry-run"):
        result = used.run("--home", str(used.home), *command.split())
        assert result.code == 1
        assert f"{used.home / database}: file is not a database" in result.err
    assert entries(used.home) == before


def test_config_init_leaves_the_home_of_another_agent_alone(used: Machine) -> None:
    used.file(used.home / "state.db")
    before = entries(used.home)
    result = used.run("--home", str(used.home), "config", "init")
    assert result.code == 2
    assert "Hermes" in result.err
    assert entries(used.home) == before


def test_a_machine_without_homes(machine: Machine) -> None:
    result = machine.ok()
    assert "No agent homes found" in result.out
    assert str(machine.home) in "".join(line.strip() for line in result.lines)
    assert "holdfast demo" in result.out
    assert list(machine.user.iterdir()) == []


def test_a_default_home_that_is_broken_is_not_passed_over(used: Machine) -> None:
    used.configure("trash_days = 'x'")
    result = used.run("status")
    assert result.code == 2
    assert "config.toml:1" in result.err


def test_a_link_to_a_home_is_that_home(used: Machine) -> None:
    link = used.root / "link"
    link.symlink_to(used.home)
    document = used.json("--home", str(link), "sessions", "prune", "--yes")
    assert document["plan"]["home"] == str(used.home)
    assert used.json("log")["operations"][0]["removed"] == 5


def test_a_relative_home(used: Machine) -> None:
    result = used.run("--json", "--home", ".holdfast", "status", cwd=used.user)
    assert result.document["homes"][0]["home"] == str(used.home)


@pytest.mark.parametrize("command", _READING)
def test_reading_creates_and_changes_nothing(half_once: Machine, command: str) -> None:
    """Not even a time stamp of a folder, on a home that has a log and trash."""
    before = entries(half_once.root)
    half_once.ok(*command.split())
    assert entries(half_once.root) == before


@pytest.mark.parametrize("command", _READING)
def test_reading_a_fresh_home_creates_nothing(used: Machine, command: str) -> None:
    before = entries(used.root)
    result = used.run(*command.split())
    assert result.code == (1 if command.startswith("undo") else 0)
    assert entries(used.root) == before


@pytest.mark.parametrize("command", _READING)
def test_reading_where_no_home_is_creates_nothing(machine: Machine, command: str) -> None:
    machine.run("--home", str(machine.root / "other"), *command.split())
    machine.run(*command.split())
    assert list(machine.user.iterdir()) == []
    assert list(machine.root.iterdir()) == [machine.user]


@pytest.mark.parametrize("name", ["with space", "-dash", "new\nline", "caf\udce9", "\x1b[31mred"])
def test_a_home_with_an_odd_name(machine: Machine, name: str) -> None:
    home = machine.root / name
    kept = machine.file(home / "keep me")
    machine.transcript(home=home)
    before = entries(home / "sessions")
    for command in ("status", "config check", "sessions prune --yes"):
        result = machine.run("--home", os.fsencode(name), *command.split())
        assert result.code == 0, result
        assert "\x1b[31m" not in result.out + result.err
    result = machine.run("--home", os.fsencode(name), "undo")
    assert result.code == 0, result
    assert {**entries(home / "sessions"), ".": before["."]} == before
    assert kept.read_text() == "mine"


@pytest.mark.parametrize("name", ["with space", "-dash", "caf\udce9", "new\nline"])
def test_config_path_is_the_path_byte_for_byte(machine: Machine, name: str) -> None:
    result = machine.run("--home", os.fsencode(name), "config", "path")
    assert result.out == f"{name}/config.toml\n"


def test_a_home_of_links_below_is_not_followed(used: Machine) -> None:
    """Bytes beside the sessions are counted without leaving the home."""
    big = used.root / "big"
    big.mkdir()
    used.file(big / "file", content="x" * 5_000_000)
    (used.home / "elsewhere").symlink_to(big)
    assert used.json("status")["homes"][0]["total_bytes"] < 1_000_000


def test_a_sessions_link_is_not_followed(machine: Machine) -> None:
    outside = machine.root / "outside"
    target = machine.transcript(home=outside)
    machine.home.mkdir()
    machine.sessions.symlink_to(outside / "sessions")
    before = entries(outside)
    result = machine.ok("sessions", "prune", "--yes")
    assert "is a link" in result.err
    assert "Nothing to remove" in result.out
    assert entries(outside) == before
    assert target.exists()
    assert any("is a link" in p["reason"] for p in machine.json("status")["homes"][0]["problems"])


def test_a_file_in_place_of_sessions(machine: Machine) -> None:
    file = machine.file(machine.home / "sessions")
    for command in ("status", "sessions prune --yes"):
        result = machine.ok(*command.split())
        assert "is not a folder" in result.words
    assert file.read_text() == "mine"


@pytest.mark.parametrize("place", ["operations", "trash"])
def test_a_file_in_place_of_our_folders(used: Machine, place: str) -> None:
    used.file(used.home / place)
    before = entries(used.sessions)
    result = used.run("sessions", "prune", "--yes")
    assert result.code == 1
    assert str(used.home / place) in result.words.replace(" ", "")
    assert entries(used.sessions) == before
    assert (used.home / place).read_text() == "mine"


def test_a_link_in_place_of_the_trash_is_not_followed(used: Machine, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    used.trash.symlink_to(outside)
    before = entries(used.sessions)
    result = used.run("sessions", "prune", "--yes")
    assert result.code == 1
    assert list(outside.rglob("*.json")) == []
    assert entries(used.sessions).keys() == before.keys()


def test_directories_where_files_are_expected(machine: Machine) -> None:
    folder = machine.sessions / "session_20250101_000000_abcdef.json"
    machine.file(folder / "inside")
    age(folder, 100)
    result = machine.ok("sessions", "prune", "--yes")
    assert "left alone" in result.err
    assert (folder / "inside").read_text() == "mine"
