"""Sums up what was broken and verified, over all processes of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests import tally

_KEY = "holdfast_tally"
_ALL = tally.Tally()


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
