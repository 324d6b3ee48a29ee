"""`holdfast connect` and `disconnect`: entries of ours in settings of others, and back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.api import hook_check
from holdfast.api.loop import Loop
from holdfast.api.place import Place
from holdfast.cli.commands import connect as command
from holdfast.connect import json_edit
from holdfast.connect.codex_trust import trust_hash
from holdfast.connect.trial import Trial
from holdfast.hooks import client
from holdfast.model.loop import DayUse
from holdfast.model.session import Tokens
from holdfast.model.usage import Usage
from holdfast.policy.circuit_breaker import Run
from holdfast.value import replace
from tests.cli.inside import Inside
from tests.cli.machine import Machine

SETTINGS = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
}
THEIRS = """{
    // what the user wrote
    "model": "opus",   "theme": "dark",
    "hooks": {
        "PreToolUse": [ {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]} ],
        "BeforeTool": [ {"matcher": "x", "hooks": [{"type": "command", "command": "true"}]} ]
    },
}
"""
#: Where what was done is written down: agents have homes too.
OWN = ("--home", "holdfast")
AGENTS = ("claude-code", "codex", "gemini", "opencode")


def files(machine: Machine) -> dict[str, tuple[int, bytes]]:
    """Everything in the home directory but Holdfast's home, with modes."""
    return {
        str(path.relative_to(machine.user)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in machine.user.rglob("*")
        if ".holdfast" not in path.relative_to(machine.user).parts
    }


def given(machine: Machine, agent: str) -> None:
    if agent in SETTINGS:
        path = machine.user / SETTINGS[agent]
        path.parent.mkdir(parents=True)
        path.write_text(THEIRS)
        path.chmod(0o640)
    if agent == "codex":
        config = machine.user / ".codex" / "config.toml"
        theirs = f'[hooks.state."{machine.user}/.codex/hooks.json:pre_tool_use:0:0"]'
        config.write_text(f'model = "x"  # mine\n{theirs}\ntrusted_hash = "sha256:1"\n')


@pytest.mark.parametrize("made", [False, True], ids=["nothing there", "their settings"])
@pytest.mark.parametrize("agent", AGENTS)
def test_connect_undo_redo_and_disconnect_are_exact(
    agent: str, made: bool, machine: Machine, inside: Inside
) -> None:
    if made:
        given(machine, agent)
    before = files(machine)
    inside.ok("connect", agent, "--yes")
    after = files(machine)
    assert after != before
    assert "Nothing to do" in inside.ok("connect", agent, "--yes").out
    assert files(machine) == after
    inside.ok(*OWN, "undo", "--yes")
    assert files(machine) == before
    inside.ok(*OWN, "redo", "--yes")
    assert files(machine) == after
    inside.ok("disconnect", agent, "--yes")
    assert files(machine) == before
    assert "Nothing to do" in inside.ok("disconnect", agent, "--yes").out


@pytest.mark.parametrize("agent", SETTINGS)
def test_what_came_later_stays_when_ours_leave(
    agent: str, machine: Machine, inside: Inside
) -> None:
    given(machine, agent)
    inside.ok("connect", agent, "--yes")
    path = machine.user / SETTINGS[agent]
    path.write_text(path.read_text().replace('"dark"', '"light"'))
    result = inside.run(*OWN, "undo", "--yes")
    assert result.code == 1
    assert "holdfast disconnect" in result.out + result.err
    inside.ok("disconnect", agent, "--yes")
    assert path.read_text() == THEIRS.replace('"dark"', '"light"')


@pytest.mark.parametrize(
    "text",
    [
        '{"hooks": /* team */ {"PreToolUse": /* none yet */ []}, "model": "a"}',
        '{"hooks": {}, "model": "a"}',
        '{"model": "a", "hooks": {"PreToolUse": [], "UserPromptSubmit": []}}',
        '{"model": "a"}',
    ],
)
def test_only_what_connect_made_leaves_with_our_entries(
    text: str, machine: Machine, inside: Inside
) -> None:
    path = machine.user / SETTINGS["claude-code"]
    path.parent.mkdir()
    for _ in range(2):  # what was made and left again is not made
        path.write_text(text)
        inside.ok("connect", "claude-code", "--yes")
        path.write_text(path.read_text().replace('"a"', '"b"'))
        inside.ok("config", "set", "hooks.on_failure", "block")
        inside.ok("connect", "claude-code", "--yes")
        inside.ok("disconnect", "claude-code", "--yes")
        assert "".join(path.read_text().split()) == "".join(text.replace('"a"', '"b"').split())
        text = '{"hooks": {}, "model": "a"}' if text == '{"model": "a"}' else text


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        ("claude-code", '{"model": "a","hooks":{}}'),
        ("claude-code", '{"model": "a","hooks":{"PreToolUse":[]}}'),
        ("claude-code", '{"model": "a", "hooks": {\n\t"PreToolUse": []\n}}'),
        ("gemini", '{"hooks":{}}'),
    ],
)
def test_connecting_again_changes_nothing_however_it_is_written(
    agent: str, text: str, machine: Machine, inside: Inside
) -> None:
    path = machine.user / SETTINGS[agent]
    path.parent.mkdir()
    path.write_text(text)
    inside.ok("connect", agent, "--yes")
    once = path.read_text()
    assert "Nothing to do" in inside.ok("connect", agent, "--yes").out
    # What somebody wrote behind our entries is no reason to write them anew.
    path.write_text(once.replace('"command": "', '"command":   "'))
    assert "Nothing to do" in inside.ok("connect", agent, "--yes").out
    path.write_text(once)
    inside.ok("disconnect", agent, "--yes")
    assert path.read_text() == text


