"""Search in a Hermes home against the model of search in our own: the same text, the same hits."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.homes.hermes.state_db.sessions import HermesSessionStore
from holdfast.model.session import Search
from tests.compat.hermes_sessions import database, recorded
from tests.property.test_search import DOCUMENTS, QUERIES, Model, words_of

SESSION = "20260101_101010_aaaaaa"
#: Letters of scripts without spaces, composed or not, with Latin letters and emoji among them.
LETTERS = (
    st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)
    | st.characters(min_codepoint=0x0E01, max_codepoint=0x0E4E, categories=["Lo", "Mn"])
    | st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3)
    | st.sampled_from(
        ["豈", "更", "が", "ガ", "か\u3099", "ᄒ\u1161\u11ab", "あ", "🦊", "a", "b", "1"]
    )
)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield recorded(Path(folder))


def fill(root: Path, texts: Sequence[str]) -> None:
    """Nothing but these messages, numbered from 1."""
    with database(root) as db:
        db.execute("DELETE FROM messages")
        db.executemany(
            "INSERT INTO messages (id, session_id, role, content, timestamp) "
            "VALUES (?, ?, 'user', ?, 1.0)",
            [(number, SESSION, text) for number, text in enumerate(texts, start=1)],
        )


def found(root: Path, text: str, *, substring: bool = False) -> set[int]:
    with contextlib.closing(HermesSessionStore(root / "state.db", root / ".holdfast")) as store:
        hits = store.search(Search(text=text, limit=1_000, substring=substring))
    numbers = [hit.message.number or 0 for hit in hits]
    assert len(numbers) == len(set(numbers))
    assert all(hit.snippet for hit in hits)
    return set(numbers)


@given(documents=DOCUMENTS, queries=st.lists(QUERIES, min_size=1, max_size=3))
@example(documents=["a 中b"], queries=[])
def test_queries_find_in_a_hermes_home_what_the_model_finds(
    root: Path, documents: list[str], queries: list[Model]
) -> None:
    fill(root, documents)
    for query in queries:
        expected = {
            number
            for number, text in enumerate(documents, start=1)
            if query.matches(words_of(text))
        }
        assert found(root, str(query)) == expected, (documents, str(query))


@given(letters=st.lists(LETTERS, min_size=2, max_size=12), data=st.data())
def test_every_part_of_unspaced_text_is_found(
    root: Path, letters: list[str], data: st.DataObject
) -> None:
    """In a query, and with --part. Only --part finds what begins or ends inside a Latin word."""
    start = data.draw(st.integers(0, len(letters) - 1))
    end = data.draw(st.integers(start + 1, len(letters)))
    text, part = "".join(letters), "".join(letters[start:end])
    fill(root, [f"{part} alone", f"so {text}, then", "nothing like that"])
    assert 1 in found(root, f'"{part}"')
    if not any(each.isascii() for each in part):
        assert {1, 2} <= found(root, f'"{part}"')
    if end - start > 1:
        assert {1, 2} <= found(root, part, substring=True)


def test_what_hermes_finds_is_found(root: Path) -> None:
    fill(root, ["我的记忆力很好", "记忆", "忆记"])
    assert found(root, "记忆") == {1, 2}


@pytest.mark.parametrize("text", ["用docker部署服务", "ใช้dockerครับ", "도docker로"])
def test_a_latin_word_between_unspaced_text_is_found(root: Path, text: str) -> None:
    fill(root, [text, "docker alone", "dockerfile"])
    assert found(root, "docker") == {1, 2}
    assert found(root, f"docker {text[0]}") == {1}
    assert found(root, f"docker -{text[0]}") == {2}


def test_text_inside_json_is_found_as_people_see_it(root: Path) -> None:
    """Hermes stores parts and tool calls as JSON, in which such text is escaped."""
    fill(
        root,
        [
            r'{"query": "\u8bb0\u5fc6\u529b"}',
            "\0json:" + r'[{"type":"text","text":"\u8bb0\u5fc6"}]',
        ],
    )
    assert found(root, "记忆") == {1, 2}


@pytest.mark.parametrize("substring", [False, True])
def test_brackets_of_the_text_are_no_matches(root: Path, substring: bool) -> None:
    fill(root, ["argv[0] is a list[int], the needle in [brackets]"])
    with contextlib.closing(HermesSessionStore(root / "state.db", root / ".holdfast")) as store:
        [hit] = store.search(Search(text="needle", limit=10, substring=substring))
    assert hit.snippet.rstrip() == "argv[0] is a list[int], the [needle] in [brackets]"
    assert [hit.snippet[start:end] for start, end in hit.matches] == ["needle"]
