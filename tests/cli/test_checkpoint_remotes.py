"""holdfast checkpoints remote, push and fetch, and restore --map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.git_remotes import bare, checkpoints, refs


def test_checkpoints_go_to_a_remote_and_come_back_elsewhere(
    machine: Machine, inside: Inside, tmp_path: Path
) -> None:
    remote, project = bare(tmp_path / "remote.git"), tmp_path / "project"
    project.mkdir()
    for number in range(3):
        (project / "a.txt").write_text(f"{number}\n")
        inside.ok("checkpoints", "take", str(project), "--reason", f"r{number}")
    assert "To add one" in inside.ok("checkpoints", "remote").out
    unknown = inside.run("checkpoints", "push", "backup", str(project))
    assert unknown.code == 2
    assert "remote add NAME URL" in unknown.err
    assert inside.run("checkpoints", "remote", "add", "backup").code == 2
    inside.ok("checkpoints", "remote", "add", "backup", str(remote))
    shown = inside.ok("checkpoints", "push", "backup", str(project), "--dry-run")
    assert "3 checkpoints would be sent to backup" in shown.out
    assert refs(remote) == {}
    sent: Any = inside.json("checkpoints", "push", "backup", str(project))
    assert [each["reason"] for each in sent["sent"]] == ["r0", "r1", "r2"]
    assert "3 already there" in inside.ok("checkpoints", "push", "backup", "--all-projects").out

    listed: Any = inside.json("checkpoints", "list", str(project))
    oldest = listed["checkpoints"][-1]["id"]
    inside.ok("checkpoints", "delete", oldest, "--yes")
    push = ("checkpoints", "push", "backup", str(project), "--prune")
    asked: Any = inside.json(*push, code=3)
    assert [each["version"] for each in asked["prune"]["plan"]["items"]] == [oldest]
    assert len(checkpoints(remote)) == 3
    no = inside.run(*push, answers="n\n")
    assert no.code == 3
    assert "This cannot be undone." in no.err
    inside.ok(*push, answers="y\n")
    assert len(checkpoints(remote)) == 2

    other = ("--home", str(tmp_path / "other"))
    inside.ok(*other, "checkpoints", "remote", "add", "backup", str(remote))
    assert (
        "2 checkpoints would be fetched"
        in inside.ok(*other, "checkpoints", "fetch", "backup", "-n").out
    )
    fetched: Any = inside.json(*other, "checkpoints", "fetch", "backup")
    newest = fetched["fetched"][0]
    assert newest["machine"] == sent["machine"]
    place = f"{sent['machine']}:{project}"
    assert place in inside.ok(*other, "checkpoints", "list", "--all-projects").out
    assert place in inside.ok(*other, "checkpoints", "status").out
    restore = (*other, "checkpoints", "restore", newest["id"], "--yes")
    assert "--map" in inside.run(*restore).err
    (tmp_path / "here").mkdir()
    inside.ok(*restore, "--map", f"{project}={tmp_path / 'here'}")
    assert (tmp_path / "here" / "a.txt").read_text() == "2\n"


def test_a_remote_that_refuses_is_a_failure_that_says_why(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, project = bare(tmp_path / "remote.git"), tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    inside.ok("checkpoints", "remote", "add", "backup", "../remote.git")
    listed: Any = inside.json("checkpoints", "remote", "list")
    assert [each["url"] for each in listed["remotes"]] == [str(remote)]
    hook = remote / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (project / "a.txt").write_text("more\n")
    inside.ok("checkpoints", "take", str(project))
    refused = inside.run("checkpoints", "push", "backup", str(project))
    assert refused.code == 1
    assert "The remote refused 1 checkpoint: hook declined" in refused.out