def test_a_settings_file_that_is_a_link_stays_one(machine: Machine, inside: Inside) -> None:
    dotfiles = machine.user / "dotfiles" / "claude.json"
    dotfiles.parent.mkdir()
    dotfiles.write_text("{}\n")
    link = machine.user / ".claude" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(dotfiles)
    inside.ok("connect", "claude-code", "--yes")
    assert link.is_symlink()
    assert "PreToolUse" in dotfiles.read_text()


def test_a_hard_linked_settings_file_is_left_alone(machine: Machine, inside: Inside) -> None:
    path = machine.user / SETTINGS["claude-code"]
    path.parent.mkdir()
    path.write_text("{}\n")
    dotfile = machine.user / "dotfiles.json"
    dotfile.hardlink_to(path)
    for flags in (["--yes"], ["--dry-run"]):
        result = inside.run("connect", "claude-code", *flags)
        assert (result.code, "a hard link" in result.err) == (2, True)
        assert "nothing was changed" in result.err
    assert path.samefile(dotfile)
    assert path.read_text() == "{}\n"


def test_codex_trusts_our_hooks_and_goes_on_trusting_theirs(
    machine: Machine, inside: Inside
) -> None:
    given(machine, "codex")
    inside.ok("connect", "codex", "--yes")
    config = machine.user / ".codex" / "config.toml"
    said = tomllib.loads(config.read_text())["hooks"]["state"]
    start = f"{machine.user}/.codex/hooks.json"
    assert said[f"{start}:pre_tool_use:0:0"] == {"trusted_hash": "sha256:1"}
    assert said.keys() == {
        f"{start}:pre_tool_use:0:0",
        f"{start}:pre_tool_use:1:0",
        f"{start}:user_prompt_submit:0:0",
    }
    # Somebody adds one behind ours, and trusts it.
    hooks = machine.user / ".codex" / "hooks.json"
    more: Any = {"hooks": [{"type": "command", "command": "false"}]}
    hooks.write_text(json_edit.add(hooks.read_text(), ("hooks", "PreToolUse"), more))
    with config.open("a") as file:
        file.write(f'[hooks.state."{start}:pre_tool_use:2:0"]\ntrusted_hash = "sha256:2"\n')
    inside.ok("disconnect", "codex", "--yes")
    left = tomllib.loads(config.read_text())["hooks"]["state"]
    assert {key: each["trusted_hash"] for key, each in left.items()} == {
        f"{start}:pre_tool_use:0:0": "sha256:1",
        f"{start}:pre_tool_use:1:0": "sha256:2",
    }


