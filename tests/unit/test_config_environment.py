"""Environment variables: overrides, their mistakes, and strangers that look like ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.kinds import Value
from holdfast.config.reader import load, warnings
from holdfast.config.settings import KEYS
from holdfast.errors import ConfigError

GOOD: dict[str, tuple[str, str, Value]] = {
    "top": ("HOLDFAST_TRASH_DAYS", "3", 3),
    "spaces": ("HOLDFAST_TRASH_DAYS", " +3 ", 3),
    "whole": ("HOLDFAST_SESSIONS_RETENTION_DAYS", "30", 30),
    "fraction": ("HOLDFAST_SESSIONS_RETENTION_DAYS", "0.5", 0.5),
    "idle": ("HOLDFAST_SESSIONS_IDLE_HOURS", "1", 1),
    "count": ("HOLDFAST_SESSIONS_KEEP_YEARLY", "12", 12),
    "duration": ("HOLDFAST_SESSIONS_KEEP_WITHIN", "2w", "2w"),
    "size": ("HOLDFAST_SESSIONS_MAX_TOTAL_SIZE_MB", "500", 500),
    "one-pin": ("HOLDFAST_SESSIONS_PINS", "a", ("a",)),
    "choice": ("HOLDFAST_SESSIONS_ON_RESET", "keep", "keep"),
    "choice-spaces": ("HOLDFAST_CRON_AFTER_DELIVERY", " remove\n", "remove"),
    "flag": ("HOLDFAST_SESSIONS_AUTO_PRUNE", " True", True),
    "flag-number": ("HOLDFAST_SESSIONS_AUTO_GC", "0", False),
    "interval": ("HOLDFAST_MAINTENANCE_MIN_INTERVAL_HOURS", "0.5", 0.5),
    "folder": ("HOLDFAST_ARCHIVE_FOLDER", "/mnt/my archive", "/mnt/my archive"),
    "exclude": ("HOLDFAST_CHECKPOINTS_EXCLUDE", "data/, *.bin", ("data/", "*.bin")),
    "command": ("HOLDFAST_NOTIFY_COMMAND", "mail -s 'a b' me", "mail -s 'a b' me"),
    "no-default": ("HOLDFAST_SESSIONS_IDLE_MINUTES", "0.5", 0.5),
    "transcripts": ("HOLDFAST_TRANSCRIPTS_DEFAULT", "jsonl-synced", "jsonl-synced"),
    "pins": ("HOLDFAST_SESSIONS_PINS", "a, cron_* ,[b]", ("a", "cron_*", "[b]")),
}


@pytest.mark.parametrize("case", GOOD)
def test_override(case: str) -> None:
    variable, text, expected = GOOD[case]
    entries = {origin: value for _, value, origin in load(None, {variable: text}).entries()}
    assert entries[variable] == expected


def test_every_key_has_a_variable_of_its_own() -> None:
    variables = {key.variable for key in KEYS}
    assert len(variables) == len(KEYS)
    assert not warnings(dict.fromkeys(variables, "1"))


def test_an_empty_variable_is_unset() -> None:
    assert load(None, {key.variable: "" for key in KEYS}) == load(None, {})


BAD = {
    "HOLDFAST_TRASH_DAYS=0": (
        "trash_days: expected a whole number from 1 to 3650, found 0;"
        " --now skips the trash for one run"
    ),
    "HOLDFAST_TRASH_DAYS=7.5": "trash_days: expected a whole number from 1 to 3650, found 7.5",
    "HOLDFAST_TRASH_DAYS=true": (
        'trash_days: expected a whole number from 1 to 3650, found "true" (text)'
    ),
    "HOLDFAST_TRASH_DAYS=1_0": (
        'trash_days: expected a whole number from 1 to 3650, found "1_0" (text)'
    ),
    "HOLDFAST_TRASH_DAYS= ": (
        'trash_days: expected a whole number from 1 to 3650, found " " (text)'
    ),
    "HOLDFAST_TRASH_DAYS=٣": (
        'trash_days: expected a whole number from 1 to 3650, found "٣" (text)'
    ),
    "HOLDFAST_TRASH_DAYS=" + "9" * 9999: (
        f'trash_days: expected a whole number from 1 to 3650, found "{"9" * 37}..." (text)'
    ),
    "HOLDFAST_SESSIONS_RETENTION_DAYS=nan": (
        'sessions.retention_days: expected a number from 0 to 36500, found "nan" (text)'
    ),
    "HOLDFAST_SESSIONS_RETENTION_DAYS=1e3": (
        'sessions.retention_days: expected a number from 0 to 36500, found "1e3" (text)'
    ),
    "HOLDFAST_SESSIONS_KEEP_WITHIN=0d": (
        'sessions.keep_within: "0d" would keep nothing; write "" to turn this off'
    ),
    "HOLDFAST_SESSIONS_IDLE_MINUTES=0": (
        "sessions.idle_minutes: expected a number above 0, up to 525600, found 0;"
        " it would reset at once; leave the key out to turn off idle resets"
    ),
    "HOLDFAST_CRON_AFTER_DELIVERY=Remove": (
        'cron.after_delivery: expected "keep" or "remove", found "Remove" (text);'
        ' did you mean "remove"?'
    ),
    "HOLDFAST_SESSIONS_AUTO_PRUNE=yes": (
        'sessions.auto_prune: expected true or false, found "yes" (text)'
    ),
    "HOLDFAST_NOTIFY_COMMAND='": 'notify.command: no closing quotation in "\'" (text)',
    "HOLDFAST_SESSIONS_PINS=a,,b": "sessions.pins: item 2 is empty",
    "HOLDFAST_SESSIONS_MAX_COUNT=\x1b\udc80": (
        "sessions.max_count: expected a whole number from 0 to 1000000000,"
        ' found "\\x1b\\x80" (text)'
    ),
}


@pytest.mark.parametrize("assignment", BAD, ids=lambda assignment: ascii(assignment[:40]))
def test_bad_override(assignment: str) -> None:
    variable, _, text = assignment.partition("=")
    with pytest.raises(ConfigError) as caught:
        load(None, {variable: text})
    assert caught.value.message == f"{variable}: {BAD[assignment]}"


def test_the_environment_wins_but_does_not_excuse_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("trash_days = 3", encoding="utf-8")
    assert load(path, {"HOLDFAST_TRASH_DAYS": "5"}).trash_days == 5
    path.write_text("trash_days = 0", encoding="utf-8")
    with pytest.raises(ConfigError, match="trash_days"):
        load(path, {"HOLDFAST_TRASH_DAYS": "5"})


def test_warnings() -> None:
    environ = {
        "PATH": "/bin",
        "HOLDFAST_HOME": "/h",
        "HOLDFAST_DEBUG": "1",
        "HOLDFAST_SESSIONS_PINS": "a",
        "HOLDFAST_TRASH_DYS": "1",
        "HOLDFAST_RETENTION_DAYS": "1",
        "HOLDFAST_HOM": "1",
        "HOLDFAST_ZZZ": "1",
        "HOLDFAST_EMPTY": "",
        "HOLDFAST_": "1",
    }
    assert warnings(environ) == [
        "HOLDFAST_: unknown environment variable, ignored",
        "HOLDFAST_HOM: unknown environment variable, ignored; did you mean HOLDFAST_HOME?",
        (
            "HOLDFAST_RETENTION_DAYS: unknown environment variable, ignored;"
            " did you mean HOLDFAST_SESSIONS_RETENTION_DAYS?"
        ),
        (
            "HOLDFAST_TRASH_DYS: unknown environment variable, ignored;"
            " did you mean HOLDFAST_TRASH_DAYS?"
        ),
        "HOLDFAST_ZZZ: unknown environment variable, ignored",
    ]
