"""The watcher, killed at any point and started again: nothing is half gone, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.api.sessions import open_sessions
from tests import tally
from tests.cli.machine import Machine
from tests.cli.runner import COMMAND, PATIENCE
from tests.contract.agent_homes import make_claude, session_ids
from tests.contract.maintained import DAY, ids

# The recorded home of Claude Code takes 1 MB: less than a third of the low mark.
CONFIG = """
homes = ['{other}']
[maintenance]
min_interval_hours = 0.0001
[sessions]
auto_gc = true
[guardian]
max_total_size_mb = 9
high_percent = 70
low_percent = 40
reserve_mb = 1
"""


def fill(root: Path, chance: Random) -> set[str]:
    """Sessions of some 60 kB; which of them are pinned."""
    pinned: set[str] = set()
    moment = [time.time() - 300 * DAY]
    with open_sessions(root, clock=lambda: moment[0]) as store:
        for number in range(100):
            moment[0] += DAY
            session = store.create(source="cli", id=f"{root.name.strip('.')}-{number:03}")
            text = chance.randbytes(30_000).hex()
            store.append(session.id, holdfast.Message(role="user", content=text))
            store.end(session.id)
            if number % 10 == 0:
                store.pin(session.id)
                pinned.add(session.id)
    return pinned


@pytest.mark.deep
def test_killed_and_started_again(tmp_path: Path) -> None:
    chance = Random(20)
    machine = Machine(root=tmp_path)
    other = machine.user / "other"
    machine.user.mkdir()
    must = {home: fill(home, chance) for home in (machine.home, other)}
    machine.home.joinpath("config.toml").write_text(CONFIG.format(other=other))
    other.joinpath("config.toml").write_text("[maintenance]\nmin_interval_hours = 0.0001\n")
    make_claude(machine.user / ".claude")
    with holdfast.open(machine.user / ".claude") as claude:
        before = session_ids(claude)
    for _ in range(25):
        watched = subprocess.Popen(
            [*COMMAND, "maintain", "--watch"],
            env=machine.env(),
            cwd=machine.root,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(chance.uniform(0.3, 4.0))
        os.killpg(watched.pid, signal.SIGKILL)  # with the child that does the work
        watched.wait(PATIENCE)
        tally.injected()
        for home, pinned in must.items():
            assert pinned <= ids(home)
    done = machine.run("maintain", "--all-homes", "--force")
    assert done.code == 0, done
    tally.verified()
    with holdfast.open(machine.user / ".claude") as claude:
        assert session_ids(claude) == before, "a small home gives nothing"
    for home, pinned in must.items():
        assert pinned <= ids(home)
        with holdfast.open(home) as opened:
            assert opened.doctor().ok
            log = opened.log.read()
            assert all(each.finished_at is not None for each in log.operations)
            there = {each.id for each in opened.sessions.find()}
            back = {each.removal.item.id for each in log.trash}
            for operation in {each.removal.operation for each in log.trash}:
                opened.undo(operation)
            now = {each.id for each in opened.sessions.find()}
            assert now == there | back, "what is in the trash comes back"
