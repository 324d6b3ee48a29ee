"""The page on agents has a row for each, says where it is found, and names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.homes.agents.known import AGENTS
from tests.contract.agents.recorded import RECORDED

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "reference" / "agents.md"


def _rows() -> dict[str, list[str]]:
    """The cells of the first table, by the name of the agent."""
    text = _PAGE.read_text().partition("## What works")[0]
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[1].strip("`"): row for row in cells[1:]}


def cells() -> dict[str, dict[str, str]]:
    """The same by the names of the columns."""
    text = _PAGE.read_text().partition("## What works")[0]
    head = next(line for line in text.splitlines() if line.startswith("| agent "))
    names = head.strip("| ").split(" | ")
    return {agent: dict(zip(names, row, strict=True)) for agent, row in _rows().items()}


def test_every_agent_has_a_row_that_says_where_it_is() -> None:
    rows = _rows()
    assert rows.keys() == {kind.name for kind in AGENTS}
    for kind in AGENTS:
        people, _, place, elsewhere, *_ = rows[kind.name]
        assert kind.agent in people
        assert place == f"`~/{kind.default_folder}`"
        assert elsewhere == f"`{kind.environment or '--home'}`"


def test_every_agent_has_a_recorded_home() -> None:
    """aider's is a project, and can only be read: see tests/contract/test_aider.py."""
    assert {*(each.name for each in RECORDED), "aider"} == {kind.name for kind in AGENTS}


def test_what_can_be_imported_alone_is_what_the_page_says() -> None:
    rows = _rows()
    for each in RECORDED:
        alone = each.alone and bool(each.file)
        assert rows[each.name][-1].startswith("no") is not alone, each.name


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", _PAGE.read_text()))
    assert len(named) > 10
    source = (_ROOT / "tests" / "cli" / "test_agent_homes.py").read_text()
    assert all(f"def {each}(" in source for each in named)
