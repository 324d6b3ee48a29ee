"""holdfast config, and what a broken configuration does to everything else: it stops it."""

from __future__ import annotations

import json
import re
import shutil
import stat
import tomllib
from pathlib import Path

import pytest

from tests.cli.every_command import say
from tests.cli.machine import Machine, entries


def _mode(machine: Machine, name: str = "") -> int:
    return stat.S_IMODE((machine.home / name).stat().st_mode)


def test_init_makes_a_private_home(machine: Machine) -> None:
    result = machine.ok("config", "init")
    assert f"Wrote{machine.home}/config.toml." in result.words.replace(" ", "")
    assert (_mode(machine), _mode(machine, "config.toml")) == (0o700, 0o600)
    written = tomllib.loads((machine.home / "config.toml").read_text())
    assert written["sessions"] == {}
    assert not any(written.values())
    assert machine.ok("config", "check").code == 0
    assert machine.json("status")["homes"][0]["home"] == str(machine.home)


def test_init_makes_the_folders_above_too(machine: Machine) -> None:
    home = machine.root / "a" / "b"
    machine.ok("--home", str(home), "config", "init")
    assert (home / "config.toml").is_file()


def test_init_does_not_overwrite(machine: Machine) -> None:
    path = machine.configure("trash_days = 3\n")
    result = machine.run("config", "init")
    assert result.code == 2
    assert f"{path} already exists" in result.err
    assert path.read_text() == "trash_days = 3\n"


def test_init_does_not_write_through_a_link(machine: Machine) -> None:
    machine.home.mkdir()
    (machine.home / "config.toml").symlink_to(machine.root / "target")
    assert machine.run("config", "init").code == 2
    assert not (machine.root / "target").exists()


def test_init_where_a_file_is(machine: Machine) -> None:
    machine.file(machine.home)
    result = machine.run("config", "init")
    assert result.code == 2
    assert "is a file" in result.err


def test_init_keeps_the_mode_of_a_folder_that_is_there(machine: Machine) -> None:
    machine.sessions.mkdir(parents=True)
    machine.home.chmod(0o750)
    machine.ok("config", "init")
    assert _mode(machine) == 0o750


def test_every_key_of_the_written_file_is_valid(machine: Machine) -> None:
    """Uncommented as it says, the file holds what `config show` calls the defaults."""
    defaults = {
        entry["key"]: entry["value"] for entry in machine.json("config", "show")["settings"]
    }
    machine.ok("config", "init")
    path = machine.home / "config.toml"
    lines = path.read_text().splitlines()
    keys = {key.rpartition(".")[2] for key in defaults}
    path.write_text(
        "\n".join(
            line.removeprefix("# ") if line.removeprefix("# ").split(" = ")[0] in keys else line
            for line in lines
        )
    )
    shown = machine.json("config", "show")["settings"]
    assert {entry["key"]: entry["value"] for entry in shown} == defaults
    by_default = {entry["key"] for entry in shown if entry["origin"] == "default"}
    assert by_default == {key for key, value in defaults.items() if value is None}


def test_show_says_where_each_value_comes_from(machine: Machine) -> None:
    machine.configure(
        "trash_days = 3\n[sessions]\nkeep_last = 5\n[sessions.source.cron]\nretention_days = 7\n"
    )
    more = {"HOLDFAST_SESSIONS_KEEP_LAST": "9"}
    shown = {
        entry["key"]: (entry["value"], entry["origin"])
        for entry in machine.json("config", "show", env=more)["settings"]
    }
    assert shown["trash_days"] == (3, "config.toml:1")
    assert shown["sessions.keep_last"] == (9, "HOLDFAST_SESSIONS_KEEP_LAST")
    assert shown["sessions.source.cron.retention_days"] == (7, "config.toml:5")
    assert shown["sessions.retention_days"] == (90, "default")
    text = machine.ok("config", "show", env=more).out
    assert "config.toml:1" in text
    assert "HOLDFAST_SESSIONS_KEEP_LAST" in text
    assert machine.ok("config", env=more).out == text


def test_check(machine: Machine) -> None:
    assert "the defaults apply" in machine.ok("config", "check").words
    machine.configure("trash_days = 3\n")
    assert "is fine" in machine.ok("config", "check").words


def test_check_names_what_is_no_home(machine: Machine) -> None:
    folder = machine.root / "a folder"
    folder.mkdir()
    machine.configure(f'homes = ["{machine.home}", "{folder}", "{machine.root}/gone"]\n')
    said = machine.ok("config", "check")
    assert f"{folder} is not the home of an agent that Holdfast knows." in said.err
    assert f"{machine.root}/gone does not exist." in said.err
    assert len(said.err.splitlines()) == 2
    assert "is fine" not in said.out
    assert len(machine.json("config", "check")["warnings"]) == 2


def test_path(machine: Machine) -> None:
    assert machine.ok("config", "path").out == f"{machine.home}/config.toml\n"
    assert machine.json("config", "path")["exists"] is False
    machine.configure("")
    assert machine.json("config", "path")["exists"] is True


