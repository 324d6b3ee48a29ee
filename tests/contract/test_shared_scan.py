"""A reading command looks at the machine once. Whoever removes something looks again."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.homes.agents import claude_code
from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.foreign.shared_scan import once, one_look
from holdfast.model.item import SESSION
from holdfast.model.report import Result
from tests.contract.agent_homes import NOW
from tests.contract.factory import HOMES


def test_what_was_seen_is_seen_again_only_inside() -> None:
    looks: list[int] = []

    def look() -> int:
        looks.append(1)
        return len(looks)

    assert (once("x", look), once("x", look)) == (1, 2)
    with one_look():
        assert (once("x", look), once("x", look)) == (3, 3)
        with one_look():
            assert once("x", look) == 3
        assert once("y", look) == 4
    assert once("x", look) == 5


def test_processes_are_looked_at_once_for_all_homes_and_again_for_a_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claude_code, "TEMPORARY", tmp_path / "temporary")
    HOMES["claude-code"].make(tmp_path / ".claude")
    HOMES["gemini"].make(tmp_path / ".gemini")
    looks: list[int] = []
    running: list[tuple[int, list[str], str | None]] = []

    def processes() -> list[tuple[int, list[str], str | None]]:
        looks.append(1)
        return running

    monkeypatch.setattr(life, "_processes", processes)
    with holdfast.machine(user_home=tmp_path, environ={}, clock=lambda: NOW) as machine:
        assert len(machine.status().seen) == 2
        assert len(looks) == 1
        machine.list_sessions()
        assert len(looks) == 2
        home = machine.open(next(each for each in machine.homes if each.agent == "gemini"))
        plan = home.plan_prune(older_than="1d")
        assert plan.removals
        running.append((4711, ["gemini"], None))  # it starts between plan and removal
        done = {each.result for each in plan.apply().outcomes if each.kind == SESSION}
        assert done == {Result.SKIPPED}
