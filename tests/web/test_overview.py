"""The first screen: the figures of the command, at once with those of the last look."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any
from unittest import mock

import pytest

import holdfast
from holdfast.model.alarm import Alarm, Writer
from holdfast.model.figures import DiskRoom, HomeFigures
from holdfast.model.plan_words import frees_when
from holdfast.model.session import Message, Tokens
from holdfast.model.text import format_bytes
from holdfast.stores.figures_file import FiguresFile
from holdfast.value import replace
from holdfast.web.screens.overview import treemap
from tests.cli.agents import settle
from tests.cli.inside import Inside
from tests.cli.machine import DAY, Machine
from tests.web.client import Web


def _status(machine: Machine) -> Mapping[str, Any]:
    found = Inside(machine).json("status")
    assert isinstance(found, dict)
    return found


def test_the_figures_are_those_of_the_command(machine: Machine, web: Web) -> None:
    settle(machine, "claude-code", "codex")
    for number in range(3):
        machine.transcript(days=100 + number, source="cron", kb=8)
    seen = web.ok("/overview/figures")
    web.ok("/sessions")  # the look that this page began is over: it no longer opens databases
    homes = _status(machine)["homes"]
    assert len(homes) == 3
    for each in homes:
        assert format_bytes(each["total_bytes"]) in seen.words
    frees = sum(each["policy_would_free"] for each in homes)
    assert frees
    # The trash keeps all of it: the click itself frees nothing.
    assert f"The policy would free 0 B now, {format_bytes(frees)} in 7 days" in seen.words
    assert 'href="/cleanup"' in seen.text
    assert 'href="/cleanup?trash=never"' in seen.text
    taken = format_bytes(sum(each["total_bytes"] for each in homes))
    assert f"3 items would go. Your agents take {taken} in all." in seen.words
    # What the projects take is what the sessions take.
    found = holdfast.machine(user_home=machine.user, environ=machine.env()).overview()
    parts = sum(each.parts["sessions"] for each in found.homes)
    assert sum(each.bytes for each in found.projects) == parts
    assert all(sum(each.parts.values()) == each.bytes for each in found.homes)


def test_the_page_comes_with_the_last_figures_before_any_scan(machine: Machine, web: Web) -> None:
    settle(machine, "claude-code")
    assert "Looking at the homes" in web.ok("/").words
    web.site.memory.clear()
    now = time.time()
    kept = FiguresFile(machine.user / ".claude/.holdfast")
    for days in (3, 2, 1):
        kept.add(HomeFigures(at=now - days * DAY, bytes=(9 - days) * 10**9, sessions=41))
    with mock.patch.object(web.site.threads, "begin", return_value=Future()):
        first = web.ok("/")
    assert "8.0 GB" in first.words
    assert "41" in first.words
    assert "data-stale" in first.text
    assert "polyline" in first.text
    assert "1.0 GB a day" in first.words


def test_what_is_free_at_once_is_not_what_waits_in_the_trash(used: Machine) -> None:
    used.configure("[sessions]\nretention_days = 30\nmax_count = 1\n")
    with holdfast.machine(user_home=used.user, environ=used.env()) as homes:
        plan = homes.open(homes.homes[0]).plan_prune(use_trash=False)
        seen = homes.overview()
    assert seen.later == seen.frees == plan.bytes
    assert frees_when(48_400_000, 48_400_000, (7, 7)) == "0 B now, 48.4 MB in 7 days"
    assert frees_when(48_400_000, 45_000_000, (1, 9)) == "3.4 MB now, 45.0 MB in 1 to 9 days"
    assert frees_when(48_400_000, 0, (0, 0)) == "48.4 MB now"


@pytest.mark.parametrize(
    ("free", "said"),
    [(300_000, "is full: 300.0 kB"), (10**8, "is nearly full: 100.0 MB"), (10**11, "")],
)
def test_the_room_on_the_disk_is_there_and_alarms(machine: Machine, free: int, said: str) -> None:
    machine.transcript(days=100, source="cron", kb=8)
    room = DiskRoom(free=free, size=10**12)
    with Web(machine) as web, mock.patch("holdfast.api.disks.disk_room", return_value=room):
        seen = web.ok("/overview/figures")
    assert f"Free on the disk {format_bytes(free)} of 1.0 TB" in seen.words
    assert ("The disk is " in seen.words) == ("alarming" in seen.text) == bool(said)
    assert said in seen.words


def test_a_budget_that_is_used_up_is_an_alarm(machine: Machine) -> None:
    machine.configure("[guard]\ndaily_cost = 0.25\ndaily_tokens = 900000\n")
    with holdfast.open(machine.home, create=True) as home:
        one = home.sessions.create(source="cli", model="m")
        tokens = Tokens(input=1_200, output=34)
        home.sessions.append(one, Message(role="assistant", content="hi", tokens=tokens, cost=0.5))
    with Web(machine) as web:
        seen, usage = web.ok("/overview/figures"), web.ok("/usage")
    assert "A budget is used up holdfast, today: cost: $0.50 of $0.25" in seen.words
    assert "$0.25 $0.50 over" in usage.words
    assert "900,000 1,234" in usage.words


def test_what_grows_too_fast_is_at_the_top(machine: Machine, web: Web) -> None:
    settle(machine, "claude-code")
    alarm = Alarm(
        home=str(machine.user / ".claude"),
        path="/x/<b>.log",
        folder=False,
        first_at=1.0,
        last_at=time.time(),
        bytes=5 * 10**9,
        bytes_per_minute=10**9,
        writers=(Writer(pid=42, command="agent <script>"),),
    )
    homes = web.site.threads.machine("x")
    with homes:
        seen = homes.overview()
    web.site.memory.clear()
    web.ok("/overview/figures")
    web.site.memory["overview"].last = replace(seen, alarms=(alarm,), at=time.time())
    answer = web.ok("/")
    assert "Something grows too fast" in answer.words
    assert "<script>" not in answer.text.replace('<script type="module"', "")
    assert answer.text.index("grows too fast") < answer.text.index("Who fills the disk")


def test_a_home_that_cannot_be_read_costs_itself_only(machine: Machine, web: Web) -> None:
    settle(machine, "claude-code", "holdfast")
    (machine.home / "config.toml").write_text("nonsense = [\n")
    answer = web.ok("/overview/figures")
    assert "Not read:" in answer.words
    assert "claude-code" in answer.words
    assert web.get("/sessions").status == 200


def test_tiles_fill_the_area_and_keep_their_shares() -> None:
    sizes = [600.0, 250, 100, 50, 0, 3]
    tiles = treemap(sizes, aspect=3.0)
    assert {each.index for each in tiles} == {0, 1, 2, 3, 5}
    for each in tiles:
        share = each.width * each.height / 100**2
        assert abs(share - sizes[each.index] / sum(sizes)) < 1e-3
        assert each.x >= 0
        assert each.y >= 0
        assert each.x + each.width <= 100.01
        assert each.y + each.height <= 100.01
    assert not treemap([], aspect=2.0)
    assert not treemap([0.0], aspect=2.0)


def test_what_was_done_here_is_on_the_first_screen_at_once(machine: Machine, web: Web) -> None:
    settle(machine, "holdfast")
    assert "Nothing has been removed or changed yet" in web.ok("/overview/figures").words
    assert "data-stale" not in web.ok("/").text
    assert web.post("/sessions/pin", {"s": "holdfast:20260101_090000_aaaaaa"}).status == 303
    assert "data-stale" in web.ok("/").text
    assert "sessions pin" in web.ok("/overview/figures").words
    assert "data-stale" not in web.ok("/").text
