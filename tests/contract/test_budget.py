"""One budget for all homes, one for each: who gives, what, and what nobody takes."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.api.agent_home import AgentHome
from holdfast.api.budget import BudgetKeeper, MachineBudget
from holdfast.api.machine import Machine
from holdfast.api.sessions import open_sessions
from holdfast.config.key import MEGABYTE
from holdfast.model.item import ARCHIVED, SESSION, TRASH
from holdfast.model.maintenance import Step
from holdfast.services.budget import plan_of
from tests.builders import NOW, a_policy, a_session_item, an_inventory
from tests.contract.agent_homes import make_claude
from tests.contract.maintained import DAY, configure, ids

MANY, FEW = 100, 10


def filled(root: Path, sessions: int) -> Path:
    """A home with ended sessions of some 40 kB each, the first the oldest."""
    chance = Random(sessions)
    now = [time.time() - 200 * DAY]
    with open_sessions(root, clock=lambda: now[0]) as store:
        for number in range(sessions):
            now[0] += DAY
            session = store.create(source="cli", id=f"old-{number:04}")
            text = chance.randbytes(20_000).hex()
            store.append(session.id, holdfast.Message(role="user", content=text))
            store.end(session.id)
    return root


class Budgeted:
    """A machine with a large home and a small one. `limit` is the budget, as a share of both."""

    def __init__(self, user: Path) -> None:
        self.user = user
        self.large = filled(user / ".holdfast", MANY)
        self.small = filled(user / "small", FEW)
        self.set("", small="")
        self.bytes = self.weighed("[guardian]\nmax_total_size_mb = 100000").bytes

    def set(self, config: str, small: str = "") -> None:
        configure(self.large, f"homes = ['{self.small}']\n{config}\n")
        configure(self.small, small)

    def machine(self) -> Machine:
        return Machine(self.user, environ={})

    def weighed(self, config: str) -> MachineBudget:
        self.set(config)
        return self.machine().plan_budget()

    def guardian(self, share: float, **more: int) -> str:
        """A budget is in MB, and these homes are small: marks below 1 % do the rest."""
        keys = {"max_total_size_mb": max(1, round(self.bytes * share / MEGABYTE)), **more}
        return "[guardian]\n" + "".join(f"{name} = {value}\n" for name, value in keys.items())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Budgeted:
    return Budgeted(tmp_path_factory.mktemp("budget"))


@pytest.fixture
def machine(made: Budgeted, tmp_path: Path) -> Budgeted:
    """A copy, so that each test may change it."""
    copy = Budgeted.__new__(Budgeted)
    shutil.copytree(made.user, tmp_path / "user")
    copy.user, copy.bytes = tmp_path / "user", made.bytes
    copy.large, copy.small = copy.user / ".holdfast", copy.user / "small"
    copy.set("")
    return copy


def test_the_large_home_gives_its_oldest_and_all_comes_back(machine: Budgeted) -> None:
    before = ids(machine.large), ids(machine.small)
    assert machine.bytes > 2 * MEGABYTE, "or the budget below is none"
    machine.set(machine.guardian(1.0, high_percent=70, low_percent=50))
    planned = machine.machine().plan_budget()
    done = machine.machine().keep_budget()
    [share] = done.homes
    assert share.home == str(machine.large)
    assert share.report is not None
    assert share.report.removed == len(planned.homes[0].plan.removals)
    assert 0 < len(ids(machine.large)) < len(before[0])
    assert ids(machine.small) == before[1], "what is small stays as it is"
    kept = sorted(ids(machine.large))
    assert kept == sorted(before[0])[-len(kept) :], "the oldest go"
    again = machine.machine().keep_budget()
    assert not any(each.report and each.report.removed for each in again.homes), "once is enough"
    with holdfast.open(machine.large) as home:
        home.undo(share.report.operation)
    assert (ids(machine.large), ids(machine.small)) == before


@pytest.mark.parametrize(
    "config", ["", "[guardian]\nmax_total_size_mb = 0\nmax_home_size_mb = 0\n"], ids=["none", "0"]
)
def test_no_budget_is_not_a_budget_of_nothing(machine: Budgeted, config: str) -> None:
    machine.set(config, small=config)
    assert machine.machine().keep_budget().homes == ()
    with holdfast.open(machine.large) as home:
        assert not any(each.step is Step.BUDGET for each in home.maintain(force=True).steps)
    assert (len(ids(machine.large)), len(ids(machine.small))) == (MANY, FEW)


def test_the_homes_of_some_agents_alone_have_no_budget(machine: Budgeted) -> None:
    machine.set(machine.guardian(0.3, high_percent=2, low_percent=1))
    some = Machine(machine.user, environ={}, agents=["holdfast"])
    assert some.keep_budget().limit is None
    assert len(ids(machine.large)) == MANY


def test_an_unreached_cap_says_whose_it_is() -> None:
    held = a_session_item("a", bytes=10, alive="a process holds it")
    made = plan_of("the archive", a_policy(max_bytes=1), an_inventory(held), NOW)
    assert [each.cap for each in made.shortfalls] == ["max_total_size of the archive"]


def test_what_is_pinned_or_open_stays_and_costs_the_other_home_nothing(machine: Budgeted) -> None:
    with open_sessions(machine.large) as store:
        for each in store.find():
            store.reopen(each.id)
    machine.set(machine.guardian(0.3, high_percent=2, low_percent=1))
    done = machine.machine().keep_budget()
    assert len(ids(machine.large)) == MANY, "all are in use"
    held = {why for each in done.homes for s in each.plan.shortfalls for why in s.held_by}
    assert any("in use" in why for why in held)
    small = len(ids(machine.small))
    machine.set("")
    configure(machine.large, f"homes = ['{machine.small}']\n[sessions]\npins = ['*']\n")
    assert small == len(ids(machine.small))


def test_trash_goes_before_anything_else_does(machine: Budgeted) -> None:
    with holdfast.open(machine.large) as home:
        oldest = sorted(ids(machine.large))[:75]
        home.plan_delete(oldest).apply()
    left = ids(machine.large), ids(machine.small)
    machine.set(machine.guardian(0.5, high_percent=90, low_percent=90))
    done = machine.machine().keep_budget()
    assert (ids(machine.large), ids(machine.small)) == left
    assert done.limit is not None
    assert done.bytes <= done.limit
    assert done.removed > 0, "trash went"


def test_one_home_that_fails_costs_itself_only(machine: Budgeted) -> None:
    (machine.small / "sessions.db").write_bytes(b"no database" * 1000)
    machine.set(machine.guardian(0.6, high_percent=50, low_percent=40))
    done = machine.machine().keep_budget()
    assert done.unread == (str(machine.small),)
    assert len(ids(machine.large)) < MANY


def test_what_was_freed_meanwhile_is_not_freed_again(
    machine: Budgeted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Totals that were true a moment ago must not cost anything."""
    machine.set(machine.guardian(1.0, high_percent=70, low_percent=50))
    first = BudgetKeeper._by_excess

    def after_somebody_else(keeper: BudgetKeeper, weighed: dict[AgentHome, object]) -> object:
        found = first(keeper, weighed)  # type: ignore[arg-type]
        with holdfast.open(machine.large) as home:
            home.plan_delete(sorted(ids(machine.large))[-60:], use_trash=False).apply()
        return found

    monkeypatch.setattr(BudgetKeeper, "_by_excess", after_somebody_else)
    done = machine.machine().keep_budget()
    assert done.removed == 0
    assert (len(ids(machine.large)), len(ids(machine.small))) == (MANY - 60, FEW)


