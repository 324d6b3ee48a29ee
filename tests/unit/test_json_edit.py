"""Entries in JSON files of other people: put in and taken out, and nothing else changes."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import UsageError
from holdfast.hooks import json_edit
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
