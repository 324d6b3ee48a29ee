"""Who goes when a session is deleted by id: in our own home, and in a Hermes home as in Hermes.

Families of any shape against a plain model; undo gives every one of them back.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.item import SESSION
from holdfast.ports.home import Home
from holdfast.services.plans import plan_delete
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo
from tests.compat.hermes_sessions import NOW, check, database, opened, recorded, seen
from tests.stored import a_line, an_open_line, bring_in, see

AGO = NOW - 30 * 86_400


@dataclass(frozen=True, slots=True)
class Member:
    """`master` is the session that a delegate works for; in Hermes it need not be its parent."""

    name: str
    parent: str | None
    master: str | None
    messages: int
    titled: bool
    open: bool


@st.composite
def families(draw: st.DrawFn) -> list[Member]:
    members: list[Member] = []
    for number in range(draw(st.integers(1, 8))):
        before = [each.name for each in members]
        older = st.none() | st.sampled_from(before) if before else st.none()
        members.append(
            Member(
                name=f"s{number}",
                parent=draw(older),
                master=draw(older),
                messages=draw(st.sampled_from([0, 5, 6])),
                titled=draw(st.booleans()),
                open=number > 0 and draw(st.booleans()),
            )
        )
    return members


def gone(family: list[Member], goes: Callable[[Member], str | None]) -> set[str]:
    """The first, and whoever follows: `goes` names the session with which a member goes."""
    found = {"s0"}
    for member in family:  # a master is always older
        if goes(member) in found:
            found.add(member.name)
    return found


def removed_and_undone(home: Home) -> set[str]:
    plan = plan_delete(home, ["s0"], now=NOW, command="sessions delete")
    report = apply(plan, home, clock=lambda: NOW, progress=Silent())
    assert report.failed == report.skipped == 0
    assert report.operation is not None
    _, back = undo(home, report.operation, clock=lambda: NOW)
    assert back.failed == 0
    return {item.id for item in plan.removals if item.kind == SESSION}


@settings(max_examples=8)
@given(family=families())
def test_in_our_own_home_small_delegates_go_along(family: list[Member]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lines = [
            (an_open_line if each.open else a_line)(
                each.name,
                at=AGO,
                messages=each.messages,
                title=each.name if each.titled else None,
                parent_id=each.master or each.parent,
                relation="delegate" if each.master else "branch" if each.parent else None,
            )
            for each in family
        ]
        bring_in(root, lines, now=NOW)
        before = see(root)
        removed = removed_and_undone(HoldfastHome(root, clock=lambda: NOW))
        assert see(root).sessions == before.sessions
    small = {each.name for each in family if each.messages <= 5}
    followers = small - {each.name for each in family if each.open}
    assert removed == gone(family, lambda each: each.master if each.name in followers else None)


@settings(max_examples=8)
@given(family=families())
def test_in_a_hermes_home_every_delegate_goes_along(family: list[Member]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = recorded(Path(folder))
        with database(root) as db:
            for each in family:
                mark = json.dumps({"_delegate_from": each.master} if each.master else {})
                db.execute(
                    "INSERT INTO sessions (id, source, parent_session_id, model_config, title, "
                    "started_at, ended_at) VALUES (?, 'cli', ?, ?, ?, ?, ?)",
                    (
                        each.name,
                        each.parent,
                        mark,
                        each.name if each.titled else None,
                        NOW - 60 if each.open else AGO,
                        None if each.open else AGO,
                    ),
                )
                db.executemany(
                    "INSERT INTO messages (session_id, role, content, timestamp) "
                    "VALUES (?, 'user', 'hello', ?)",
                    [(each.name, AGO)] * each.messages,
                )
        before = seen(root)
        removed = removed_and_undone(opened(root))
        assert seen(root) == before
        check(root)
    # One that has not ended stays, though Hermes itself would take it; so do those behind it.
    alive = {each.name for each in family if each.open}
    assert removed == gone(family, lambda each: None if each.name in alive else each.master)
