"""Settings as values: types, origins, and the policy and options they amount to."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from holdfast.config.reader import load
from holdfast.config.settings import BY_TABLE, KEYS, OWN_KEYS, TABLES, Settings
from holdfast.errors import UsageError
from holdfast.policy.lifecycle import OnReset, SessionOptions, Transcript
from holdfast.policy.rules import DAY, Caps, CheckpointPolicy, GcRules, Limits, Policy, Rules
from holdfast.policy.session_limits import SessionLimits


def settings(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, {})


def names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def test_every_table_and_every_attribute_is_declared() -> None:
    tables = [table for table in TABLES if table != "prices"]  # which has no keys of its own
    assert names(Settings) == [*BY_TABLE[""], *tables, "own", "connected", "origins"]
    for table in tables:
        more = ["by_source"] if table == "transcripts" else []
        assert names(type(getattr(Settings(), table))) == [*BY_TABLE[table], *more]


def test_defaults_and_examples_are_values_that_their_keys_accept() -> None:
    for key in KEYS:
        values = [value for value in (key.default, key.example) if value is not None]
        assert [key.kind.read(value) for value in values] == values != []
        assert all(type(key.kind.read(value)) is type(value) for value in values)


def test_keys_that_a_source_may_set() -> None:
    keep = ("last", "hourly", "daily", "weekly", "monthly", "yearly", "within")
    assert [*OWN_KEYS["sessions"]] == [
        "retention_days",
        "files_retention_days",
        "leftovers_retention_days",
        *(f"keep_{rule}" for rule in keep),
        "max_total_size_mb",
        "max_count",
        "archive_after_days",
    ]


def test_a_caller_may_change_keys_of_a_table() -> None:
    usual = load(None, {})
    given = {"trivial_max": 2, "keep_titled": True, "empty_hours": None}
    assert usual.changed("sessions", given).gc_rules() == GcRules(trivial_max=2, keep_titled=True)
    with pytest.raises(UsageError, match="trivial_max: expected a whole number from 0"):
        usual.changed("sessions", {"trivial_max": "two"})


def test_every_key_stands_in_a_table_that_is_known() -> None:
    assert [key for keys in BY_TABLE.values() for key in keys.values()] == [*KEYS]


def test_settings_are_frozen_and_slotted() -> None:
    value = load(None, {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.trash_days = 1  # type: ignore[misc]
    assert not hasattr(value, "__dict__")
    assert hash(value) == hash(load(None, {}))


def test_default_entries() -> None:
    assert list(load(None, {}).entries()) == [
        ("trash_days", 7, "default"),
        ("log_days", 365, "default"),
        ("homes", (), "default"),
        ("sessions.retention_days", 90, "default"),
        ("sessions.files_retention_days", 0, "default"),
        ("sessions.leftovers_retention_days", 0, "default"),
        ("sessions.idle_hours", 24, "default"),
        ("sessions.keep_last", 0, "default"),
        ("sessions.keep_hourly", 0, "default"),
        ("sessions.keep_daily", 0, "default"),
        ("sessions.keep_weekly", 0, "default"),
        ("sessions.keep_monthly", 0, "default"),
        ("sessions.keep_yearly", 0, "default"),
        ("sessions.keep_within", "", "default"),
        ("sessions.max_total_size_mb", 0, "default"),
        ("sessions.max_count", 0, "default"),
        ("sessions.pins", (), "default"),
        ("sessions.auto_prune", False, "default"),
        ("sessions.auto_gc", False, "default"),
        ("sessions.auto_archive", False, "default"),
        ("sessions.archive_after_days", 30, "default"),
        ("sessions.empty_hours", 24, "default"),
        ("sessions.trivial_days", 7, "default"),
        ("sessions.trivial_max", 5, "default"),
        ("sessions.keep_titled", False, "default"),
        ("sessions.on_reset", "archive", "default"),
        ("sessions.idle_minutes", None, "default"),
        ("sessions.max_messages", 1000, "default"),
        ("sessions.max_size_mb", 10, "default"),
        ("sessions.warn_percent", 80, "default"),
        ("sessions.abandoned_hours", 24, "default"),
        ("transcripts.default", "none", "default"),
        ("cron.after_delivery", "keep", "default"),
        ("checkpoints.enabled", False, "default"),
        ("checkpoints.max_snapshots", 20, "default"),
        ("checkpoints.max_total_size_mb", 500, "default"),
        ("checkpoints.max_file_size_mb", 10, "default"),
        ("checkpoints.push_max_file_size_mb", 5, "default"),
        ("checkpoints.retention_days", 7, "default"),
        ("checkpoints.delete_orphans", True, "default"),
        ("checkpoints.auto_prune", True, "default"),
        ("checkpoints.keep_last", 0, "default"),
        ("checkpoints.keep_hourly", 0, "default"),
        ("checkpoints.keep_daily", 0, "default"),
        ("checkpoints.keep_weekly", 0, "default"),
        ("checkpoints.keep_monthly", 0, "default"),
        ("checkpoints.keep_within", "", "default"),
        ("checkpoints.exclude", (), "default"),
        ("checkpoints.hash_all", False, "default"),
        ("maintenance.min_interval_hours", 24, "default"),
        ("store.url", "", "default"),
        ("store.machine_silence_days", 30, "default"),
        ("archive.folder", "", "default"),
        ("archive.url", "", "default"),
        ("archive.endpoint", "", "default"),
        ("archive.region", "", "default"),
        ("archive.profile", "", "default"),
        ("archive.codec", "zstd", "default"),
        ("archive.retention_days", 0, "default"),
        ("archive.max_total_size_mb", 0, "default"),
        ("guardian.max_total_size_mb", 0, "default"),
        ("guardian.max_home_size_mb", 0, "default"),
        ("guardian.high_percent", 95, "default"),
        ("guardian.low_percent", 85, "default"),
        ("guardian.alarm_mb_per_minute", 1000, "default"),
        ("guardian.reserve_mb", 64, "default"),
        ("vault.enabled", False, "default"),
        ("vault.cold_days", 7, "default"),
        ("vault.url", "", "default"),
        ("vault.retention_days", 0, "default"),
        ("vault.max_total_size_mb", 0, "default"),
        ("notify.command", "", "default"),
        ("notify.near_percent", 90, "default"),
        ("notify.timeout_seconds", 10, "default"),
        ("mcp.changes", "ask", "default"),
        ("guard.max_tokens", 0, "default"),
        ("guard.max_tokens_in", 0, "default"),
        ("guard.max_tokens_out", 0, "default"),
        ("guard.max_cost", 0, "default"),
        ("guard.max_iterations", 0, "default"),
        ("guard.max_minutes", 0, "default"),
        ("guard.max_messages_per_minute", 0, "default"),
        ("guard.daily_tokens", 0, "default"),
        ("guard.daily_cost", 0, "default"),
        ("guard.warn_percent", (80,), "default"),
        ("guard.breaker", (3, 6, 9), "default"),
        ("guard.same_call", (3, 6, 9), "default"),
        ("guard.same_tool", (20, 40, 0), "default"),
        ("guard.idle_minutes", 5, "default"),
        ("hooks.checkpoints", True, "default"),
        ("hooks.on_failure", "allow", "default"),
        ("hooks.helper", True, "default"),
        ("hooks.max_snapshots", 1000, "default"),
        ("hooks.project_daily_tokens", 0, "default"),
        ("hooks.project_daily_cost", 0, "default"),
    ]


def test_origins(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    long = "s" * 64
    path.write_text(
        "trash_days = 3\n\nsessions.keep_last = 4\nsessions.max_count = 8\n"
        f"sessions.source.'a.b'.keep_last = 5\nsessions.source.{long}.max_count = 6\n"
        "sessions.source.cron = { keep_last = 7, retention_days = 1.5 }\n"
        "sessions.idle_minutes = 30\ncron.after_delivery = 'remove'\n"
        "transcripts = { 'a.b' = 'jsonl', default = 'none', a = 'none' }\n",
        encoding="utf-8",
    )
    entries = load(path, {"HOLDFAST_SESSIONS_MAX_COUNT": "9"}).entries()
    assert [entry for entry in entries if entry[2] != "default"] == [
        ("trash_days", 3, "config.toml:1"),
        ("sessions.keep_last", 4, "config.toml:3"),
        ("sessions.max_count", 9, "HOLDFAST_SESSIONS_MAX_COUNT"),
        ("sessions.idle_minutes", 30, "config.toml:8"),
        ('sessions.source."a.b".keep_last', 5, "config.toml:5"),
        ("sessions.source.cron.retention_days", 1.5, "config.toml:7"),
        ("sessions.source.cron.keep_last", 7, "config.toml:7"),
        (f"sessions.source.{long}.max_count", 6, "config.toml:6"),
        ("transcripts.default", "none", "config.toml:10"),
        ("transcripts.a", "none", "config.toml:10"),
        ('transcripts."a.b"', "jsonl", "config.toml:10"),
        ("cron.after_delivery", "remove", "config.toml:9"),
    ]


def test_default_policy() -> None:
    everywhere = Limits(rules=Rules(max_age=90 * DAY))
    assert load(None, {}).policy() == Policy(everywhere=everywhere, trash_age=7 * DAY)
    assert load(None, {}).policy(use_trash=False) == Policy(everywhere=everywhere, use_trash=False)


def test_full_policy(tmp_path: Path) -> None:
    policy = settings(
        tmp_path,
        """
        trash_days = 14
        [sessions]
        retention_days = 0.5
        keep_last = 1
        keep_hourly = 2
        keep_daily = 3
        keep_weekly = 4
        keep_monthly = 5
        keep_yearly = 6
        keep_within = "1d12h"
        max_total_size_mb = 500
        max_count = 8
        pins = ["a", "b*"]
        """,
    ).policy()
    assert policy == Policy(
        everywhere=Limits(
            rules=Rules(
                max_age=0.5 * DAY,
                keep_last=1,
                keep_hourly=2,
                keep_daily=3,
                keep_weekly=4,
                keep_monthly=5,
                keep_yearly=6,
                keep_within=1.5 * DAY,
            ),
            caps=Caps(max_bytes=500_000_000, max_count=8),
        ),
        pins=("a", "b*"),
        trash_age=14 * DAY,
    )


def test_a_source_inherits_rules_and_not_caps(tmp_path: Path) -> None:
    policy = settings(
        tmp_path,
        """
        [sessions]
        keep_last = 5
        keep_within = "1w"
        max_count = 100
        max_total_size_mb = 1
        [sessions.source.cron]
        retention_days = 7
        max_total_size_mb = 2
        [sessions.source.cli]
        retention_days = 0
        keep_last = 0
        keep_within = ""
        [sessions.source.empty]
        """,
    ).policy()
    assert policy.by_source == {
        "cron": Limits(
            rules=Rules(max_age=7 * DAY, keep_last=5, keep_within=7 * DAY),
            caps=Caps(max_bytes=2_000_000),
        ),
        "cli": Limits(),
    }
    assert policy.everywhere.caps == Caps(max_bytes=1_000_000, max_count=100)
    assert policy.rules_for("empty") == policy.everywhere.rules


def test_a_source_inherits_from_the_environment_too(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("sessions.source.cron.max_count = 1", encoding="utf-8")
    policy = load(path, {"HOLDFAST_SESSIONS_RETENTION_DAYS": "3"}).policy()
    assert policy.by_source["cron"].rules == Rules(max_age=3 * DAY)


def test_leftovers_have_a_retention_of_their_own(tmp_path: Path) -> None:
    assert not load(None, {}).policy().leftovers
    policy = settings(
        tmp_path,
        """
        [sessions]
        leftovers_retention_days = 30
        [sessions.source.todos]
        leftovers_retention_days = 0
        [sessions.source.logs]
        leftovers_retention_days = 3
        """,
    ).policy()
    assert policy.leftover_rules("anything") == Rules(max_age=30 * DAY)
    assert policy.leftover_rules("todos") is None
    assert policy.leftover_rules("logs") == Rules(max_age=3 * DAY)


def test_an_empty_policy_is_no_error_here() -> None:
    assert load(None, {"HOLDFAST_SESSIONS_RETENTION_DAYS": "0"}).policy().empty


def test_default_session_options() -> None:
    """What the library does without a configuration is what the configuration says by default."""
    assert load(None, {}).session_options() == SessionOptions(
        transcripts={"default": Transcript.NONE}
    )


def test_full_session_options(tmp_path: Path) -> None:
    options = settings(
        tmp_path,
        """
        [sessions]
        on_reset = "delete"
        idle_minutes = 1.5
        max_messages = 0
        max_size_mb = 3
        warn_percent = 50
        abandoned_hours = 2
        [transcripts]
        default = "jsonl"
        cron = "none"
        telegram = "jsonl-synced"
        [cron]
        after_delivery = "remove"
        """,
    ).session_options()
    assert options == SessionOptions(
        limits=SessionLimits(max_messages=0, max_bytes=3_000_000, warn_share=0.5),
        on_reset=OnReset.DELETE,
        idle_minutes=1.5,
        transcripts={
            "default": Transcript.JSONL,
            "cron": Transcript.NONE,
            "telegram": Transcript.JSONL_SYNCED,
        },
        remove_after_delivery=True,
        abandoned_after=7200.0,
    )
    assert type(options.on_reset) is OnReset
    assert type(options.transcript_of("cron")) is Transcript
    assert options.transcript_of("cli") is Transcript.JSONL


def test_what_nobody_asked_for_does_not_happen() -> None:
    value = load(None, {})
    assert (value.sessions.auto_prune, value.sessions.auto_gc) == (False, False)
    assert value.archive.limits().empty
    assert value.notify.program == ()


def test_default_bounds_of_checkpoints() -> None:
    value = load(None, {})
    assert value.checkpoint_policy() == CheckpointPolicy(
        stale_after=7 * DAY, max_count=20, max_bytes=500_000_000, trash_age=7 * DAY
    )
    assert value.checkpoints.max_file_bytes == 10_000_000


def test_bounds_of_checkpoints_that_are_turned_off(tmp_path: Path) -> None:
    value = settings(
        tmp_path,
        """
        trash_days = 3
        [checkpoints]
        max_snapshots = 0
        max_total_size_mb = 0
        max_file_size_mb = 0
        retention_days = 0
        """,
    )
    assert value.checkpoint_policy(use_trash=False, keep_orphans=True) == CheckpointPolicy(
        trash_age=3 * DAY, use_trash=False, keep_orphans=True
    )
    assert value.checkpoints.max_file_bytes is None


def test_keep_rules_of_checkpoints(tmp_path: Path) -> None:
    value = settings(
        tmp_path,
        """
        [checkpoints]
        keep_last = 1
        keep_hourly = 2
        keep_daily = 3
        keep_weekly = 4
        keep_monthly = 5
        keep_within = "2d"
        exclude = ["data/", "!*.png"]
        """,
    )
    assert value.checkpoint_policy().rules == Rules(
        keep_last=1,
        keep_hourly=2,
        keep_daily=3,
        keep_weekly=4,
        keep_monthly=5,
        keep_within=2 * DAY,
    )
    assert value.checkpoints.exclude == ("data/", "!*.png")


def test_maintenance_archive_and_notify_as_values(tmp_path: Path) -> None:
    value = settings(
        tmp_path,
        """
        [maintenance]
        min_interval_hours = 0.5
        [archive]
        retention_days = 2
        max_total_size_mb = 3
        [notify]
        command = "mail -s 'two words' me"
        near_percent = 75
        """,
    )
    assert value.maintenance.interval == 1800
    assert value.archive.limits() == Limits(
        rules=Rules(max_age=2 * DAY), caps=Caps(max_bytes=3_000_000)
    )
    assert value.notify.program == ("mail", "-s", "two words", "me")
    assert value.notify.near_share == 0.75


def test_what_gc_takes(tmp_path: Path) -> None:
    assert load(None, {}).gc_rules() == GcRules()
    value = settings(tmp_path, "[sessions]\nempty_hours = 2\ntrivial_days = 3\ntrivial_max = 4")
    assert value.gc_rules() == GcRules(empty_after=7200, trivial_after=3 * DAY, trivial_max=4)
    assert value.policy().trivial_max == 4
