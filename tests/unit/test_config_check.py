"""Documents that hold and documents that do not, with the exact words for what is wrong."""

from __future__ import annotations

import tomllib

import pytest

from holdfast.config.key import Key
from holdfast.config.kinds import Value
from holdfast.config.reader import check
from holdfast.config.settings import KEYS

WHERE = "~/.holdfast/config.toml"


def problems(text: str) -> list[str]:
    _, found = check(tomllib.loads(text), text, WHERE)
    return [str(problem).removeprefix(WHERE) for problem in found]


GOOD: dict[str, dict[str, Value]] = {
    "": {},
    "# nothing\n": {},
    "[sessions]": {},
    "[sessions.source]": {},
    "[sessions.source.cron]": {},
    "trash_days = 1": {"trash_days": 1},
    "trash_days = 3650": {"trash_days": 3650},
    "[sessions]\nretention_days = 0": {"sessions.retention_days": 0},
    "[sessions]\nretention_days = 0.5": {"sessions.retention_days": 0.5},
    "[sessions]\nretention_days = 36_500": {"sessions.retention_days": 36500},
    "sessions.retention_days = 3": {"sessions.retention_days": 3},
    "sessions = { idle_hours = 1, keep_last = 4 }": {
        "sessions.idle_hours": 1,
        "sessions.keep_last": 4,
    },
    "[sessions]\nidle_hours = 8760.0": {"sessions.idle_hours": 8760.0},
    "[sessions]\nkeep_within = ''": {"sessions.keep_within": ""},
    "[sessions]\nkeep_within = '1d12h'": {"sessions.keep_within": "1d12h"},
    "[sessions]\npins = []": {"sessions.pins": ()},
    "[sessions]\npins = ['a', 'cron_*', '[ab]?']": {"sessions.pins": ("a", "cron_*", "[ab]?")},
    "[sessions.source.my-agent_2]\nkeep_yearly = 2\nmax_count = 9": {
        "sessions.source.my-agent_2.keep_yearly": 2,
        "sessions.source.my-agent_2.max_count": 9,
    },
    "[transcripts]": {},
    "[cron]": {},
    "[sessions]\non_reset = 'delete'": {"sessions.on_reset": "delete"},
    "[sessions]\nidle_minutes = 0.5": {"sessions.idle_minutes": 0.5},
    "[sessions]\nidle_minutes = 525600": {"sessions.idle_minutes": 525600},
    "[sessions]\nmax_messages = 0\nmax_size_mb = 0": {
        "sessions.max_messages": 0,
        "sessions.max_size_mb": 0,
    },
    "[sessions]\nwarn_percent = 99": {"sessions.warn_percent": 99},
    "[sessions]\nabandoned_hours = 1.5": {"sessions.abandoned_hours": 1.5},
    "[sessions]\nabandoned_hours = 0": {"sessions.abandoned_hours": 0},
    "[transcripts]\ndefault = 'jsonl'\ncron = 'none'\n'a.b' = 'jsonl-synced'": {
        "transcripts.default": "jsonl",
        "transcripts.cron": "none",
        'transcripts."a.b"': "jsonl-synced",
    },
    "cron.after_delivery = 'remove'": {"cron.after_delivery": "remove"},
    "[maintenance]\n[archive]\n[notify]\n[checkpoints]": {},
    "[checkpoints]\nenabled = true\nmax_snapshots = 0\nretention_days = 0.5": {
        "checkpoints.enabled": True,
        "checkpoints.max_snapshots": 0,
        "checkpoints.retention_days": 0.5,
    },
    "[checkpoints]\nexclude = ['data/', '!*.png', '# \\ ']": {
        "checkpoints.exclude": ("data/", "!*.png", "# \\ "),
    },
    "[sessions]\nauto_prune = true\nauto_gc = false": {
        "sessions.auto_prune": True,
        "sessions.auto_gc": False,
    },
    "[sessions]\nempty_hours = 0.5\ntrivial_days = 0.5\ntrivial_max = 0": {
        "sessions.empty_hours": 0.5,
        "sessions.trivial_days": 0.5,
        "sessions.trivial_max": 0,
    },
    "[maintenance]\nmin_interval_hours = 0.001": {"maintenance.min_interval_hours": 0.001},
    "[archive]\nfolder = '/mnt/my archive'\ncodec = 'gzip'\nretention_days = 365": {
        "archive.folder": "/mnt/my archive",
        "archive.codec": "gzip",
        "archive.retention_days": 365,
    },
    "[archive]\nurl = 's3://b-1/a/b/'\nendpoint = 'http://h:9/'\nregion = 'r'\nprofile = 'p'": {
        "archive.url": "s3://b-1/a/b",
        "archive.endpoint": "http://h:9",
        "archive.region": "r",
        "archive.profile": "p",
    },
    "[archive]\nfolder = ''\nurl = 'az://box'": {"archive.folder": "", "archive.url": "az://box"},
    "[notify]\ncommand = 'mail -s \"two words\" me'\nnear_percent = 100": {
        "notify.command": 'mail -s "two words" me',
        "notify.near_percent": 100,
    },
    "[sessions.source.'a.b']\nkeep_last = 1": {'sessions.source."a.b".keep_last': 1},
}


