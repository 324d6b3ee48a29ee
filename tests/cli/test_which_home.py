"""Which home a command means, and that a suggested command works as it is printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.agents import home_of, settle
from tests.cli.inside import Inside
from tests.cli.machine import Machine


@pytest.fixture
def codex(tmp_path: Path) -> Inside:
    machine = Machine(root=tmp_path)
    machine.user.mkdir(mode=0o700)
    return Inside(settle(machine, "hermes", "codex"))


def test_a_mistyped_home_gets_the_nearest_name(codex: Inside) -> None:
    for command in ("status", "sessions prune --dry-run"):
        wrong = codex.run("--home", "codx", *command.split())
        assert wrong.code == 2
        assert "Did you mean --home codex?" in wrong.err


def test_a_key_without_its_section_gets_the_whole_key(codex: Inside) -> None:
    wrong = codex.run("--home", "codex", "config", "set", "leftovers_retention_days", "30")
    assert wrong.code == 2
    assert "The full key is sessions.leftovers_retention_days." in wrong.err


def test_settings_for_another_home_make_no_home(codex: Inside) -> None:
    refused = codex.run("config", "set", "sessions.retention_days", "30")
    assert refused.code == 2
    hint = refused.err.partition("`holdfast ")[2].partition("`")[0]
    assert hint == "--home hermes config set sessions.retention_days 30"
    assert not home_of(codex.machine, "holdfast").exists()
    codex.ok(*shlex.split(hint))
    settle(codex.machine, "holdfast")
    wrote = codex.ok("config", "set", "sessions.retention_days", "30")
    assert f"Wrote {home_of(codex.machine, 'holdfast')}" in wrote.out
    assert "It applies to that home only" in wrote.out


def test_the_hint_on_leftovers_is_a_command_that_works(codex: Inside) -> None:
    log = home_of(codex.machine, "codex") / "app-server-daemon" / "daemon.log"
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(b"x" * 5_000_000)
    said = codex.ok("status")
    [hint] = [line for line in said.out.splitlines() if "config set" in line]
    wanted = "holdfast --home codex config set sessions.leftovers_retention_days 30"
    assert hint.strip() == wanted
    assert "The policy would remove" in said.out
    assert "holdfast sessions prune --home hermes --dry-run" in said.out
    codex.ok(*shlex.split(hint)[1:])


def test_what_was_used_lately_is_not_called_in_use(codex: Inside) -> None:
    for each in home_of(codex.machine, "codex").rglob("*.jsonl"):
        each.touch()
    shown = codex.ok("--home", "codex", "sessions", "prune", "--older-than", "0s", "--dry-run")
    assert "used within the last day" in shown.out
    assert "in use" not in shown.out
