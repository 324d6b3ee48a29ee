"""Random lives of a store beside a plain model: totals, lineage, routes and order agree."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from holdfast.errors import SessionEndedError
from holdfast.model.session import Json, Message, Relation, Session, SessionFilter, Tokens
from holdfast.ports.sessions import SessionStore
from tests import postgres
from tests.session_stores import KINDS

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
_tokens = (
    st.none()
    | st.integers(0, 10**6)
    | st.builds(
        Tokens, input=st.integers(0, 99), output=st.integers(0, 99), cached=st.integers(0, 99)
    )
)
_messages = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool"]),
    content=_json | st.text(min_size=250, max_size=400),
    timestamp=st.none() | st.floats(0, 2e9),
    tool_calls=st.none() | st.lists(st.just({"id": "x"}), max_size=3),
    tokens=_tokens,
    cost=st.none() | st.floats(0, 100),
    extra=st.dictionaries(st.text(max_size=5), _json, max_size=2),
)


@dataclass
class Expected:
    """What the store should know of a session."""

    parent: str | None = None
    ended: bool = False
    messages: list[Message] = field(default_factory=list)


class StoreMachine(RuleBasedStateMachine):
    sessions = Bundle("sessions")
    kind = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-model-"))
        shared = self.kind == "postgres"
        self.place = postgres.borrow() if shared else KINDS[self.kind].place(self.folder)
        self.store: SessionStore = KINDS[self.kind].open(self.place)
        self.model: dict[str, Expected] = {}
        self.routes: dict[str, str] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)
        if self.kind == "postgres":
            postgres.reuse(self.place)

    @rule(target=sessions)
    def create(self) -> str:
        session_id = f"s{len(self.model)}"
        self.store.create(Session(id=session_id, source="cli", started_at=0.0, last_active_at=0.0))
        self.model[session_id] = Expected()
        return session_id

    @rule(target=sessions, parent=sessions, relation=st.sampled_from(Relation))
    def descend(self, parent: str, relation: Relation) -> str:
        session_id = f"s{len(self.model)}"
        self.store.create(
            Session(
                id=session_id,
                source="cli",
                started_at=0.0,
                last_active_at=0.0,
                parent_id=parent,
                relation=relation,
            )
        )
        self.model[session_id] = Expected(parent=parent)
        return session_id

    @rule(session=sessions, messages=st.lists(_messages, max_size=4))
    def append(self, session: str, messages: list[Message]) -> None:
        expected = self.model[session]
        if expected.ended:
            with pytest.raises(SessionEndedError):
                self.store.append(session, messages, now=1.0)
            return
        self.store.append(session, messages, now=1.0)
        expected.messages += messages

    @rule(session=sessions)
    def end(self, session: str) -> None:
        self.store.end(session, "done", at=1.0)
        self.model[session].ended = True

    @rule(session=sessions)
    def reopen(self, session: str) -> None:
        self.store.reopen(session, at=1.0)
        self.model[session].ended = False

    @rule(session=sessions, key=st.sampled_from(["a", "b"]))
    def route(self, session: str, key: str) -> None:
        self.store.route(key, session)
        self.routes = {k: s for k, s in self.routes.items() if s != session}
        self.routes[key] = session

    @rule()
    def reopen_store(self) -> None:
        self.store.close()
        self.store = KINDS[self.kind].open(self.place)

    @invariant()
    def sessions_agree(self) -> None:
        found = {session.id: session for session in self.store.find(SessionFilter())}
        assert found.keys() == self.model.keys()
        for session_id, expected in self.model.items():
            self._agrees(found[session_id], expected)
        for key in ("a", "b"):
            routed = self.store.routed(key)
            assert (routed.id if routed else None) == self.routes.get(key)

    def _agrees(self, session: Session, expected: Expected) -> None:
        messages = expected.messages
        assert session.parent_id == expected.parent
        assert session.ended is expected.ended
        assert session.message_count == len(messages)
        assert session.tool_call_count == sum(message.tool_call_count for message in messages)
        usage = [message.usage for message in messages]
        assert session.tokens == Tokens(
            input=sum(each.input for each in usage),
            output=sum(each.output for each in usage),
            cached=sum(each.cached for each in usage),
        )
        assert session.cost == pytest.approx(sum(message.cost or 0.0 for message in messages))
        assert self._contents(session.id) == [message.content for message in messages]

    def _contents(self, session_id: str) -> list[Json]:
        return [message.content for message in self.store.messages(session_id)]


class SharedStoreMachine(StoreMachine):
    kind = "postgres"


TestStoreAgainstModel = StoreMachine.TestCase
TestStoreAgainstModel.settings = settings(max_examples=18, stateful_step_count=15, deadline=None)
TestSharedStoreAgainstModel = pytest.mark.deep(SharedStoreMachine.TestCase)
TestSharedStoreAgainstModel.settings = settings(
    max_examples=18, stateful_step_count=15, deadline=None
)