@pytest.mark.parametrize("text", GOOD)
def test_good_document(text: str) -> None:
    values, found = check(tomllib.loads(text), text, WHERE)
    assert not found
    written = {
        ".".join(part if "." not in part else f'"{part}"' for part in given.path): given.value
        for given in values
    }
    assert written == GOOD[text]


BAD_TOP = {
    "trash_days = 0": (
        ":1: trash_days: expected a whole number from 1 to 3650, found 0;"
        " --now skips the trash for one run"
    ),
    "\ntrash_days = 3651": (":2: trash_days: expected a whole number from 1 to 3650, found 3651"),
    "trash_days = 7.0": ":1: trash_days: expected a whole number from 1 to 3650, found 7.0",
    "trash_days = true": (
        ":1: trash_days: expected a whole number from 1 to 3650, found true (a boolean)"
    ),
    "trash_days = '7'": (
        ":1: trash_days: expected a whole number from 1 to 3650,"
        ' found "7" (text); write it without quotes'
    ),
    "trash_days = 'week'": (
        ':1: trash_days: expected a whole number from 1 to 3650, found "week" (text)'
    ),
    "trash_days = [7]": ":1: trash_days: expected a whole number from 1 to 3650, found a list",
    "[trash_days]": ":1: trash_days: expected a whole number from 1 to 3650, found a table",
    "trash_days = 2026-03-25": (
        ":1: trash_days: expected a whole number from 1 to 3650, found a date or time"
    ),
    "trash_days = 0x" + "f" * 9000: (
        ":1: trash_days: expected a whole number from 1 to 3650, found a far larger number"
    ),
    "trash_days = -9223372036854775808": (
        ":1: trash_days: expected a whole number from 1 to 3650, found a far smaller number;"
        " --now skips the trash for one run"
    ),
    "trsh_days = 1": ':1: trsh_days: unknown key; did you mean "trash_days"?',
    "Trash-Days = 1": ':1: Trash-Days: unknown key; did you mean "trash_days"?',
    "retention_days = 1": ":1: retention_days: unknown key; it belongs in [sessions]",
    "retention_dys = 1": (
        ':1: retention_dys: unknown key; did you mean "retention_days" in [sessions]?'
    ),
    "[source.cron]": ":1: source: unknown key; it belongs in [sessions]",
    "[session]": ':1: session: unknown key; did you mean "sessions"?',
    "on_reset = 'keep'": ":1: on_reset: unknown key; it belongs in [sessions]",
    "after_delivery = 'keep'": ":1: after_delivery: unknown key; it belongs in [cron]",
    "after_deliver = 'keep'": (
        ':1: after_deliver: unknown key; did you mean "after_delivery" in [cron]?'
    ),
    "[transcript]": ':1: transcript: unknown key; did you mean "transcripts"?',
    "transcripts = 'jsonl'": ':1: transcripts: expected a table, found "jsonl" (text)',
    "[[cron]]": ":1: cron: expected a table, found a list",
    "zzz = 1": ":1: zzz: unknown key",
    '"a\\nb\\u001b" = 1': ':1: "a\\nb\\x1b": unknown key',
    '"" = 1': ':1: "": unknown key',
    "sessions = 3": ":1: sessions: expected a table, found 3",
    "[[sessions]]": ":1: sessions: expected a table, found a list",
}