@pytest.mark.parametrize(
    ("hash_", "enabled", "words"),
    [
        (None, "", "Codex does not trust it"),
        ("sha256:1", "", "Codex trusts another command in its place"),
        ("right", "enabled = false\n", "it is switched off"),
        ("right", "enabled = true\n", None),
    ],
)
def test_what_codex_passes_over_is_told_and_connected_again(
    hash_: str | None,
    enabled: str,
    words: str | None,
    machine: Machine,
    inside: Inside,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_check, "try_hook", lambda _: Trial(answers=()))  # it works
    given(machine, "codex")
    inside.ok("connect", "codex", "--yes")
    config = machine.user / ".codex" / "config.toml"
    good = config.read_text()
    before, line, behind = good.rpartition('trusted_hash = "')
    now, rest = behind[:71], behind[72:]
    said = "" if hash_ is None else f'{line}{now if hash_ == "right" else hash_}"'
    config.write_text(f"{before}{enabled}{said}{rest}")
    problem = _problem(inside, "codex")
    listed = inside.ok("connect", "--status").out
    shown = _doctor(inside)
    if words is None:
        assert (problem, "but off" in listed) == (None, False)
        assert "it takes checkpoints" in shown
        assert "Nothing to do" in inside.ok("connect", "codex", "--yes").out
        return
    assert str(problem).startswith(f"{words} (see {config})")
    assert "yes, but off" in listed
    assert f"{words} (see {config})" in shown
    inside.ok("connect", "codex", "--yes")
    assert tomllib.loads(config.read_text()) == tomllib.loads(good)
    assert _problem(inside, "codex") is None


def test_the_hash_that_codex_trusts() -> None:
    """As Codex 0.166 said itself, for an entry of this kind."""
    command = "/usr/bin/python3 /tmp/lab/loop/rec.py /tmp/lab/loop/codex/events.jsonl PreToolUse"
    entry: Any = {"hooks": [{"type": "command", "command": command, "timeout": 20}]}
    said = "sha256:ab3a5c4696c65c3b752631f6a24deb557825b3862fc65f612f67ad7817613479"
    assert trust_hash("pre_tool_use", entry) == said


@pytest.mark.parametrize("agent", SETTINGS)
def test_a_broken_file_is_refused_and_left_alone(
    agent: str, machine: Machine, inside: Inside
) -> None:
    path = machine.user / SETTINGS[agent]
    path.parent.mkdir(parents=True)
    path.write_text('{"a": ')
    result = inside.run("connect", agent, "--yes")
    assert result.code == 2
    assert "Nothing was changed" in result.err
    assert path.read_text() == '{"a": '


def test_a_plugin_of_somebody_else_is_left_alone(machine: Machine, inside: Inside) -> None:
    path = machine.user / ".config" / "opencode" / "plugins" / "holdfast.js"
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = 1\n")
    result = inside.run("connect", "opencode", "--yes")
    assert (result.code, path.read_text()) == (2, "export const Mine = 1\n")


def test_a_plan_file_never_changes_settings(
    machine: Machine, inside: Inside, tmp_path: Path
) -> None:
    inside.ok("connect", "gemini", "--yes")
    inside.ok(*OWN, "undo", "--yes")
    saved = tmp_path / "plan.json"
    inside.ok(*OWN, "redo", "--plan-out", str(saved))
    refused = inside.run(*OWN, "apply", str(saved), "--yes")
    assert refused.code == 2
    assert "which a plan file must not do" in refused.err
    assert not (machine.user / ".gemini").exists()


def test_status_plan_and_no(machine: Machine, inside: Inside) -> None:
    assert inside.json("connect", "--status")["connections"][0]["connected"] is False  # type: ignore[index]
    shown = inside.ok("connect", "claude", "--dry-run")
    assert "client.p" in shown.out
    assert not (machine.user / ".claude").exists()
    declined = inside.run("connect", "claude", answers="n\n")
    assert declined.code == 3
    assert not (machine.user / ".claude").exists()
    inside.ok("connect", "claude", answers="y\n")
    [first, *_] = inside.json("connect", "--status")["connections"]  # type: ignore[index]
    assert (first["connected"], first["events"]) == (True, ["PreToolUse", "UserPromptSubmit"])
    assert inside.run("connect", "nobody").code == 2
    assert inside.run("connect").code == 2


