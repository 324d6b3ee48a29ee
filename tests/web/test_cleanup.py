"""Clean up in the browser: the figures of the command, and what it would do to the home."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from holdfast import open as open_home
from holdfast.model.figures import DiskRoom
from tests.cli.inside import Inside
from tests.cli.machine import Machine, entries
from tests.web.client import Web
from tests.web.forms import hidden


def _saved(web: Web, query: str) -> dict[str, Any]:
    """The plan that the page would save."""
    document: dict[str, Any] = json.loads(web.ok(f"/cleanup/plan.json?home=holdfast&{query}").text)
    plan: dict[str, Any] = document["plan"]
    return plan


def _same(mine: dict[str, Any], command: dict[str, Any]) -> None:
    """To the byte: everything but the moment and the name of who asked."""
    assert mine["items"] == command["items"]
    assert (mine["bytes"], mine["shortfalls"]) == (command["bytes"], command["shortfalls"])


@pytest.mark.parametrize(
    ("query", "flags", "config"),
    [
        ("", (), ""),
        ("sessions.retention_days=150", ("--older-than", "150d"), ""),
        ("sessions.retention_days=0&sessions.keep_last=1", ("--keep-last", "1"), ""),
        ("sessions.max_count=2&trash=never", ("--max-count", "2", "--now"), ""),
        ("sessions.keep_within=off&sessions.retention_days=150", ("--older-than", "150d"), ""),
        ("sessions.source.cron.retention_days=5", (), "[sessions.source.cron]\nretention_days=5"),
    ],
)
def test_the_plan_is_that_of_the_command(
    used: Machine, web: Web, query: str, flags: tuple[str, ...], config: str
) -> None:
    mine = _saved(web, query)
    if config:
        used.configure(config)
    command = ("--home", "holdfast", "sessions", "prune", "--dry-run", *flags)
    document: Any = Inside(used).json(*command)
    _same(mine, document["plan"])
    assert any(item["action"] == "remove" for item in mine["items"])


def test_apply_and_undo_leave_the_home_as_the_command_does(used: Machine, web: Web) -> None:
    before = {name: each for name, each in entries(used.sessions).items() if name != "."}
    asks = web.ok("/cleanup/confirm?home=holdfast")
    assert "Undo can bring it all back until the trash is emptied" in asks.words
    done = web.post("/cleanup/apply", hidden(asks))
    assert done.status == 303, done
    report = web.ok(done.place)
    assert "5 removed" in report.words
    ended = web.get(f"{done.place}/progress")
    assert (ended.status, ended.text) == (204, "")  # a body here would spoil the next answer
    assert used.names() == {"session_20250101_000000_000005.json", "sessions.json"}
    assert "sessions prune (page)" in web.ok("/log").words
    back = web.post("/log/holdfast/1/undo")
    assert back.status == 303, back
    assert "5 brought back" in web.ok(back.place).words
    assert {name: each for name, each in entries(used.sessions).items() if name != "."} == before


def test_a_plan_that_changed_since_is_said_and_nothing_is_done(used: Machine, web: Web) -> None:
    """Two tabs: the second applies what the first has applied already."""
    first = hidden(web.ok("/cleanup/confirm?home=holdfast"))
    second = hidden(web.ok("/cleanup/confirm?home=holdfast"))
    assert web.post("/cleanup/apply", first).status == 303
    log = web.ok("/log").words
    late = web.post("/cleanup/apply", second)
    assert late.status == 409
    assert "The plan has changed since you looked at it. Nothing was done." in late.words
    assert web.ok("/log").words == log


def test_what_cannot_be_undone_needs_a_word_more(used: Machine, web: Web) -> None:
    asks = web.ok("/cleanup/confirm?home=holdfast&trash=never")
    assert "cannot be brought back" in asks.words
    names = used.names()
    refused = web.post("/cleanup/apply", hidden(asks))
    assert refused.status == 400
    assert used.names() == names
    assert web.post("/cleanup/apply", {**hidden(asks), "for_good": "yes"}).status == 303
    assert used.names() != names


def test_all_homes_are_one_run_that_is_undone_together(used: Machine, tmp_path: Path) -> None:
    """Each home gives what its own policy says, and one button brings all of it back."""
    other = used.user / "other"
    shutil.copytree(used.home, other)
    used.configure(f'homes = ["{other}"]')
    names = used.names()
    with Web(used) as web:
        asks = web.ok("/cleanup/confirm")
        fields = hidden(asks)
        assert sum(name.startswith("agree:") for name in fields) == 2
        done = web.ok(web.post("/cleanup/apply", fields).place)
        operations = re.findall(r'name="operation" value="([^"]*)"', done.text)
        assert len(operations) == 2
        assert used.names() != names
        undone = web.ok(web.post("/log/undo", {"operation": operations}).place)
        assert undone.words.count("5 brought back") == 2
    assert used.names() == names == {each.name for each in (other / "sessions").iterdir()}


def test_a_wrong_value_is_told_beside_the_controls(used: Machine, web: Web) -> None:
    said = web.get("/cleanup/plan?home=holdfast&sessions.retention_days=-1")
    assert said.status == 400
    assert "sessions.retention_days: " in said.words
    page = web.get("/cleanup?home=holdfast&sessions.retention_days=soon")
    assert page.status == 400
    assert "sessions.retention_days: " in page.words


@pytest.mark.parametrize("what", ["sessions", "small", "checkpoints", "archive"])
@pytest.mark.parametrize("home", ["", "holdfast"])
def test_every_clean_up_has_its_page(used: Machine, web: Web, what: str, home: str) -> None:
    answer = web.get(f"/cleanup?home={home}&what={what}")
    assert answer.status == 200 or "no rule" in answer.words or "policy" in answer.words, answer
    assert 'aria-label="The policy to try"' in answer.text


def test_what_was_tried_becomes_the_policy(used: Machine) -> None:
    file = used.configure("# mine\n[sessions]\nretention_days = 90  # days\n")
    with Web(used) as web:
        assert "Make it the policy" not in web.ok("/cleanup?home=holdfast").words
        query = "home=holdfast&sessions.retention_days=150&sessions.source.cron.max_count=2"
        form = hidden(web.ok(f"/cleanup/plan?{query}"))
        done = web.post("/cleanup/policy", form)
        assert done.status == 303, done
        text = file.read_text()
        assert text.startswith("# mine\n[sessions]\nretention_days = 150  # days\n")
        assert "max_count = 2" in text
        assert "The policy was saved" in web.ok(done.place).words
        assert web.post("/cleanup/policy", form).status == 409
        assert file.read_text() == text


def test_a_home_without_a_rule_keeps_nobody_from_the_others(used: Machine) -> None:
    other = used.user / "other"
    shutil.copytree(used.home, other)
    used.configure(f'homes = ["{other}"]\n[sessions]\nretention_days = 0\n')
    with Web(used) as web:
        assert "5 items" in web.ok("/cleanup").words
        alone = web.get("/cleanup?home=holdfast")
        assert alone.status == 400
        assert 'aria-label="The policy to try"' in alone.text
        agreed = hidden(web.ok("/cleanup/confirm"))
        shutil.rmtree(other)
        assert web.post("/cleanup/apply", agreed).status in (400, 409)
        agreed["agree:holdfast/other"] = "x"
        assert web.post("/cleanup/apply", agreed).status in (400, 409)


def test_a_source_can_have_a_rule_of_its_own_though_no_session_is_stored(machine: Machine) -> None:
    machine.transcript(days=20, source="<img src=x onerror=alert(1)>")  # which no source may be
    machine.transcript(days=20, source="cli")
    with Web(machine) as web:
        page = web.ok("/cleanup?home=holdfast")
        assert "<img" not in page.text
        assert 'name="sessions.source.unknown.retention_days"' in page.text
        mine = _saved(web, "sessions.source.unknown.retention_days=5")
    gone = [each for each in mine["items"] if each["action"] == "remove"]
    assert [each["source"] for each in gone] == ["unknown"]


@pytest.mark.deep  # it waits as long as a command does for a home that is in use
def test_a_home_that_fails_is_told_beside_what_was_done_in_the_others(used: Machine) -> None:
    other = used.user / "other"
    shutil.copytree(used.home, other)
    used.configure(f'homes = ["{other}"]')
    with Web(used) as web:
        agreed = hidden(web.ok("/cleanup/confirm"))
        (other / "operations").mkdir(mode=0o700, exist_ok=True)
        with (other / "operations" / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            started = web.post("/cleanup/apply", agreed)
            job = web.site.jobs.get(started.place.rpartition("/")[2])
            assert job is not None
            assert job.wait(30)
        report = web.ok(started.place)
    assert "5 removed" in report.words
    assert 'class="notice error"' in report.text
    assert len(used.names()) == 2


def test_on_a_full_disk_the_page_offers_what_makes_room(used: Machine, web: Web) -> None:
    room = DiskRoom(free=300_000, size=60_000_000)
    with mock.patch("holdfast.api.disks.disk_room", return_value=room):
        asks = web.ok("/cleanup/confirm")
        for page in (web.ok("/cleanup"), asks):
            assert "The disk is full: 300.0 kB free of 60.0 MB" in page.words
            assert "this frees nothing now" in page.words
            assert "trash=never" in page.text
        report = web.ok(web.post("/cleanup/apply", hidden(asks)).place)
        assert "Remove it for good instead" in report.words
        undone = web.post("/log/holdfast/1/undo")
        assert undone.status == 303
        asks = web.ok("/cleanup/confirm?trash=never")
        assert "The disk is full" not in asks.words
        with mock.patch("holdfast.api.plan.HomePlan.frees_nothing", room):
            refused = web.post("/cleanup/apply", hidden(web.ok("/cleanup/confirm")))
    assert "Nothing was removed: the disk is full" in web.ok(refused.place).words


@pytest.mark.parametrize("seen", [True, False])
def test_a_killed_run_that_is_settled_now_asks_for_a_new_plan_only_where_that_takes_more(
    used: Machine, web: Web, seen: bool
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with open_home(used.home) as home:
        with (
            mock.patch("holdfast.spine.carry_out.doer_of", killed),
            pytest.raises(KeyboardInterrupt),
        ):
            home.plan_prune().apply()
        if not seen:
            assert home.plan_prune(source="nowhere").apply().report.back == ("1",)
            return
    report = web.ok(web.post("/cleanup/apply", hidden(web.ok("/cleanup/confirm"))).place)
    assert "Operation 1 was interrupted and has just been settled" in report.words
    assert "new plan to include" not in report.words


def test_a_home_that_cannot_be_planned_is_named_where_one_agrees(used: Machine) -> None:
    other = used.user / "other"
    shutil.copytree(used.home, other)
    used.configure(f'homes = ["{other}"]')
    (other / "config.toml").write_text("[sessions]\nretention_days = -1\n")
    with Web(used) as web:
        asks = web.ok("/cleanup/confirm")
        assert f"Not read: {other}" in asks.words
        assert "retention_days" in asks.words
        assert web.post("/cleanup/apply", hidden(asks)).status == 303
    assert len(used.names()) == 2


def test_a_run_that_ends_while_its_page_is_made_is_not_called_nothing(
    used: Machine, web: Web
) -> None:
    done = web.post("/cleanup/apply", hidden(web.ok("/cleanup/confirm?home=holdfast")))
    web.ok(done.place)
    asked = iter([True])
    with mock.patch("holdfast.web.jobs.Job.running", property(lambda _: next(asked, False))):
        page = web.get(done.place)
    assert "Nothing was done" not in page.words
    assert "data-job=" in page.text
