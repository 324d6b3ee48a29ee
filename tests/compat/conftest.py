"""What tests of Hermes's search index watch."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.homes.hermes.state_db import search_parts


@pytest.fixture
def moved_in(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each index could be moved in."""
    answers: list[bool] = []
    real = search_parts.moved_in

    def spied(*words: Any) -> bool:
        answers.append(real(*words))
        return answers[-1]

    monkeypatch.setattr(search_parts, "moved_in", spied)
    return answers