BAD_SESSIONS = {
    "\n\n\n\n\nretention_dys = 1": (
        ':7: sessions.retention_dys: unknown key; did you mean "retention_days"?'
    ),
    "trash_days = 1": (
        ":2: sessions.trash_days: unknown key; it belongs at the top, before any [table]"
    ),
    "retention_days = -1": (
        ":2: sessions.retention_days: expected a number from 0 to 36500, found -1"
    ),
    "retention_days = nan": (
        ":2: sessions.retention_days: expected a number from 0 to 36500, found nan"
    ),
    "retention_days = inf": (
        ":2: sessions.retention_days: expected a number from 0 to 36500, found inf"
    ),
    "retention_days = 36500.1": (
        ":2: sessions.retention_days: expected a number from 0 to 36500, found 36500.1"
    ),
    "idle_hours = 0": (
        ":2: sessions.idle_hours: expected a number from 1 to 8760, found 0;"
        " a shorter time could take a session in use"
    ),
    "keep_last = -1": (
        ":2: sessions.keep_last: expected a whole number from 0 to 1000000, found -1"
    ),
    "keep_within = '0d'": (
        ':2: sessions.keep_within: "0d" would keep nothing; write "" to turn this off'
    ),
    "keep_within = '2 weeks'": (
        ':2: sessions.keep_within: expected a duration such as "12h", "2w" or "1y",'
        ' found "2 weeks" (text)'
    ),
    "keep_within = 14": (':2: sessions.keep_within: expected a duration such as "2w", found 14'),
    f"keep_within = '{'9' * 500}y'": (
        ':2: sessions.keep_within: expected a duration such as "12h", "2w" or "1y",'
        f' found "{"9" * 37}..." (text)'
    ),
    "pins = 'a'": (
        ':2: sessions.pins: expected a list of ids or patterns, found "a" (text); put it in [ ]'
    ),
    "pins = 1": ":2: sessions.pins: expected a list of ids or patterns, found 1",
    "source = []": ":2: sessions.source: expected a table, found a list",
    "source.retention_days = 3": (":2: sessions.source.retention_days: expected a table, found 3"),
    "source.Cron.keep_last = 3": (
        ":2: sessions.source.Cron: a source name is 1 to 64 of a-z 0-9 _ . - and begins with"
        ' a letter or a digit; did you mean "cron"?'
    ),
    "source.'../x'.keep_last = 3": (
        ':2: sessions.source."../x": a source name is 1 to 64 of a-z 0-9 _ . - and begins with'
        " a letter or a digit"
    ),
    "source.cron.idle_hours = 3": (
        ":2: sessions.source.cron.idle_hours: unknown key; it belongs in [sessions]"
    ),
    "source.cron.keep_lats = 3": (
        ':2: sessions.source.cron.keep_lats: unknown key; did you mean "keep_last"?'
    ),
    "source.cron.on_reset = 'keep'": (
        ":2: sessions.source.cron.on_reset: unknown key; it belongs in [sessions]"
    ),
    "after_delivery = 'keep'": (":2: sessions.after_delivery: unknown key; it belongs in [cron]"),
    "idle_minuts = 5": ':2: sessions.idle_minuts: unknown key; did you mean "idle_minutes"?',
    "on_reset = 'archve'": (
        ':2: sessions.on_reset: expected "keep", "archive" or "delete",'
        ' found "archve" (text); did you mean "archive"?'
    ),
    "on_reset = 'Delete'": (
        ':2: sessions.on_reset: expected "keep", "archive" or "delete",'
        ' found "Delete" (text); did you mean "delete"?'
    ),
    "on_reset = ''": (
        ':2: sessions.on_reset: expected "keep", "archive" or "delete", found "" (text)'
    ),
    "on_reset = false": (
        ':2: sessions.on_reset: expected "keep", "archive" or "delete", found false (a boolean)'
    ),
    "on_reset = ['keep']": (
        ':2: sessions.on_reset: expected "keep", "archive" or "delete", found a list'
    ),
    "idle_minutes = 0": (
        ":2: sessions.idle_minutes: expected a number above 0, up to 525600, found 0;"
        " it would reset at once; leave the key out to turn off idle resets"
    ),
    "idle_minutes = -0.0": (
        ":2: sessions.idle_minutes: expected a number above 0, up to 525600, found -0.0;"
        " it would reset at once; leave the key out to turn off idle resets"
    ),
    "idle_minutes = -5": (
        ":2: sessions.idle_minutes: expected a number above 0, up to 525600, found -5;"
        " it would reset at once; leave the key out to turn off idle resets"
    ),
    "idle_minutes = nan": (
        ":2: sessions.idle_minutes: expected a number above 0, up to 525600, found nan"
    ),
    "idle_minutes = 525601": (
        ":2: sessions.idle_minutes: expected a number above 0, up to 525600, found 525601"
    ),
    "max_messages = -1": (
        ":2: sessions.max_messages: expected a whole number from 0 to 1000000000, found -1"
    ),
    "max_size_mb = 0.5": (
        ":2: sessions.max_size_mb: expected a whole number from 0 to 1000000, found 0.5"
    ),
    "warn_percent = 0": ":2: sessions.warn_percent: expected a whole number from 1 to 99, found 0",
    "warn_percent = 100": (
        ":2: sessions.warn_percent: expected a whole number from 1 to 99, found 100"
    ),
    "abandoned_hours = 0.9": (
        ":2: sessions.abandoned_hours: expected a number from 1 to 8760, or 0 to turn it off, "
        "found 0.9;"
        " a shorter time could end a session in use"
    ),
}

