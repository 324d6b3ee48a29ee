"""The pages about agents say what really happens: every command in them runs here, on the recorded
homes, and prints what the page shows. tests/cli/console_blocks.py says how a page is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli import console_blocks, scenes
from tests.cli.page_shell import ROOT


@pytest.fixture(scope="module", autouse=True)
def _shells() -> Iterator[None]:
    yield
    scenes.close()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.deep if number else ())
        for number, page in enumerate(scenes.AGENT_PAGES)
    ],
)
def test_the_page_of_an_agent(page: str) -> None:
    commands = list(console_blocks.steps((ROOT / page).read_text(encoding="utf-8")))
    assert len(commands) > 5
    found = scenes.differences(ROOT / page)
    assert not found, scenes.told(found)
