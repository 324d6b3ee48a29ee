"""Kill a run on a home of the factory at its calls, and look at what it leaves behind.

`python -m tests.crash.home_harness HOME SCENARIO[,SCENARIO...] MOST [TWICE [SEED]]`; see `harness`.
MOST is how many kills there are at most in each scenario, evenly over all calls that differ; SEED
says at which it begins. With TWICE, the run that settles is killed as well, at so many of its
calls, after each of MOST first kills.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from holdfast import Home
from holdfast.errors import CannotUndoError
from holdfast.model.item import SESSION
from holdfast.model.plan import Action as Edit
from holdfast.model.report import Result
from holdfast.services.edits import end_abandoned
from holdfast.spine.settle import settle
from tests import postgres
from tests.contract import factory
from tests.contract import swept as vaults
from tests.contract.factory import (
    AGENTS,
    HOMES,
    SESSION_HOMES,
    SETTING_UP,
    Look,
    Sample,
    Templates,
)
from tests.crash.harness import Tally, points_of, run_killed, scratch

Action = Callable[[Sample, Home], object]


def prune(sample: Sample, home: Home) -> None:
    sample.plan(home).apply()


def prune_now(sample: Sample, home: Home) -> None:
    home.prune(older_than="90d", use_trash=False)


def archive(sample: Sample, home: Home) -> None:
    home.archive_sessions([each.id for each in sample.plan(home).removals if each.kind == SESSION])


def restore(sample: Sample, home: Home) -> None:
    home.plan_restore_sessions().apply()


def undo(sample: Sample, home: Home) -> None:
    home.undo_latest()


def redo(sample: Sample, home: Home) -> None:
    home.redo()


def empty(sample: Sample, home: Home) -> None:
    home.trash.plan_empty().apply()


def end(sample: Sample, home: Home) -> None:
    end_abandoned(home._place.home, clock=lambda: sample.now, command="maintain")


def edit(sample: Sample, home: Home) -> None:
    """Pins of two sessions; where an agent has no pins, a title."""
    names = sorted(sample.ids(home))[:2]
    if Edit.PIN in home.need_store().edits:
        home.pin_sessions(names)
    else:
        home.rename_session(names[0], "another title")


def vault_on(sample: Sample, home: Home) -> None:
    vaults.turn_on(sample, home.path)


def vault_cold(sample: Sample, home: Home) -> None:
    """What is alone is compressed at once."""
    vaults.turn_on(sample, home.path, "cold_days = 0\n")


def refresh_vault(sample: Sample, home: Home) -> None:
    home.refresh_vault()


def touch(sample: Sample, home: Home) -> None:
    """A session goes on."""
    if sample.touch is not None:
        sample.touch(home, vaults.idle(sample, home)[0])


def swept(sample: Sample, home: Home) -> None:
    vaults.sweep(home, vaults.idle(sample, home))


def restore_vaulted(sample: Sample, home: Home) -> None:
    home.restore_sessions([each.id for each in vaults.vaulted(home)])


def delete_vaulted(sample: Sample, home: Home) -> None:
    home.delete([each.id for each in vaults.vaulted(home)])


def settle_only(sample: Sample, home: Home) -> None:
    """Every run that writes settles first; this one does nothing else."""
    opened = home._place.home
    with opened.log.writing("settle") as log:
        settle(log, opened, clock=lambda: sample.now)


# --- What must hold afterwards --------------------------------------------------------------------


def everything_returns(sample: Sample, home: Home, original: Look) -> None:
    """Settled, undone and restored, the home is what it was, and nothing is left over."""
    for operation in home.log.list():  # the latest first
        if operation.command == SETTING_UP:
            continue
        try:
            report = home.undo(operation)
        except CannotUndoError:
            continue
        bad = [each for each in report.outcomes if each.result is not Result.BROUGHT_BACK]
        assert not [each for each in bad if each.result is not Result.RECLAIMED], bad
    if sample.kind == SESSION and home.archive.count():
        restore(sample, home)
        assert not home.archive.count()
    assert factory.words(sample, home) == original, "undo did not give everything back"
    assert not factory.trash(sample, home), "copies were left behind"


def the_rest_goes(sample: Sample, home: Home, original: Look) -> None:
    """The next run finishes the work, and everything still comes back."""
    going = {each.id for each in sample.plan(home).removals if each.kind == sample.kind}
    prune(sample, home)
    assert not going & sample.ids(home)
    everything_returns(sample, home, original)


def each_is_whole(sample: Sample, home: Home, original: Look) -> None:
    """What was to go for good is here with all its parts, or gone with all of them."""
    assert not factory.trash(sample, home)
    before = factory.words(sample, home)
    if sample.plan(home).removals:
        home.undo(home.prune(older_than="90d").operation)
        assert factory.words(sample, home) == before
    prune_now(sample, home)
    assert not sample.plan(home).removals


def only_the_trash_went(sample: Sample, home: Home, original: Look) -> None:
    assert not sample.plan(home).removals
    empty(sample, home)
    assert not factory.trash(sample, home)


def the_vault_gives_all_back(sample: Sample, home: Home, original: Look) -> None:
    """Whatever the agent deletes now, or has deleted, comes back with every word."""
    for operation in home.log.list():
        if operation.in_trash:  # what was deleted from the vault
            report = home.undo(operation)
            brought = {each.result for each in report.outcomes}
            assert brought == {Result.BROUGHT_BACK}, report.outcomes
    assert not home.refresh_vault().problems
    assert not home.refresh_vault().changed
    names = home.path / sample.state / "vault" / "names"
    assert all(len(list(each.iterdir())) == 1 for each in names.iterdir()), "left behind"
    idle = vaults.idle(sample, home)
    if idle:
        vaults.sweep(home, idle)
    if home.sessions.find(vaulted=True):
        report = home.restore_sessions([each.id for each in vaults.vaulted(home)])
        assert {each.result for each in report.outcomes} == {Result.BROUGHT_BACK}, report.outcomes
    factory.put_away(home)
    assert _said(sample, home) == _SAID
    assert not original.keys() - factory.words(sample, home).keys()
    assert not home.sessions.find(vaulted=True)


#: What was said in the home before anything was done to it, by session.
_SAID: dict[str, list[object]] = {}


def _said(sample: Sample, home: Home) -> dict[str, list[object]]:
    return {each.id: list(home.sessions.messages(each)) for each in home.sessions.find()}


def nothing_is_vaulted(sample: Sample, home: Home, original: Look) -> None:
    """What Holdfast itself took out left no second name, and comes back by undo alone."""
    assert not home.sessions.find(vaulted=True)
    everything_returns(sample, home, original)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`then` is what the next run does, which settles first."""

    killed: Action
    verify: Callable[[Sample, Home, Look], None] = everything_returns
    before: tuple[Action, ...] = ()
    then: Action = settle_only