BAD_LIFECYCLE = {
    "[transcripts]\ndefault = 'jsonl_synced'": (
        ':2: transcripts.default: expected "none", "jsonl" or "jsonl-synced",'
        ' found "jsonl_synced" (text); did you mean "jsonl-synced"?'
    ),
    "[transcripts]\ncron = false": (
        ':2: transcripts.cron: expected "none", "jsonl" or "jsonl-synced", found false (a boolean)'
    ),
    "[transcripts.cron]": (
        ':1: transcripts.cron: expected "none", "jsonl" or "jsonl-synced", found a table'
    ),
    "[transcripts]\nCron = 'none'": (
        ":2: transcripts.Cron: a source name is 1 to 64 of a-z 0-9 _ . - and begins with"
        ' a letter or a digit; did you mean "cron"?'
    ),
    "[cron]\nafter_delivry = 'keep'": (
        ':2: cron.after_delivry: unknown key; did you mean "after_delivery"?'
    ),
    "[cron]\nafter_delivery = 'removed'": (
        ':2: cron.after_delivery: expected "keep" or "remove",'
        ' found "removed" (text); did you mean "remove"?'
    ),
    "[cron]\nretention_days = 7": ":2: cron.retention_days: unknown key; it belongs in [sessions]",
    "[cron]\ntrash_days = 7": (
        ":2: cron.trash_days: unknown key; it belongs at the top, before any [table]"
    ),
}


