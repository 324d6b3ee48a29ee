"""The gate before SQLite's write lock: how often a writer that waits asks again."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from holdfast.stores.sqlite import space, write_queue
from holdfast.stores.sqlite.write_queue import Gate


class Waiting:
    """A clock that runs while somebody sleeps, and what they slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pauses: list[float] = []
        monkeypatch.setattr(time, "sleep", self.pauses.append)
        monkeypatch.setattr(time, "monotonic", lambda: sum(self.pauses))


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(monkeypatch)


def test_a_writer_asks_often_at_first_and_always_sooner_than_a_prune_rests(
    tmp_path: Path, waiting: Waiting
) -> None:
    first, second = Gate(tmp_path / "sessions.db"), Gate(tmp_path / "sessions.db")
    assert first.enter(60.0)
    assert not second.enter(60.0), "it gives up the gate, and asks SQLite itself"
    assert sum(waiting.pauses) >= write_queue._PATIENCE
    # A transaction takes longer than this, so the lock is never free for long while others flush.
    assert waiting.pauses[0] <= 0.0001
    assert sum(itertools.takewhile(lambda pause: pause <= 0.001, waiting.pauses)) >= 0.005
    # Who waits while a prune rests between two transactions gets its turn.
    assert max(waiting.pauses) < space._PAUSE
    first.leave()
    assert second.enter(60.0)
    first.close()
    second.close()


def test_somebody_who_waits_can_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Gate(tmp_path / "sessions.db"), Gate(tmp_path / "sessions.db")
    assert first.enter(0.0)
    assert not first.is_awaited()
    seen: list[bool] = []

    def sleep(_: float) -> None:
        seen.append(first.is_awaited())
        first.leave()

    monkeypatch.setattr(time, "sleep", sleep)
    assert second.enter(60.0)
    assert seen == [True]
    assert not first.is_awaited(), "whoever is through waits no more"
    first.close()
    second.close()
