"""Entries in JSON files of other people: put in and taken out, and nothing else changes."""

from __future__ import annotations

import json

import pytest

from holdfast.connect import json_edit
from holdfast.errors import UsageError
from holdfast.model.session import Json

OURS: Json = {"matcher": "*", "hooks": [{"type": "command", "command": "ours"}]}
AT = ("hooks", "PreToolUse")
TEXTS = {
    "empty": "{}",
    "other keys": '{\n  "model": "opus",\n  "list": [1, 2]\n}\n',
    "one line": '{"a": {"b": "}"}, "c": "\\"]"}',
    "tabs": '{\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{"x": 1}\n\t\t]\n\t}\n}\n',
    "comments": '{\n    // why\n    "hooks": {\n        "PreToolUse": [ /* theirs */\n'
    '            {"matcher": "Bash", "hooks": []},\n        ],\n    },\n}\n',
    "several": '{"hooks": {"PreToolUse": [{"a": 1}, {"b": 2}], "Other": []}}',
    "numbers": '{"a": -1.5e3, "b": true, "c": null, "é": "ü"}\n',
}


def is_ours(entry: Json) -> bool:
    return entry == OURS


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_put_in_and_taken_out_leaves_no_trace(text: str) -> None:
    changed = json_edit.add(json_edit.add(text, AT, OURS), ("hooks", "Prompt"), OURS)
    said = json_edit.value_of(changed, json_edit.parse(changed))
    assert isinstance(said, dict)
    assert isinstance(said["hooks"], dict)
    assert said["hooks"]["Prompt"] == [OURS]
    assert OURS in said["hooks"]["PreToolUse"]  # type: ignore[operator]
    back = json_edit.remove(json_edit.remove(changed, AT, is_ours), ("hooks", "Prompt"), is_ours)
    assert back == text


def test_only_ours_leave_wherever_they_stand() -> None:
    text = json.dumps({"hooks": {"PreToolUse": [OURS, {"a": 1}, OURS, {"b": 2}, OURS]}}, indent=2)
    left = json_edit.remove(text, AT, is_ours)
    assert json.loads(left) == {"hooks": {"PreToolUse": [{"a": 1}, {"b": 2}]}}
    assert json_edit.remove(left, AT, is_ours) == left


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"a" 1}', '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', '{"a": 1} x'],
)
def test_what_is_not_such_a_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        json_edit.add(text, AT, OURS)


ENTRY = json.dumps(OURS)
COMMENTED = {
    "above the next": (
        '[\n  %s,\n  // theirs\n  {"a": 1}\n]',
        '[\n  // theirs\n  {"a": 1}\n]',
    ),
    "behind the one before": (
        '[\n  {"a": 1}, // theirs\n  %s\n]',
        '[\n  {"a": 1} // theirs\n]',
    ),
    "between two": (
        '[\n  {"a": 1}, // one\n  %s,\n  // two\n  {"b": 2}\n]',
        '[\n  {"a": 1}, // one\n  // two\n  {"b": 2}\n]',
    ),
    "on one line": ('[{"a": 1}, /* b */ %s, {"b": 2}]', '[{"a": 1}, /* b */  {"b": 2}]'),
    "nothing else in the list": ("[ // mine\n  %s,\n]", "[ // mine\n]"),
    "behind the only one": ("[\n  %s // why\n]", "[\n   // why\n]"),
}


@pytest.mark.parametrize(("text", "left"), COMMENTED.values(), ids=COMMENTED)
def test_comments_stay_when_ours_leave(text: str, left: str) -> None:
    whole = f'{{"hooks": {{"PreToolUse": {text % ENTRY}}}}}'
    back = json_edit.remove(whole, AT, is_ours)
    json_edit.parse(back)
    assert back == f'{{"hooks": {{"PreToolUse": {left}}}}}'


def test_comments_in_what_is_empty_stay() -> None:
    text = '{\n  "hooks": {\n    // none yet\n  }\n}\n'
    changed = json_edit.add(text, AT, OURS)
    assert "// none yet" in changed
    assert json_edit.remove(changed, AT, is_ours) == text


def test_lines_end_as_they_do_in_the_file() -> None:
    text = '{\r\n  "model": "opus"\r\n}\r\n'
    changed = json_edit.add(text, AT, OURS)
    assert changed.count("\n") == changed.count("\r\n") > text.count("\n")
    assert json_edit.remove(changed, AT, is_ours) == text


@pytest.mark.parametrize("text", ['{"hooks":{}}', '{"a": 1,"hooks":{"PreToolUse":[]}}'])
def test_our_own_lines_do_not_change_how_far_the_file_indents(text: str) -> None:
    changed = json_edit.add(json_edit.add(text, AT, OURS), ("hooks", "Prompt"), OURS)
    assert '\n    "Prompt": [\n      {\n        "matcher"' in changed


@pytest.mark.parametrize(
    "text",
    [
        '{"a\\x": 1}',
        '{"a": 01}',
        '{"a": "\\q"}',
        '{"a": \u0661}',
        '{"a":\u00a01}',
        '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}",
        '{"hooks": {}, "hooks": {}}',
        '{"hooks": {"PreToolUse": [], "PreToolUse": []}}',
    ],
    ids=["key", "zero", "escape", "digit", "blank", "deep", "twice", "event twice"],
)
def test_what_an_agent_would_not_read_is_refused_in_words(text: str) -> None:
    with pytest.raises(UsageError):
        json_edit.add(text, AT, OURS)


def test_a_number_that_python_does_not_read_is_refused() -> None:
    text = '{"a": ' + "1" * 5_000 + "}"
    with pytest.raises(UsageError):
        json_edit.value_of(text, json_edit.parse(text))
