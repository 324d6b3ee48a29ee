"""aider leaves everything in the user's project: it is read there, and nothing is ever changed. The
project was recorded with aider 0.86.2: three runs, one of them resumed, and one that was killed."""

from __future__ import annotations

import tarfile
from datetime import datetime
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import SchemaError
from holdfast.homes.agents import aider
from holdfast.model.session import Tokens
from tests.contract.agent_homes import NOW
from tests.contract.factory import Look, files_and_rows
from tests.unit.test_agent_table import cells

_RECORDED = Path(__file__).parents[1] / "data" / "homes" / "aider.tar.xz"
_WHOLE = "20261116_043249"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    with tarfile.open(_RECORDED) as tar:
        tar.extractall(place, filter="tar")
    (place / "large.bin").write_bytes(bytes(1_000_000))
    return place


def opened(project: Path) -> holdfast.Home:
    return holdfast.open(project, clock=lambda: NOW)


def look(project: Path) -> Look:
    """Everything in the project: Holdfast leaves nothing there."""
    return files_and_rows(project)


def test_chats_are_listed_shown_and_found(project: Path) -> None:
    before = look(project)
    with opened(project) as home:
        found = {each.id: each for each in home.sessions.find()}
        assert len(found) == 4
        whole = found[_WHOLE]
        assert whole.cwd == str(project)
        assert whole.model == "openai/lab-model"
        assert whole.title is not None
        assert whole.title.startswith("LAB_WRITE")
        assert whole.started_at == datetime.fromisoformat("2026-11-16 04:32:49").timestamp()
        asked, answered = home.sessions.messages(_WHOLE)
        assert (asked.role, answered.role) == ("user", "assistant")
        assert "made by the lab" in str(answered.content)
        assert answered.usage == Tokens(input=2_500, output=19)
        hits = {each.session.id for each in home.sessions.search("Noted")}
        assert hits == {"20261116_043225", "20261116_043315"}
    assert {
        name: seen for name, seen in files_and_rows(project).items() if "holdfast" not in name
    } == before
    assert not (project / ".holdfast").exists(), "the user's repository would show it"


def test_what_a_chat_cost_is_what_aider_wrote_below_the_answer(tmp_path: Path) -> None:
    """Written by aider 0.86.2, with a model whose price it knows."""
    (tmp_path / ".aider.chat.history.md").write_text(
        """
# aider chat started at 2026-11-16 07:53:41

> Aider v0.86.2
> Main model: openai/gpt-4o with diff edit format
> Weak model: gpt-4o-mini
> Git repo: .git with 0 files

#### And again

Noted. This is all that there is to say.

> Tokens: 2.4k sent, 12 received. Cost: $0.0061 message, $0.0061 session.
""".replace("\n", "  \n").replace("  \n# ", "\n# ")
    )
    with opened(tmp_path) as home:
        [chat] = home.sessions.find()
        assert (chat.model, chat.title, chat.cost) == ("openai/gpt-4o", "And again", 0.0061)
        assert chat.tokens == Tokens(input=2_400, output=12)
        assert not chat.relation
    row = cells()["aider"]
    said = [row[name] for name in ("subagents", "title", "model", "tokens", "cost")]
    assert said == ["no", "yes", "yes", "yes", "yes"]


def test_only_what_aider_left_is_counted(project: Path) -> None:
    with opened(project) as home:
        inventory = home.status().inventory
    assert [each.source for each in inventory.items] == ["tags-cache"]
    assert 30_000 < inventory.total_bytes < 900_000


def test_nothing_leaves(project: Path) -> None:
    before = look(project)
    with opened(project) as home:
        assert "only aider writes" in home.scan().problems[0].reason
        for refused in (home.plan_delete, home.plan_archive):
            with pytest.raises(SchemaError, match="only aider writes"):
                refused([_WHOLE])
        plan = home.plan_prune(older_than="1d")
        assert not plan.removals
        assert len(home.sessions.find()) == 4
    assert look(project) == before


def test_a_leftover_is_shown_and_stays(project: Path) -> None:
    (project / ".aider.holdfast").mkdir()
    config = "[sessions]\nleftovers_retention_days = 1\n"
    (project / ".aider.holdfast" / "config.toml").write_text(config)
    with opened(project) as home:
        plan = home.plan_prune()
        assert [each.source for each in plan.removals] == ["tags-cache"]
        with pytest.raises(SchemaError, match="only aider writes"):
            plan.apply()
    assert (project / ".aider.tags.cache.v4" / "cache.db").exists()


def test_chats_are_imported_from_the_file_alone(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "saved.md"
    (project / ".aider.chat.history.md").rename(elsewhere)
    told = aider.Aider().transcripts(elsewhere)
    assert told is not None
    assert [len(list(each.messages)) for each in told] == [2, 2, 2, 0]
    (tmp_path / "notes.md").write_text("# Notes\n")
    assert aider.Aider().transcripts(tmp_path / "notes.md") is None


def test_two_chats_of_one_second_and_a_torn_end(tmp_path: Path) -> None:
    begun = "\n# aider chat started at 2026-11-16 04:32:25\n\n#### one\n#### two\n\nyes\n\n"
    text = begun + begun.replace("yes", "no") + "\n# aider chat started at 2026-11-1"
    (tmp_path / ".aider.chat.history.md").write_text(text)
    with opened(tmp_path) as home:
        found = {each.id: list(home.sessions.messages(each.id)) for each in home.sessions.find()}
    assert found.keys() == {"20261116_043225", "20261116_043225_2"}
    assert [str(each.content) for each in found["20261116_043225"]] == ["one\ntwo", "yes"]
    assert [str(each.content) for each in found["20261116_043225_2"]] == ["one\ntwo", "no"]