BAD_MAINTENANCE = {
    "[sessions]\nauto_prune = 'true'": (
        ':2: sessions.auto_prune: expected true or false, found "true" (text);'
        " write it without quotes"
    ),
    "[sessions]\nauto_prune = 'yes'": (
        ':2: sessions.auto_prune: expected true or false, found "yes" (text)'
    ),
    "[sessions]\nauto_gc = 1": ":2: sessions.auto_gc: expected true or false, found 1",
    "[sessions]\nempty_hours = -1": (
        ":2: sessions.empty_hours: expected a number from 0 to 8760, found -1"
    ),
    "[sessions]\ntrivial_max = 2.5": (
        ":2: sessions.trivial_max: expected a whole number from 0 to 1000000, found 2.5"
    ),
    "[maintenance]\nmin_interval_hours = 0": (
        ":2: maintenance.min_interval_hours: expected a number above 0, up to 8760, found 0"
    ),
    "[maintenance]\nauto_prune = true": (
        ":2: maintenance.auto_prune: unknown key; it belongs in [sessions]"
    ),
    "[maintenance]\nmin_intervall_hours = 1": (
        ':2: maintenance.min_intervall_hours: unknown key; did you mean "min_interval_hours"?'
    ),
    "[maintenance]\nretention_days = 1": (
        ":2: maintenance.retention_days: unknown key; it belongs in [sessions]"
    ),
    # One interval for everything: whoever knows the key from another table is sent to this one.
    "[checkpoints]\nmin_interval_hours = 24": (
        ":2: checkpoints.min_interval_hours: unknown key; it belongs in [maintenance]"
    ),
    "[sessions]\nmin_interval_hours = 24": (
        ":2: sessions.min_interval_hours: unknown key; it belongs in [maintenance]"
    ),
    "[archive]\nauto_archive = true": (
        ":2: archive.auto_archive: unknown key; it belongs in [sessions]"
    ),
    "[archive]\narchive_after_days = 9": (
        ":2: archive.archive_after_days: unknown key; it belongs in [sessions]"
    ),
    "[sessions]\nfiles_retention_days = -1": (
        ":2: sessions.files_retention_days: expected a number from 0 to 36500, found -1"
    ),
    "[archive]\ncodec = 'zst'": (
        ':2: archive.codec: expected "zstd" or "gzip", found "zst" (text); did you mean "zstd"?'
    ),
    "[archive]\nfolder = 3": ":2: archive.folder: expected a folder, found 3",
    "[archive]\nurl = '/mnt/archive'": (
        ':2: archive.url: expected an address such as "s3://bucket/prefix", '
        'found "/mnt/archive" (text); a folder goes into `folder`'
    ),
    "[archive]\nurl = 'ftp://host/x'": (
        ':2: archive.url: expected an address such as "s3://bucket/prefix", '
        'found "ftp://host/x" (text)'
    ),
    # It may be a secret, so it is not shown.
    "[archive]\nurl = 's3://KEY:SECRET@bucket/x'": (
        ":2: archive.url: an address has no user, password or parameters; credentials come from "
        "the environment or from `profile`"
    ),
    **{
        f"[store]\nurl = 'postgresql://{secret}'": (
            ":2: store.url: holds a password; take it out, and put it into ~/.pgpass or PGPASSWORD"
        )
        for secret in (
            "me:SECRET@host/x",
            "host/x?password=SECRET",
            "host/x?sslpassword=SECRET",
            "host/x?sslmode=require&PASSWORD=SECRET",
            "host/x?Pass%57ord=SECRET",
        )
    },
    "[archive]\nendpoint = 'https://me:SECRET@host'": (
        ':2: archive.endpoint: expected an address such as "https://host:9000", found other text'
    ),
    "[archive]\nprofile = 'a b'": (
        ':2: archive.profile: expected a name without spaces, found "a b" (text)'
    ),
    "[archive]\nfolder = '/mnt/a'\nurl = 's3://bucket'": (
        ":3: archive.url: the archive is in a folder or at an address; set only one of `folder` "
        "and `url`"
    ),
    "[archive]\nfolder = '~/archive'": (
        ':2: archive.folder: expected a folder; "~" is not expanded here, write the full path'
    ),
    '[archive]\nfolder = "a\\u0000b"': (
        ':2: archive.folder: expected a folder in printable characters, found "a\\x00b" (text)'
    ),
    "[notify]\ncommand = ['mail', 'me']": (
        ":2: notify.command: expected a program with its arguments, found a list"
    ),
    "[notify]\ncommand = 'mail \"me'": (
        ':2: notify.command: no closing quotation in "mail "me" (text)'
    ),
    "[notify]\ncommand = '  '": ':2: notify.command: names no program; write "" for none',
    "[notify]\ncommand = '~/bin/tell'": (
        ":2: notify.command: expected a program with its arguments;"
        ' "~" is not expanded here, write the full path'
    ),
    "[notify]\nnear_percent = 101": (
        ":2: notify.near_percent: expected a whole number from 1 to 100, found 101"
    ),
    "[notify]\ntimeout_seconds = 0": (
        ":2: notify.timeout_seconds: expected a number above 0, up to 3600, found 0"
    ),
    "[checkpoints]\nmax_snapshots = -1": (
        ":2: checkpoints.max_snapshots: expected a whole number from 0 to 1000000, found -1"
    ),
    "[checkpoints]\nmax_snapshot = 1": (
        ':2: checkpoints.max_snapshot: unknown key; did you mean "max_snapshots"?'
    ),
    "[sessions]\nmax_snapshots = 1": (
        ":2: sessions.max_snapshots: unknown key; it belongs in [checkpoints]"
    ),
    "[checkpoints]\nexclude = 'data/'": (
        ':2: checkpoints.exclude: expected a list of patterns, found "data/" (text); put it in [ ]'
    ),
    '[checkpoints]\nexclude = ["a\\nb"]': (
        ":2: checkpoints.exclude: item 1: expected a pattern in printable characters,"
        ' found "a\\nb" (text)'
    ),
    "[checkpoints]\nexclude = [' ']": (
        ":2: checkpoints.exclude: item 1: expected a pattern in printable characters,"
        ' found " " (text)'
    ),
    "auto_prune = true": ":1: auto_prune: unknown key; it belongs in [sessions]",
    "maintenance = true": ":1: maintenance: expected a table, found true (a boolean)",
}


