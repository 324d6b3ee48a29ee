"""The example agent, run as a reader would run it, and the page around it."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.api.capture import open_recorder
from holdfast.api.sessions import open_sessions
from holdfast.model.session import SessionFilter

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/agent_loop.py"
PAGE = ROOT / "docs/how-to/embed.md"
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_example_runs_and_is_short(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert [line for line in done.stdout.splitlines() if "ended (" in line] == [
        "  ended (done) after 2,940 tokens",
        "  ended (stuck) after 4,680 tokens",
        "  ended (budget: tokens) after 20,800 tokens",
    ]
    assert "Traceback" not in done.stderr
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 100


def test_the_example_keeps_what_it_did(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    notes = project / "notes.txt"
    notes.write_text("Buy bread.\n")
    names: dict[str, Any] = runpy.run_path(str(EXAMPLE))
    session = names["work"](home, project, names["careful"](), "Put milk on my list.")
    assert notes.read_text() == "Buy milk.\n"
    recorder = open_recorder(home, user_home=tmp_path / "nobody")
    [checkpoint] = recorder.store.list(project)
    assert checkpoint.session == session.id
    recorder.store.restore(checkpoint.id, checkpoint.id, now=1_800_000_000.0)
    with open_sessions(home) as sessions:
        assert [each.role for each in sessions.messages(session.id)] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant",
        ]
        stuck = names["work"](home, project, names["stubborn"](), "Find it.")
        advised = [str(each.content) for each in sessions.messages(stuck.id) if each.role == "tool"]
        assert len(advised) == 9
        assert "Stop here" in advised[-1]
        assert len(sessions.find(SessionFilter(ended=True))) == 2


def test_the_page_on_embedding_an_agent_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks go on from each other."""
    monkeypatch.chdir(tmp_path)
    blocks = _PYTHON.findall(PAGE.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), names)  # noqa: S102 - our own page
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("budget: iterations")
    assert names["advice"].level is holdfast.Level.NUDGE
