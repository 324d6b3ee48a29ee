"""JSON has spaces wherever its writer likes: a transcript that a script wrote again says the same.
What nobody understands is not empty."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from holdfast.homes.agents.claude_code import ClaudeCode
from holdfast.homes.foreign.home import FormatHome
from holdfast.model.session import SessionFilter
from tests.contract.agent_homes import NOW, make_claude
from tests.contract.agents.home import AgentHome
from tests.contract.agents.recorded import RECORDED


def _write_again(root: Path) -> int:
    """Every JSON line below a folder with other spaces; gives how many there are."""
    number = 0
    for path in root.rglob("*.jsonl"):
        if ".holdfast" in path.parts:
            continue
        status, lines = path.stat(), path.read_bytes().splitlines(keepends=True)
        for index, line in enumerate(lines):
            try:
                said = json.loads(line)
            except ValueError:
                continue  # torn
            number += 1
            wide = " " + json.dumps(said, separators=(" ,\t", " :  ")) + " "
            lines[index] = (wide if index % 2 else json.dumps(said)).encode() + b"\n"
        path.write_bytes(b"".join(lines))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return number


def _told(root: Path) -> list[object]:
    with holdfast.open(root, clock=lambda: NOW) as home:
        planned = {each.id for each in home.plan_gc().removals}
        return [
            (*_listed(home, each.id), each.id in planned, [*home.sessions.messages(each.id)])
            for each in home.sessions.find()
        ]


def _listed(home: Home, name: str) -> tuple[object, ...]:
    each = home.sessions.get(name)
    counted = each.message_count, each.tool_call_count, each.tokens, each.cost
    return each.id, each.title, each.cwd, each.model, each.started_at, each.parent_id, *counted


@pytest.mark.parametrize(
    "agent",
    [each for each in RECORDED if each.file.endswith(".jsonl") or each.name == "vibe"],
    ids=lambda each: each.name,
)
def test_spaces_in_json_change_nothing(agent: AgentHome, tmp_path: Path) -> None:
    agent.make(tmp_path / "home")
    before = _told(tmp_path / "home")
    assert _write_again(tmp_path / "home")
    assert _told(tmp_path / "home") == before


def test_what_is_not_understood_is_not_empty(tmp_path: Path) -> None:
    strange, torn, empty = (f"{n}1111111-2222-4333-8444-555555555555" for n in "abc")
    make_claude(tmp_path / "home")
    folder = next((tmp_path / "home" / "projects").iterdir())
    said = {"type": "utterance", "sessionId": "a", "said": "in a way that nobody knows yet"}
    (folder / f"{strange}.jsonl").write_text(json.dumps(said) + "\n")
    (folder / f"{torn}.jsonl").write_bytes(b"\0" * 4096)
    (folder / f"{empty}.jsonl").touch()
    for name in (strange, torn, empty):
        os.utime(folder / f"{name}.jsonl", (0, 0))
    with holdfast.open(tmp_path / "home", clock=lambda: NOW) as home:
        plan = home.plan_gc()
        why = {each.id: (each.action.value, each.reason) for each in plan.items}
    kept = ("keep", "unreadable: none of its messages can be read")
    assert (why[strange], why[torn]) == (kept, kept)
    assert why[empty][0] == "remove"
    store = FormatHome(tmp_path / "home", ClaudeCode(), clock=lambda: NOW).session_store()
    assert store.weigh(SessionFilter(max_messages=0)).count == 1  # what `stats` says gc would take
