"""`undo` without a number takes back what somebody asked for, not what an agent did meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.api.sessions import open_sessions
from holdfast.errors import CannotUndoError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.operation import UNASKED
from holdfast.model.session import Message
from holdfast.policy.lifecycle import OnReset, SessionOptions, Transcript
from holdfast.policy.rules import DAY, HOUR
from holdfast.services.sessions import Sessions
from holdfast.spine.undo import preview, undo, undo_latest
from tests.stored import a_dead_holder, a_line, an_open_line, bring_in, opened

NOW = 1_800_000_000.0


def _reset(sessions: Sessions) -> None:
    sessions.reset("chat")


def _deliver(sessions: Sessions) -> None:
    sessions.delivered("job")


def _end_abandoned(sessions: Sessions) -> None:
    assert [each.id for each in sessions.end_abandoned()] == ["left"]


def _lines(root: Path) -> None:
    at = NOW - 2 * HOUR
    old = [a_line(f"old-{number}", at=NOW - 200 * DAY) for number in range(2)]
    waiting = [an_open_line("job", at=at, source="cron"), an_open_line("left", at=at)]
    bring_in(root, [*old, *waiting], now=NOW)
    with opened(root) as store:
        store.hold("left", a_dead_holder(), now=at)


@pytest.mark.parametrize("deeds", [[_reset], [_deliver], [_end_abandoned], [_deliver, _reset]])
@pytest.mark.parametrize("on_reset", [OnReset.ARCHIVE, OnReset.DELETE])
def test_what_an_agent_does_on_its_own_is_undone_by_its_number_only(
    tmp_path: Path, deeds: list[Callable[[Sessions], None]], on_reset: OnReset
) -> None:
    _lines(tmp_path)
    options = SessionOptions(
        on_reset=on_reset,
        remove_after_delivery=True,
        abandoned_after=HOUR,
        transcripts={"default": Transcript.JSONL},
    )
    home = HoldfastHome(tmp_path, clock=lambda: NOW)
    with open_sessions(tmp_path, clock=lambda: NOW, options=options) as sessions:
        chat = sessions.current("chat", source="telegram")
        sessions.append(chat.id, Message(role="user", content="hello"))
        with holdfast.open(tmp_path, clock=lambda: NOW) as opened_home:
            pruned = opened_home.prune().operation
        for deed in deeds:
            deed(sessions)
        own = [each for each in home.log.read().operations if each.id != pruned]
        assert len(own) == len(deeds)
        assert {each.command for each in own} <= UNASKED
        assert preview(home, None)[0].id == pruned
        target, report = undo_latest(home, clock=lambda: NOW)
        assert (target.id, report.brought_back) == (pruned, 2)
        # A second undo has nothing left; it does not reach for the agent's operations instead.
        with pytest.raises(CannotUndoError) as refused:
            undo_latest(home, clock=lambda: NOW)
        assert f"home.undo('{own[-1].id}')" in (refused.value.hint or "")
        for each in reversed(own):
            _, report = undo(home, each.id, clock=lambda: NOW)
            assert not report.failed
