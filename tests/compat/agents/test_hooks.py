"""Holdfast in the loop of the real agents: a checkpoint before each tool, exact rollback, budgets
that hold, and files that are as they were afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.api.hook_check import examine_hooks
from holdfast.connect import settings_entries
from holdfast.hooks import client
from holdfast.value import replace
from tests.compat.agents.connected import RUN, Connected, tree_of
from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.lab import Claude, Codex, Gemini, Lab, OpenCode
from tests.compat.agents.model_server import serving

pytestmark = pytest.mark.deep

_STEPS = (
    "mkdir empty && echo one > one.txt && chmod 600 one.txt",
    "echo two >> one.txt && printf x > 'a name'",
    "rm README.md && ln -s one.txt link",
    "rmdir empty && chmod 755 one.txt",
)


@pytest.fixture(params=(Claude, Codex, Gemini, OpenCode), ids=lambda each: each.name)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    with serving() as model:
        try:
            made: Lab = request.param(tmp_path.resolve() / "place", model)
        except NotInstallableError as error:
            pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
        made.set_up()
        yield made


def test_each_tool_has_its_checkpoint_and_comes_back_exactly(lab: Lab) -> None:
    connected = Connected(lab)
    try:
        connected.connect()
        replica = lab.place / "replica"
        shutil.copytree(lab.project, replica, symlinks=True)
        expected = []
        for step in _STEPS:
            expected.append(tree_of(replica))
            subprocess.run(["sh", "-c", step], cwd=replica, check=True)
        before_write = tree_of(replica)
        prompt = [*(connected.shell(each) for each in _STEPS), connected.write("made.txt", "made")]
        connected.say("Do this:\n" + "\n".join(prompt))
        calls = connected.calls()
        assert len(calls) == len(prompt)
        assert all(call.checkpoint and call.turn and not call.missed for call in calls), calls
        assert len({call.turn for call in calls}) == 1
        with holdfast.open(connected.home) as home:
            for call, tree in zip(calls, [*expected, before_write], strict=True):
                home.checkpoints.restore(call.checkpoint)
                assert tree_of(lab.project) == tree, call
            [session] = {each.session for each in home.checkpoints.list() if each.turn}
            assert session is not None
        git = subprocess.run(
            ["git", "-C", str(lab.project), "for-each-ref", "--format=%(refname)"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert all(ref.startswith("refs/heads/") for ref in git.stdout.split())
    finally:
        connected.close()


def test_over_budget_no_further_tool_runs(lab: Lab) -> None:
    connected = Connected(lab, "[guard]\nmax_iterations = 2\n")
    try:
        connected.connect()
        prompt = [connected.shell(f"touch ran-{number}") for number in range(6)]
        said = connected.say("Do this:\n" + "\n".join(prompt), check=False)
        ran = sorted(path.name for path in lab.project.glob("ran-*"))
        assert ran == ["ran-0", "ran-1"]
        # `claude -p` prints nothing at all when a hook ends its run; its screen says why.
        assert ("the budget of 2 iterations is used up" in said) == (lab.name != "claude-code")
        # The run ends with the third question, except that Codex lets no hook end it.
        asked = [each for each in lab.model.heard if json.loads(each).get("tools")]
        assert len(asked) == (7 if lab.name == "codex" else 3)
        connected.say("And this:\n" + connected.shell("touch ran-later"), check=False)
        # Another session has a budget of its own.
        assert (lab.project / "ran-later").exists()
    finally:
        connected.close()


def test_the_user_of_opencode_sees_why_it_stopped(tmp_path: Path) -> None:
    """OpenCode itself says "Aborted", and to the next prompt "Unexpected server error"."""
    with serving() as model:
        try:
            lab = OpenCode(tmp_path.resolve() / "place", model)
        except NotInstallableError as error:
            pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
        lab.set_up()
        connected = Connected(lab, "[hooks]\nhelper = false\n[guard]\nmax_iterations = 1\n")
        try:
            connected.connect()
            calls = " ".join(connected.shell(f"touch ran-{number}") for number in range(2))
            assert "the budget of 1 iterations is used up" in connected.say(calls, check=False)
            [session] = lab.listed()
            for opened, prompt in (((), calls), (lab.showing(session), "go on")):
                screen = lab.terminal(*opened)
                try:
                    screen.wait(lambda drawn: "ctrl+p" in drawn)
                    screen.settled()
                    screen.type(prompt)
                    screen.wait(lambda drawn: "no further tool runs" in drawn)
                finally:
                    screen.close()
        finally:
            connected.close()


def test_what_cannot_be_decided_is_told_where_the_agent_shows_it(lab: Lab) -> None:
    """In plain text two of them show it nowhere; on the screen all do."""
    connected = Connected(lab, "[hooks]\nhelper = false\n[guard]\nmax_cost = 1\n")
    try:
        connected.connect()
        steps = [connected.shell(f"touch ran-{number}") for number in range(3)]
        said = connected.say("Do this:\n" + "\n".join(steps))
        assert len(list(lab.project.glob("ran-*"))) == len(steps)
        assert said.count("no price for") == (lab.name in ("gemini", "opencode")), said
        if lab.name in ("claude-code", "codex"):
            flag = RUN[lab.name][-1]
            screen = lab.terminal(flag, " ".join(steps))
            try:
                screen.wait(lambda drawn: "no price for" in drawn)
            finally:
                screen.close()
    finally:
        connected.close()


@pytest.mark.parametrize("how", ["allow", "block"])
def test_a_hook_that_hangs_is_for_the_user_to_decide(
    how: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every agent runs the tool when it has waited in vain. Ours gives up before."""
    package = lab.place / "slow" / "holdfast"
    hooks = Path(client.__file__).parent
    shutil.copytree(hooks, package / "hooks")
    for path in hooks.parent.iterdir():
        if path.name not in ("hooks", "__pycache__"):
            (package / path.name).symlink_to(path)
    for name, old, new in (
        ("client.py", "LIMIT = 100", "LIMIT = 2"),
        ("client.pl", "$limit = 100", "$limit = 2"),
        ("serve.py", "event = parsed", "__import__('time').sleep(60); event = parsed"),
    ):
        file = package / "hooks" / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
    monkeypatch.setattr(settings_entries, "_CLIENTS", package / "hooks")
    connected = Connected(lab, f'[hooks]\nhelper = false\non_failure = "{how}"\n')
    try:
        connected.connect()
        connected.say("Do this:\n" + connected.shell("touch ran"), check=False)
        assert (lab.project / "ran").exists() == (how == "allow")
    finally:
        connected.close()