def test_a_home_has_a_budget_of_its_own(machine: Budgeted) -> None:
    with holdfast.open(machine.large) as home:
        size = home.scan().total_bytes
    assert size > 2 * MEGABYTE
    machine.set(f"[guardian]\nmax_home_size_mb = {size // MEGABYTE // 2}\n")
    with holdfast.open(machine.large) as home:
        [plan] = [each.plan for each in home.plan_maintain() if each.step is Step.BUDGET]
        result = home.maintain(force=True)
        [step] = [each for each in result.steps if each.step is Step.BUDGET]
    assert step.removed == len(plan.removals) > 0
    assert len(ids(machine.large)) < MANY
    assert len(ids(machine.small)) == FEW


def test_a_budget_counts_what_the_page_says(machine: Budgeted) -> None:
    """Sessions, their files, trash, log, archive, checkpoints; not what no budget could take."""
    claude = machine.user / ".claude"
    config = "[guardian]\nmax_total_size_mb = 100000\nreserve_mb = 1\n"
    before = machine.weighed(config).bytes
    make_claude(claude)
    with holdfast.open(claude) as home:
        sessions = sum(each.bytes for each in home.scan().items if each.kind == SESSION)
    with_claude = machine.weighed(config).bytes
    assert with_claude == before + sessions > before
    (claude / "debug").mkdir(exist_ok=True)
    (claude / "debug" / "old.txt").write_bytes(bytes(3 * MEGABYTE))
    (claude / "settings.json").write_text("{}")
    machine.machine().set_aside()
    assert machine.weighed(config).bytes == with_claude
    with holdfast.open(machine.large) as home:
        home.plan_delete(sorted(ids(machine.large))[:5]).apply()
        trash = sum(each.bytes for each in home.scan().trash)
        assert trash > 0
        home.plan_archive(sorted(ids(machine.large))[:5]).apply()
        assert home.scan().archive_bytes > 0
    counted = machine.machine().plan_budget().bytes
    machine.set("[guardian]\nmax_total_size_mb = 1\nhigh_percent = 1\nlow_percent = 1\n")
    kinds = {
        item.kind for each in machine.machine().plan_budget().homes for item in each.plan.steps
    }
    assert {SESSION, ARCHIVED, TRASH} <= kinds
    assert counted > with_claude / 2