def test_what_fails_closed_says_so_in_the_settings(machine: Machine, inside: Inside) -> None:
    inside.ok("config", "set", "hooks.on_failure", "block")
    inside.ok("connect", "claude-code", "--yes")
    said = json.loads((machine.user / ".claude" / "settings.json").read_text())
    [handler] = said["hooks"]["PreToolUse"][0]["hooks"]
    assert handler["onFailure"] == "block"
    assert " closed " in handler["command"]


def test_a_project_has_entries_of_its_own(
    machine: Machine, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = machine.user / "site"
    project.mkdir()
    monkeypatch.chdir(project)
    before = files(machine)
    inside.ok("connect", "claude-code", "--scope", "project", "--yes")
    assert (project / ".claude" / "settings.local.json").exists()
    inside.ok("disconnect", "claude-code", "--scope", "project", "--yes")
    assert files(machine) == before


def test_the_log_and_its_undo_name_the_files(machine: Machine, inside: Inside) -> None:
    inside.ok("connect", "gemini", "--yes")
    assert "1 changed" in inside.ok(*OWN, "log").out
    assert "settings.json" in inside.ok(*OWN, "undo", "--dry-run", "--all").out
    document: Any = inside.json(*OWN, "log")
    assert document["operations"][0]["changed"] == 1
    assert Path(machine.user, ".gemini", "settings.json").exists()


NO_AGENT = {"PATH": "/usr/bin:/bin"}  # no agent of this machine
#: What doctor tries, and whether the hook has to block it and to have a checkpoint.
TRIED = [
    ("a tool", False, True),
    ("a tool over a budget", True, False),
    ("a prompt over a budget", True, False),
    ("the same call for the 9th time", True, False),
    ("a tool while config.toml is invalid", False, True),
]


@pytest.mark.parametrize("agent", AGENTS)
def test_doctor_tries_the_installed_hook(agent: str, machine: Machine, inside: Inside) -> None:
    inside.ok("connect", agent, "--yes")
    fine = inside.run("--json", *OWN, "doctor", env=NO_AGENT)
    assert fine.code == 0
    [report] = fine.document["hooks"]
    tried = [(each["case"], each["blocked"], each["checkpoint"]) for each in report["tried"]]
    assert (report["agent"], report["works"], tried) == (agent, True, TRIED)
    assert report["now"]["blocked"] is False
    path = machine.user / SETTINGS.get(agent, ".config/opencode/plugins/holdfast.js")
    # One that fails, and one that does nothing at all.
    program = "/usr/bin/false" if agent in ("claude-code", "opencode") else "/usr/bin/true"
    broken = path.read_text().replace("/usr/bin/perl", program)
    if broken == path.read_text():
        pytest.skip("there is no Perl here")
    path.write_text(broken)
    shown = inside.run(*OWN, "doctor", env=NO_AGENT)
    assert shown.code == 1  # nothing is damaged, and nothing looks after the agent
    assert f"hook of {agent}" in shown.out
    assert "broken" in shown.out
    assert f"holdfast connect {agent}" in shown.out


def test_doctor_tells_what_would_be_blocked_now(
    machine: Machine, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.ok("connect", "claude-code", "--yes")
    changed = inside.ok("config", "set", "hooks.on_failure", "block")
    assert "holdfast connect claude-code" in changed.err
    with monkeypatch.context() as patch:
        patch.setattr(hook_check, "try_hook", lambda _: Trial(answers=()))  # it works
        assert "it was allow when claude-code was connected" in _doctor(inside)
    inside.ok("connect", "claude-code", "--yes")
    assert inside.ok("config", "set", "hooks.on_failure", "block").err == ""
    inside.ok("config", "set", "guard.daily_tokens", "1000")
    inside.ok("config", "set", "guard.max_cost", "5")
    shown = _doctor(inside)
    assert "it was allow" not in shown
    assert "no model has a price under [prices]" in shown
    assert "the budget on cost cannot be checked, so no tool runs" in shown
    inside.ok("config", "set", "guard.max_cost", "0")
    assert "a tool while config.toml is invalid: blocked" in shown  # as the user wants it
    assert "a tool in a new session here: blocked. " in shown
    assert "there is a budget on cost, and no model has a price" in shown
    monkeypatch.setattr(hook_check, "try_hook", lambda _: Trial(answers=()))  # it works
    home = machine.user / ".holdfast"
    place = Place(home, clock=time.time)
    today = datetime.fromtimestamp(time.time(), UTC).date().isoformat()
    use = DayUse(
        agent="codex",
        session="other",
        project="",
        by_model={"m": Usage(tokens=Tokens(input=900, output=300))},
    )
    book = Loop(place).book
    book.note_day(today, use)
    with book.session("claude-code", "34a5") as state:
        book.keep(replace(state, run=Run(tool="Bash", arguments="x", same_tool=9, same_call=9)))
    shown = _doctor(inside)
    over = "the budget of 1,000 tokens per day is used up (1,200)"
    assert f"a tool in a new session here: blocked. {over}" in shown
    assert f"the next tool of session 34a5: blocked. {over}" in shown
    inside.ok("config", "set", "guard.daily_tokens", "0")
    shown = _doctor(inside)
    assert "the next tool of session 34a5: blocked. You have called Bash 9 times" in shown
    (home / "config.toml").write_text('[hooks]\non_failure = "block"\n[guard]\nmax_cost = []\n')
    assert "a tool in a new session here: blocked. Holdfast could not do its job" in _doctor(inside)


def _doctor(inside: Inside) -> str:
    return " ".join(inside.run(*OWN, "doctor", env=NO_AGENT).out.split())


def test_gemini_may_have_its_settings_elsewhere(machine: Machine, inside: Inside) -> None:
    env = {"GEMINI_CLI_HOME": str(machine.user / "elsewhere")}
    assert inside.run("connect", "gemini", "--yes", env=env).code == 0
    assert (machine.user / "elsewhere" / ".gemini" / "settings.json").exists()
    assert not (machine.user / ".gemini").exists()


SWITCHES = {
    "claude-code": (".claude/settings.json", '"disableAllHooks": true', "disableAllHooks"),
    "claude-code here": ("site/.claude/settings.json", '"disableAllHooks": true', "site/.claude"),
    "gemini": (".gemini/settings.json", '"hooksConfig": {"enabled": false}', "hooksConfig.enabled"),
    "gemini here": (
        "site/.gemini/settings.json",
        '"hooksConfig": {"disabled": ["x", "holdfast"]}',
        "hooksConfig.disabled",
    ),
    "codex": (".codex/config.toml", "\n[features]\nhooks = false\n", "features.hooks"),
    "codex broken": (".codex/config.toml", "\n[features\n", "cannot be read"),
}


@pytest.mark.parametrize("case", SWITCHES)
def test_hooks_that_the_agent_was_told_not_to_start(
    case: str, machine: Machine, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, switch, words = SWITCHES[case]
    agent = case.partition(" ")[0]
    site = machine.user / "site"
    site.mkdir()
    monkeypatch.chdir(site)
    inside.ok("connect", agent, "--yes")
    assert _problem(inside, agent) is None
    path = machine.user / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else "{}"
    rest = text.lstrip().removeprefix("{")
    comma = "" if rest.strip() == "}" else ","
    path.write_text(f"{text}{switch}" if agent == "codex" else f"{{{switch}{comma}{rest}")
    assert words in str(_problem(inside, agent))
    assert "but off" in inside.ok("connect", "--status").out
    shown = " ".join(inside.run(*OWN, "doctor", env={"PATH": "/usr/bin:/bin"}).out.split())
    assert f"{agent} does not start it" in shown


def _problem(inside: Inside, agent: str) -> object:
    listed: Any = inside.json("connect", "--status")
    return next(e["problem"] for e in listed["connections"] if e["agent"] == agent)


@pytest.mark.parametrize("lost", ["the program", "the client", "the interpreter"])
def test_a_connection_whose_program_is_lost(lost: str, machine: Machine, inside: Inside) -> None:
    inside.ok("connect", "claude-code", "--yes")
    path = machine.user / ".claude" / "settings.json"
    said = json.loads(path.read_text())
    for entries in said["hooks"].values():
        for handler in entries[0]["hooks"]:
            words = handler["command"].split()
            places = {"the program": 0, "the client": words.index("claude-code") - 1}
            at = places.get(lost, len(words) - 1 if "perl" in words[0] else 0)
            words[at] = f"/gone{words[at]}"
            handler["command"] = " ".join(words)
    path.write_text(json.dumps(said))
    assert str(_problem(inside, "claude-code")).startswith("/gone/")


def test_what_to_try_next_names_the_home_where_there_are_several(
    machine: Machine, inside: Inside
) -> None:
    talk = (
        machine.user
        / ".claude"
        / "projects"
        / "-site"
        / "5b6e2c1a-0000-4000-8000-000000000001.jsonl"
    )
    talk.parent.mkdir(parents=True)
    talk.write_text('{"type": "user", "message": {"role": "user", "content": "hello"}}\n')
    shown = inside.ok("connect", "claude-code", "--yes")
    said = " ".join((shown.out + shown.err).split())
    assert "holdfast --home holdfast undo" in said
    assert "To test the hooks: holdfast --home holdfast doctor" in said


@pytest.mark.parametrize("made", [False, True], ids=["nothing there", "their settings"])
@pytest.mark.parametrize("agent", AGENTS)
def test_disconnect_goes_back_over_a_second_connect(
    agent: str, made: bool, machine: Machine, inside: Inside
) -> None:
    if made:
        given(machine, agent)
    before = files(machine)
    inside.ok("connect", agent, "--yes")
    inside.ok("config", "set", "hooks.on_failure", "block")
    inside.ok("connect", agent, "--yes")
    inside.ok("disconnect", agent, "--yes")
    assert files(machine) == before
    assert "Nothing to do" in inside.ok("disconnect", agent, "--yes").out
    inside.ok("connect", agent, "--yes")
    inside.ok("disconnect", agent, "--yes")
    assert files(machine) == before


def test_ours_leave_when_others_wrote_between_two_connects(
    machine: Machine, inside: Inside
) -> None:
    given(machine, "claude-code")
    path = machine.user / SETTINGS["claude-code"]
    inside.ok("connect", "claude-code", "--yes")
    path.write_text(path.read_text().replace('"dark"', '"light"'))
    inside.ok("config", "set", "hooks.on_failure", "block")
    inside.ok("connect", "claude-code", "--yes")
    inside.ok("disconnect", "claude-code", "--yes")
    assert path.read_text() == THEIRS.replace('"dark"', '"light"')


@pytest.mark.parametrize("line", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_what_the_user_wrote_behind_our_trust_stays(
    line: str, machine: Machine, inside: Inside
) -> None:
    config = machine.user / ".codex" / "config.toml"
    config.parent.mkdir()
    start = f'model = "x"{line}'
    config.write_bytes(start.encode())
    inside.ok("connect", "codex", "--yes")
    added = config.read_bytes().decode()
    assert added.count("\n") == added.count(line)
    more = f"{line}# mine{line}{line}# of the next{line}[tui]{line}theme = 1{line}"
    config.write_bytes((added + more).encode())
    inside.ok("config", "set", "hooks.on_failure", "block")
    inside.ok("connect", "codex", "--yes")
    assert len(tomllib.loads(config.read_bytes().decode())["hooks"]["state"]) == 2
    inside.ok("disconnect", "codex", "--yes")
    assert config.read_bytes().decode() == start + more


def test_trust_that_an_undo_left_behind_is_taken_out(machine: Machine, inside: Inside) -> None:
    inside.ok("connect", "codex", "--yes")
    config = machine.user / ".codex" / "config.toml"
    theirs = f'[hooks.state."{machine.user}/.codex/hooks.json:stop:0:0"]\ntrusted_hash = "mine"\n'
    config.write_text(config.read_text() + theirs)
    assert inside.run(*OWN, "undo", "--yes").code == 1
    assert not (machine.user / SETTINGS["codex"]).exists()
    inside.ok("disconnect", "codex", "--yes")
    assert config.read_text() == theirs
    assert "Nothing to do" in inside.ok("disconnect", "codex", "--yes").out


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("agent", SETTINGS)
def test_only_our_handler_leaves_an_entry_that_somebody_shares(
    agent: str, first: bool, machine: Machine, inside: Inside
) -> None:
    inside.ok("connect", agent, "--yes")
    path = machine.user / SETTINGS[agent]
    said = json.loads(path.read_text())
    event = "BeforeTool" if agent == "gemini" else "PreToolUse"
    theirs = {"type": "command", "command": "true"}
    said["hooks"][event][0]["hooks"].insert(0 if first else 1, theirs)
    path.write_text(json.dumps(said, indent=2))
    config = machine.user / ".codex" / "config.toml"
    start = f"{path}:pre_tool_use:0"
    if agent == "codex":
        text = config.read_text()
        text = text.replace(f"{start}:0", f"{start}:1") if first else text
        trusted = f'[hooks.state."{start}:{0 if first else 1}"]\ntrusted_hash = "mine"\n'
        config.write_text(text + trusted)
    document: Any = inside.json("connect", "--status")
    [events] = [e["events"] for e in document["connections"] if e["path"] == str(path)]
    assert event in events
    inside.ok("disconnect", agent, "--yes")
    left = json.loads(path.read_text())
    assert [each["hooks"] for each in left["hooks"][event]] == [[theirs]]
    assert "client.p" not in path.read_text()
    if agent == "codex":
        state = tomllib.loads(config.read_text())["hooks"]["state"]
        assert state == {f"{start}:0": {"trusted_hash": "mine"}}


def test_two_projects_leave_nothing_behind(
    machine: Machine, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = [machine.user / "a", machine.user / "b"]
    for each in projects:
        each.mkdir()
    before = files(machine)
    for what in ("connect", "disconnect"):
        for each in projects:
            monkeypatch.chdir(each)
            inside.ok(what, "claude-code", "--scope", "project", "--yes")
    assert files(machine) == before


def test_settings_that_are_not_json_are_refused_in_words(machine: Machine, inside: Inside) -> None:
    path = machine.user / SETTINGS["claude-code"]
    path.parent.mkdir(parents=True)
    deep = "[" * 5_000 + "]" * 5_000
    twice = '{"hooks": {}, "hooks": {}}'
    for text in ('{"a\\x": 1}', '{"a": 01}', '{"a": "\\q"}', f'{{"a": {deep}}}', twice):
        path.write_text(text)
        for what in ("connect", "disconnect"):
            result = inside.run(what, "claude-code", "--yes")
            assert (result.code, path.read_text()) == (2, text)
            assert "Nothing was changed" in result.err
        inside.ok("connect", "--status")


def test_nothing_to_take_back_when_nothing_was_done(
    machine: Machine, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.user / SETTINGS["gemini"]

    def yes(*_: object, **__: object) -> None:
        path.parent.mkdir()
        path.write_text("{}\n")

    monkeypatch.setattr(command, "asked", yes)
    result = inside.run("connect", "gemini")
    assert (result.code, path.read_text()) == (1, "{}\n")
    assert "undo" not in result.out


# --- What is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_a_plan_shows_every_line_and_makes_nothing(
    agent: str, machine: Machine, inside: Inside
) -> None:
    given(machine, agent)
    if agent == "claude-code":
        path = machine.user / SETTINGS[agent]
        lines = path.read_text().replace("[ {", "[\n{").replace("} ]", "}\n]")
        path.write_text(lines.replace("    ", "\t"))
    everything = sorted(machine.root.rglob("*"))
    shown = inside.ok("connect", agent, "--dry-run")
    whole = inside.ok("connect", agent, "--dry-run", "--all")
    assert inside.run("connect", agent, answers="n\n").code == 3
    assert "Nothing to do" in inside.ok("disconnect", agent, "--yes").out
    assert sorted(machine.root.rglob("*")) == everything  # not even a home
    assert "more lines; --all shows them" in shown.out
    assert "more lines" not in whole.out
    assert "\\t" not in whole.out
    assert "  - " not in whole.out  # what others wrote stays
    assert '"dark"' not in whole.out
    last = '"timeout": 120' if agent == "claude-code" else "tool.execute.before"
    assert whole.out.count(last) >= 1


def test_nothing_to_do_asks_for_no_restart(machine: Machine, inside: Inside) -> None:
    assert "Restart agents" in inside.ok("connect", "gemini", "--yes").err
    assert "Restart agents" not in inside.ok("connect", "gemini", "--yes").err


def test_a_link_is_shown_with_where_it_leads(
    machine: Machine, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = machine.user / "site"
    (site / ".opencode" / "plugins").mkdir(parents=True)
    (site / ".opencode" / "plugins" / "holdfast.js").symlink_to(machine.user / "victim.js")
    monkeypatch.chdir(site)
    shown = inside.ok("connect", "opencode", "--scope", "project", "--dry-run")
    assert f"a link to {machine.user}/victim.js" in " ".join(shown.out.split())
    assert "a link" not in inside.ok("connect", "gemini", "--dry-run").out


def test_a_byte_order_mark_is_named(machine: Machine, inside: Inside) -> None:
    for agent, name in (("claude-code", SETTINGS["claude-code"]), ("codex", ".codex/config.toml")):
        path = machine.user / name
        path.parent.mkdir()
        path.write_bytes(b"\xef\xbb\xbf" + (b"{}\n" if name.endswith("json") else b"a = 1\n"))
        result = inside.run("connect", agent, "--yes")
        assert (result.code, "byte order mark" in result.err) == (2, True)
    assert "byte order mark" in str(_problem(inside, "claude-code"))


def test_in_the_home_directory_each_file_is_listed_once(
    machine: Machine, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine.user)
    inside.ok("connect", "gemini", "--yes")
    listed: Any = inside.json("connect", "--status")
    paths = [each["path"] for each in listed["connections"]]
    assert len(paths) == len(set(paths))
    assert [each["scope"] for each in listed["connections"] if each["connected"]] == ["user"]
    assert inside.ok("connect", "--status").out.count("settings.json") == 2  # and Claude Code's


def test_doctor_tells_why_no_helper_can_start(
    machine: Machine, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_check, "try_hook", lambda _: Trial(answers=()))  # it works
    runtime = machine.root / "run"
    (runtime / "holdfast").mkdir(mode=0o700, parents=True)
    runtime.chmod(0o700)
    monkeypatch.setitem(NO_AGENT, "XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setattr(client, "_LONGEST", 500)
    inside.ok("connect", "gemini", "--yes")
    assert "no helper can start" not in _doctor(inside)
    (runtime / "holdfast").chmod(0o777)
    shown = _doctor(inside)
    assert f"{runtime}/holdfast is not private: other users can enter it (mode 777)" in shown
    assert f"chmod 700 {runtime}/holdfast" in shown
    inside.ok("config", "set", "hooks.helper", "false")
    assert "no helper can start" not in _doctor(inside)


#: Killed with everything written, and nothing in its place yet.
_KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.cli.main import main

replace = Path.replace

def killed(self, target):
    if "settings.json.holdfast-" in self.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)

Path.replace = killed
main()
"""


def test_disconnect_takes_away_what_a_killed_connect_left(machine: Machine, inside: Inside) -> None:
    """A copy of the settings, with all that they say. Nothing was connected, so there is nothing
    else to do."""
    given(machine, "claude-code")
    before = files(machine)
    words = [sys.executable, "-c", _KILLED, *OWN, "connect", "claude-code", "--yes"]
    done = subprocess.run(words, check=False, env=machine.env(), capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(files(machine)) == len(before) + 1
    inside.ok(*OWN, "disconnect", "claude-code", "--dry-run")
    assert len(files(machine)) == len(before) + 1
    said = inside.ok(*OWN, "disconnect", "claude-code")
    assert "operation 1 was interrupted, and is finished now" in said.err
    assert files(machine) == before