def test_advice_reaches_the_model_where_the_agent_lets_it(lab: Lab) -> None:
    connected = Connected(lab)
    try:
        connected.connect()
        connected.say("Do this:\n" + "\n".join([connected.shell("true")] * 4))
        written = (path.read_text(errors="replace") for path in lab.user.rglob("*.jsonl"))
        told = any("times in a row with the same arguments" in text for text in written)
        assert told == (lab.name in ("claude-code", "codex"))
    finally:
        connected.close()


def test_a_budget_of_tokens_comes_from_the_agents_own_records(lab: Lab) -> None:
    connected = Connected(lab, "[guard]\ndaily_tokens = 400\n")
    try:
        connected.connect()
        prompt = [connected.shell(f"touch ran-{number}") for number in range(12)]
        connected.say("Do this:\n" + "\n".join(prompt), check=False)
        ran = sorted(lab.project.glob("ran-*"))
        assert 1 <= len(ran) <= 5, ran  # an answer uses 112 tokens
        # The day is over for every session: not even the first tool runs.
        connected.say("And this:\n" + connected.shell("touch ran-later"), check=False)
        assert not (lab.project / "ran-later").exists()
    finally:
        connected.close()


def test_doctor_tries_the_hook_and_asks_the_agent(lab: Lab) -> None:
    connected = Connected(lab)
    try:
        connected.connect()
        path = f"{lab.program.parent}:{os.environ['PATH']}"
        environ = {**lab.environment, "PATH": path}
        setup = replace(connected.setup(), environ=environ)
        found = examine_hooks(setup, time.time())
        assert [(each.problem, len(each.tried)) for each in found] == [("", 5)], found
        if lab.name == "codex":
            config = lab.home / "config.toml"
            config.write_text(
                config.read_text().replace('trusted_hash = "sha256:', 'trusted_hash = "sha256:0')
            )
            [again] = examine_hooks(setup, time.time())
            assert "Codex says that it is" in again.problem
    finally:
        connected.close()


def test_disconnecting_leaves_the_files_as_they_were(lab: Lab) -> None:
    connected = Connected(lab)
    try:
        before = _settings(lab)
        connected.connect()
        assert _settings(lab) != before
        connected.connect()  # again changes nothing
        connected.disconnect()
        assert _settings(lab) == before
        connected.say("Do this:\n" + connected.shell("touch ran"))
        assert connected.calls() == []
    finally:
        connected.close()


def _settings(lab: Lab) -> dict[str, bytes]:
    wanted = ("*.json", "*.toml", "*.js")
    return {
        str(path): path.read_bytes()
        for pattern in wanted
        for path in lab.user.glob(f"**/{pattern}")
        if "node_modules" not in path.parts and path.name != ".claude.json"
    }
