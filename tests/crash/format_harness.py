"""Kill a run on the home of a format at every call, and look at what it leaves behind.

`python -m tests.crash.format_harness FORMAT SCENARIO EVERY`; see `harness`. `EVERY` is how many
calls lie between two kills.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import CannotUndoError
from holdfast.homes.format_home import STATE, FormatHome
from holdfast.model.report import Result
from holdfast.model.session import SessionFilter
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.services.plans import plan_archive
from holdfast.services.restore import chosen, restore
from holdfast.spine.apply import apply
from holdfast.spine.settle import settle
from holdfast.spine.trash import plan_empty
from holdfast.spine.undo import undo, undo_latest
from tests.contract.formats import FORMATS, NOW, Sample, clock, prune_plan, sessions_of, snapshot
from tests.crash.harness import Tally, run_killed

Action = Callable[[FormatHome], object]


def prune(home: FormatHome) -> None:
    apply(prune_plan(home), home, clock=clock)


def prune_now(home: FormatHome) -> None:
    apply(prune_plan(home, use_trash=False), home, clock=clock)


def archive(home: FormatHome) -> None:
    ids = [item.id for item in sessions_of(home)]
    policy = Policy(everywhere=Limits(rules=Rules(max_age=DAY)))
    made, _ = plan_archive(home, home.archive, ids=ids, policy=policy, now=NOW, command="archive")
    apply(made, home, clock=clock)


def restore_all(home: FormatHome) -> None:
    restore(home, chosen(home.archive, []), command="restore", clock=clock)


def undo_last(home: FormatHome) -> None:
    undo_latest(home, clock=clock)


def empty(home: FormatHome) -> None:
    apply(plan_empty(home, now=NOW, command="trash empty"), home, clock=clock)


def everything_returns(home: FormatHome, original: dict[str, object]) -> None:
    """Settled, undone and restored, the home is what it was."""
    for operation in reversed(home.log.read().operations):
        if operation.in_trash or operation.archived:
            try:
                _, report = undo(home, operation.id, clock=clock)
            except CannotUndoError:
                continue
            bad = [each for each in report.outcomes if each.result is not Result.BROUGHT_BACK]
            assert not bad, bad
    if home.archive.count(SessionFilter()):
        restore_all(home)
    assert same(snapshot(home.root), original), "undo did not give everything back"
    assert not list((home.state / "trash").glob("*/*")), "copies were left behind"
    assert not home.archive.find(SessionFilter())


def each_is_whole(home: FormatHome, original: dict[str, object]) -> None:
    """A session is there with all its parts, or not at all. What is there can be removed, and
    comes back."""
    before = snapshot(home.root)
    assert not [path for path in before if ".holdfast-" in path]
    if not sessions_of(home):
        return
    prune(home)
    undo_last(home)
    assert same(snapshot(home.root), before)


def only_trash_went(home: FormatHome, original: dict[str, object]) -> None:
    assert not sessions_of(home)
    empty(home)
    assert not list((home.state / "trash").glob("*"))


def same(one: dict[str, object], other: dict[str, object]) -> bool:
    """Equal but for the times of shared files, which a rolled back run has written."""
    return {name: _content(what) for name, what in one.items()} == {
        name: _content(what) for name, what in other.items()
    }


def _content(what: object) -> object:
    return (what[0], what[2]) if isinstance(what, tuple) else what


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    killed: Action
    verify: Callable[[FormatHome, dict[str, object]], None]
    before: tuple[Action, ...] = ()


SCENARIOS = {
    "prune": Scenario(killed=prune, verify=everything_returns),
    "prune-now": Scenario(killed=prune_now, verify=each_is_whole),
    "undo": Scenario(killed=undo_last, verify=everything_returns, before=(prune,)),
    "empty": Scenario(killed=empty, verify=only_trash_went, before=(prune,)),
    "archive": Scenario(killed=archive, verify=everything_returns),
    "undo-archive": Scenario(killed=undo_last, verify=everything_returns, before=(archive,)),
    "restore": Scenario(killed=restore_all, verify=everything_returns, before=(archive,)),
}


def kill_everywhere(sample: Sample, scenario: Scenario, scratch: Path, every: int) -> Tally:
    template, root = scratch / "template", scratch / "home"
    tally = Tally()
    sample.make(root)
    original = snapshot(root)
    with_home(sample, root, sessions_of)  # the index is made before: it is not what is killed here
    for action in scenario.before:
        with_home(sample, root, action)
    root.rename(template)
    for kill_at in itertools.count(1, every):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root, symlinks=True)
        through = run_killed(lambda path: with_home(sample, path, scenario.killed), root, kill_at)
        tally.kills += not through
        with_home(sample, root, lambda home: check(home, scenario, original))
        tally.states += 1
        if through:
            return tally
    raise AssertionError


def with_home(sample: Sample, root: Path, action: Action) -> None:
    home = sample.opened(root)
    try:
        action(home)
    finally:
        home.close()


def check(home: FormatHome, scenario: Scenario, original: dict[str, object]) -> None:
    with home.log.writing("settle") as log:
        settle(log, home, clock=clock)
    view = home.log.read()
    assert not view.problems
    assert all(operation.finished_at is not None for operation in view.operations)
    stray = [p for p in home.root.rglob(".holdfast-*") if STATE not in p.parts]
    assert not stray, stray
    scenario.verify(home, original)


def main() -> None:
    name, scenario, every = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        tally = kill_everywhere(FORMATS[name], SCENARIOS[scenario], Path(scratch), int(every))
    tally.tell()


if __name__ == "__main__":
    main()
