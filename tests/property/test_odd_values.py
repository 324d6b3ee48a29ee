"""Numbers beyond 64 bits and texts that no UTF-8 has, given to every call of the session store:
stored, found, or refused with an error of ours. Nothing else comes out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast import AgentSessions, HoldfastError, Message, SessionFilter, Tokens
from holdfast.api.sessions import open_sessions

_EDGES = (0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400)
WHOLE = st.sampled_from(_EDGES) | st.integers()
NUMBERS = WHOLE | st.floats()
TEXTS = st.text(alphabet=st.characters() | st.sampled_from("\ud800\udfff\udcff\0"), max_size=6)
_LISTS = {"ids", "not_ids", "sources", "not_sources", "end_reasons", "relations"}
_TEXT_FIELDS = (
    "id_prefix",
    "title",
    "title_is",
    "cwd",
    "model",
    "routing_key",
    "parent_id",
)
_FLAGS = {"roots", "ended", "pinned", "titled"}
_BOUNDS = [
    each.name
    for each in fields(SessionFilter)
    if each.name not in {*_LISTS, *_TEXT_FIELDS, *_FLAGS}
]

FILTERS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(_BOUNDS, NUMBERS),
        **dict.fromkeys(_TEXT_FIELDS, TEXTS),
        **{name: st.tuples(TEXTS) for name in _LISTS},
    },
)
MESSAGES = st.fixed_dictionaries(
    {"role": TEXTS, "content": TEXTS | st.dictionaries(TEXTS, WHOLE, max_size=2)},
    optional={
        "tool_name": TEXTS,
        "tool_call_id": TEXTS,
        "reasoning": TEXTS,
        "timestamp": NUMBERS,
        "cost": NUMBERS,
        "tokens": WHOLE | st.builds(Tokens, input=WHOLE, output=WHOLE, cached=WHOLE),
    },
)


@contextlib.contextmanager
def opened() -> Iterator[AgentSessions]:
    with TemporaryDirectory() as folder, open_sessions(Path(folder, "home")) as sessions:
        yield sessions


@given(st.lists(st.tuples(FILTERS, WHOLE, WHOLE, TEXTS), min_size=1, max_size=4))
def test_whatever_is_asked_for(asked: list[tuple[dict[str, Any], int, int, str]]) -> None:
    with opened() as sessions:
        made = sessions.create(source="cli", title="t")
        for each, limit, offset, text in asked:
            calls = (
                lambda w=each, n=limit, o=offset: sessions.find(
                    SessionFilter(**w), limit=n, offset=o
                ),
                lambda n=limit, o=offset: sessions.search("t", limit=n, offset=o),
                lambda t=text: sessions.search(t),
                lambda n=limit, o=offset: list(sessions.messages(made.id, limit=n, after=o)),
                lambda n=limit, o=offset: list(sessions.messages(made.id, last=n, before=o)),
                lambda n=limit: sessions.take_back(made.id, n),
                lambda t=text: sessions.update(made.id, model=t, cwd=t, extra={t: t}),
                lambda w=each: sessions.count(**w),
                lambda t=text: sessions.get(t),
                lambda t=text: sessions.rename(made.id, t),
            )
            for call in calls:
                with contextlib.suppress(HoldfastError):
                    call()


@given(st.lists(MESSAGES, min_size=1, max_size=4))
def test_a_message_is_kept_whole_or_refused(said: list[dict[str, Any]]) -> None:
    with opened() as sessions:
        made = sessions.create(source="cli")
        kept = []
        for each in said:
            with contextlib.suppress(HoldfastError):
                sessions.append(made.id, Message(**each))
                kept.append(each)
        stored = list(sessions.messages(made.id))
        assert [each.content for each in stored] == [each["content"] for each in kept]
        assert [len(each.role) for each in stored] == [len(each["role"]) for each in kept]
        assert all("\ud800" not in each.role for each in stored)
        assert sessions.get(made.id).message_count == len(kept)


def test_a_limit_beyond_every_store_shows_everything() -> None:
    with opened() as sessions:
        made = sessions.create(source="cli", title="half \ud800")
        sessions.append(made.id, Message(role="user", content="a word"))
        assert [each.id for each in sessions.find(limit=2**70)] == [made.id]
        assert len(sessions.search("word", limit=2**70)) == 1
        assert not sessions.find(offset=2**70)
        assert not sessions.search("word", offset=2**70)
        assert sessions.find(SessionFilter(min_tokens=2**70)) == []
        assert len(sessions.find(SessionFilter(max_tokens=2**70, title="half \ud800"))) == 1