@pytest.mark.parametrize("text", BAD_TOP)
def test_bad_top(text: str) -> None:
    assert problems(text) == [BAD_TOP[text]]


@pytest.mark.parametrize("text", BAD_SESSIONS)
def test_bad_sessions(text: str) -> None:
    assert problems("[sessions]\n" + text) == [BAD_SESSIONS[text]]


@pytest.mark.parametrize("text", BAD_LIFECYCLE)
def test_bad_transcripts_and_cron(text: str) -> None:
    assert problems(text) == [BAD_LIFECYCLE[text]]


@pytest.mark.parametrize("text", BAD_MAINTENANCE)
def test_bad_maintenance_archive_and_notify(text: str) -> None:
    assert problems(text) == [BAD_MAINTENANCE[text]]


def test_every_problem_is_found_in_order_of_lines() -> None:
    text = """\
[sessions.source.cron]
keep_last = 'x'

[sessions]
pins = [
  "",
  3,
  "fine",
]
max_cont = 1

[other]
"""
    assert problems(text) == [
        (
            ":2: sessions.source.cron.keep_last: expected a whole number from 0 to 1000000,"
            ' found "x" (text)'
        ),
        ":5: sessions.pins: item 1 is empty",
        ":5: sessions.pins: item 2: expected an id or a pattern, found 3",
        ':10: sessions.max_cont: unknown key; did you mean "max_count"?',
        ":12: other: unknown key",
    ]


def test_a_long_value_or_name_is_cut() -> None:
    text = f"trash_days = '{'x' * 1000}'\n{'k' * 1000} = 1"
    wrong_value, unknown = problems(text)
    assert wrong_value.endswith(f'found "{"x" * 37}..." (text)')
    assert unknown == f":2: {'k' * 61}...: unknown key"


@pytest.mark.parametrize("name", ["a", "0", "a" * 64, "a_b-c.d"])
def test_source_names_that_hold(name: str) -> None:
    assert not check({"sessions": {"source": {name: {}}}}, "", WHERE)[1]
    assert not check({"transcripts": {name: "none"}}, "", WHERE)[1]


@pytest.mark.parametrize("name", ["", "-a", ".", "..", "a/b", "a" * 65, "a\n", "ä", "A b"])
def test_source_names_that_do_not(name: str) -> None:
    documents: list[dict[str, object]] = [
        {"sessions": {"source": {name: {}}}},
        {"transcripts": {name: "none"}},
    ]
    for document in documents:
        (problem,) = check(document, "", WHERE)[1]
        assert problem.what.startswith("a source name is")


def test_without_text_problems_have_no_line() -> None:
    values, found = check({"trash_days": 3, "x": 1}, "", WHERE)
    assert [str(problem) for problem in found] == [f"{WHERE}: x: unknown key"]
    assert values[0].origin == "config.toml"


@pytest.mark.parametrize("key", KEYS, ids=lambda key: ".".join(key.path))
def test_a_key_has_a_default_that_holds_or_else_an_example(key: Key) -> None:
    shown = key.example if key.default is None else key.default
    assert shown is not None
    assert key.kind.read(shown) == shown
    assert key.default is None or key.example is None