_BROKEN = [
    ("[sessions\n", ["config.toml:1", "TOML"]),
    ("\ntrash_dayz = 3\n", ["config.toml:2", "trash_dayz", 'did you mean "trash_days"?']),
    ("[sessions]\nkeep_lst = 3\n", ["config.toml:2", "sessions.keep_lst", '"keep_last"']),
    ("retention_days = 3\n", ["config.toml:1", "retention_days", "belongs in [sessions]"]),
    ('[sessions]\nretention_days = "90"\n', ["config.toml:2", "retention_days", "quotes"]),
    ("[sessions]\nkeep_last = true\n", ["config.toml:2", "keep_last", "whole number"]),
    ("[sessions]\nidle_hours = 0\n", ["config.toml:2", "idle_hours", "from 1"]),
    ("trash_days = 0\n", ["config.toml:1", "trash_days", "--now"]),
    ('[sessions]\nkeep_within = "soon"\n', ["config.toml:2", "keep_within", '"soon"']),
    ("[sessions.source.CRON]\nkeep_last = 1\n", ["config.toml:1", '"cron"']),
]


@pytest.mark.parametrize(("text", "named"), _BROKEN, ids=[text for text, _ in _BROKEN])
def test_a_broken_configuration_is_explained(machine: Machine, text: str, named: list[str]) -> None:
    machine.configure(text)
    result = machine.run("config", "check")
    assert result.code == 2
    for word in named:
        assert word in result.err


@pytest.mark.parametrize(
    "command",
    [
        "sessions prune --yes",
        "sessions prune --older-than 1d --now --yes",
        "trash empty --yes",
        "undo",
        "apply plan.json --yes",
        "status",
        "log",
    ],
)
def test_a_broken_configuration_stops_everything(half: Machine, command: str) -> None:
    half.ok("sessions", "prune", "--plan-out", "plan.json")
    half.configure("[sessions]\nretention_day = 9999\n")
    before = entries(half.home)
    result = half.run(*command.split())
    assert result.code == 2
    assert "config.toml:2: sessions.retention_day: unknown key" in result.err
    assert 'did you mean "retention_days"?' in result.err
    assert "Nothing was done" in result.err
    assert entries(half.home) == before


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"\xef\xbb\xbftrash_days = 3\n", b"trash_days = 3\n\x00", b"#" * 2_000_000],
    ids=["binary", "bom", "nul", "huge"],
)
def test_a_file_that_is_no_configuration(used: Machine, content: bytes) -> None:
    (used.home / "config.toml").write_bytes(content)
    before = entries(used.home)
    result = used.run("sessions", "prune", "--yes")
    assert result.code == 2
    assert "config.toml" in result.err
    assert entries(used.home) == before


def test_a_folder_that_is_no_configuration(used: Machine) -> None:
    (used.home / "config.toml").mkdir()
    result = used.run("sessions", "prune", "--yes")
    assert result.code == 2
    assert "is a directory" in result.err
    assert len(used.names()) == 7


def test_a_broken_variable_stops_a_prune(used: Machine) -> None:
    more = {"HOLDFAST_SESSIONS_RETENTION_DAYS": "ninety"}
    result = used.run("sessions", "prune", "--yes", env=more)
    assert result.code == 2
    assert "HOLDFAST_SESSIONS_RETENTION_DAYS" in result.err
    assert len(used.names()) == 7


def test_all_problems_are_told_at_once(machine: Machine) -> None:
    machine.configure("trash_days = 0\n[sessions]\nkeep_lst = 1\nkeep_daily = -1\n")
    result = machine.run("config", "check", env={"HOLDFAST_SESSIONS_KEEP_LAST": "x"})
    assert all(
        place in result.err
        for place in ("config.toml:1", "config.toml:3", "config.toml:4", "KEEP_LAST")
    )


# --- One key at a time ----------------------------------------------------------------------------


