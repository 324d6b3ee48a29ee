"""What formats of agents share: their facts are those of the table, and a trace may stay behind."""

from __future__ import annotations

from pathlib import Path

from holdfast.homes.agents.agent_format import facts_of, trace
from holdfast.homes.agents.known import AGENTS
from holdfast.model.part import Role


def test_facts_are_those_of_the_table() -> None:
    for kind in AGENTS:
        facts = facts_of(kind.name, processes=("one",))
        place = (kind.name, kind.agent, kind.default_folder, kind.environment)
        assert (facts.name, facts.agent, facts.folder, facts.environment) == place
        assert facts.processes == ("one",)


def test_a_trace_never_keeps_a_session_from_leaving() -> None:
    entry = trace(Path("/home/history.jsonl"), "aa01", at=("entries",), key="id", lines=True)
    assert entry.role is Role.TRACE
    assert (entry.value, entry.at, entry.key, entry.lines) == ("aa01", ("entries",), "id", True)
