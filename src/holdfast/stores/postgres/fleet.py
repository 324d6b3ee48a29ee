"""The homes that share a store, as the store knows them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.model.fleet import Figures, Fleet, FleetHome
from holdfast.stores.maintenance_marker import NO_MARKER, marker_of
from holdfast.stores.sessions.content import storable

if TYPE_CHECKING:  # psycopg is an extra
    from holdfast.stores.postgres.database import Database

_HOMES = """
    SELECT m.name, m.home, m.version, m.figures, m.marker,
           extract(epoch FROM now() - greatest(m.seen_at, b.last_at))::float8,
           extract(epoch FROM now() - m.figures_at)::float8,
           extract(epoch FROM now() - m.maintained_at)::float8
    FROM members m LEFT JOIN (
        SELECT machine, max(last_at) AS last_at FROM boots GROUP BY machine
    ) b ON b.machine = m.machine
    WHERE m.forgotten_at IS NULL OR greatest(m.seen_at, b.last_at) > m.forgotten_at
    ORDER BY m.name, m.home
"""


def note(database: Database, names: Sequence[str], figures: Figures) -> None:
    """Store the figures of a home. A home that never wrote to the store is ignored."""
    if names:
        database.change(
            "UPDATE members SET figures = %s, figures_at = now(), seen_at = now() WHERE id = %s",
            (json.dumps(figures.to_json()), names[0]),
        )


def look(database: Database, *, silence: float) -> Fleet:
    """The homes of the store. A machine that was silent for more than `silence` seconds counts as
    gone; 0 means never."""
    from holdfast.stores.postgres.survey import footprint  # noqa: PLC0415 - psycopg is an extra

    with database.read() as db:
        rows = db.execute(_HOMES).rows
        [[members]] = db.execute("SELECT count(*) FROM members").rows
        [[sessions, messages]] = db.execute(
            "SELECT count(*), coalesce(sum(message_count), 0)::bigint FROM sessions"
        ).rows
    return Fleet(
        store=database.place,
        sessions=sessions,
        messages=messages,
        bytes=footprint(database),
        homes=tuple(_home(row, silence) for row in rows),
        forgotten=members - len(rows),
    )


def forget(database: Database, machine: str) -> None:
    """Leave out the homes of a machine until it is heard from again. The record of its boots stays:
    it is needed to tell that its processes are gone."""
    database.change("UPDATE members SET forgotten_at = now() WHERE name = %s", (storable(machine),))


def _home(row: Sequence[Any], silence: float) -> FleetHome:
    name, home, version, figures, marker, heard, figures_age, maintained = row
    heard = max(0.0, heard)
    return FleetHome(
        machine=name,
        home=home,
        version=version,
        heard=heard,
        gone=0 < silence < heard,
        figures=_figures(figures),
        figures_age=figures_age,
        maintained=maintained,
        ok=_is_ok(marker),
    )


def _figures(text: str | None) -> Figures | None:
    try:
        return None if text is None else Figures(**json.loads(text))
    except (ValueError, TypeError):  # from a later version
        return None


def _is_ok(text: str | None) -> bool:
    try:
        return text is None or marker_of(json.loads(text)).ok
    except NO_MARKER:
        return False