@pytest.fixture
def at_home(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """For commands that run in this process."""
    monkeypatch.setenv("HOME", str(machine.user))
    monkeypatch.delenv("VISUAL", raising=False)
    return machine


def test_set_shows_the_old_and_the_new_value(at_home: Machine) -> None:
    dry = say("config", "set", "sessions.retention_days", "30", "--dry-run")
    assert "sessions.retention_days: 90 (default) → 30" in dry.text
    assert "Nothing was changed." in dry.text
    assert not at_home.home.exists()
    assert say("config", "set", "sessions.retention_days", "30").code == 0
    path = at_home.home / "config.toml"
    assert path.read_text() == "[sessions]\nretention_days = 30\n"
    assert (_mode(at_home), _mode(at_home, "config.toml")) == (0o700, 0o600)
    again = say("--json", "config", "set", "sessions.retention_days", "31")
    assert json.loads(again.out) == {
        "path": str(path),
        "key": "sessions.retention_days",
        "old": 30,
        "value": 31,
        "applied": True,
    }


def test_set_keeps_everything_else(at_home: Machine) -> None:
    text = "# mine\ntrash_days = 3   # days\r\n\n[sessions]\nkeep_last=1\n# the end"
    path = at_home.configure(text)
    path.chmod(0o640)
    link = at_home.root / "real.toml"
    path.rename(link)
    path.symlink_to(link)
    assert say("config", "set", "trash_days", "4").code == 0
    assert path.is_symlink()
    assert link.read_bytes().decode() == text.replace("= 3 ", "= 4 ")
    assert stat.S_IMODE(link.stat().st_mode) == 0o640
    assert [each.name for each in at_home.root.iterdir() if each.name.endswith(".tmp")] == []


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("sessions.retention_day 3", 'did you mean "retention_days"?'),
        ("retention_days 3", "it belongs in [sessions]"),
        ("sessions.max_age_days 3", '; use "retention_days"'),
        ("sessions.idle_minutes 0", "it would reset at once"),
        ("checkpoints.enabled maybe", "expected true or false"),
        ("trash_days 3 4", "takes one value"),
        ("sessions 3", "is a section, not a key"),
        ("a..b 3", "is not the name of a key"),
        ("prices.some-model.input 3", 'a price needs "output"'),
    ],
)
def test_a_wrong_set_changes_nothing(at_home: Machine, words: str, named: str) -> None:
    path = at_home.configure("trash_days = 3\n")
    said = say("config", "set", *words.split())
    assert said.code == 2
    assert named in said.text
    assert path.read_text() == "trash_days = 3\n"


def test_set_mends_what_was_wrong_and_refuses_what_stays_wrong(at_home: Machine) -> None:
    path = at_home.configure("trash_days = 0\nlog_days = 1\n")
    assert say("config", "set", "log_days", "2").code == 2
    assert "trash_days = 0" in path.read_text()
    said = say("config", "set", "trash_days", "2")
    assert said.code == 0
    assert path.read_text() == "trash_days = 2\nlog_days = 1\n"


def test_what_stays_wrong_is_told_with_its_line_in_the_file(at_home: Machine) -> None:
    at_home.configure("[sessions]\n[checkpoints]\nenabled = 3\n")
    said = say("config", "set", "sessions.keep_last", "2")
    assert (said.code, "config.toml:3: checkpoints.enabled" in said.text) == (2, True)


def test_no_key_is_set_in_what_is_no_toml(at_home: Machine) -> None:
    at_home.configure("trash_days = 3\nlog_days =\n")
    said = say("config", "set", "trash_days", "2")
    assert said.code == 2
    assert "config.toml:2: not valid TOML" in said.text


def test_what_the_environment_outranks_is_said(
    at_home: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TRASH_DAYS", "9")
    said = say("config", "set", "trash_days", "2")
    assert "warning: HOLDFAST_TRASH_DAYS is set, and overrides config.toml." in said.text


def test_get_prints_the_value_alone(at_home: Machine) -> None:
    at_home.configure('[sessions]\npins = ["a", "b c"]\n[archive]\ncodec = "gzip"\n')
    assert say("config", "get", "archive.codec").out == b"gzip\n"
    assert say("config", "get", "sessions.pins").out == b"a\nb c\n"
    assert say("config", "get", "checkpoints.enabled").out == b"false\n"
    assert say("config", "get", "sessions.source.cron.keep_last").out == b""
    several = say("config", "get", "archive.codec", "trash_days").out
    assert several == b'archive.codec = "gzip"\ntrash_days = 7\n'
    document = json.loads(say("--json", "config", "get", "archive.codec").out)
    assert document == {"key": "archive.codec", "value": "gzip", "origin": "config.toml:4"}
    assert say("config", "get", "archive.codek").code == 2


def test_show_of_a_section(at_home: Machine) -> None:
    shown = json.loads(say("--json", "config", "show", "cron", "archive").out)["settings"]
    assert {each["key"].partition(".")[0] for each in shown} == {"cron", "archive"}
    assert say("config", "show", "prices").code == 0
    wrong = say("config", "show", "sesions")
    assert wrong.code == 2
    assert "Did you mean 'sessions'?" in wrong.text


def test_edit(at_home: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDITOR", raising=False)
    assert "no terminal" in say("config", "edit").text
    monkeypatch.setenv("EDITOR", "sed -i 's/^# trash_days = .*/trash_days = 5/'")
    path = at_home.home / "config.toml"
    assert f"Wrote {path}." in say("config", "edit").text.replace("\n", " ")
    assert tomllib.loads(path.read_text())["trash_days"] == 5
    assert "Nothing was changed." in say("config", "edit").text
    before = path.read_text()
    monkeypatch.setenv("EDITOR", "sed -i 's/^trash_days = 5/trash_days = 0/'")
    wrong = say("config", "edit")
    assert wrong.code == 2
    assert "trash_days" in wrong.text
    kept = Path(re.findall(r"Your text is in (\S+);", wrong.text)[0])
    assert "trash_days = 0" in kept.read_text()
    shutil.rmtree(kept.parent)
    monkeypatch.setenv("EDITOR", "false")
    assert say("config", "edit").code == 1
    assert path.read_text() == before
