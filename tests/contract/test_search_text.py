"""What is searched in a message, and how a match is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import resources

import pytest

from holdfast.model.session import Json, Message
from holdfast.stores.sessions import content
from holdfast.stores.sessions.searchable_text import (
    MATCH_ENDS,
    MATCH_STARTS,
    clean,
    message_text,
    search_text,
    spaced,
    unspaced,
)
from holdfast.stores.sessions.snippets import bracketed, marked, snippet
from holdfast.stores.sessions.tokenizer import TOKENIZER, folded, folded_places


def text_of(message: Message) -> str:
    row = content.encode(message)
    return search_text(row.form, row.body, row.fields)


def shown(text: str, *found: str) -> str:
    """The snippet of a text in which some words were found."""
    pattern = "|".join(map(re.escape, found))
    found_in = marked(text, (match.span() for match in re.finditer(pattern, text)))
    return bracketed(snippet(found_in))[0]


def test_the_small_index_has_the_rules_of_the_large_one() -> None:
    schema = resources.files("holdfast.stores.sqlite").joinpath("schema_1.sql").read_text("utf-8")
    assert f"tokenize = '{TOKENIZER}'" in schema


def test_text_parts_calls_and_reasoning_are_searched() -> None:
    message = Message(
        role="assistant",
        content=[{"type": "text", "text": "look"}, {"type": "image", "source": {"data": "AAAA"}}],
        tool_name="shell",
        tool_calls=[
            {"id": "call_1", "type": "function", "function": {"name": "run", "arguments": "ls"}}
        ],
        reasoning="because",
    )
    assert text_of(message).split() == ["look", "shell", "run", "ls", "because"]


@pytest.mark.parametrize("given", ['{"code": "a\\nreturn"}', {"code": "a\nreturn"}])
def test_the_input_of_a_tool_is_read_however_it_was_written(given: Json) -> None:
    message = Message(role="assistant", tool_calls=[{"function": {"arguments": given}}])
    assert re.findall(r"\w+", text_of(message))[-2:] == ["a", "return"]


def test_every_value_in_the_input_of_a_tool_is_text() -> None:
    message = Message(role="assistant", tool_calls=[{"id": "call_1", "input": {"id": "PROJ-12"}}])
    assert text_of(message) == "PROJ-12"


def test_escapes_in_json_are_read_as_what_they_mean() -> None:
    json_text = '{"a": "\\u4e2d \\ud83d\\ude80 \\"b\\" \\\\ \\q"}'
    assert text_of(Message(role="tool", content=json_text)) == spaced('{"a": "中 🚀 "b" \\ \\q"}')


def test_what_looks_like_no_json_keeps_its_backslashes() -> None:
    assert text_of(Message(role="user", content="C:\\new")) == "C:\\new"


def test_damage_is_no_text() -> None:
    assert search_text(content.BODY_IS_PACKED, b"no zlib", None) == ""
    assert search_text(content.BODY_IS_JSON, "{", None) == ""


@pytest.mark.parametrize(
    "text", ["plain", "中文", "a中b 中 文c", "한국어 텍스트", "ภาษาไทย", "go 🚀🚀 ⏳!", "カタカナ"]
)
def test_setting_apart_is_undone_exactly(text: str) -> None:
    assert unspaced(spaced(text)) == text


def test_setting_apart_is_undone_around_marks() -> None:
    text = spaced("a中文b").replace("中", MATCH_STARTS + "中").replace("文", "文" + MATCH_ENDS)
    assert unspaced(text) == f"a{MATCH_STARTS}中文{MATCH_ENDS}b"


def test_text_is_composed() -> None:
    assert clean("e\u0301") == "é"
    assert clean("\u1112\u1161\u11ab") == "한"


def test_folding_is_that_of_the_tokenizer() -> None:
    assert folded("Ärger ÉTÉ ΣΟΦΟΣ σοφος中🚀.") == "arger ete σοφοσ σοφοσ中🚀."
    assert folded("x\u0301y") == "xy"
    assert [folded_places("x\u0301y")[place] for place in range(2)] == [0, 2]


def test_a_snippet_is_one_line_around_the_match() -> None:
    text = "word " * 100 + "before\n\n\tneedle\x1b[31m after" + " word" * 100
    line = shown(text, "needle")
    assert "before [needle] [31m after" in line
    assert line.startswith("…word ")
    assert line.endswith(" word…")
    assert 120 < len(line) < 170


def test_a_snippet_of_a_short_text_is_the_text() -> None:
    assert shown("a needle here", "needle") == "a [needle] here"


def test_a_snippet_is_where_most_matches_are() -> None:
    text = "needle" + " x" * 300 + " a needle and a thread" + " x" * 300
    assert "[needle] and a [thread]" in shown(text, "needle", "thread")


def test_a_snippet_at_the_end_shows_more_of_what_is_before() -> None:
    line = shown("x" * 30 + " y" * 200 + " needle", "needle")
    assert line.endswith("y [needle]")
    assert len(line) > 140


def test_a_match_longer_than_a_snippet_is_closed() -> None:
    line = shown("a " + "b" * 1_000 + " c", "b" * 1_000)
    assert line.startswith("a [bbb")
    assert line.endswith("b]…")


def test_a_snippet_without_spaces_is_cut_anyway() -> None:
    line = shown("中" * 500 + "文字" + "中" * 500, "文字")
    assert "中[文字]中" in line
    assert len(line) < 170


@pytest.mark.parametrize("text", ["short", "long " * 100, "lone \ud800 " * 50, "é中\0" * 200])
@pytest.mark.parametrize(
    "wrap", [str, lambda text: [{"type": "text", "text": text}]], ids=["text", "parts"]
)
def test_a_message_that_is_unpacked_once_says_the_same(
    text: str, wrap: Callable[[str], Json]
) -> None:
    message = Message(role="user", content=wrap(text), reasoning=text)
    stored = content.encode(message)
    row = (7, "user", 1.0, stored.form, stored.body, stored.fields)
    once = content.unpacked(row)
    assert content.decode(*once) == content.decode(*row)
    assert message_text(*once[3:]) == message_text(*row[3:])


def test_a_damaged_message_stays_as_it_is() -> None:
    row = (7, "user", 1.0, content.BODY_IS_PACKED, b"nonsense", None)
    assert content.unpacked(row) is row
    assert message_text(*row[3:]) == ""
