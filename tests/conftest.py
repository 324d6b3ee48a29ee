"""Sums up what was broken and verified, over all processes of a run, fails every test that loses an
open SQLite connection, and keeps agents of one process out of the tests of the others."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast.homes.agents import signs_of_life as life
from tests import connections, postgres, tally

_KEY = "holdfast_tally"
_ALL = tally.Tally()


def pytest_configure() -> None:
    connections.track()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end. To look at them again whenever garbage is collected,
    as after each module, takes a third of a second each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """After the fixtures of the test are gone. What a cycle holds is found after its module."""
    yield
    postgres.give_back()
    last = nextitem is None or nextitem.path != item.path
    left = connections.left_open(thorough=last)
    if left:
        pytest.fail("SQLite connections were not closed, opened by:\n" + "\n".join(left), False)


@pytest.fixture(autouse=True, scope="session")
def agents_of_this_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A real agent that another worker is trying would make every home of that agent one in use."""
    mine = tmp_path_factory.getbasetemp().resolve()
    if not mine.name.startswith("popen-"):
        yield
        return
    others, here, look = f"{mine.parent}/", f"{mine}/", life._processes

    def looked() -> Iterator[tuple[int, Sequence[str], str | None]]:
        for number, words, folder in look():
            if not (folder or "").startswith(others) or f"{folder}/".startswith(here):
                yield number, words, folder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(life, "_processes", looked)
        yield


@pytest.fixture
def bad_day() -> Iterator[None]:
    """For tests that break one thing each and look at the rest: a fault and a state, unless they
    count for themselves."""
    before = replace(tally.HERE)
    yield
    if before == tally.HERE:
        tally.injected()
        tally.verified()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_KEY] = (tally.HERE.faults, tally.HERE.states)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    faults, states = getattr(node, "workeroutput", {}).get(_KEY, (0, 0))
    _ALL.faults += faults
    _ALL.states += states


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    faults, states = _ALL.faults + tally.HERE.faults, _ALL.states + tally.HERE.states
    if faults or states:
        terminalreporter.write_line(
            f"Faults injected: {faults:,}. States verified after them: {states:,}."
        )
