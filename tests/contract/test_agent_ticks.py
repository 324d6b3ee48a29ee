"""Each tick in the table of agents is what the format gives on its recorded home, or on that home
with one thing more."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

import holdfast
from tests.contract.agent_extras import EXTRAS
from tests.contract.agent_homes import NOW
from tests.contract.agents.home import AgentHome
from tests.contract.agents.recorded import RECORDED
from tests.unit.test_agent_table import cells

#: Footnotes of the page: for the session as a whole; not in the recorded home.
WHOLE, ADDED = "⁶", "⁹"


def given(root: Path) -> Mapping[str, str]:
    """What the format gives: `yes`, `yes ⁶` for the session as a whole, or `no`."""
    with holdfast.open(root, clock=lambda: NOW) as home:
        found = home.sessions.find()
        said = [each for one in found for each in home.sessions.messages(one.id)]
    names = {each.id for each in found}
    told = {
        "subagents": any(one.relation == "delegate" and one.parent_id in names for one in found),
        "title": any(one.title for one in found),
        "model": any(one.model for one in found),
        "tokens": any(one.tokens.total for one in found),
        "cost": any(one.cost for one in found),
    }
    whole = {
        "tokens": not any(each.usage.total for each in said),
        "cost": not any(each.cost for each in said),
    }
    return {
        name: (f"yes {WHOLE}" if whole.get(name) else "yes") if there else "no"
        for name, there in told.items()
    }


@pytest.mark.parametrize("agent", RECORDED, ids=lambda each: each.name)
def test_ticks_are_what_the_format_gives(agent: AgentHome, tmp_path: Path) -> None:
    """A tick with ⁹ is none on the recorded home, and one on the home to which it was added."""
    root = tmp_path / agent.folder
    root.parent.mkdir(parents=True, exist_ok=True)
    agent.make(root)
    recorded = given(root)
    added = {column: add for (name, column), add in EXTRAS.items() if name == agent.name}
    row = cells()[agent.name]
    assert added.keys() == {column for column in recorded if ADDED in row[column]}
    for column, seen in recorded.items():
        assert seen == ("no" if column in added else plain(row[column])), column
    for add in added.values():
        add(root)
    shutil.rmtree(root / ".holdfast", ignore_errors=True)  # what it remembers of the same rows
    more = given(root) if added else recorded
    assert more == {column: plain(row[column]) for column in recorded}


def plain(tick: str) -> str:
    """A tick without the footnotes that say nothing about what is recorded for whom."""
    word = tick.partition(" ")[0]
    return f"{word} {WHOLE}" if WHOLE in tick else word
