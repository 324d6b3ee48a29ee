"""Prune, see it in log and trash, undo: nothing differs afterwards. And every flag of prune."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cli.machine import Machine, age, entries, item_id, reasons, removals


def _apart_from_the_folder(machine: Machine) -> dict[str, object]:
    """The files of sessions/; the folder's own time tells only when it last changed."""
    return {name: entry for name, entry in entries(machine.sessions).items() if name != "."}


def test_there_and_back(used: Machine) -> None:
    odd = used.transcript(days=150)
    odd.chmod(0o4711)
    before = _apart_from_the_folder(used)
    going = removals(used.json("sessions", "prune", "--dry-run"))

    done = used.json("sessions", "prune", "--yes")
    assert removals(done) == going
    assert {f"sessions/{name}" for name in used.names()} == {
        f"sessions/{name}" for name in before
    } - set(going)
    assert sorted(item["id"] for item in done["report"]["items"]) == going
    assert used.json("log")["operations"][0]["removed"] == 6
    assert sorted(entry["id"] for entry in used.json("trash", "list")["trash"]) == going

    back = used.json("undo")
    assert back["undone"] == "1"
    assert back["report"]["brought_back"] == 6
    assert back["report"]["failed"] == 0
    assert _apart_from_the_folder(used) == before
    assert used.json("trash", "list")["trash"] == []
    assert [each["state"] for each in used.json("log")["operations"]] == ["done", "undone"]
    assert list(used.trash.rglob("*")) == []


def test_the_same_for_people(used: Machine) -> None:
    """The words that a person reads on the way, and that each suggested command works."""
    assert "holdfast sessions prune --dry-run" in used.ok().out
    preview = used.ok("sessions", "prune", "--dry-run").out
    assert "The plan removes 5 items" in preview
    assert "older than 90 d" in preview
    assert "active within 90 d" in preview
    done = used.ok("sessions", "prune", "--yes").out
    assert preview.endswith("\n\nNothing was changed.\n")
    assert done.startswith(preview.removesuffix("\nNothing was changed.\n"))
    assert "5 removed  (operation 1)" in done
    assert "  holdfast undo 1\n" in done
    assert re.search(r"1\t.*\tsessions prune\t5 removed", used.ok("log").out)
    assert re.search(
        r"5 items, .*The first prune after that time removes them for good", used.ok("trash").out
    )
    assert "holdfast trash list" in used.ok("status").out
    would = used.ok("undo", "--dry-run").out
    assert "would bring back 5 items" in would
    assert "5 brought back" in used.ok("undo").out
    assert "The trash is empty" in used.ok("trash").out
    assert "5 removed; undone" in used.ok("log").out


def test_a_second_prune_finds_nothing(used: Machine) -> None:
    used.ok("sessions", "prune", "--yes")
    again = used.json("sessions", "prune", "--yes")
    assert again["applied"] is False
    assert len(used.json("log")["operations"]) == 1


def test_dry_run_beats_yes(used: Machine) -> None:
    before = entries(used.home)
    used.ok("sessions", "prune", "--yes", "--dry-run")
    assert entries(used.home) == before


def test_all_lists_every_item_with_its_reason(used: Machine) -> None:
    text = used.ok("sessions", "prune", "--dry-run", "--all").out
    for name in used.names() - {"sessions.json"}:
        assert name in text
    assert text.count("older than 90 d: last active") == 5


def test_now_skips_the_trash(used: Machine) -> None:
    document = used.json("sessions", "prune", "--now", "--yes")
    assert document["report"]["bytes_freed"] == document["plan"]["bytes"] > 0
    assert document["report"]["bytes_in_trash"] == 0
    assert len(used.names()) == 2
    assert used.json("trash", "list")["trash"] == []
    assert list(used.trash.rglob("*")) == []
    result = used.run("undo")
    assert result.code == 1
    assert "for good" in result.err
    assert "--now" in result.err


# --- What a run looks at --------------------------------------------------------------------------


def test_older_than(used: Machine) -> None:
    chosen = removals(used.json("sessions", "prune", "--older-than", "150d", "--dry-run"))
    assert len(chosen) == 2
    assert all("000004" in name for name in chosen)
    assert len(removals(used.json("sessions", "prune", "--older-than", "2d", "--dry-run"))) == 6


