"""`holdfast mcp` in the real agents: registered as the page says, and its tools called."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Message
from tests.compat.agents.connected import RUN
from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.lab import FOUR, Lab
from tests.compat.agents.model_server import serving

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
pytestmark = pytest.mark.deep

_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "mcp.md"
#: How each agent calls a tool of a server.
_PREFIX = {
    "claude-code": "mcp__holdfast__",
    "codex": "",
    "gemini": "mcp_holdfast_",
    "opencode": "holdfast_",
}
_TOOLS = ("search_sessions", "list_checkpoints", "restore_checkpoint")


@pytest.fixture(params=FOUR, ids=lambda each: each.name)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    with serving() as model:
        try:
            made: Lab = request.param(tmp_path.resolve() / "place", model)
        except NotInstallableError as error:
            pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
        made.set_up()
        yield made
        made.close()


def _environment(lab: Lab) -> dict[str, str]:
    """With our command on the path, as after an installation."""
    path = f"{Path(sys.executable).parent}:{lab.environment['PATH']}"
    return {**lab.environment, "PATH": path}


def _run(lab: Lab, *words: str) -> str:
    done = subprocess.run(
        words,
        cwd=lab.project,
        env=_environment(lab),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=lab.patience,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def _register(lab: Lab) -> None:
    """Word for word as the page has it."""
    page = _PAGE.read_text()
    if lab.name == "opencode":
        block = page.partition("```json\n")[2].partition("```")[0]
        path = lab.user / ".config" / "opencode" / "opencode.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **json.loads(block)}))
        return
    [line] = [each for each in page.splitlines() if each.startswith(f"{lab.command} mcp add")]
    _run(lab, str(lab.program), *shlex.split(line, comments=True)[1:])
    if lab.name == "codex":
        assert "required = true" in page
        with (lab.home / "config.toml").open("a") as config:  # the server is its last table
            config.write("required = true\n")


def _heard(lab: Lab, words: str) -> bool:
    """Whether the model got an answer with these words."""
    return any(words in each.decode(errors="replace") for each in lab.model.heard)


@pytest.mark.parametrize("changes", ["refuse", "ask", "allow"])
def test_a_model_looks_up_what_was_said_and_changes_what_it_may(changes: str, lab: Lab) -> None:
    home = lab.user / ".holdfast"
    with holdfast.open(home, create=True) as opened:
        (home / "config.toml").write_text(f'[mcp]\nchanges = "{changes}"\n')
        session = opened.sessions.create(source="cli", title="Animals")
        opened.sessions.append(session, Message(role="user", content="the quagga ran in herds"))
        opened.sessions.end(session, "done")
        taken = opened.checkpoints.take(lab.project, reason="before the test").id
    assert taken is not None
    readme = lab.project / "README.md"
    readme.write_text("changed\n")
    _register(lab)
    given = {
        "search_sessions": {"query": "quagga"},
        "list_checkpoints": {"directory": str(lab.project)},
        "restore_checkpoint": {"checkpoint": taken},
    }
    names = {each: f"{_PREFIX[lab.name]}{each}" for each in _TOOLS}
    calls = [f"CALL {names[each]} {json.dumps(given[each])}" for each in _TOOLS]
    if lab.name == "claude-code":  # it shows the tools of servers to who asks for them
        wanted = {"query": f"select:{','.join(names.values())}", "max_results": len(names)}
        calls.insert(0, f"CALL ToolSearch {json.dumps(wanted)}")
    said = _run(lab, str(lab.program), *RUN[lab.name], "Do this:\n" + "\n".join(calls))
    assert _heard(lab, "ran in herds"), said
    assert _heard(lab, "before the test"), said
    words = {"refuse": "refuses changes through MCP", "allow": "safety_checkpoint"}
    # Nobody sits there to be asked: an agent says so, or says no.
    nobody = ("cannot ask its user", "The user declined")
    answers = (words[changes],) if changes in words else nobody
    assert any(_heard(lab, each) for each in answers), (said, lab.model.heard[-1])
    restored = readme.read_text() == "# A project\n"
    assert restored == (changes == "allow"), said
