"""What `holdfast vault` says of several homes."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.cli.inside import Inside
from tests.cli.machine import Machine

_SAMPLES = Path(__file__).parent.parent / "data" / "homes"


def test_one_command_keeps_the_sessions_of_all_agents_and_no_session_counts_twice(
    tmp_path: Path,
) -> None:
    machine = Machine(root=tmp_path)
    for agent in ("claude-code", "gemini"):
        with tarfile.open(_SAMPLES / f"{agent}.tar.xz") as sample:
            sample.extractall(machine.user, filter="data")
    inside = Inside(machine)
    said = inside.ok("vault").out
    assert "holdfast vault on --all-homes" in said
    assert said.count("vault on") == 1
    assert inside.ok("--home", "claude-code", "vault", "on", "-q").out == ""
    transcripts = [*machine.user.glob(".claude/projects/*/*.jsonl")]
    transcripts[0].unlink()
    said = inside.ok("--home", "claude-code", "vault").out
    heading, line = (each.split("\t") for each in said.splitlines()[:2])
    shown = dict(zip(heading, line, strict=True))
    assert (shown["in both"], shown["only here"]) == (str(len(transcripts) - 1), "1")


def test_homes_without_a_vault_do_not_fail_the_command_that_status_suggests(tmp_path: Path) -> None:
    machine = Machine(root=tmp_path)
    with tarfile.open(_SAMPLES / "claude-code.tar.xz") as sample:
        sample.extractall(machine.user, filter="data")
    inside = Inside(machine)
    inside.ok("--home", "holdfast", "config", "init")  # it has no vault
    done = inside.run("vault", "on", "--all-homes")
    assert (done.code, "error:" in done.err) == (0, False)
    assert "has no vault: only you and Holdfast delete sessions there" in done.err
    alone = inside.run("--home", "holdfast", "vault", "on")
    assert (alone.code, "only you and Holdfast delete sessions there" in alone.err) == (2, True)
    assert "holdfast vault status` lists" in alone.err.replace("--home holdfast ", "")
    assert "The vault is on" in done.words
