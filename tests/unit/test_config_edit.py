"""One key of a config.toml is set, and everything else in it stays byte for byte."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from holdfast.config.set_key import with_value
from holdfast.config.settings import KEYS
from holdfast.config.template import template
from holdfast.errors import UsageError

DAYS = ("sessions", "retention_days")


@pytest.mark.parametrize(
    ("text", "path", "value", "expected"),
    [
        ("", DAYS, 30, "[sessions]\nretention_days = 30\n"),
        ("", ("trash_days",), 3, "trash_days = 3\n"),
        (
            "[sessions]\nretention_days = 90 # why\n",
            DAYS,
            30,
            "[sessions]\nretention_days = 30 # why\n",
        ),
        ("[sessions]  # mine\n", DAYS, 30, "[sessions]  # mine\nretention_days = 30\n"),
        ("[sessions]", DAYS, 30, "[sessions]\nretention_days = 30"),
        (
            "[sessions]\n# retention_days = 90\n\n# keep_last = 0\nmax_count = 5",
            ("sessions", "keep_last"),
            3,
            "[sessions]\n# retention_days = 90\n\n# keep_last = 0\nkeep_last = 3\nmax_count = 5",
        ),
        (
            "[sessions]\nkeep_last = 1\n\n# of checkpoints\n[checkpoints]\n",
            DAYS,
            30,
            "[sessions]\nkeep_last = 1\nretention_days = 30\n\n# of checkpoints\n[checkpoints]\n",
        ),
        (
            "# mine\n\n# of sessions\n[sessions]\n",
            ("trash_days",),
            3,
            "# mine\n\ntrash_days = 3\n\n# of sessions\n[sessions]\n",
        ),
        (
            "sessions.keep_last = 1\n[cron]\n",
            DAYS,
            30,
            "sessions.keep_last = 1\nsessions.retention_days = 30\n[cron]\n",
        ),
        (
            '[sessions]\npins = [\n  "a", # one\n  "b#", # two\n] # all\nkeep_last = 1\n',
            ("sessions", "pins"),
            ["c"],
            '[sessions]\npins = ["c"] # all\nkeep_last = 1\n',
        ),
        (
            "[sessions]\r\nretention_days=90\r\n\r\n[cron]\r\n",
            DAYS,
            30,
            "[sessions]\r\nretention_days=30\r\n\r\n[cron]\r\n",
        ),
        (
            "[sessions]\r\nkeep_last = 1\r\n",
            DAYS,
            30,
            "[sessions]\r\nkeep_last = 1\r\nretention_days = 30\r\n",
        ),
        (
            "[sessions]\n",
            ("sessions", "source", "a.b", "keep_last"),
            1,
            '[sessions]\n\n[sessions.source."a.b"]\nkeep_last = 1\n',
        ),
        (
            "[sessions.source.cron]\nkeep_last = 1\n",
            DAYS,
            30,
            "[sessions.source.cron]\nkeep_last = 1\n\n[sessions]\nretention_days = 30\n",
        ),
        (
            "sessions.keep_last = 1\n[sessions.a]\npins = []\n",
            DAYS,
            30,
            "sessions.keep_last = 1\nsessions.retention_days = 30\n[sessions.a]\npins = []\n",
        ),
        ('[sessions]\npins = ["é"]\n', DAYS, 30, '[sessions]\npins = ["é"]\nretention_days = 30\n'),
    ],
)
def test_only_this_key_changes(
    text: str, path: tuple[str, ...], value: object, expected: str
) -> None:
    changed = with_value(text, path, value)
    assert changed == expected
    assert with_value(changed, path, value) == changed


@pytest.mark.parametrize(
    "text",
    [
        "sessions = { keep_last = 1 }\n",
        "[[sessions]]\nkeep_last = 1\n",
    ],
)
def test_what_cannot_be_done_alone_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        with_value(text, DAYS, 30)


def test_every_key_goes_below_its_default_in_the_written_file() -> None:
    before = template()
    old = before.splitlines()
    for key in KEYS:
        set_to = key.example if key.default is None else key.default
        value: object = list(set_to) if isinstance(set_to, tuple) else set_to
        after = with_value(before, key.path, value).splitlines()
        at = next(number for number, line in enumerate(after) if [line] != old[number : number + 1])
        assert after[:at] + after[at + 1 :] == old, key.path
        assert after[at - 1].lstrip("# ").startswith(f"{key.name} = "), key.path
        found: Any = tomllib.loads("\n".join(after))
        for name in key.path:
            found = found[name]
        assert found == value


@pytest.mark.parametrize("value", ['"', "\\", "\x7f", "a\nb", "é", "\U0001f600"])
def test_any_text_comes_back(value: str) -> None:
    changed = with_value("", ("archive", "folder"), value)
    assert tomllib.loads(changed)["archive"]["folder"] == value
