"""The Claude Agent SDK with the real Claude Code behind it, and its sessions in a Holdfast home: a
session that was begun on one machine goes on where only the store is known."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, list_sessions_from_store, query

import holdfast
from holdfast.adapters.claude_agent_sdk import HoldfastSessionStore
from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.lab import Claude
from tests.compat.agents.model_server import LINE, ModelServer, serving

pytestmark = pytest.mark.deep


def _lab(place: Path, model: ModelServer) -> Claude:
    try:
        made = Claude(place, model)
    except NotInstallableError as error:
        pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
    made.set_up()
    return made


async def _ask(lab: Claude, home: Path, prompt: str, resume: str | None = None) -> str:
    async with HoldfastSessionStore(home) as store:
        options = ClaudeAgentOptions(
            session_store=store,
            resume=resume,
            cli_path=lab.program,
            cwd=lab.project,
            env=dict(lab.environment),
            permission_mode="bypassPermissions",
        )
        async for message in query(prompt=prompt, options=options):
            if isinstance(message, ResultMessage):
                assert LINE in str(message.result)
                resume = message.session_id
        assert resume is not None
        listed = await list_sessions_from_store(store, directory=str(lab.project))
        assert resume in {each.session_id for each in listed}
    return resume


def test_a_session_of_the_sdk_goes_on_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    with serving() as model:
        one = _lab(tmp_path.resolve() / "one", model)
        monkeypatch.setenv("HOME", str(one.user))  # the SDK looks where Claude Code writes
        session = asyncio.run(_ask(one, home, "Tell me about apricots"))
        # Nothing of it is left but the store: what Claude Code wrote itself is gone.
        for path in one.home.glob(f"projects/*/{session}*"):
            path.unlink()
        model.heard.clear()
        assert asyncio.run(_ask(one, home, "Go on", resume=session)) == session
        assert b"apricots" in b"".join(model.heard)
    with holdfast.open(home) as opened:
        [found] = opened.sessions.find(id_prefix=session, roots=True)
        assert found.cwd == str(one.project)
        said = [str(each.content) for each in opened.sessions.messages(found.id)]
        assert sum(LINE in each for each in said) >= 2
        assert [each.session.id for each in opened.sessions.search("apricots")]