#: For everything that can leave a home.
ALWAYS = {
    "prune": Scenario(killed=prune),
    "prune-then-prune": Scenario(killed=prune, verify=the_rest_goes),
    "undo": Scenario(killed=undo, before=(prune,)),
    "redo": Scenario(killed=redo, before=(prune, undo)),
    "empty": Scenario(killed=empty, verify=only_the_trash_went, before=(prune,)),
}
#: For sessions.
SESSIONS = {
    "prune-now": Scenario(killed=prune_now, verify=each_is_whole),
    "archive": Scenario(killed=archive),
    "undo-archive": Scenario(killed=undo, before=(archive,)),
    "redo-archive": Scenario(killed=redo, before=(archive, undo)),
    "restore": Scenario(killed=restore, before=(archive,)),
}
#: For the homes of agents that delete sessions by themselves.
VAULT = {
    "vault-refresh": Scenario(
        killed=refresh_vault, verify=the_vault_gives_all_back, before=(vault_on,)
    ),
    "vault-again": Scenario(
        killed=refresh_vault,
        verify=the_vault_gives_all_back,
        before=(vault_on, refresh_vault, touch),
    ),
    "vault-alone": Scenario(
        killed=refresh_vault,
        verify=the_vault_gives_all_back,
        before=(vault_cold, refresh_vault, swept),
    ),
    "vault-restore": Scenario(
        killed=restore_vaulted,
        verify=the_vault_gives_all_back,
        before=(vault_on, refresh_vault, swept),
    ),
    "vault-restore-cold": Scenario(
        killed=restore_vaulted,
        verify=the_vault_gives_all_back,
        before=(vault_cold, refresh_vault, swept, refresh_vault),
    ),
    "vault-delete": Scenario(
        killed=delete_vaulted,
        verify=the_vault_gives_all_back,
        before=(vault_on, refresh_vault, swept),
    ),
    "vault-delete-cold": Scenario(
        killed=delete_vaulted,
        verify=the_vault_gives_all_back,
        before=(vault_cold, refresh_vault, swept, refresh_vault),
    ),
    "vault-prune": Scenario(
        killed=prune, verify=nothing_is_vaulted, before=(vault_on, refresh_vault)
    ),
    # The watcher looks after a vault between two runs of maintenance.
    "vault-prune-watched": Scenario(
        killed=prune,
        verify=nothing_is_vaulted,
        before=(vault_on, refresh_vault),
        then=refresh_vault,
    ),
    "vault-archive": Scenario(
        killed=archive, verify=nothing_is_vaulted, before=(vault_on, refresh_vault)
    ),
}
#: For homes in which a session can be ended for an agent that is gone.
ENDINGS = {"end": Scenario(killed=end), "reopen": Scenario(killed=undo, before=(end,))}
#: For sessions too; `make test` kills only one home in these.
EDITS = {
    "edit": Scenario(killed=edit),
    "undo-edit": Scenario(killed=undo, before=(edit,)),
    "redo-edit": Scenario(killed=redo, before=(edit, undo)),
}
SCENARIOS = ALWAYS | SESSIONS | ENDINGS | EDITS | VAULT


