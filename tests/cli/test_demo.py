"""holdfast demo: real commands on a sample home that can be looked at and removed."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.commands.demo import program, shortened
from holdfast.cli.demo_home import build
from tests.cli.machine import Machine, removals

STEPS = (
    "status",
    "sessions gc --dry-run",
    "sessions prune --yes",
    "undo",
    "maintain --dry-run",
    "sessions archive --source telegram --older-than 60d --yes",
    "sessions search sourdough --archived",
    "sessions restore ID",
    "sessions stats",
    "checkpoints take --reason 'before the agent'",
    "checkpoints diff --stat",
    "checkpoints restore ID --yes",
)
TWO_SCREENS = 172
_SCRIPT = Path(sys.executable).with_name("holdfast")
_ID = re.compile(r"\d{8}_\d{6}_\w{6}|\b[0-9a-f]{12}\b")
WORDS = ("removed", "brought back")


def test_the_demo_for_people(used: Machine) -> None:
    """It works whatever this shell is set to, and leaves the user's own home alone."""
    temporary = used.root / "tmp"
    temporary.mkdir()
    settings = {
        "TMPDIR": str(temporary),
        "HOLDFAST_HOME": str(used.home),
        "HOLDFAST_SESSIONS_RETENTION_DAYS": "0",
        "NO_COLOR": "1",
        "PATH": os.defpath,
    }
    with used.terminal("demo", columns=120, env=settings) as terminal:
        result = terminal.end()
    assert result.code == 0
    assert "\x1b[32m" not in result.out
    home, project = sorted(temporary.iterdir())
    text = "\n".join(result.lines)
    typed = re.findall(rf"^(?:\$|  ) *(\S+) --home {home} (.*)$", text, re.MULTILINE)
    assert {each for each, _ in typed} == {str(_SCRIPT)}, "nobody put it on the PATH"
    shown = re.findall(rf"^\$ \S+ --home {home} (.*)$", text, re.MULTILINE)
    assert [_ID.sub("ID", each) for each in shown] == list(STEPS)
    assert f'export PATH="{_SCRIPT.parent}:$PATH"' in text
    assert len(result.lines) < TWO_SCREENS
    removed, back = (re.findall(rf"^([\d,]+) {word}\b", text, re.MULTILINE) for word in WORDS)
    assert removed[0] == back[0], "undo brings back what the prune removed"
    assert back[1] == "1", "restore brings back the one that was looked for"
    assert "The plan ends 7 abandoned sessions" in text
    assert "[sourdough]" in text
    assert f"rm -r {home} {project}" in text
    assert f"$ cd {project}\n" in text, "what follows is about this folder"
    assert sorted(path.name for path in project.iterdir()) == ["notes.md", "shop.py"]
    assert "sum(prices)" in (project / "shop.py").read_text()
    shutil.rmtree(home)
    assert len(used.names()) == 7
    assert not (used.home / "operations").exists()


@pytest.mark.deep
@pytest.mark.parametrize("piped", [False, True])
def test_the_demo_is_in_colour_on_a_terminal_and_plain_in_a_pipe(
    machine: Machine, piped: bool
) -> None:
    settings = {"TMPDIR": str(machine.root)}
    if piped:
        plain = machine.ok("demo", env=settings)
        assert "The plan removes" in plain.out
        assert "\x1b" not in plain.out
        return
    with machine.terminal("demo", columns=100, env=settings) as terminal:
        coloured = terminal.end()
    assert "\x1b[1mThe plan removes" in coloured.out, "the commands' own colours, too"
    for home in machine.root.glob("holdfast-demo-*"):
        shutil.rmtree(home)