def test_older_than_a_date(used: Machine) -> None:
    assert removals(used.json("sessions", "prune", "--older-than", "2001-01-01", "-n")) == []


def test_source(used: Machine) -> None:
    document = used.json("sessions", "prune", "--source", "telegram", "--yes")
    assert {item["source"] for item in document["plan"]["items"]} == {"telegram"}
    assert {item["kind"] for item in document["plan"]["items"]} == {"transcript", "request_dump"}
    assert document["report"]["removed"] == 2
    assert len(used.names()) == 5


def test_two_sources(used: Machine) -> None:
    document = used.json(
        "sessions", "prune", "--source", "telegram", "--source", "cron", "--dry-run"
    )
    assert len(removals(document)) == 5


def test_kind(used: Machine) -> None:
    document = used.json("sessions", "prune", "--kind", "request-dump", "--yes")
    assert [item["kind"] for item in document["plan"]["items"]] == ["request_dump"]
    assert document["report"]["removed"] == 1
    assert len(used.names()) == 6


def test_a_source_that_is_no_text(used: Machine) -> None:
    """Bytes that are no UTF-8 in an argument end up in the log, and spoil nothing."""
    args = [b"sessions", b"prune", b"--source", b"caf\xe9", b"--source", b"cron", b"--yes"]
    result = used.run(*args)
    assert result.code == 0, result
    assert "3 removed" in result.out
    assert used.ok("log").code == 0
    used.ok("undo")


# --- Rules ----------------------------------------------------------------------------------------


@pytest.fixture
def daily(machine: Machine) -> list[Path]:
    """One transcript a day, the newest first, all old enough to be judged."""
    return [machine.transcript(days=10 + number) for number in range(6)]


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ("--keep-last 2", 2),
        ("--keep-within 49h", 3),
        ("--keep-hourly 4", 4),
        ("--keep-daily 3", 3),
        ("--keep-weekly 1 --keep-last 1", None),
        ("--keep-yearly 1", 1),
        ("--keep-last 1 --older-than 12d12h", 3),
        ("--max-count 4 --older-than 1y", 4),
        ("--max-count 1 --keep-last 6", 1),
    ],
)
def test_keep_rules(machine: Machine, daily: list[Path], flags: str, kept: int | None) -> None:
    document = machine.json("sessions", "prune", *flags.split(), "--yes")
    assert machine.names() == {path.name for path in daily} - {
        name.removeprefix("sessions/") for name in removals(document)
    }
    if kept is None:
        assert 1 <= len(machine.names()) < len(daily)
    else:
        assert machine.names() == {path.name for path in daily[:kept]}


def test_every_item_has_a_reason_that_names_its_rule(machine: Machine, daily: list[Path]) -> None:
    document = machine.json("sessions", "prune", "--keep-last", "2", "--dry-run")
    assert [reasons(document)[item_id(path)] for path in daily[:3]] == [
        "among the last 2: number 1",
        "among the last 2: number 2",
        "not kept by any keep rule",
    ]


def test_a_size_cap_removes_the_oldest_for_good(machine: Machine) -> None:
    newest, middle, oldest = (machine.transcript(days=10 + n, kb=100) for n in range(3))
    document = machine.json("sessions", "prune", "--max-total-size", "250kB", "--yes")
    assert removals(document) == [item_id(oldest)]
    assert document["report"]["bytes_freed"] > 100_000
    assert machine.names() == {newest.name, middle.name}
    assert machine.run("undo").code == 1


def test_a_size_cap_takes_the_trash_first(machine: Machine) -> None:
    machine.transcript(days=100, kb=100)
    kept = [machine.transcript(days=10 + n, kb=100) for n in range(2)]
    machine.ok("sessions", "prune", "--yes")
    document = machine.json("sessions", "prune", "--max-total-size", "250kB", "--yes")
    assert [item["kind"] for item in document["plan"]["items"] if item["action"] == "remove"] == [
        "trash"
    ]
    assert machine.names() == {path.name for path in kept}


def test_a_cap_that_cannot_be_met_says_what_is_in_the_way(machine: Machine) -> None:
    machine.transcript(days=0.1, kb=100)
    machine.transcript(days=0.2, kb=100)
    result = machine.ok("sessions", "prune", "--max-total-size", "50kB", "--yes")
    assert "cannot be met" in result.words
    assert "in use" in result.words
    [shortfall] = machine.json("sessions", "prune", "--max-total-size", "50kB", "-n")["plan"][
        "shortfalls"
    ]
    assert shortfall["held_by"].keys() == {"in use", "the operation log"}
    assert len(machine.names()) == 2


