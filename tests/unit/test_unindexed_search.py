"""Search by reading: a search for what nearly every text has keeps the best, and no more."""

from __future__ import annotations

import pytest

from holdfast.model.session import Search
from holdfast.stores.sessions import unindexed_search


@pytest.mark.parametrize("substring", [False, True])
def test_more_matches_than_are_kept_leave_the_best(
    monkeypatch: pytest.MonkeyPatch, substring: bool
) -> None:
    monkeypatch.setattr(unindexed_search, "_SPARE", 5)
    monkeypatch.setattr(unindexed_search, "_WINDOW", 4)
    found: unindexed_search.TextSearch[int] = unindexed_search.text_search(
        Search(text="zebra", limit=3, substring=substring)
    )
    for number in range(100):
        found.take(number, "zebra zebra" if number == 7 and not substring else "a zebra runs")
    best = [place for _, place in found.best(3)]
    assert best == ([99, 98, 97] if substring else [7, 99, 98])
