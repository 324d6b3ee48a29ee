"""Maintenance beside an event loop: the loop stays free, and cancelling ends it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

import holdfast
from holdfast.api.sessions import open_sessions
from holdfast.model.maintenance import MaintenanceResult
from tests.contract.maintained import a_home, configure, is_running, listener

PRUNE = "[sessions]\nauto_prune = true\n"
HELD = PRUNE + "max_count = 2\npins = ['old-*']\n"
#: An interval that is over as soon as it has begun.
ALWAYS = "[maintenance]\nmin_interval_hours = 0.00001\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def until(path: Path) -> int:
    """Wait for a file, and say how often the loop came round meanwhile."""
    ticks = 0
    while not path.exists():
        await asyncio.sleep(0.001)
        ticks += 1
    return ticks


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


def test_it_runs_at_once_and_hands_over_the_result(root: Path) -> None:
    a_home(root, PRUNE, sessions=5)

    async def host() -> MaintenanceResult:
        results: asyncio.Queue[MaintenanceResult] = asyncio.Queue()
        task = asyncio.create_task(
            holdfast.maintain_in_background(root, on_result=results.put_nowait)
        )
        result = await results.get()
        await ended(task)
        return result

    result = asyncio.run(host())
    assert result.ran
    assert result.removed == 5


def test_it_runs_again_whenever_it_is_due(root: Path) -> None:
    a_home(root, ALWAYS)

    async def host() -> list[MaintenanceResult]:
        results: asyncio.Queue[MaintenanceResult] = asyncio.Queue()
        task = asyncio.create_task(
            holdfast.maintain_in_background(root, on_result=results.put_nowait)
        )
        found = [await results.get() for _ in range(3)]
        await ended(task)
        return found

    assert [result.ran for result in asyncio.run(host())] == [True] * 3


def test_it_runs_at_once_when_the_configuration_changes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.api.background._NAP", 0.001)
    a_home(root, sessions=3)

    async def host() -> list[int]:
        results: asyncio.Queue[MaintenanceResult] = asyncio.Queue()
        task = asyncio.create_task(
            holdfast.maintain_in_background(root, on_result=results.put_nowait)
        )
        first = await results.get()
        configure(root, PRUNE)
        second = await results.get()
        while not second.ran:  # it may have woken while the file was being written
            second = await results.get()
        await ended(task)
        return [first.removed, second.removed]

    assert asyncio.run(host()) == [0, 3]


def test_the_loop_is_free_while_it_runs_and_cancelling_ends_it(root: Path, tmp_path: Path) -> None:
    """The run hangs in a program of ours, so it is surely under way until it is cancelled."""
    started = tmp_path / "started"
    then = (
        f"pathlib.Path({str(started)!r} + '.part').write_text(str(os.getpid()))\n"
        f"pathlib.Path({str(started)!r} + '.part').rename({str(started)!r})\n"
        "time.sleep(600)\n"
    )
    command, _ = listener(tmp_path, then)
    config = HELD + f"[notify]\ncommand = '''{command}'''\ntimeout_seconds = 600\n"
    a_home(root, config, sessions=4)

    async def host() -> tuple[int, int]:
        results: list[MaintenanceResult] = []
        task = asyncio.create_task(holdfast.maintain_in_background(root, on_result=results.append))
        ticks = await until(started)
        program = int(started.read_text())
        assert is_running(program)
        assert not results
        await ended(task)
        return ticks, program

    ticks, program = asyncio.run(host())
    assert ticks > 0
    assert not is_running(program)


def test_cancelling_a_long_run_stops_it_between_two_batches(root: Path) -> None:
    a_home(root, PRUNE, sessions=400)
    journal = root / "operations" / "1.jsonl"

    async def host() -> None:
        task = asyncio.create_task(holdfast.maintain_in_background(root))
        await until(journal)
        await ended(task)

    asyncio.run(host())
    assert holdfast.maintain(root, force=True).ok
    with open_sessions(root) as store:
        assert not store.find()


@pytest.mark.parametrize("config", ["retention = 1\n", None], ids=["wrong", "missing"])
def test_whatever_is_wrong_never_reaches_the_host(root: Path, config: str | None) -> None:
    if config is not None:
        a_home(root, config)

    async def host() -> MaintenanceResult:
        results: asyncio.Queue[MaintenanceResult] = asyncio.Queue()

        def fail(result: MaintenanceResult) -> None:
            results.put_nowait(result)
            raise ValueError("the callback is wrong as well")

        task = asyncio.create_task(holdfast.maintain_in_background(root, on_result=fail))
        result = await results.get()
        await asyncio.sleep(0.01)
        assert not task.done()
        await ended(task)
        return result

    assert asyncio.run(host()).error


def test_cancelled_before_it_began(root: Path) -> None:
    a_home(root, PRUNE, sessions=1)

    async def host() -> None:
        await ended(asyncio.create_task(holdfast.maintain_in_background(root)))

    asyncio.run(host())
