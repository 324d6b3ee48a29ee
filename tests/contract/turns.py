"""How the agents take turns in the quick tests.

A law over eighteen recorded homes says little more than over five of them: they share one home, one
mover and one index, and differ in their format alone. `make test` therefore runs each test over the
homes of our own and a share of the agents, those that have waited longest, so that every agent
meets many laws and every law several agents. `make test-deep` runs the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest


class Turns:
    """Gives each test in the order of its module the agents whose turn it is."""

    def __init__(self, agents: Sequence[str], *, share: int) -> None:
        self._waiting = list(agents)
        self._share = share

    def take(self, names: Iterable[str]) -> set[str]:
        """Of these homes, those for a quick run. Homes that are no agent's always are."""
        names = list(names)
        ready = [each for each in self._waiting if each in names][: self._share]
        self._waiting = [each for each in self._waiting if each not in ready] + ready
        return {*ready, *(each for each in names if each not in self._waiting)}


def marks(quick: bool) -> Sequence[pytest.MarkDecorator]:
    return () if quick else (pytest.mark.deep,)
