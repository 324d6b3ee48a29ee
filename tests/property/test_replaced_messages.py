"""Whatever is said, taken back, edited and summed up: the conversation is what was asked for, and
totals, ledger and search agree with what is stored."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.session import (
    COMPACTED,
    TAKEN_BACK,
    Message,
    Search,
    Session,
    SessionChange,
    Tokens,
)
from holdfast.ports.sessions import SessionStore
from holdfast.stores.sessions import ledger as counted
from holdfast.stores.sqlite import ledger, totals
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.session_stores import a_store, kind_of, over_all
from tests.stored import usage_of

NOW = 1_800_000_000.0
WORDS = st.sampled_from(["zebra", "horse", "cat", "a" * 400])
MESSAGES = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    WORDS,
    tokens=st.none() | st.builds(Tokens, input=st.integers(0, 9), output=st.integers(0, 9)),
    cost=st.none() | st.sampled_from([0.0, 0.25, 1.0]),
)
#: What becomes of a conversation: by places in it, or as new messages.
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(MESSAGES, min_size=1, max_size=4)),
    st.tuples(
        st.sampled_from([TAKEN_BACK, COMPACTED]),
        st.lists(MESSAGES | st.integers(0, 9) | st.tuples(st.integers(0, 9), WORDS), max_size=5),
        st.integers(0, 6),
    ),
    st.tuples(st.just("model"), st.sampled_from(["a", "b", None])),
    st.tuples(st.just("index")),
)


def wanted(current: list[Message], picks: list[object]) -> list[Message]:
    """New messages, stored ones, and stored ones that were edited; each stored one once."""
    left = dict(enumerate(current))
    made: list[Message] = []
    for pick in picks:
        place = pick[0] if isinstance(pick, tuple) else pick
        if isinstance(pick, Message):
            made.append(pick)
        elif place in left:
            stored = left.pop(place)
            made.append(replace(stored, content=pick[1]) if isinstance(pick, tuple) else stored)
    return made


def shown(messages: list[Message]) -> list[tuple[str, object]]:
    return [(each.role, each.content) for each in messages]


@over_all
@given(steps=st.lists(STEPS, max_size=12))
def test_everything_agrees(kind: str, steps: list[tuple[object, ...]]) -> None:
    with a_store(kind) as store:
        store.create(Session(id="s", source="cli", started_at=NOW, last_active_at=NOW))
        versions = [store.get("s").version]
        used = Tokens()
        for step in steps:
            current = [each for each in store.messages("s") if not each.replaced]
            expected = list(current)
            match step:
                case ("append", list(new)):
                    store.append("s", new, now=NOW)
                    expected += new
                    for each in new:
                        used = used.plus(each.usage)
                case ("model", model):
                    store.update("s", SessionChange(model=model))  # type: ignore[arg-type]
                case ("index",):
                    kind_of(store).index(store)
                case (str(mark), list(picks), int(place)):
                    stay = current[:place]
                    new = wanted(current[place:], picks)
                    after = stay[-1].number or 0 if stay else 0
                    done = store.replace("s", new, after=after, mark=mark, now=NOW)
                    expected = [*stay, *new]
                    assert done.after == store.get("s")
                    for each in new:
                        if each.number is None:
                            used = used.plus(each.usage)
                    if done.replaced or len(new) > done.kept:
                        assert done.after.version not in versions
                case _:
                    raise AssertionError(step)
            versions.append(store.get("s").version)
            now = [each for each in store.messages("s") if not each.replaced]
            assert shown(now) == shown(expected)
            assert store.get("s").tokens == used
        assert usage_of(store).ever.usage.tokens == used
        check_search(store)
        check(store)


def check_search(store: SessionStore) -> None:
    """What was taken back is not found; all the rest is, replaced or not."""
    for word in ("zebra", "horse", "cat"):
        expected = {
            each.number
            for each in store.messages("s")
            if each.content == word and not each.taken_back
        }
        hits = store.search(Search(text=word, limit=1_000))
        assert {hit.message.number for hit in hits} == expected


def check(store: SessionStore) -> None:
    """What only a look inside can tell."""
    if not isinstance(store, SqliteSessionStore):
        return
    with store.database.write() as db:
        totals.tally(db, lambda _: None)
        assert totals.wrong(db) == (0, None)
        booked = counted.booked(ledger.stored(db))
        entries = {
            (each.day or "", each.source, each.model or ""): each.usage
            for each in ledger.entries(db)
        }
        assert {key: usage.tokens for key, usage in booked.items()} == {
            key: usage.tokens for key, usage in entries.items()
        }
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")
