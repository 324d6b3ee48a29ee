"""Random lives of sessions beside a plain ledger: usage is counted once, and for ever."""

from __future__ import annotations

import io
import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.session import Message
from holdfast.ports.sessions import SessionStore
from holdfast.services.exchange.session_import import import_sessions
from tests.session_stores import a_store, kind_of, over_all_deep
from tests.stored import usage_of

NOW = 1_800_000_000.0
DAY = 86_400
Key = tuple[str, str, str]

_messages = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant"]),
            "timestamp": st.integers(0, 3).map(lambda days: NOW - days * DAY),
            "tokens": st.none() | st.integers(0, 99),
        }
    ),
    max_size=4,
)
_lines = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b", "c"]),
        "source": st.sampled_from(["cli", "cron"]),
        "model": st.none() | st.just("m"),
        "started_at": st.just(NOW),
        "messages": _messages,
    }
)
_steps = st.lists(
    st.tuples(st.sampled_from(["import", "replace", "append", "delete", "bring back"]), _lines),
    max_size=12,
)


class Model:
    """The sessions that are there, and what was used, by a rule a child could follow."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.gone: dict[str, dict[str, Any]] = {}
        self.used: Counter[Key] = Counter()

    def book(self, line: dict[str, Any], messages: list[dict[str, Any]], sign: int = 1) -> None:
        for message in messages:
            day = datetime.fromtimestamp(message["timestamp"], UTC).date().isoformat()
            key = day, line["source"], line["model"] or ""
            self.used[key] += sign * (message["tokens"] or 0)


def bring(store: SessionStore, line: dict[str, Any], **options: bool) -> None:
    importing = kind_of(store).importing(store, count_usage=options.get("count_usage", True))
    stream = io.BytesIO(json.dumps(line).encode())
    import_sessions(importing, stream, replace=options.get("replace", False), now=NOW)


def take(store: SessionStore, model: Model, step: str, line: dict[str, Any]) -> None:
    name = line["id"]
    known = model.there.get(name)
    if step in ("import", "replace"):
        bring(store, line, replace=step == "replace")
        if known is None or step == "replace":
            if known is not None:
                model.book(known, known["messages"], -1)
            model.book(line, line["messages"])
            model.there[name] = line
    elif step == "append" and known is not None:
        store.append(name, [Message(**message) for message in line["messages"]], now=NOW)
        model.book(known, line["messages"])
        model.there[name] = known | {"messages": known["messages"] + line["messages"]}
    elif step == "delete" and known is not None:
        kind_of(store).remove(store, name)
        model.gone[name] = model.there.pop(name)
    elif step == "bring back" and known is None and name in model.gone:
        bring(store, model.gone[name], count_usage=False)
        model.there[name] = model.gone.pop(name)


@over_all_deep
@given(steps=_steps)
def test_usage_is_counted_once_whatever_happens(
    kind: str, steps: list[tuple[str, dict[str, Any]]]
) -> None:
    model = Model()
    with a_store(kind) as store:
        for step, line in steps:
            take(store, model, step, line)
        found = {
            (each.day or "", each.source, each.model or ""): each.usage.tokens.total
            for each in store.usage_entries()
        }
        assert found == {key: tokens for key, tokens in model.used.items() if tokens}
        assert usage_of(store).ever.usage.tokens.total == model.used.total()