def test_an_empty_policy_is_an_error(used: Machine) -> None:
    used.configure("[sessions]\nretention_days = 0\n")
    before = entries(used.home)
    for flags in (["--yes"], ["--dry-run"], ["--now", "--yes"]):
        result = used.run("sessions", "prune", *flags)
        assert result.code == 2
        assert "policy is empty" in result.err
        assert "--older-than 90d" in result.err
    assert "The policy is empty" in used.ok("status").out
    assert entries(used.home) == before


def test_a_source_with_rules_of_its_own(used: Machine) -> None:
    used.configure(
        "[sessions]\nretention_days = 0\n"
        "[sessions.source.cron]\nretention_days = 101\nkeep_last = 1\n"
    )
    document = used.json("sessions", "prune", "--yes")
    assert document["report"]["removed"] == 2
    gone = {item["source"] for item in document["plan"]["items"] if item["action"] == "remove"}
    assert gone == {"cron"}
    assert "no rule for this source" in reasons(document).values()


def test_a_cap_of_one_source(machine: Machine) -> None:
    machine.configure("[sessions.source.cron]\nmax_count = 2\n")
    cron = [machine.transcript(days=10 + n, source="cron") for n in range(4)]
    cli = [machine.transcript(days=10 + n, source="cli") for n in range(4)]
    machine.ok("sessions", "prune", "--yes")
    assert machine.names() == {path.name for path in cron[:2] + cli}


def test_flags_replace_the_rules_of_the_configuration(used: Machine) -> None:
    used.configure("[sessions]\nkeep_last = 100\n")
    assert removals(used.json("sessions", "prune", "--dry-run")) == []
    assert len(removals(used.json("sessions", "prune", "--older-than", "90d", "-n"))) == 5


def test_the_environment_overrides_the_configuration(used: Machine) -> None:
    used.configure("[sessions]\nretention_days = 90\n")
    more = {"HOLDFAST_SESSIONS_RETENTION_DAYS": "150"}
    assert len(removals(used.json("sessions", "prune", "--dry-run", env=more))) == 2


@pytest.mark.parametrize("pin", ["20250101_000000_000004", "2025*_000004", "sessions/*000004*"])
def test_pins(used: Machine, pin: str) -> None:
    used.configure(f'[sessions]\npins = ["{pin}"]\n')
    document = used.json("sessions", "prune", "--older-than", "2d", "--max-count", "1", "--yes")
    pinned = [name for name, reason in reasons(document).items() if reason == "pinned"]
    assert pinned
    assert {name.removeprefix("sessions/") for name in pinned} <= used.names()
    assert any("session_20250101_000000_000004" in name for name in pinned)


# --- Never the living -----------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--now"], ["--max-count", "1"]])
def test_an_open_file_is_kept(used: Machine, flags: list[str]) -> None:
    held = used.numbered(3)
    with held.open("ab"):
        document = used.json("sessions", "prune", *flags, "--yes")
    assert reasons(document)[item_id(held)].startswith("in use: open")
    assert held.exists()
    assert document["report"]["removed"] == 4


def test_a_file_that_is_only_read_is_kept_too(used: Machine) -> None:
    held = used.numbered(3)
    with held.open("rb"):
        used.ok("sessions", "prune", "--yes")
    assert held.exists()


@pytest.mark.parametrize("days", [0, 0.9, -3])
def test_a_file_touched_just_now_is_kept(machine: Machine, days: float) -> None:
    young = machine.transcript(days=days)
    old = machine.transcript(days=3)
    document = machine.json("sessions", "prune", "--older-than", "1s", "--yes")
    assert reasons(document)[item_id(young)].startswith("in use")
    assert removals(document) == [item_id(old)]
    assert young.exists()


def test_idle_hours_is_how_long_a_file_counts_as_in_use(machine: Machine) -> None:
    machine.transcript(days=3)
    machine.configure("[sessions]\nidle_hours = 100\n")
    assert removals(machine.json("sessions", "prune", "--older-than", "1s", "-n")) == []


