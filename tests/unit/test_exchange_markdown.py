"""Markdown: pleasant to read, and nothing in a message can break out of its place."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.model.session import Json, Message, Relation, Session, Tokens
from holdfast.services.exchange.markdown import export_markdown
from tests.builders import moment

START = moment("2026-03-25T11:25:18")
SESSION = Session(id="s1", source="cli", started_at=START, last_active_at=START)


def shown(*messages: Message, session: Session = SESSION) -> str:
    return "".join(export_markdown(session, messages))


def body(content: Json, role: str = "user") -> str:
    """What stands under the heading of one message."""
    return shown(Message(role=role, content=content)).split("\n## ", 1)[1].split("\n", 2)[2].strip()


def test_a_whole_session() -> None:
    session = replace(
        SESSION,
        title="Fix the *heron*",
        parent_id="s0",
        relation=Relation.BRANCH,
        cwd="/work",
        model="m-1",
        ended_at=START + 60,
        end_reason="done",
        message_count=3,
        tool_call_count=1,
        tokens=Tokens(input=1200, output=34),
        cost=0.0123,
    )
    call: Json = {"id": "1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    text = shown(
        Message(role="user", content="What is *here*?", timestamp=START),
        Message(role="assistant", reasoning="Look\nfirst.", tool_calls=[call]),
        Message(role="tool", tool_name="bash", content="# a\n```\nb", timestamp=START + 1),
        session=session,
    )
    assert text == (
        "# Fix the \\*heron\\*\n\n"
        "- **Session:** `s1`\n"
        "- **Source:** cli\n"
        "- **Parent:** `s0` (branch)\n"
        "- **Model:** m-1\n"
        "- **Folder:** `/work`\n"
        "- **Started:** 2026-03-25 11:25:18 UTC\n"
        "- **Ended:** 2026-03-25 11:26:18 UTC (done)\n"
        "- **Messages:** 3, 1 tool call, 1,200 tokens in, 34 out, cost $0.0123\n"
        "\n## User · 2026-03-25 11:25:18 UTC\n\n"
        "What is *here*?\n"
        "\n## Assistant\n\n"
        "> *Reasoning*\n>\n> Look\n> first.\n\n"
        '**Tool call** `bash`\n\n```json\n{\n  "command": "ls"\n}\n```\n'
        "\n## Tool `bash` · 2026-03-25 11:25:19 UTC\n\n"
        "````\n# a\n```\nb\n````\n"
    )


def test_parts() -> None:
    parts: Json = [
        {"type": "text", "text": "one"},
        "two",
        {"type": "image_url", "image_url": {"url": "data:…"}},
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "name": "ls", "input": {"path": "/"}},
        {"type": "tool_result", "content": [{"type": "text", "text": "three"}]},
        {"odd": 1},
        7,
    ]
    assert body(parts).split("\n\n") == [
        "one",
        "two",
        "*(image url)*",
        "> *Reasoning*\n>\n> hm",
        "**Tool call** `ls`",
        '```json\n{\n  "path": "/"\n}\n```',
        "**Tool result**",
        "three",
        '```json\n{\n  "odd": 1\n}\n```',
        "```json\n7\n```",
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"name": "f", "arguments": "not json `x`"}, "**Tool call** `f`\n\n```\nnot json `x`\n```"),
        ({"name": "f"}, "**Tool call** `f`"),
        ({"name": "a`b"}, "**Tool call** ``a`b``"),
        ("odd", '**Tool call**\n\n```json\n"odd"\n```'),
        ({"function": 5}, '**Tool call**\n\n```json\n{\n  "function": 5\n}\n```'),
    ],
)
def test_tool_calls_of_any_shape(call: Json, expected: str) -> None:
    assert expected in shown(Message(role="assistant", tool_calls=[call]))
    assert expected in shown(Message(role="assistant", tool_calls=call))


def test_an_open_fence_does_not_swallow_the_next_message() -> None:
    assert body("see:\n```python\nx = 1") == "see:\n```python\nx = 1\n```"
    assert body("~~~~\na\n~~~\n```") == "~~~~\na\n~~~\n```\n~~~~"
    assert body("```\na\n```\nb") == "```\na\n```\nb"
    assert body("```\n```js\n") == "```\n```js\n```"


def test_nothing_that_cannot_be_shown_or_written() -> None:
    text = shown(Message(role="user", content="a\0b\x1b[31m\ud800\r\nc\x7f\td"))
    assert "a␀b␛[31m\ufffd\nc␡\td" in text
    text.encode("utf-8")


@pytest.mark.parametrize("content", [None, "", "  \n", []])
def test_an_empty_message_is_its_heading(content: Json) -> None:
    assert shown(Message(role="user", content=content)).endswith("\n## User\n")


@pytest.mark.parametrize("time", [1e300, -1e18, float(2**63)])
def test_a_time_beyond_the_calendar(time: float) -> None:
    assert f"{time:g} s" in shown(session=replace(SESSION, started_at=time))


def test_a_title_stays_in_its_line() -> None:
    text = shown(session=replace(SESSION, title="a\n# b <script>", source="x\n\ny"))
    assert text.startswith("# a \\# b \\<script\\>\n")
    assert "- **Source:** x  y\n" in text


def test_it_comes_in_pieces() -> None:
    pieces = export_markdown(SESSION, (Message(role="user") for _ in range(3)))
    assert len(list(pieces)) >= 3 + 1
    assert json.dumps(SESSION.id)[1:-1] in shown()