@pytest.mark.deep
def test_the_demo_as_json(machine: Machine) -> None:
    result = machine.run("--json", "demo", env={"TMPDIR": str(machine.root)})
    assert result.code == 0
    assert result.err == ""
    assert [step["exit_code"] for step in result.document["steps"]] == [0] * len(STEPS)
    home = Path(result.document["home"])
    assert home.parent == machine.root

    def ask(*words: str) -> Any:
        return machine.json("--home", str(home), *words)

    rollback, restore, archive, undo, prune = ask("log")["operations"]
    assert rollback["command"].startswith("checkpoints restore")
    assert prune["removed"] == undo["brought_back"] > 300
    assert prune["state"] == "undone"
    assert (archive["state"], restore["brought_back"]) == ("partly undone", 1)
    assert ask("trash")["trash"] == []

    archived = ask("sessions", "list", "--archived")["sessions"]
    assert len(archived) > 20
    assert {each["source"] for each in archived} == {"telegram"}
    now = ask("sessions", "stats")["sessions"]
    away = sum(each["tokens_in"] + each["tokens_out"] for each in archived)
    assert away > 0
    ever = now["usage"]["tokens_in"] + now["usage"]["tokens_out"]
    assert ever == now["tokens"] + away, "the ledger has what left the store"
    shutil.rmtree(home)
    shutil.rmtree(result.document["project"])


def test_only_the_sample_home(machine: Machine) -> None:
    """For the pages of the docs, and for people who like to type."""
    place = machine.root / "a sample"
    said = machine.ok("demo", str(place))
    assert f"export HOLDFAST_HOME='{place}'" in said.out
    assert len(machine.json("--home", str(place), "sessions", "list")["sessions"]) == 728
    assert machine.json("--home", str(place), "log")["operations"] == []
    again = machine.run("demo", str(place))
    assert again.code == 2
    assert "already exists" in again.err
    other = machine.json("demo", str(machine.root / "other"))
    assert (other["home"], other["steps"]) == (str(machine.root / "other"), [])


def test_missing_folders_above_the_sample_are_created(machine: Machine) -> None:
    folder = machine.root / "agents" / "first"
    machine.ok("demo", str(folder))
    assert machine.json("--home", str(folder), "sessions", "list")["total"] > 700
    refused = machine.run("demo", "/proc/holdfast/sample")
    assert refused.code == 2
    assert "Name a folder in a place where you may write." in refused.err


def test_the_demo_says_holdfast_where_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(_SCRIPT.parent))
    assert program() == "holdfast"
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == str(_SCRIPT), "it works in every folder"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sample") / "home"
    build(home, time.time())
    return home


def test_the_sample_has_the_proportions_of_the_field(machine: Machine, sample: Path) -> None:
    found = machine.json("--home", str(sample), "sessions", "list")["sessions"]
    assert len(found) == 728
    assert 0.70 < _share(found, lambda each: each["source"] == "cron") < 0.77
    assert 0.63 < _share(found, lambda each: each["message_count"] <= 5) < 0.71
    assert {each["source"] for each in found} == {"cron", "cli", "telegram", "discord", "subagent"}
    assert {each["relation"] for each in found} == {None, "branch", "continuation", "delegate"}
    for sort in ("title", "pinned", "parent_id", "cost", "tokens_in"):
        assert any(each[sort] for each in found), sort
    oldest = min(each["last_active_at"] for each in found)
    assert 200 < (time.time() - oldest) / 86_400 < 241


def test_the_sample_has_files_orphans_and_abandoned_sessions(
    machine: Machine, sample: Path
) -> None:
    plan = machine.json("--home", str(sample), "sessions", "prune", "--dry-run")
    items = plan["plan"]["items"]
    steps = machine.json("--home", str(sample), "maintain", "--dry-run")["steps"]
    [ends] = [step["plan"]["items"] for step in steps if step["step"] == "end"]
    assert len([each for each in ends if each["action"] == "end"]) >= 2
    for kind in ("transcript", "request_dump"):
        reasons = {each["reason"] for each in items if each["kind"] == kind}
        assert "removed with its session" in reasons
        assert any(reason.startswith("older than") for reason in reasons), "an orphan"
    assert 300 < len(removals(plan)) < 700


def test_output_is_shortened_by_its_parts() -> None:
    output = "what  size\n a 1\n\nlast active\n b\n\n\x1b[1mThe plan\x1b[0m\n" + "line\n" * 9
    assert shortened(output, "").count("…") == 1
    assert shortened(output, "what|The plan") == (
        "what  size\n a 1\n…\n\n\x1b[1mThe plan\x1b[0m\n" + "line\n" * 5 + "…"
    )
    assert shortened("one\n", "") == "one"


def _share(found: Sequence[Any], test: Callable[[Any], bool]) -> float:
    return sum(map(test, found)) / len(found)
