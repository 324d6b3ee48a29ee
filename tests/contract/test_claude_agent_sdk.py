"""`holdfast.adapters.claude_agent_sdk`: the SDK's own contract suite for session stores, and what
Holdfast adds to it."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from claude_agent_sdk import (
    SessionKey,
    get_session_messages_from_store,
    list_sessions_from_store,
)
from claude_agent_sdk.testing import run_session_store_conformance

import holdfast
from holdfast.adapters.claude_agent_sdk import HoldfastSessionStore
from tests import postgres

_T = TypeVar("_T")
KEY: SessionKey = {"project_key": "-srv-site", "session_id": "6f0b0c9e-0000-4000-8000-000000000001"}


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Makes a store in a fresh home each time."""
    if request.param == "postgres" and postgres.programs() is None:
        pytest.skip("there is no PostgreSQL here")
    numbers, made = itertools.count(), []

    def fresh() -> HoldfastSessionStore:
        home = tmp_path / f"home-{next(numbers)}"
        if request.param == "postgres":
            home.mkdir()
            holdfast.open(home, create=True).close()
            (home / "config.toml").write_text(f'[store]\nurl = "{postgres.a_database()}"\n')
        made.append(HoldfastSessionStore(home))
        return made[-1]

    yield fresh
    for each in made:
        each._worker.submit(each._close).result()
        each._worker.shutdown()


def run(call: Awaitable[_T]) -> _T:
    async def main() -> _T:
        return await call

    return asyncio.run(main())


def test_the_contract_of_the_sdk(make: Callable[[], HoldfastSessionStore]) -> None:
    run(run_session_store_conformance(make))


def _line(number: int, kind: str, content: Any, **more: Any) -> Any:
    return {
        "type": kind,
        "uuid": f"line-{number}",
        "parentUuid": None,
        "timestamp": f"2026-11-16T10:00:{number:02}.000Z",
        "cwd": "/srv/site",
        "sessionId": KEY["session_id"],
        "message": {"role": kind, "content": content, **more},
    }


USAGE = {"input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 3}
TALK = [
    _line(1, "user", "Where is the walnut?"),
    _line(2, "assistant", [{"type": "text", "text": "On the"}], id="m1", usage=USAGE),
    _line(3, "assistant", [{"type": "text", "text": "shelf."}], id="m1", usage=USAGE),
    {"type": "custom-title", "customTitle": "Walnuts", "n": 1.5, "none": None},
]


def test_a_transcript_is_a_session_like_every_other(
    make: Callable[[], HoldfastSessionStore],
) -> None:
    store = make()

    async def talk() -> tuple[Any, Any, Any]:
        await store.append(KEY, TALK[:2])
        await store.append(KEY, TALK[1:])  # the second line again: a retried batch
        sub: SessionKey = {**KEY, "subpath": "subagents/agent-1"}
        await store.append(sub, [_line(9, "user", "look")])
        listed = await list_sessions_from_store(store, directory="/srv/site")
        said = await get_session_messages_from_store(
            store, KEY["session_id"], directory="/srv/site"
        )
        return await store.load(KEY), listed, said

    loaded, listed, said = run(talk())
    assert loaded == TALK
    assert [(each.session_id, each.custom_title) for each in listed] == [
        (KEY["session_id"], "Walnuts")
    ]
    assert len(said) >= 2
    _, sessions = store._worker.submit(store._home).result()

    def look() -> None:
        [found] = sessions.find(id_prefix=KEY["session_id"], roots=True)
        assert (found.title, found.cwd, found.source) == (
            "Walnuts",
            "/srv/site",
            "claude-agent-sdk",
        )
        assert [hit.session.id for hit in sessions.search("walnut")] == [found.id]
        # The usage of a message that was written block by block counts once.
        assert (found.tokens.input, found.tokens.output) == (7, 3)
        assert [each.relation for each in sessions.children(found.id)] == ["delegate"]

    store._worker.submit(look).result()


def test_what_the_sdk_deletes_can_be_undone_and_what_is_archived_comes_back(tmp_path: Path) -> None:
    store = HoldfastSessionStore(tmp_path / "home")

    async def delete() -> Any:
        await store.append(KEY, TALK)
        await store.delete(KEY)
        gone = await store.load(KEY)
        await store.aclose()
        return gone

    assert run(delete()) is None
    with holdfast.open(tmp_path / "home") as home:
        home.undo(home.log.list()[0])
        [found] = home.sessions.find()
        home.archive_sessions(found.id)
        assert home.sessions.find() == []
    again = HoldfastSessionStore(tmp_path / "home")

    async def load() -> Any:
        found = await again.load(KEY)
        await again.append(KEY, [_line(5, "user", "Go on")])
        return found, await again.load(KEY)

    first, second = run(load())
    assert first == TALK
    assert second == [*TALK, _line(5, "user", "Go on")]
    run(again.aclose())


def test_a_long_transcript_stays_one_session(tmp_path: Path) -> None:
    store = HoldfastSessionStore(tmp_path / "home")
    lines = [_line(0, "user", "x") | {"uuid": f"u{number}"} for number in range(1_500)]

    async def talk() -> Any:
        for start in range(0, len(lines), 500):
            await store.append(KEY, lines[start : start + 500])
        return await store.load(KEY)

    assert run(talk()) == lines
    run(store.aclose())


def test_the_sdk_is_not_loaded_by_us() -> None:
    code = (
        "import sys, holdfast.adapters.claude_agent_sdk;"
        "sys.exit(any(name.split('.')[0] == 'claude_agent_sdk' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
