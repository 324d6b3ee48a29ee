"""Rows of a copied store as every kind of store can hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.stores.sessions.content import storable
from holdfast.stores.sessions.session_rows import COUNTS, LEASE_COLUMNS, SESSION_COLUMNS
from holdfast.stores.store_copy import Beside, Head

#: The fact that names the source of a copy that is not complete.
FILLED_FROM = "filled_from"
LEDGER_COLUMNS = ("day", "source", "model", *COUNTS)
MESSAGE_COLUMNS = ("session", "number", "role", "timestamp", "form", "body", "fields")
_PINNED = 1 + SESSION_COLUMNS.index("pinned")
_RELEASED = LEASE_COLUMNS.index("released")


def head(row: Sequence[Any]) -> Head:
    """As both kinds of store can hold it."""
    texts = (storable(each) if isinstance(each, str) else each for each in row)
    return tuple(bool(each) if place == _PINNED else each for place, each in enumerate(texts))


def beside(
    parents: Iterable[Sequence[Any]],
    routes: Iterable[Sequence[Any]],
    leases: Iterable[Sequence[Any]],
    guarded: Iterable[Sequence[Any]],
    ledger: Iterable[Sequence[Any]],
) -> Beside:
    """As both kinds of store can hold it, in one order."""
    return Beside(
        parents=[(child, parent) for child, parent in parents],
        routes=sorted(_clean(routes)),
        leases=sorted(
            tuple(bool(each) if place == _RELEASED else each for place, each in enumerate(row))
            for row in _clean(leases)
        ),
        guarded=sorted(_clean(guarded), key=lambda row: row[0]),
        ledger=sorted(_clean(ledger), key=lambda row: row[:3]),
    )


def _clean(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(storable(x) if isinstance(x, str) else x for x in row) for row in rows]
