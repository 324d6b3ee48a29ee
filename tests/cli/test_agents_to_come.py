"""The place of an agent that has no home there yet: nothing of ours is made in it, and what lies in
it is not read as ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.agents import home_of, settle
from tests.cli.inside import Inside
from tests.cli.machine import Entry, Machine, entries

_ITS_OWN = 'model = "gpt-5"\nmodel_provider = "here"\n'


@pytest.fixture
def user(tmp_path: Path) -> Inside:
    machine = Machine(root=tmp_path)
    machine.user.mkdir(mode=0o700)
    return Inside(settle(machine, "gemini"))


_MAKING = (
    "sessions import gemini",
    "sessions import gemini --dry-run",
    "config set trash_days 3",
    "config set trash_days 3 --dry-run",
    "config init",
    "config edit",
    "config show",
    "config check",
    "checkpoints take PROJECT",
    "run --path PROJECT -- true",
)


@pytest.mark.parametrize("there", ["nothing", "folder", "config", "link", "variable"])
def test_no_home_of_ours_is_made_where_an_agent_belongs(user: Inside, there: str) -> None:
    root, env = home_of(user.machine, "codex"), {"VISUAL": "false"}
    if there in {"link", "variable"}:
        elsewhere = user.machine.user / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "config.toml").write_text(_ITS_OWN)
        if there == "link":
            root.symlink_to(elsewhere)
        else:
            env["CODEX_HOME"] = str(elsewhere)
    elif there != "nothing":
        root.mkdir()
        if there == "config":
            (root / "config.toml").write_text(_ITS_OWN)
    project = user.machine.user / "project"
    project.mkdir()
    before = _seen(user)
    for command in _MAKING:
        words = [str(project) if each == "PROJECT" else each for each in command.split()]
        refused = user.run("--home", "codex", *words, env=env)
        assert refused.code == 2, (command, refused)
        assert "There is no home of Codex here" in refused.err, (command, refused)
        assert "config edit" not in refused.err
        assert _seen(user) == before, command
    if root.exists() or there == "variable":
        for command in ("status", "doctor", "sessions list"):
            told = user.run("--home", "codex", *command.split(), env=env)
            assert told.code == 2, (command, told)
            assert "There is no home of Codex here" in told.err, (command, told)
    seen = user.run("status", env=env)
    assert seen.code == 0, seen
    assert "codex" not in seen.out.lower()


def _seen(user: Inside) -> dict[str, Entry]:
    """All but what a look at Gemini's home leaves in that."""
    found = entries(user.machine.user).items()
    return {path: each for path, each in found if not path.startswith(".gemini")}


def test_a_home_of_ours_that_lies_there_already_still_opens(user: Inside) -> None:
    root = home_of(user.machine, "codex")
    root.mkdir()
    (root / "operations").mkdir()
    user.ok("--home", "codex", "config", "set", "trash_days", "3")
    assert (root / "config.toml").exists()
