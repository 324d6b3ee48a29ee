"""The vault over every agent of the factory: what an agent deletes by itself is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Home
from holdfast.homes.vault import Vault
from holdfast.model.report import Result
from tests.contract import factory
from tests.contract.factory import AGENTS, Sample, Templates
from tests.contract.turns import Turns, marks

_turns = Turns(AGENTS, share=5)


def over_agents(function: Any) -> Any:
    quick = _turns.take(AGENTS)
    params = [pytest.param(each, marks=marks(each in quick), id=each) for each in AGENTS]
    return pytest.mark.parametrize("bench", params, indirect=True)(function)


class Bench:
    """The home of an agent whose vault is on."""

    def __init__(self, sample: Sample, root: Path) -> None:
        self.sample = sample
        self.root = root
        self.now = sample.now
        state = root / sample.state
        state.mkdir(exist_ok=True)
        (state / "config.toml").write_text("[vault]\nenabled = true\n")
        self.home = self.opened()

    def opened(self) -> Home:
        import holdfast

        return holdfast.open(self.root, clock=lambda: self.now)

    def again(self) -> Home:
        """The home as the next process sees it."""
        self.home.close()
        self.home = self.opened()
        return self.home

    def going(self) -> list[str]:
        """Sessions that nobody uses."""
        removals = self.sample.plan(self.home).removals
        return [each.id for each in removals if each.kind == self.sample.kind]


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates").resolve())


@pytest.fixture
def bench(request: pytest.FixtureRequest, templates: Templates, tmp_path: Path) -> Iterator[Bench]:
    with factory.formats_installed(tmp_path / "packages"):
        sample = templates.copy(request.param, tmp_path / "home")
        made = Bench(sample, (tmp_path / "home").resolve())
        yield made
        made.home.close()


@contextmanager
def as_the_agent() -> Iterator[None]:
    """What is removed inside is removed as an agent would: the vault is told nothing of it."""
    told = Vault.forget
    Vault.forget = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Vault.forget = told  # type: ignore[method-assign]


def agent_deletes(bench: Bench, ids: list[str]) -> None:
    with as_the_agent():
        report = bench.home.delete(ids, use_trash=False)
    assert {each.result for each in report.outcomes if each.kind == "session"} == {Result.REMOVED}
    bench.again()


def said(home: Home, session: str) -> list[Any]:
    return list(home.sessions.messages(session))


@over_agents
def test_what_an_agent_deletes_is_listed_read_found_and_comes_back(bench: Bench) -> None:
    home, going = bench.home, bench.going()
    before = {each: (home.sessions.get(each), said(home, each)) for each in going}
    done = home.refresh_vault()
    assert not done.problems
    assert done.named + done.copied >= len(going)
    assert not home.refresh_vault().changed
    agent_deletes(bench, going)
    for _ in range(2):  # before the vault has noticed, and after
        home = bench.home
        listed = {each.id for each in home.sessions.find(vaulted=True)}
        assert listed >= set(going)
        for each in going:
            assert said(home, each) == before[each][1]
            assert home.sessions.get(each).title == before[each][0].title
        hits = home.sessions.search(bench.sample.word)
        assert {hit.session.id for hit in hits} & set(going)
        home.refresh_vault()
        bench.again()
    report = bench.home.restore_sessions(going)
    assert {each.result for each in report.outcomes} == {Result.BROUGHT_BACK}, report.outcomes
    home = bench.again()
    assert not home.sessions.find(vaulted=True)
    for each in going:
        assert said(home, each) == before[each][1]
    names = home.path / bench.sample.state / "vault" / "names"
    assert not {each.name for each in names.iterdir()} & set(going)
    assert home.refresh_vault().named + home.refresh_vault().copied <= len(before) + 5
