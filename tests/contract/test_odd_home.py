"""A home whose path is not UTF-8, or reads like a part of an address: everything works there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from holdfast.api.plan import HomePlan
from holdfast.model.session import Message

_NOW = 1_790_000_000.0
_LATER = _NOW + 400 * 86_400


@pytest.fixture(
    params=[b"caf\xe9", b"100% ?a=b#c", b"two\nlines"], ids=["bytes", "address", "lines"]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / os.fsdecode(request.param)


def filled(place: Path, count: int = 3) -> Home:
    with holdfast.open(place / "home", create=True, clock=lambda: _NOW) as home:
        for number in range(count):
            home.sessions.create(source="cli", id=f"s{number}")
            home.sessions.append(f"s{number}", Message(role="user", content=f"plum {number}"))
            home.sessions.end(f"s{number}", reason="done")
    return holdfast.open(place / "home", clock=lambda: _LATER)


def said(home: Home) -> dict[str, list[object]]:
    return {
        each.id: [one.content for one in home.sessions.messages(each.id)]
        for each in home.sessions.find()
    }


def test_sessions_leave_and_return(place: Path) -> None:
    with filled(place) as home:
        before = said(home)
        plans: list[Callable[[], HomePlan]] = [
            lambda: home.plan_prune(older_than="90d"),
            lambda: home.plan_archive(["s0", "s1"]),
            lambda: home.plan_delete(["s1"]),
        ]
        for plan in plans:
            report = plan().apply()
            assert report.removed
            assert not report.failed
            assert said(home) != before
            assert not report.undo().failed
            assert said(home) == before
        assert len(home.sessions.search("plum")) == len(before)


def test_what_is_gone_for_good_is_reported_as_gone(place: Path) -> None:
    with filled(place) as home:
        report = home.delete(["s1"], use_trash=False)
        assert report.removed == 1
        assert not report.failed
        assert said(home).keys() == {"s0", "s2"}
        home.sessions.rename("s0", "A name")
        assert home.sessions.get("s0").title == "A name"
        home.maintain()


def test_checkpoints_are_taken_and_restored(place: Path) -> None:
    project = place / "project"
    project.mkdir(parents=True)
    (project / "a.txt").write_text("one")
    with filled(place) as home:
        taken = home.checkpoints.take(project)
        (project / "a.txt").write_text("two")
        assert taken.id
        home.checkpoints.restore(taken.id)
        assert (project / "a.txt").read_text() == "one"