def test_a_file_that_comes_to_life_while_the_plan_is_shown(used: Machine) -> None:
    woken = used.numbered(3)
    with used.terminal("--json", "sessions", "prune", pipe_stdout=True) as terminal:
        terminal.wait_for("[y/N]")
        os.utime(woken)
        terminal.type("y\n")
        result = terminal.end()
    assert result.code == 0
    report = result.document["report"]
    assert report["removed"] == 4
    assert report["skipped"] == 1
    [skipped] = [item for item in report["items"] if item["result"] == "skipped"]
    assert skipped["id"] == item_id(woken)
    assert "changed since" in skipped["reason"]
    assert woken.exists()


# --- Trash ----------------------------------------------------------------------------------------


def test_trash_empty(used: Machine) -> None:
    used.ok("sessions", "prune", "--source", "telegram", "--yes")
    used.ok("sessions", "prune", "--source", "cron", "--yes")
    with used.terminal("trash", "empty", "1") as terminal:
        terminal.wait_for("Remove 2 items")
        terminal.type("y\n")
        shown = terminal.end()
    assert shown.out.count("cannot be undone") == 1, "in the question"
    assert "2 removed" in shown.out
    gone = next(line for line in shown.lines if "(removed by operation 1)" in line)
    assert "1/0/" not in shown.out, gone
    assert {entry["operation"] for entry in used.json("trash")["trash"]} == {"2"}
    result = used.run("undo", "1")
    assert result.code == 1
    assert "has left the trash for good, through operation 3 (trash empty 1)" in result.err
    assert "The latest that can be undone is operation 2" in result.err
    log = used.ok("log").out
    assert "2 removed from the trash" in log
    assert used.json("undo", "2", "--yes")["report"]["brought_back"] == 3


def test_trash_empty_older_than(used: Machine) -> None:
    used.ok("sessions", "prune", "--yes")
    assert removals(used.json("trash", "empty", "--older-than", "1h", "--yes")) == []
    assert len(used.json("trash")["trash"]) == 5


def test_trash_goes_after_its_days(used: Machine) -> None:
    used.ok("sessions", "prune", "--yes")
    _let_time_pass(used, days=8)
    document = used.json("sessions", "prune", "--yes")
    assert document["report"]["removed"] == 5
    assert {item["kind"] for item in document["report"]["items"]} == {"trash"}
    assert used.json("trash")["trash"] == []
    assert list(used.trash.rglob("*")) == []


def test_trash_stays_for_its_days(used: Machine) -> None:
    used.ok("sessions", "prune", "--yes")
    _let_time_pass(used, days=6)
    assert used.json("sessions", "prune", "--yes")["applied"] is False
    assert used.json("undo")["report"]["brought_back"] == 5


def _let_time_pass(machine: Machine, *, days: float) -> None:
    """The log says when things went; tell it that it was longer ago."""

    def earlier(match: re.Match[str]) -> str:
        return f"{match.group(1)}{float(match.group(2)) - days * 86_400}"

    for journal in (machine.home / "operations").glob("*.jsonl"):
        text = journal.read_text()
        journal.write_text(re.sub(r'("(?:started|finished)_at": ?)([0-9.]+)', earlier, text))


def test_links_that_are_hard_free_nothing(machine: Machine) -> None:
    one = machine.transcript(kb=100)
    two = machine.root / "same"
    two.hardlink_to(one)
    age(one, 100)
    document = machine.json("sessions", "prune", "--now", "--yes")
    assert document["report"]["removed"] == 1
    assert document["report"]["bytes_freed"] == 0
    assert two.stat().st_size > 90_000


def test_a_store_on_a_disk_that_is_not_mounted(used: Machine) -> None:
    """Nobody can tell which of the files belong to open or pinned sessions."""
    (used.home / "sessions.db").symlink_to("/mnt/big-disk/sessions.db")
    names = used.names()
    said = used.ok("sessions", "prune", "--now", "--yes")
    assert "sessions.db: is a link to /mnt/big-disk/sessions.db, which is not there" in said.err
    assert "Nothing to remove" in said.out
    assert used.names() == names
    assert "which is not there" in used.ok("sessions", "list").err
    assert "which is not there" in used.ok("status").out
    (used.home / "sessions.db").unlink()
    used.ok("sessions", "prune", "--now", "--yes")
    assert len(used.names()) == 2
