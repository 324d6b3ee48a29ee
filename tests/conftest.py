"""Sums up what was broken and verified, over all processes of a run, and fails every test that
loses an open SQLite connection."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

import pytest

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
