"""Laws 2 and 4 under load: agents talk and reopen old sessions while prune runs in a loop."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.report import Result
from holdfast.model.session import SessionFilter
from holdfast.policy.planner import plan
from holdfast.policy.rules import Limits, Policy, Rules
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo
from tests import tally
from tests.stored import file_of

ROOT = Path(__file__).parents[2]
TALKERS = 3
#: So old is what the loop removes: young enough that sessions are still being gone back to.
OLD = 0.3


def start(home: Path, name: str, seconds: float) -> subprocess.Popen[str]:
    """What it says goes into a file: nobody reads a pipe before the race is over."""
    with home.with_name(name).open("w") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.talker", str(home), name, str(seconds)],
            cwd=ROOT,
            stdout=said,
            stderr=subprocess.PIPE,
            text=True,
        )


def prune_until_done(home: HoldfastHome, running: list[subprocess.Popen[str]]) -> Counter[Result]:
    """Half of the runs rest for a moment between plan and apply, so that more changes there."""
    policy = Policy(everywhere=Limits(rules=Rules(max_age=OLD)))
    results: Counter[Result] = Counter()
    rounds = 0
    while any(process.poll() is None for process in running):
        now = time.time()
        made = plan(policy, home.scan(now), now, command="sessions prune")
        rounds += 1
        time.sleep(OLD if rounds % 2 else 0)
        report = apply(made, home, clock=time.time)
        tally.injected()
        results.update(outcome.result for outcome in report.outcomes)
        time.sleep(0.4)
    return results


def race(tmp_path: Path, seconds: float) -> Counter[Result]:
    root = tmp_path / "home"
    home = HoldfastHome(root, clock=time.time, idle=3600)
    home.create_session_store()
    running = [start(root, f"t{number}", seconds) for number in range(TALKERS)]
    results = prune_until_done(home, running)
    said: list[str] = []
    for number, process in enumerate(running):
        _, errors = process.communicate()
        assert (errors, process.returncode) == ("", 0)
        said += root.with_name(f"t{number}").read_text().splitlines()
    for operation in home.log.read().operations:
        if operation.in_trash:
            undo(home, operation.id, clock=time.time)
    check(home, said)
    return results


def check(home: HoldfastHome, said: list[str]) -> None:
    """Everything that was acknowledged is there, once, and everything agrees with it."""
    store = home.create_session_store()
    there: Counter[str] = Counter()
    for session in store.find(SessionFilter()):
        texts = [str(message.content).split(" ")[0] for message in store.messages(session.id)]
        assert session.message_count == len(texts) == session.tokens.input
        there.update(f"{session.id} {text}" for text in texts)
    assert there.keys() == set(said), "an acknowledged message is lost, or was never said"
    assert max(there.values()) == 1
    with file_of(store).database.write() as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")
    store.close()
    tally.verified()


def test_no_message_is_lost_while_prune_runs_in_a_loop(tmp_path: Path) -> None:
    results = race(tmp_path, seconds=6)
    assert results[Result.REMOVED] > 20, "nothing was pruned: no race took place"
    assert results[Result.FAILED] == results[Result.DAMAGED] == 0


@pytest.mark.deep
def test_no_message_is_lost_in_a_minute_of_pruning(tmp_path: Path) -> None:
    results = race(tmp_path, seconds=60)
    assert results[Result.REMOVED] > 200
    assert results[Result.SKIPPED] > 0, "nothing changed between plan and apply"
    assert results[Result.FAILED] == results[Result.DAMAGED] == 0
