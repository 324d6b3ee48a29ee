"""Cutting work on many sessions into runs, each short enough for one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.model.operation import Removal
from holdfast.stores.sqlite.moves import Found

#: Messages in one transaction: some tens of milliseconds, also where each leaves the index.
MOST_MESSAGES = 800
#: The same where the index is begun anew, and has none of them.
MOST_UNINDEXED = 5_000


def runs(
    batch: Sequence[Removal], found: Mapping[str, Found], most: int = MOST_MESSAGES
) -> Iterator[Sequence[Removal]]:
    """Parts of a batch with few messages each; a session is never cut."""
    run: list[Removal] = []
    messages = 0
    for each in batch:
        there = found.get(each.item.id)
        more = there.messages if there else 0
        if run and messages + more > most:
            yield run
            run, messages = [], 0
        run.append(each)
        messages += more
    if run:
        yield run


def obstacle(removal: Removal, found: Mapping[str, Found]) -> str | None:
    """Why a session may not go as things are."""
    there = found.get(removal.item.id)
    return "already gone" if there is None else there.obstacle(removal.item)