def cases() -> Iterator[tuple[str, str]]:
    """Every home with every scenario that there is for it."""
    for name, sample in HOMES.items():
        if sample.objects:  # a fork does not take its client along; test_objects.py kills it
            continue
        yield from ((name, each) for each in ALWAYS)
        if name in SESSION_HOMES:
            yield from ((name, each) for each in SESSIONS | EDITS)
        if sample.ends:
            yield from ((name, each) for each in ENDINGS)
        if name in AGENTS:
            yield from ((name, each) for each in VAULT)


# --- The kills ------------------------------------------------------------------------------------


class Bench:
    """A home that is as it was before the operation, as often as it is wanted."""

    def __init__(self, name: str, scenario: Scenario, scratch: Path, templates: Templates) -> None:
        scratch.mkdir()
        self.root, self._template = scratch / "home", scratch / "template"
        self.sample = templates.copy(name, self.root)
        self._scenario = scenario
        with self.sample.open(self.root) as home:
            self.original = factory.words(self.sample, home)
            if name in AGENTS:
                _SAID.clear()
                _SAID.update(_said(self.sample, home))
        for action in scenario.before:
            self.run(action)(self.root)
        if touch in scenario.before:
            with self.sample.open(self.root) as home:
                _SAID.update(_said(self.sample, home))
        address = factory.address_of(self.root) if self.sample.elsewhere else None
        self._saved = None if address is None else postgres.Saved(address)
        self.root.rename(self._template)

    def fresh(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        _copy(self._template, self.root)
        if self._saved is not None:
            self._saved.restore()

    def run(self, action: Action) -> Callable[[Path], None]:
        def work(root: Path) -> None:
            with closing(self.sample.open(root)) as home:
                action(self.sample, home)

        return work

    def points(self, action: Action, most: int, seed: int) -> Sequence[int]:
        """At which calls to kill: all that differ, or `most` of them, others with another seed."""
        found = points_of(self.run(action), self.root)
        step = -(-len(found) // most)
        return found[seed % step :: step]

    def killed(self, kill_at: int) -> bool:
        """A fresh home in which the operation was killed; False when it got through."""
        self.fresh()
        return not run_killed(self.run(self._scenario.killed), self.root, kill_at)

    def verify(self) -> None:
        if self.sample.whole is not None:
            self.sample.whole(self.root)
        with self.sample.open(self.root) as home:
            self._scenario.then(self.sample, home)
            view = home.log.read()
            assert not view.problems
            assert all(each.finished_at is not None for each in view.operations)
            self._scenario.verify(self.sample, home, self.original)


def _copy(template: Path, root: Path) -> None:
    """With the second names that files have: those of the vault are such."""
    names: dict[int, str] = {}

    def copy(source: str, target: str) -> None:
        status = Path(source).lstat()
        first = names.setdefault(status.st_ino, target)
        if first == target:
            shutil.copy2(source, target, follow_symlinks=False)
        else:
            Path(target).hardlink_to(first)

    shutil.copytree(template, root, symlinks=True, copy_function=copy)


def kill(bench: Bench, scenario: Scenario, most: int, twice: int, seed: int) -> Tally:
    tally = Tally()
    bench.fresh()
    for number, kill_at in enumerate(bench.points(scenario.killed, most, seed)):
        if twice:
            bench.killed(kill_at)
            for settle_at in bench.points(scenario.then, twice, seed + number):
                tally.kills += bench.killed(kill_at)
                tally.kills += not run_killed(bench.run(scenario.then), bench.root, settle_at)
                bench.verify()
                tally.states += 1
        else:
            tally.kills += bench.killed(kill_at)
            bench.verify()
            tally.states += 1
    return tally


def main(name: str, scenarios: str, most: str, twice: str = "0", seed: str = "0") -> None:
    tally = Tally()
    with scratch() as place, factory.formats_installed(place / "packages"):
        templates = Templates(place / "templates")
        for each in scenarios.split(","):
            sys.stderr.write(f"{name}: {each}, seed {seed}\n")  # told if it fails
            bench = Bench(name, SCENARIOS[each], place / each, templates)
            done = kill(bench, SCENARIOS[each], int(most), int(twice), int(seed))
            assert done.kills, "nothing was killed"
            tally.kills += done.kills
            tally.states += done.states
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
