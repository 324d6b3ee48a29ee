"""Which scenarios every run of the tests has time for; the others are for `make test-deep`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def quick(scenarios: Iterable[str], *names: str) -> list[Any]:
    """All of them, those that are not named marked as deep."""
    return [
        each if each in names else pytest.param(each, marks=pytest.mark.deep) for each in scenarios
    ]
