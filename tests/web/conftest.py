"""Every test of the page gets a machine of its own, and a browser's manners."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.conftest import half, half_once, machine, pruned, pruned_once, used
from tests.cli.machine import Machine
from tests.web.client import Web

__all__ = ["half", "half_once", "machine", "pruned", "pruned_once", "used", "web"]


@pytest.fixture
def web(machine: Machine) -> Iterator[Web]:
    """The page over the homes of this machine, in this process, with the cookie."""
    with Web(machine) as made:
        yield made
