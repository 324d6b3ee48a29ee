"""`holdfast sessions show`, `search`, `rename` and `pin`."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.cli.runner import COMMAND, PATIENCE
from tests.cli.session_bench import CJK, CRON, DISK, EMPTY, ids, line, take_in

# --- show -----------------------------------------------------------------------------------


def test_a_conversation_for_people(stored_once: Machine) -> None:
    shown = stored_once.ok("sessions", "show", DISK)
    assert shown.lines[0] == "Disk clean-up"
    assert f"{DISK}  telegram  Sonnet-4  /work/alpha" in shown.lines
    said = ["The disk is full", "Let me look.", "du -sh", "12G checkpoints", "Old checkpoints"]
    places = [shown.out.index(text) for text in said]
    assert places == sorted(places), "in the order in which it was said"
    assert f"branch of {DISK}" in stored_once.ok("sessions", "show", CJK).out
    assert "[image]" in stored_once.ok("sessions", "show", CJK).out


def test_the_document_of_a_conversation(stored_once: Machine) -> None:
    document = stored_once.json("sessions", "show", DISK)
    assert set(document) == {"session", "in_use", "messages", "taken_back", "checkpoints"}
    assert document["session"]["id"] == DISK
    first, second, third, fourth = document["messages"]
    assert first["role"] == "user"
    assert first["content"] == "The disk is full. What can go?"
    assert first["tokens"] == 12
    assert second["tokens"] == {"in": 800, "out": 25, "cached": 700}
    assert second["tool_calls"][0]["function"]["name"] == "shell"
    assert (third["tool_name"], third["tool_call_id"]) == ("shell", "c1")
    assert third["content"] == "12G\tcheckpoints"
    numbers = [message["number"] for message in (first, second, third, fourth)]
    assert numbers == sorted(set(numbers))
    last = stored_once.json("sessions", "show", DISK, "--last", "1")
    assert last["messages"] == [fourth]
    assert last["session"]["message_count"] == 4


def test_a_long_message_is_shortened_unless_asked(machine: Machine) -> None:
    take_in(machine, line("20260101_000000_abcdef", "x" * 5_000))
    screen = {"COLUMNS": "80"}
    short = machine.ok("sessions", "show", "2026", env=screen)
    assert "1,000 more characters; --whole shows them." in short.words
    assert machine.ok("sessions", "show", "2026", "--whole", env=screen).out.count("x") == 5_000
    assert "x" * 5_000 in machine.ok("sessions", "show", "2026").lines, "whole in a pipe"


@pytest.mark.parametrize("command", ["show", "pin", "export"])
def test_a_unique_beginning_stands_for_an_id(stored: Machine, command: str) -> None:
    assert DISK in stored.ok("sessions", command, "20260101").out


@pytest.mark.parametrize("command", ["show ID", "rename ID new"])
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("20260120", f"2 sessions: {EMPTY} {CJK} Use a longer prefix."),
        ("20260101_090000_aaaaab", f"Did you mean {DISK}?"),
        ("CRON_INBOX-DIGEST_20260110_090000", f"Did you mean {CRON}?"),
        ("zzz", "holdfast sessions list"),
        ("../sessions.db", "is not a session id"),
        ("2026*", "is not a session id"),
        ("", "cannot be empty"),
        ("x" * 300, "at most 128 characters"),
    ],
)
def test_an_id_that_is_none(stored_once: Machine, command: str, typed: str, said: str) -> None:
    words = [typed if word == "ID" else word for word in command.split()]
    result = stored_once.run("sessions", *words)
    assert result.code == 2
    assert said in result.words
    assert result.out == ""


# --- search ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["disk"], [DISK]),
        (["DISK", "full"], [DISK]),
        (['"disk is full"'], [DISK]),
        (['"full disk"'], []),
        (["check*"], [DISK, DISK]),
        (["inbox OR disk"], [CRON, DISK]),
        (["checkpoints", "NOT", "old"], [DISK]),
        (["--", "checkpoints", "-old"], [DISK]),
        (["(inbox OR disk) full"], [DISK]),
        (["total_size"], [CRON, CJK]),
        (["otal_siz"], []),
        (["--part", "otal_siz"], [CJK, CRON]),
        (["已滿"], [CJK]),
        (["滿怎"], [CJK]),
        (["--role", "tool", "checkpoints"], [DISK]),
        (["--role", "user", "checkpoints"], []),
        (["--source", "cron", "inbox OR disk"], [CRON]),
        (["--older-than", "35d", "inbox OR disk"], [DISK]),
        (["--limit", "1", "check*"], [DISK]),
        (["--offset", "2", "check*"], []),
    ],
)
def test_what_a_search_finds(
    stored_once: Machine, words: list[str], expected: Sequence[str]
) -> None:
    hits = stored_once.json("sessions", "search", *words)["hits"]
    found = [hit["session"] for hit in hits]
    assert sorted(found) == sorted(expected)
    for hit in hits:
        assert hit.keys() == {
            "session",
            "source",
            "title",
            "message",
            "role",
            "timestamp",
            "snippet",
            "score",
            "matches",
        }
        assert all(
            hit["snippet"][start - 1] + hit["snippet"][end] == "[]" for start, end in hit["matches"]
        )
        assert hit["matches"]
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)


def test_a_search_for_people(stored_once: Machine) -> None:
    shown = stored_once.ok("sessions", "search", "disk", env={"COLUMNS": "80"})
    assert f"{DISK}  user" in shown.out
    assert "The [disk] is full. What can go?" in shown.out
    [_, hit] = stored_once.ok("sessions", "search", "disk").lines
    assert hit.split("\t")[::4] == [DISK, "The [disk] is full. What can go?"], "a line in a pipe"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("", "2 messages match."),
        ("--limit 2", "2 messages match."),
        ("--limit 1", "Match 1; there are more. Next page: --offset 1."),
        ("--limit 1 --offset 1", "Match 2, the last."),
    ],
)
def test_a_search_says_which_matches_these_are(stored_once: Machine, flags: str, said: str) -> None:
    asked = ["sessions", "search", "inbox OR disk", *flags.split()]
    inside = Inside(stored_once)
    assert said in inside.run(*asked, columns=80).out
    more = "there are more" in said
    assert inside.run("--json", *asked).document["more"] is more
    assert (said in inside.run(*asked).err) is more, "in a pipe, next to the messages"


def test_what_is_not_found_gets_a_command_that_works(stored_once: Machine) -> None:
    """As typed by a shell: quotes and dollar signs of the query do nothing there."""
    typed = "$(touch oops) 'a b'"
    shown = stored_once.ok("--home", str(stored_once.home), "sessions", "search", typed)
    assert "No matches for" in shown.out
    suggested = shown.lines[-1].strip()
    assert suggested.startswith(f"holdfast --home {stored_once.home} sessions search --part ")
    run = suggested.replace("holdfast", " ".join(COMMAND), 1)
    again = subprocess.run(
        ["sh", "-c", run],
        check=True,
        capture_output=True,
        env=stored_once.env(),
        cwd=stored_once.user,
        timeout=PATIENCE,
    )
    assert b"No matches for" in again.stdout
    assert not (stored_once.user / "oops").exists()


@pytest.mark.parametrize(
    ("query", "place"),
    [
        (['"never closed'], "at character 1"),
        (["disk OR"], "at character 6"),
        (["(disk"], "at character 1"),
        (["disk )"], "at character 6"),
        (["()"], "at character 1"),
        (["NOT disk"], "at character 1"),
        (["disk ->"], "at character 6"),
        (["--part", "x"], "too short"),
        ([" "], ""),
        (["x" * 5_000], "5,000 characters"),
    ],
)
def test_a_query_that_is_none(stored_once: Machine, query: list[str], place: str) -> None:
    result = stored_once.run("--json", "sessions", "search", *query)
    assert result.code == 2
    error = result.document["error"]
    assert error["kind"] == "query"
    assert place in error["message"]
    assert error["hint"]


# --- rename and pin -------------------------------------------------------------------------


def test_rename_and_back(stored: Machine) -> None:
    document = stored.json("sessions", "rename", CRON, "  Inbox of today ")
    assert document["session"]["title"] == "Inbox of today"
    assert ids(stored, "--title", "inbox") == [CRON]
    assert "no longer has a title" in stored.ok("sessions", "rename", CRON, "").out
    assert stored.json("sessions", "show", CRON)["session"]["title"] is None


def test_a_title_that_is_no_text(stored: Machine) -> None:
    result = stored.run("sessions", "rename", DISK, b"caf\xe9")
    assert result.code == 2
    assert "not valid UTF-8" in result.err
    assert stored.json("sessions", "show", DISK)["session"]["title"] == "Disk clean-up"


def test_pin_and_off(stored: Machine) -> None:
    assert stored.json("sessions", "pin", DISK)["session"]["pinned"] is True
    assert ids(stored, "--pinned") == [CJK, DISK]
    assert "is no longer pinned" in stored.ok("sessions", "unpin", DISK).out
    assert ids(stored, "--pinned") == [CJK]
